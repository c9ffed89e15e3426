/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "knob/knob.h"
#include "tools/finding/findings.h"
#include "tools/log/lending.h"
#include "tools/summary/summary.h"

#define N(array) (sizeof(array) / sizeof *(array))

static const char *time_text(uint64_t wall, const char *format, bool utc, char *buf, size_t n)
{
	const time_t seconds = (time_t)(wall / 1000000000u);
	struct tm parts;
	if (!(utc ? gmtime_r(&seconds, &parts) : localtime_r(&seconds, &parts)) ||
	    strftime(buf, n, format, &parts) == 0)
		snprintf(buf, n, "?");
	return buf;
}

/* Offset of " (SOURCE)" in the text of a knob that was set and accepted; 0: other knobs. */
static size_t source_begins(const char *knob)
{
	static const char *const set[] = {" (environment)", " (file)"};
	const size_t n = strlen(knob);
	for (size_t i = 0; i < N(set); i++)
		if (n > strlen(set[i]) && strcmp(knob + n - strlen(set[i]), set[i]) == 0)
			return n - strlen(set[i]);
	return 0;
}

/* Length of the text to show of a knob in the log, "NAME=VALUE (SOURCE)". 0: the default value, or
 * another line shows the knob. */
static size_t knob_length(const char *knob)
{
	static const char *const elsewhere[] = {"GPUMEM_LOG=", "GPUMEM_LOG_NAME=", "GPUMEM_MODE=",
						/* set by record: */
						"GPUMEM_STACKS=large", "GPUMEM_HEAP_SITES=1"};
	const size_t name = strcspn(knob, "="), shown = source_begins(knob);
	if (!shown)
		return strstr(knob, "; refused: ") ? strlen(knob) : 0;
	for (size_t i = 0; i < N(elsewhere); i++)
		if (strncmp(knob, elsewhere[i], strlen(elsewhere[i])) == 0)
			return 0;
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++) {
		const struct gm_knob_info *info = &gm_knob_table[i];
		if (strlen(info->name) == name && strncmp(knob, info->name, name) == 0 &&
		    strlen(info->fallback) == shown - name - 1 &&
		    strncmp(knob + name + 1, info->fallback, shown - name - 1) == 0)
			return 0;
	}
	return shown;
}

char *gm_summary_knobs(const struct gm_log_about *about)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	if (!stream)
		return NULL;
	for (unsigned i = 0; i < about->n_knobs; i++) {
		size_t n = knob_length(about->knobs[i]);
		if (n)
			fprintf(stream, "%s%.*s", ftell(stream) > 0 ? ", " : "", (int)n,
				about->knobs[i]);
	}
	if (fclose(stream) == 0 && size > 0)
		return text;
	free(text);
	return NULL;
}

static void head_knobs(struct gm_emit *emit, const struct gm_log_about *about)
{
	char *text = gm_summary_knobs(about);
	if (text)
		gm_emit_line(emit, "knobs", "%s", text);
	free(text);
}

static void head_text(struct gm_emit *emit, const struct gm_figures *f)
{
	const struct gm_log_about *about = f->about;
	char length[32], start[32], count[32], rank[32] = "", job[160] = "";
	gm_emit_line(emit, "log", "%s: %s, %s record%s%s", about->path,
		     about->recording ? "recording" : about->level,
		     gm_tool_count(about->records, count, sizeof count),
		     about->records == 1 ? "" : "s", about->complete ? ", complete" : "");
	if (about->rank >= 0)
		snprintf(rank, sizeof rank, ", rank %d", about->rank);
	if (*about->job)
		snprintf(job, sizeof job, ", job %s", about->job);
	gm_emit_line(emit, "program", "%s, pid %d on %s%s%s", gm_figures_program(f), about->pid,
		     about->host, rank, job);
	if (strlen(about->command) > 3 * (size_t)emit->options->width)
		gm_emit_line(emit, "command", "%.*s...", 3 * (int)emit->options->width,
			     about->command);
	else if (*about->command)
		gm_emit_line(emit, "command", "%s", about->command);
	gm_emit_line(emit, "run", "%s from %s, %s",
		     gm_time_format(gm_figures_length(f), length, sizeof length),
		     time_text(about->start_wall, "%Y-%m-%d %H:%M:%S", false, start, sizeof start),
		     gm_figures_end(f));
	gm_emit_line(emit, "mode", "%s, driver %d.%d", gm_figures_mode(f),
		     about->driver_version / 1000, about->driver_version % 1000 / 10);
	head_knobs(emit, about);
}

