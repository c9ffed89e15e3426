/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows memory outside the pool, and unaccounted memory. */
#include <stdlib.h>

#include "base/size.h"
#include "tools/summary/summary.h"

#define N(array) (sizeof(array) / sizeof *(array))

/* A kind and the first of its six counters: calls, bytes, frees, freed, alive, peak. */
struct kind {
	const char *key, *title;
	enum gm_counter calls;
	const char *how; /* text behind a size */
};

static const struct kind on_device[] = {
	{"driver", "of the driver", GM_C_foreign_driver_calls, "of the driver"},
	{"async", "stream-ordered", GM_C_foreign_async_calls, "stream-ordered"},
	{"created", "created", GM_C_foreign_created_calls, "by cuMemCreate"},
	{"array", "arrays", GM_C_foreign_array_calls, "in arrays"},
	{"managed", "managed", GM_C_foreign_managed_calls, "managed"},
	{"graph", "graphs", GM_C_foreign_graph_calls, "of graphs"},
	{"external", "imported", GM_C_foreign_external_calls, "imported"},
};

static const struct kind on_host[] = {
	{"host", "pinned", GM_C_foreign_host_calls, NULL},
	{"registered", "registered", GM_C_foreign_registered_calls, NULL},
	{"created_host", "created", GM_C_foreign_created_host_calls, NULL},
};

static bool kind_is_shown(const struct gm_figures *f, unsigned d, const struct kind *kind)
{
	/* In trace mode this is the requested memory, which the table of memory shows. */
	return gm_figures_device(f, d, kind->calls) &&
	       !(kind->calls == GM_C_foreign_driver_calls && gm_figures_is_trace(f));
}

static void kind_row(struct gm_emit *emit, const struct gm_figures *f, unsigned d,
		     const struct kind *kind)
{
	uint64_t v[6];
	for (unsigned i = 0; i < N(v); i++)
		v[i] = gm_figures_device(f, d, kind->calls + i);
	if (!kind_is_shown(f, d, kind) && !emit->options->json)
		return;
	gm_emit_row(emit, kind->key,
		    (struct gm_value[]){GM_TEXT(kind->title), GM_BYTES(v[4]), GM_BYTES(v[5]),
					GM_BYTES(v[1]), GM_COUNT(v[0]), GM_COUNT(v[2])});
}

static bool kinds_any(const struct gm_figures *f, unsigned d, const struct kind *kinds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (kind_is_shown(f, d, &kinds[i]))
			return true;
	return false;
}

static void kinds_table(struct gm_emit *emit, const struct gm_figures *f, unsigned d,
			const char *key, const char *title, const struct kind *kinds, size_t n,
			bool total)
{
	const struct gm_column columns[] = {
		{"name", title, GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"current", f->about->running ? "now" : "at end", 0},
		{"peak", "peak", 0},
		{"total", "total", 0},
		{"calls", "calls", 0},
		{"frees", "frees", 0},
	};
	if (!emit->options->json && !kinds_any(f, d, kinds, n))
		return;
	gm_emit_break(emit);
	gm_emit_table(emit, key, true, columns, N(columns));
	for (size_t i = 0; i < n; i++)
		kind_row(emit, f, d, &kinds[i]);
	/* In trace mode the requested memory is part of the total. */
	if (total && (emit->options->json || !gm_figures_is_trace(f)))
		gm_emit_row(
			emit, "on_device",
			(struct gm_value[]){GM_TEXT("on the device"),
					    GM_BYTES(gm_figures_device(f, d, GM_C_foreign)),
					    GM_BYTES(gm_figures_device(f, d, GM_C_foreign_peak)),
					    GM_NONE, GM_NONE, GM_NONE});
	gm_emit_table_end(emit);
}

static void overhead_show(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char rest[32], used[32], accounted[32], at[32];
	uint64_t u = gm_figures_device(f, d, GM_C_device_used);
	uint64_t a = gm_figures_device(f, d, GM_C_device_accounted);
	uint64_t time = gm_figures_at(f, gm_figures_device(f, d, GM_C_device_asked_time));
	uint64_t unaccounted = u > a ? u - a : 0;
	bool asked = gm_figures_device(f, d, GM_C_device_asked);
	gm_emit_object(emit, "overhead");
	gm_emit_value(emit, "bytes", asked ? GM_BYTES(unaccounted) : GM_NONE);
	gm_emit_value(emit, "used", asked ? GM_BYTES(u) : GM_NONE);
	gm_emit_value(emit, "accounted", asked ? GM_BYTES(a) : GM_NONE);
	gm_emit_value(emit, "ns", asked ? GM_NS(time) : GM_NONE);
	gm_emit_end(emit);
	if (!asked)
		return;
	gm_emit_line(emit, "overhead",
		     "%s for driver, contexts and other processes: at %s %s of the device was "
		     "used, %s of it accounted for",
		     gm_size_format(unaccounted, rest, sizeof rest),
		     gm_time_format(time, at, sizeof at), gm_size_format(u, used, sizeof used),
		     gm_size_format(a, accounted, sizeof accounted));
}

void gm_summary_foreign(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	kinds_table(emit, f, d, "foreign", "foreign", on_device, N(on_device), true);
	overhead_show(emit, f, d);
}

void gm_summary_foreign_line(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	char *text = NULL, peak[32];
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	if (!stream)
		return;
	for (size_t i = 0; i < N(on_device); i++) {
		const struct kind *kind = &on_device[i];
		if (!kind_is_shown(f, d, kind))
			continue;
		gm_value_format(GM_BYTES(gm_figures_device(f, d, kind->calls + 5)),
				emit->options->unit, peak, sizeof peak);
		fprintf(stream, "%s%s %s", ftell(stream) > 0 ? ", " : "", peak, kind->how);
	}
	if (fclose(stream) == 0 && size > 0)
		gm_emit_line(emit, "foreign", "at most %s: not the pool's", text);
	free(text);
}

void gm_summary_process(struct gm_emit *emit, const struct gm_figures *f)
{
	char count[32];
	uint64_t unknown = gm_figures_process(f, GM_C_foreign_unknown);
	kinds_table(emit, f, 0, "host_memory", "host memory", on_host, N(on_host), false);
	if (unknown)
		gm_emit_line(emit, "unknown", "%s free%s of memory that was not seen given",
			     gm_tool_count(unknown, count, sizeof count), unknown == 1 ? "" : "s");
}
