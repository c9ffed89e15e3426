/* SPDX-License-Identifier: BSD-3-Clause */
/* The short summary of one log, on a few lines. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/finding/findings.h"
#include "tools/log/curve.h"
#include "tools/log/lending.h"
#include "tools/output/layout.h"
#include "tools/summary/summary.h"

enum { FINDINGS_SHOWN = 3, TEXT = 512 };

#define C(name) gm_figures_device(f, d, GM_C_##name)

static char *bytes_text(const struct gm_emit *emit, uint64_t bytes, char *buf, size_t n)
{
	return gm_value_format(GM_BYTES(bytes), emit->options->unit, buf, n);
}

/* --- the run --- */

static void program_line(struct gm_emit *emit, const struct gm_figures *f)
{
	const struct gm_log_about *about = f->about;
	const bool events = strcmp(about->level, "events") == 0;
	char length[32], rank[32] = "";
	if (about->rank >= 0)
		snprintf(rank, sizeof rank, ", rank %d", about->rank);
	gm_emit_line(emit, "program", "%s%s, %s, %s; %s, %s", gm_figures_program(f), rank,
		     gm_time_format(gm_figures_length(f), length, sizeof length), gm_figures_end(f),
		     about->path,
		     !events	       ? "no events"
		     : about->complete ? "all events"
				       : "not all events");
}

/* "pool, driver 13.4; GPUMEM_LIMIT=1G". The caller frees. */
static char *settings_text(const struct gm_figures *f)
{
	const struct gm_log_about *about = f->about;
	char *knobs = gm_summary_knobs(about), *text = NULL;
	if (asprintf(&text, "%s, driver %d.%d; %s", gm_figures_mode(f),
		     about->driver_version / 1000, about->driver_version % 1000 / 10,
		     knobs ? knobs : "no knobs set") < 0)
		text = NULL;
	free(knobs);
	return text;
}

static void device_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d,
			const char *settings)
{
	const struct gm_log_read_device *device = &f->about->devices[d];
	char label[32], total[32];
	snprintf(label, sizeof label, "GPU %u", d);
	gm_emit_line(emit, label, "%s, %s%s%s", device->name,
		     gm_size_format(device->total, total, sizeof total), *settings ? "; " : "",
		     settings);
}

/* --- a device --- */

/* The blocks of PyTorch's cache are its segments; the log does not have their fill. */
static void peak_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	const bool trace = gm_figures_is_trace(f), cache = gm_figures_process(f, GM_C_torch_cache);
	const uint64_t asked = trace ? C(foreign_driver_peak) : C(requested_peak);
	const uint64_t mapped = C(mapped_peak);
	char size[32], time[32], at[48] = "", pool[32], used[32] = "", rest[96] = "";
	if (!asked && (!mapped || C(heaps)))
		return;
	if (!trace && C(requested_peak_time))
		snprintf(at, sizeof at, " at %s",
			 gm_time_format(gm_figures_at(f, C(requested_peak_time)), time,
					sizeof time));
	if (mapped && !cache)
		snprintf(used, sizeof used, " (%.0f%% used)", 100 * (double)asked / (double)mapped);
	if (!trace)
		snprintf(rest, sizeof rest, "; %s mapped%s",
			 bytes_text(emit, mapped, pool, sizeof pool), used);
	gm_emit_line(emit, "peak", "%s %s%s%s", bytes_text(emit, asked, size, sizeof size),
		     cache ? "in segments of PyTorch's cache" : "requested", at, rest);
}

static void calls_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	const uint64_t n = C(allocate_calls), frees = C(free_calls) + C(free_driver);
	const uint64_t alive = gm_figures_alive(f, d);
	char calls[32], freed[32], failed[32], driver[32], living[32];
	const uint64_t refused = gm_figures_refused(f, d);
	if (!n && !frees && !refused)
		return;
	gm_emit_line(emit, "calls",
		     "%s allocation%s, %s free%s, %s alive; %s failed, %s by the driver",
		     gm_tool_count(n, calls, sizeof calls), n == 1 ? "" : "s",
		     gm_tool_count(frees, freed, sizeof freed), frees == 1 ? "" : "s",
		     gm_tool_count(alive, living, sizeof living),
		     gm_tool_count(refused, failed, sizeof failed),
		     gm_tool_count(C(allocate_driver), driver, sizeof driver));
}