static void head_json(struct gm_emit *emit, const struct gm_logs_one *log)
{
	const struct gm_log_about *about = log->figures.about;
	char start[32];
	const struct {
		const char *key;
		struct gm_value value;
	} members[] = {
		{"path", GM_TEXT(about->path)},
		{"host", GM_TEXT(about->host)},
		{"pid", GM_INT(about->pid)},
		{"program", GM_TEXT(about->program)},
		{"command", GM_TEXT(about->command)},
		{"job", GM_TEXT(about->job)},
		{"rank", about->rank < 0 ? GM_NONE : GM_INT(about->rank)},
		{"mode", GM_TEXT(about->mode)},
		{"level", GM_TEXT(about->level)},
		{"driver_version", GM_INT(about->driver_version)},
		{"start", GM_TEXT(time_text(about->start_wall, "%Y-%m-%dT%H:%M:%SZ", true, start,
					    sizeof start))},
		{"length_ns", GM_NS(gm_figures_length(&log->figures))},
		{"closed", GM_BOOL(about->closed)},
		{"recording", GM_BOOL(about->recording)},
		{"ended", GM_BOOL(about->ended)},
		{"running", GM_BOOL(about->running)},
		{"complete", GM_BOOL(about->complete)},
		{"records", GM_COUNT(about->records)},
		{"torn", GM_COUNT(about->torn)},
		{"dropped", GM_COUNT(about->dropped)},
		{"contradiction", log->contradicts ? GM_TEXT(log->why) : GM_NONE},
	};
	for (size_t i = 0; i < N(members); i++)
		gm_emit_value(emit, members[i].key, members[i].value);
}

static void counters_json(struct gm_emit *emit, const struct gm_figures *f,
			  enum gm_counter_scope scope, unsigned device)
{
	gm_emit_object(emit, "counters");
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		if (gm_counter_table[i].scope == scope)
			gm_emit_value(emit, gm_counter_table[i].name,
				      GM_COUNT(gm_figures_device(f, device, i)));
	gm_emit_end(emit);
}

static void memory_table(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	const struct gm_column columns[] = {
		{"name", "memory", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"current", f->about->running ? "now" : "at end", 0},
		{"peak", "peak", 0},
		{"peak_ns", "at", 0},
		{"total", "total", 0},
		{"calls", "calls", 0},
	};
#define C(name) gm_figures_device(f, d, GM_C_##name)
#define AT(name) (C(name) ? GM_NS(gm_figures_at(f, C(name))) : GM_NONE)
/* In trace mode the driver serves the program's requests. */
#define R(of_pool, of_driver) (trace ? C(of_driver) : C(of_pool))
	const bool trace = gm_figures_is_trace(f);
	const struct {
		bool shown; /* also in text */
		const char *key, *title;
		struct gm_value now, peak, at, total, calls;
	} rows[] = {
		{true, "requested", "requested", GM_BYTES(R(requested, foreign_driver)),
		 GM_BYTES(R(requested_peak, foreign_driver_peak)), AT(requested_peak_time),
		 GM_BYTES(R(allocate_bytes, foreign_driver_bytes)),
		 GM_COUNT(R(allocate_pool, foreign_driver_calls))},
		{!trace, "handed_out", "handed out", GM_BYTES(C(handed_out)), GM_NONE, GM_NONE,
		 GM_NONE, GM_NONE},
		{!trace, "mapped", "mapped", GM_BYTES(C(mapped)), GM_BYTES(C(mapped_peak)),
		 AT(mapped_peak_time), GM_BYTES(C(map_bytes)), GM_COUNT(C(map_calls))},
		{!trace, "idle", "idle", GM_BYTES(C(idle)), GM_NONE, GM_NONE, GM_NONE, GM_NONE},
		{!trace, "retired", "retired", GM_BYTES(C(retired)), GM_BYTES(C(retired_peak)),
		 GM_NONE, GM_NONE, GM_NONE},
		{!trace, "returned", "returned", GM_NONE, GM_NONE, GM_NONE,
		 GM_BYTES(C(unmap_bytes)), GM_COUNT(C(unmap_calls))},
		{C(trim_calls) > 0, "trimmed", "  trimmed", GM_NONE, GM_NONE, GM_NONE,
		 GM_BYTES(C(trim_bytes)), GM_COUNT(C(trim_calls))},
		{C(lent) > 0, "lent", "lent", GM_BYTES(C(lent)), GM_NONE, GM_NONE, GM_NONE,
		 GM_NONE},
	};
	gm_emit_table(emit, "memory", true, columns, N(columns));
	for (size_t i = 0; i < N(rows); i++) {
		if (!emit->options->json && !rows[i].shown)
			continue;
		gm_emit_row(emit, rows[i].key,
			    (struct gm_value[]){GM_TEXT(rows[i].title), rows[i].now, rows[i].peak,
						rows[i].at, rows[i].total, rows[i].calls});
	}
	gm_emit_table_end(emit);
#undef R
}

