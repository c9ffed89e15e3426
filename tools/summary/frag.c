/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/frag.h"
#include "base/size.h"
#include "tools/summary/summary.h"

/* A damaged log can give any value; the conversion of a value out of range is undefined. */
static uint64_t double_to_bytes(double value)
{
	return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

/* A ratio in parts per million, rounded down, apart from the error of doubles. */
static struct gm_value ratio_value(double value)
{
	return GM_PPM(double_to_bytes(value * 1e6 + 1e-6));
}

/* The newest moment, updated by the newer values of the counters. */
static struct gm_sample sample_now(const struct gm_figures *f, unsigned d,
				   const struct gm_course *course)
{
	struct gm_sample sample = course->moments.n
					  ? course->moments.at[course->moments.n - 1].sample
					  : (struct gm_sample){0};
	sample.requested = gm_figures_device(f, d, GM_C_requested);
	sample.handed_out = gm_figures_device(f, d, GM_C_handed_out);
	sample.mapped = gm_figures_device(f, d, GM_C_mapped);
	return sample;
}

/* The runs of the newest moment are those of the end: a process that was killed has later counters.
 * Those of a running one are as old as its last sample, at most. */
static bool moment_is_now(const struct gm_figures *f, unsigned d, const struct gm_course *course)
{
	if (!course->moments.n || f->about->running)
		return course->moments.n;
	const struct gm_sample *last = &course->moments.at[course->moments.n - 1].sample;
	return last->handed_out == gm_figures_device(f, d, GM_C_handed_out) &&
	       last->mapped == gm_figures_device(f, d, GM_C_mapped);
}

/* Fragmentation of less idle memory does not matter: one growth of the pool is larger. */
#define FEW (64 * GM_MIB)

static double idle_mean(const uint64_t *counters)
{
	const double used =
		(double)counters[GM_C_requested_seconds] + (double)counters[GM_C_internal_seconds];
	const double ns = (double)counters[GM_C_sampled_ns];
	return ns > 0 ? ((double)counters[GM_C_mapped_seconds] - used) * 1e9 / ns : 0;
}

/* True if idle memory was large enough for fragmentation to matter: at the end, in the mean, or at
 * the peak of unreclaimable memory. */
static bool idle_matters(const uint64_t *counters, const struct gm_sample *now,
			 const struct gm_frag *peak)
{
	return now->mapped - now->handed_out >= FEW || peak->unreclaimable >= (double)FEW ||
	       idle_mean(counters) >= (double)FEW;
}

void gm_summary_fragmentation(struct gm_emit *emit, const struct gm_figures *f, unsigned d,
			      const struct gm_course *course, bool all)
{
	const struct gm_column columns[] = {
		{"name", "fragmentation", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"current", f->about->running ? "now" : "at end", 0},
		{"peak", "peak", 0},
		{"mean", "mean", 0},
	};
	uint64_t counters[GM_COUNTER_COUNT];
	for (unsigned c = 0; c < GM_COUNTER_COUNT; c++)
		counters[c] = gm_figures_device(f, d, (enum gm_counter)c);
	const struct gm_sample sample = sample_now(f, d, course);
	const bool is = moment_is_now(f, d, course),
		   was = course->computed || counters[GM_C_samples],
		   lasted = course->computed ? course->states > 1 : counters[GM_C_sampled_ns];
	const char *utilisation =
		gm_figures_process(f, GM_C_torch_cache) ? "  by segments" : "utilisation";
	struct gm_frag at, peak, mean;
	gm_frag_now(&sample, &at);
	gm_frag_peak(counters, &peak);
	gm_frag_mean(counters, &mean);
	if (course->computed) {
		const double exact = peak.utilisation; /* of the counters, at every event */
		peak = course->peak;
		mean = course->mean;
		peak.utilisation = exact;
	}
#define BYTES(known, x) ((known) ? GM_BYTES(double_to_bytes(x)) : GM_NONE)
#define RATIO(known, x) ((known) ? ratio_value(x) : GM_NONE)
	const bool shown = all || emit->options->json || idle_matters(counters, &sample, &peak);
	const struct {
		const char *key, *title;
		struct gm_value now, peak, mean;
		bool hidden;
	} rows[] = {
		{"internal", "internal", BYTES(true, at.internal), BYTES(was, peak.internal),
		 BYTES(lasted, mean.internal), false},
		{"external", "external", RATIO(is, at.external), RATIO(was, peak.external),
		 RATIO(lasted, mean.external), !shown},
		{"external_remap", "  after remap", RATIO(is, at.external_remap),
		 RATIO(was, peak.external_remap), RATIO(lasted, mean.external_remap), !shown},
		{"unreclaimable", "unreclaimable", BYTES(is, at.unreclaimable),
		 BYTES(was, peak.unreclaimable), BYTES(lasted, mean.unreclaimable), false},
		{"utilisation", utilisation, RATIO(sample.mapped, at.utilisation),
		 RATIO(counters[GM_C_mapped_peak], peak.utilisation),
		 RATIO(course->computed || counters[GM_C_mapped_seconds], mean.utilisation), false},
	};
#undef BYTES
#undef RATIO
	gm_emit_table(emit, "fragmentation", true, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!rows[i].hidden)
			gm_emit_row(emit, rows[i].key,
				    (struct gm_value[]){GM_TEXT(rows[i].title), rows[i].now,
							rows[i].peak, rows[i].mean});
	gm_emit_table_end(emit);
}

void gm_summary_pool(struct gm_emit *emit, const struct gm_sample *s)
{
	gm_emit_value(emit, "requested", GM_BYTES(s->requested));
	gm_emit_value(emit, "handed_out", GM_BYTES(s->handed_out));
	gm_emit_value(emit, "mapped", GM_BYTES(s->mapped));
	gm_emit_value(emit, "idle", GM_BYTES(s->idle));
	gm_emit_value(emit, "retired", GM_BYTES(s->retired));
	gm_emit_value(emit, "largest_idle", GM_BYTES(s->largest_idle));
	gm_emit_value(emit, "largest_after_remap", GM_BYTES(s->largest_after_remap));
	gm_emit_value(emit, "unreclaimable", GM_BYTES(s->unreclaimable));
}