static void time_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char took[32], time[32], freed[48] = "", waited[64] = "";
	if (!C(allocate_calls))
		return;
	if (C(free_calls))
		snprintf(freed, sizeof freed, ", free %s",
			 gm_time_format(C(free_ns) / C(free_calls), time, sizeof time));
	if (C(fences))
		snprintf(waited, sizeof waited, "; waited for the GPU %s",
			 gm_time_format(C(fence_ns), time, sizeof time));
	gm_emit_line(emit, "time", "allocate %s%s (mean)%s",
		     gm_time_format(C(allocate_ns) / C(allocate_calls), took, sizeof took), freed,
		     waited);
}

static void kernels_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char live[32], mapped[32], waited[32], nulls[32];
	if (!C(heaps))
		return;
	gm_emit_line(emit, "kernels",
		     "malloc: %s live, %s mapped at most; waited %s for growth; %s got NULL",
		     bytes_text(emit, C(heap_live_peak), live, sizeof live),
		     bytes_text(emit, C(heap_mapped_peak), mapped, sizeof mapped),
		     gm_time_format(C(heap_wait_ns), waited, sizeof waited),
		     gm_tool_count(C(heap_nulls), nulls, sizeof nulls));
}

void gm_summary_sleep(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char moved[32], time[32], away[32], now[64] = "", refused[48] = "";
	if (!C(demote_calls))
		return;
	if (C(away))
		snprintf(now, sizeof now, "; %s not on the device",
			 bytes_text(emit, C(away), away, sizeof away));
	if (gm_figures_process(f, GM_C_sleep_refused))
		snprintf(refused, sizeof refused, "; %llu refused",
			 (unsigned long long)gm_figures_process(f, GM_C_sleep_refused));
	gm_emit_line(emit, "sleep", "slept %llu times and woke %llu times; %s left in %s%s%s",
		     (unsigned long long)gm_figures_process(f, GM_C_sleeps),
		     (unsigned long long)gm_figures_process(f, GM_C_wakes),
		     bytes_text(emit, C(demote_bytes), moved, sizeof moved),
		     gm_time_format(C(demote_ns), time, sizeof time), now, refused);
}

static void device_show(struct gm_emit *emit, const struct gm_figures *f, unsigned d,
			const struct gm_curve *curve)
{
	peak_line(emit, f, d);
	calls_line(emit, f, d);
	time_line(emit, f, d);
	kernels_line(emit, f, d);
	gm_summary_sleep(emit, f, d);
	gm_lending_show(emit, f, d);
	gm_summary_foreign_line(emit, f, d);
	/* The events of a log that was cut end somewhere; the curve would go on. */
	if (!*f->about->damage)
		gm_curve_draw(emit, curve, f, d);
}

static void devices_show(struct gm_emit *emit, const struct gm_figures *f)
{
	struct gm_curve curve;
	char *settings = settings_text(f);
	unsigned shown = 0;
	gm_curve_read(&curve, f, gm_curve_columns(emit));
	for (unsigned d = 0; d < f->n_devices; d++) {
		if (!f->devices[d].used)
			continue;
		if (shown)
			gm_emit_break(emit);
		device_line(emit, f, d, !shown && settings ? settings : "");
		if (!shown++)
			gm_emit_break(emit);
		device_show(emit, f, d, &curve);
	}
	if (!shown)
		gm_emit_line(emit, "GPU", "%s; %s",
			     f->about->ended_known ? "none used" : "not known",
			     settings ? settings : "");
	gm_curve_free(&curve);
	free(settings);
}

/* --- findings and the next step --- */

/* A rule's name in a list that ends with NULL. */
static bool rule_is_in(const struct gm_finding *finding, const char *const *names)
{
	while (*names && strcmp(finding->rule->name, *names) != 0)
		names++;
	return *names;
}