static void calls_table(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	static const struct gm_column columns[] = {
		{"name", "calls", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"calls", "total", 0},
		{"pool", "pool", 0},
		{"driver", "driver", 0},
		{"failed", "failed", 0},
		{"mean_ns", "mean time", 0},
	};
	uint64_t frees = C(free_calls) + C(free_driver) + C(free_failed);
	gm_emit_table(emit, "calls", true, columns, N(columns));
	gm_emit_row(emit, "allocate",
		    (struct gm_value[]){GM_TEXT("allocate"), GM_COUNT(C(allocate_calls)),
					GM_COUNT(C(allocate_pool)), GM_COUNT(C(allocate_driver)),
					GM_COUNT(C(allocate_failed)),
					C(allocate_calls)
						? GM_NS(C(allocate_ns) / C(allocate_calls))
						: GM_NONE});
	gm_emit_row(
		emit, "free",
		(struct gm_value[]){GM_TEXT("free"), GM_COUNT(frees), GM_COUNT(C(free_calls)),
				    GM_COUNT(C(free_driver)), GM_COUNT(C(free_failed)),
				    C(free_calls) ? GM_NS(C(free_ns) / C(free_calls)) : GM_NONE});
	gm_emit_table_end(emit);
}

/* With GPUMEM_FREE=ordered: frees with memory reusable at once, and reasons for the other frees. */
static void reuse_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	const struct {
		uint64_t n;
		const char *why;
	} others[] = {
		{C(ordered_streams), "while several streams had work"},
		{C(ordered_capture), "while a capture was open"},
		{C(ordered_context), "of memory of another context"},
		{C(ordered_pinned), "of memory with a known physical address"},
		{C(ordered_off), "for this process acted as defer"},
	};
	char text[256] = "", count[32];
	uint64_t all = C(ordered_early);
	size_t used = 0;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		all += others[i].n;
		if (others[i].n)
			used += (size_t)snprintf(
				text + used, sizeof text - used, "%s%s %s", used ? ", " : "; not ",
				gm_tool_count(others[i].n, count, sizeof count), others[i].why);
	}
	if (!all)
		return;
	gm_emit_line(emit, "reuse", "possible at once after %llu%% of %s frees%s",
		     (unsigned long long)(C(ordered_early) * 100 / all),
		     gm_tool_count(all, count, sizeof count), text);
	if (C(ordered_refused))
		gm_emit_line(emit, "",
			     "%s pieces of memory found no use before another stream had work",
			     gm_tool_count(C(ordered_refused), count, sizeof count));
	if (C(ordered_moves))
		gm_emit_line(emit, "", "%s chunks of such memory were mapped at other addresses",
			     gm_tool_count(C(ordered_moves), count, sizeof count));
}

/* Idle memory that other processes returned for this one, and this one for others. */
static void others_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char asked[32], got[32], given[32], calls[32];
	if (C(others_asked) || C(given_calls))
		gm_emit_line(emit, "others",
			     "returned %s at %s requests of this process; it returned %s at %s",
			     gm_size_format(C(others_bytes), got, sizeof got),
			     gm_tool_count(C(others_asked), asked, sizeof asked),
			     gm_size_format(C(given_bytes), given, sizeof given),
			     gm_tool_count(C(given_calls), calls, sizeof calls));
}

static void pool_lines(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char count[32], other[32], time[32];
	gm_emit_line(emit, "growth", "%s chunk%s mapped in %s, %s returned",
		     gm_tool_count(C(map_calls), count, sizeof count), C(map_calls) == 1 ? "" : "s",
		     gm_time_format(C(map_ns), time, sizeof time),
		     gm_tool_count(C(unmap_calls), other, sizeof other));
	gm_emit_line(emit, "waits", "%s fences, %s; %s retries for lack of memory",
		     gm_tool_count(C(fences), count, sizeof count),
		     gm_time_format(C(fence_ns), time, sizeof time),
		     gm_tool_count(C(retry_calls), other, sizeof other));
	if (C(reclaim_waits))
		gm_emit_line(emit, "", "%s allocations for freed memory, %s",
			     gm_tool_count(C(reclaim_waits), count, sizeof count),
			     gm_time_format(C(reclaim_wait_ns), time, sizeof time));
	others_line(emit, f, d);
	reuse_line(emit, f, d);
}
#undef AT
#undef C

static const char *uuid_text(const uint8_t uuid[16], char buf[48])
{
	size_t at = (size_t)sprintf(buf, "GPU-");
	for (unsigned i = 0; i < 16; i++)
		at += (size_t)sprintf(buf + at, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return buf;
}

/* Of a run with few samples: whence the figures of fragmentation come. */
static void few_line(struct gm_emit *emit, const struct gm_course *course)
{
	char count[32];
	gm_tool_count(course->samples, count, sizeof count);
	gm_emit_value(emit, "fragmentation_computed", GM_BOOL(course->computed));
	if (!course->computed && course->samples && course->samples < GM_COURSE_FEW)
		gm_emit_line(emit, "", "from only %s sample%s", count,
			     course->samples == 1 ? "" : "s");
}

static void device_show(struct gm_emit *emit, struct gm_figures *f, unsigned d)
{
	const struct gm_log_read_device *device = &f->about->devices[d];
	/* In text, a pool that was never used has no tables. */
	const bool pooled = emit->options->json || gm_figures_device(f, d, GM_C_map_calls) ||
			    gm_figures_device(f, d, GM_C_allocate_pool);
	const bool requested =
		gm_figures_is_trace(f) && gm_figures_device(f, d, GM_C_foreign_driver_calls);
	char total[32], label[32], uuid[48];
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "ordinal", GM_COUNT(d));
	gm_emit_value(emit, "name", GM_TEXT(device->name));
	gm_emit_value(emit, "uuid", GM_TEXT(uuid_text(device->uuid, uuid)));
	gm_emit_value(emit, "total", GM_BYTES(device->total));
	gm_emit_value(emit, "used", GM_BOOL(f->devices[d].used));
	snprintf(label, sizeof label, "device %u", d);
	gm_emit_break(emit);
	gm_emit_line(emit, label, "%s, %s", device->name,
		     gm_size_format(device->total, total, sizeof total));
	if (pooled || requested) {
		memory_table(emit, f, d);
		gm_emit_break(emit);
	}
	calls_table(emit, f, d);
	if (pooled) {
		gm_emit_break(emit);
		gm_summary_fragmentation(emit, f, d, gm_course_of(f, d), false);
		few_line(emit, gm_course_of(f, d));
		gm_emit_break(emit);
		pool_lines(emit, f, d);
		gm_summary_sleep(emit, f, d);
	}
	gm_lending_show(emit, f, d);
	gm_summary_heaps(emit, f, d);
	gm_summary_foreign(emit, f, d);
	counters_json(emit, f, GM_SCOPE_DEVICE, d);
	gm_emit_end(emit);
}

static void devices_show(struct gm_emit *emit, struct gm_figures *f)
{
	unsigned unused = 0;
	gm_emit_list(emit, "devices");
	for (unsigned d = 0; d < f->n_devices; d++) {
		unused += !f->devices[d].used;
		if (f->devices[d].used || emit->options->json)
			device_show(emit, f, d);
	}
	gm_emit_end(emit);
	if (unused)
		gm_emit_line(emit, "unused", "%u device%s", unused, unused == 1 ? "" : "s");
}