/* Show the first FINDINGS_SHOWN errors and warnings, the gravest first, and all notes. */
static void findings_show(struct gm_emit *emit, const struct gm_finding *findings, unsigned n)
{
	static const char *const marks[] = {"!!", "!", "-"};
	static const enum gm_tone tones[] = {GM_TONE_ERROR, GM_TONE_WARNING, GM_TONE_PLAIN};
	static const char *const next[] = {"no_events", NULL}; /* the last line shows it */
	char text[TEXT];
	unsigned graver = 0, shown = 0;
	for (unsigned i = 0; i < n; i++) {
		const enum gm_finding_level level = findings[i].rule->level;
		if (rule_is_in(&findings[i], next))
			continue;
		if (level != GM_FINDING_NOTE && graver++ >= FINDINGS_SHOWN)
			continue;
		emit->tone = tones[level];
		gm_emit_line(emit, marks[level], "%s",
			     gm_finding_text(&findings[i], text, sizeof text));
		shown++;
	}
	emit->tone = GM_TONE_PLAIN;
	if (graver > FINDINGS_SHOWN)
		gm_emit_line(emit, "", "%u more with -v", graver - FINDINGS_SHOWN);
	if (!shown)
		gm_emit_line(emit, "-", "Nothing stands out.");
}

/* " PATH", quoted for a shell; "": gpumemstat finds the log without a name. */
static void path_text(const struct gm_emit *emit, const char *path, char *buf, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._-+=:,@%/";
	const char *quote = path[strspn(path, plain)] ? "'" : "";
	*buf = '\0';
	if (emit->options->named && !strchr(path, '\''))
		snprintf(buf, n, " %s%s%s", quote, path, quote);
	else if (emit->options->named)
		snprintf(buf, n, " LOG");
}

/* Show all commands on one line if they fit, else each on its own line, for copying. */
static void commands_show(struct gm_emit *emit, const char *const *commands, unsigned n,
			  const char *first_path, const char *path)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	if (!stream)
		return;
	for (unsigned i = 0; i < n; i++)
		fprintf(stream, "%sgpumemstat %s%s", i > 0 ? "; " : "", commands[i],
			i > 0 ? path : first_path);
	if (fclose(stream) == 0 && emit->label + size <= emit->options->width)
		gm_emit_line(emit, "next", "%s", text);
	else
		for (unsigned i = 0; i < n; i++)
			gm_emit_line(emit, i > 0 ? "" : "next", "gpumemstat %s%s", commands[i],
				     i > 0 ? path : first_path);
	free(text);
}

static bool rules_found(const struct gm_finding *findings, unsigned n, const char *const *names)
{
	bool found = false;
	for (unsigned i = 0; i < n; i++)
		found |= rule_is_in(&findings[i], names);
	return found;
}

static void next_line(struct gm_emit *emit, const struct gm_figures *f,
		      const struct gm_finding *findings, unsigned n)
{
	static const char *const leaks[] = {"never_freed", NULL};
	static const char *const pieces[] = {"oom_fragmented", "oom_limit_pieces", "unreclaimable",
					     "in_pieces", NULL};
	const bool events = strcmp(f->about->level, "events") == 0;
	const bool blocks = events && gm_figures_sum(f, GM_C_allocate_calls);
	char path[4096];
	path_text(emit, f->about->path, path, sizeof path);
	const struct {
		bool apt;
		const char *command;
	} steps[] = {
		{!events, "record COMMAND"},
		{blocks && f->refusals.n + f->giveups.n, "live --at=oom"},
		{blocks && !f->refusals.n, "live --at=peak"},
		{blocks && rules_found(findings, n, leaks), "leaks"},
		{rules_found(findings, n, pieces), "frag"},
		{blocks, "report"},
		{true, "-v"},
	};
	const char *commands[sizeof steps / sizeof *steps];
	unsigned apt = 0;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (steps[i].apt)
			commands[apt++] = steps[i].command;
	commands_show(emit, commands, apt, events ? path : "", path);
}

void gm_summary_short(struct gm_emit *emit, struct gm_figures *f)
{
	struct gm_finding findings[GM_FINDINGS_MOST];
	emit->label = GM_LAYOUT_LABEL_SHORT;
	program_line(emit, f);
	devices_show(emit, f);
	const unsigned n = gm_findings_of_log(f, findings);
	gm_emit_break(emit);
	findings_show(emit, findings, n);
	next_line(emit, f, findings, n);
	emit->label = GM_LAYOUT_LABEL;
}