static void copies_table(struct gm_emit *emit, const struct gm_figures *f)
{
	static const struct gm_column columns[] = {
		{"name", "copies", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"calls", "calls", 0},
		{"bytes", "bytes", 0},
		{"ns", "in calls", 0},
		{"bytes_per_second", "rate", 0},
	};
#define ROW(key, name, title)                                                          \
	{                                                                              \
		key, title, GM_C_##name##_calls, GM_C_##name##_bytes, GM_C_##name##_ns \
	}
	static const struct {
		const char *key, *title;
		enum gm_counter calls, bytes, ns;
	} rows[] = {
		ROW("h2d", copy_h2d, "host to device"), ROW("d2h", copy_d2h, "device to host"),
		ROW("d2d", copy_d2d, "in a device"),	ROW("peer", copy_peer, "device to device"),
		ROW("other", copy_other, "not said"),	ROW("memset", memset, "memset"),
	};
#undef ROW
	uint64_t any = 0;
	for (size_t i = 0; i < N(rows); i++)
		any |= gm_figures_process(f, rows[i].calls);
	if (!any && !emit->options->json)
		return;
	gm_emit_break(emit);
	gm_emit_table(emit, "copies", true, columns, N(columns));
	for (size_t i = 0; i < N(rows); i++) {
		uint64_t calls = gm_figures_process(f, rows[i].calls);
		uint64_t bytes = gm_figures_process(f, rows[i].bytes);
		uint64_t ns = gm_figures_process(f, rows[i].ns);
		unsigned __int128 rate = ns ? (unsigned __int128)bytes * 1000000000u / ns : 0;
		if (!calls && !emit->options->json)
			continue;
		gm_emit_row(emit, rows[i].key,
			    (struct gm_value[]){GM_TEXT(rows[i].title), GM_COUNT(calls),
						GM_BYTES(bytes), GM_NS(ns),
						ns ? GM_RATE((uint64_t)rate) : GM_NONE});
	}
	gm_emit_table_end(emit);
}

struct order {
	const struct gm_figures *figures;
	unsigned hook;
};

static int order_compare(const void *a, const void *b)
{
	const struct order *p = a, *q = b;
	const struct gm_figures_hook *x = &p->figures->hooks[p->hook];
	const struct gm_figures_hook *y = &q->figures->hooks[q->hook];
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return p->hook < q->hook ? -1 : p->hook > q->hook;
}

static void latency_table(struct gm_emit *emit, const struct gm_figures *f)
{
	static const struct gm_column columns[] = {
		{"hook", "time of a call", GM_COLUMN_LEFT},
		{"calls", "calls", 0},
		{"errors", "errors", 0},
		{"driver", "", GM_COLUMN_JSON_ONLY},
		{"p50_ns", "median", 0},
		{"p99_ns", "99%", 0},
		{"max_ns", "max", 0},
		{"total_ns", "", GM_COLUMN_JSON_ONLY},
	};
	struct order *order = calloc(f->about->n_hooks + 1, sizeof *order);
	size_t n = 0;
	for (unsigned i = 0; order && i < f->about->n_hooks; i++)
		if (f->hooks[i].calls)
			order[n++] = (struct order){f, i};
	if (n > 0)
		qsort(order, n, sizeof *order, order_compare);
	if (n > 0)
		gm_emit_break(emit);
	if (n > 0 || emit->options->json) {
		gm_emit_table(emit, "latency", false, columns, N(columns));
		for (size_t i = 0; i < n; i++) {
			const struct gm_figures_hook *h = &f->hooks[order[i].hook];
			gm_emit_row(emit, NULL,
				    (struct gm_value[]){GM_TEXT(f->about->hooks[order[i].hook]),
							GM_COUNT(h->calls), GM_COUNT(h->errors),
							GM_COUNT(h->driver),
							GM_NS(gm_figures_quantile(h, 500000)),
							GM_NS(gm_figures_quantile(h, 990000)),
							GM_NS(gm_figures_quantile(h, 1000000)),
							GM_NS(h->total)});
		}
		gm_emit_table_end(emit);
	}
	free(order);
}

void gm_summary_one(struct gm_emit *emit, struct gm_logs_one *log)
{
	struct gm_figures *f = &log->figures;
	if (!emit->options->json && !emit->options->verbose) {
		gm_summary_short(emit, f);
		return;
	}
	head_json(emit, log);
	head_text(emit, f);
	devices_show(emit, f);
	gm_summary_process(emit, f);
	gm_summary_images(emit, f);
	gm_summary_tables(emit, f);
	copies_table(emit, f);
	gm_summary_copies(emit, f);
	latency_table(emit, f);
	gm_summary_refused(emit, f);
	counters_json(emit, f, GM_SCOPE_PROCESS, 0);
	gm_findings_show(emit, f);
}
