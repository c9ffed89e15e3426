/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/course.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tools/log/pieces.h"
#include "tools/tool.h"

struct state {
	uint64_t n; /* its number, from 1 */
	struct gm_course_moment moment;
};

/* A course while it is read. */
struct reader {
	struct gm_course *course;
	const struct gm_figures *figures;
	bool thins;	 /* there are too many states to keep all */
	uint64_t length; /* of the log, ns */
	struct state last;
	struct gm_frag frag; /* of the last state */
	/* Of the present part of the time: the states with the highest external fragmentation, and
	 * the most fragmented one. */
	struct state highest, worst;
	double highest_external;
	uint64_t part;
	/* Integrals over time, in ns: of the figures, and of bytes for the utilisation. */
	struct gm_frag sums;
	double ns, requested, mapped;
	uint64_t requested_peak, mapped_peak;
};

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

static void moment_push(struct gm_course *course, const struct gm_course_moment *moment)
{
	if (!gm_array_push(&course->moments, *moment))
		memory_exhausted();
}

/* Idle memory outside the longest run, even after remapping. */
static uint64_t sample_in_pieces(const struct gm_sample *s)
{
	return s->idle > s->largest_after_remap ? s->idle - s->largest_after_remap : 0;
}

bool gm_course_is_worse(const struct gm_sample *a, const struct gm_sample *b)
{
	return sample_in_pieces(a) != sample_in_pieces(b)
		       ? sample_in_pieces(a) > sample_in_pieces(b)
		       : a->mapped > b->mapped;
}

static void highest(double *to, double value)
{
	*to = value > *to ? value : *to;
}

/* --- figures --- */

/* The last state lasted until `time`. */
static void sums_add(struct reader *r, uint64_t time)
{
	const uint64_t since = r->last.moment.time;
	const double ns = time > since ? (double)(time - since) : 0;
	r->ns += ns;
	r->sums.internal += r->frag.internal * ns;
	r->sums.external += r->frag.external * ns;
	r->sums.external_remap += r->frag.external_remap * ns;
	r->sums.unreclaimable += r->frag.unreclaimable * ns;
	r->requested += (double)r->last.moment.sample.requested * ns;
	r->mapped += (double)r->last.moment.sample.mapped * ns;
}

static void peaks_raise(struct reader *r)
{
	const struct gm_sample *s = &r->last.moment.sample;
	struct gm_frag *peak = &r->course->peak;
	highest(&peak->internal, r->frag.internal);
	highest(&peak->external, r->frag.external);
	highest(&peak->external_remap, r->frag.external_remap);
	highest(&peak->unreclaimable, r->frag.unreclaimable);
	r->requested_peak = s->requested > r->requested_peak ? s->requested : r->requested_peak;
	r->mapped_peak = s->mapped > r->mapped_peak ? s->mapped : r->mapped_peak;
}

static void figures_end(struct reader *r)
{
	struct gm_frag *peak = &r->course->peak, *mean = &r->course->mean;
	peak->utilisation = r->mapped_peak ? (double)r->requested_peak / (double)r->mapped_peak : 1;
	*mean = (struct gm_frag){.utilisation = 1};
	if (r->ns <= 0)
		return;
	r->course->ns = r->ns;
	r->course->mean_requested = r->requested / r->ns;
	r->course->mean_mapped = r->mapped / r->ns;
	mean->internal = r->sums.internal / r->ns;
	mean->external = r->sums.external / r->ns;
	mean->external_remap = r->sums.external_remap / r->ns;
	mean->unreclaimable = r->sums.unreclaimable / r->ns;
	mean->utilisation = r->mapped > 0 ? r->requested / r->mapped : 1;
}

/* --- moments --- */

static uint64_t part_of(const struct reader *r, uint64_t time)
{
	const uint64_t at = gm_figures_at(r->figures, time);
	return r->length ? (uint64_t)((unsigned __int128)at * GM_COURSE_MOMENTS / r->length) : 0;
}

/* Keep the moments of a part of the time, in their order, each once. */
static void part_end(struct reader *r)
{
	const bool swaps = r->worst.n < r->highest.n;
	const struct state *first = swaps ? &r->worst : &r->highest,
			   *second = swaps ? &r->highest : &r->worst;
	if (!r->last.n)
		return;
	if (first->n < second->n)
		moment_push(r->course, &first->moment);
	if (second->n < r->last.n)
		moment_push(r->course, &second->moment);
	moment_push(r->course, &r->last.moment);
}

/* True: the state at `time` begins a part. */
static bool part_begin(struct reader *r, uint64_t time)
{
	const uint64_t part = r->thins ? part_of(r, time) : r->part + 1;
	const bool begins = part != r->part || !r->last.n;
	if (begins)
		part_end(r);
	r->part = part;
	return begins;
}

/* Take a sample or state. */
static void state_take(struct reader *r, uint64_t time, const struct gm_sample *sample)
{
	const bool first = !r->last.n, begins = part_begin(r, time);
	if (!first)
		sums_add(r, time);
	r->last = (struct state){r->last.n + 1, {time, *sample}};
	gm_frag_now(sample, &r->frag);
	if (begins || r->frag.external > r->highest_external) {
		r->highest_external = r->frag.external;
		r->highest = r->last;
	}
	if (begins || gm_course_is_worse(sample, &r->worst.moment.sample))
		r->worst = r->last;
	if (first || gm_course_is_worse(sample, &r->course->worst.sample))
		r->course->worst = r->last.moment;
	peaks_raise(r);
}

static void reader_end(struct reader *r)
{
	part_end(r);
	figures_end(r);
}

/* --- the log --- */

static void samples_read(struct gm_course *course, const struct gm_figures *f, unsigned device)
{
	struct reader r = {.course = course, .figures = f};
	struct gm_log_entry entry;
	gm_log_read_rewind(f->file);
	while (gm_log_read_next(f->file, &entry)) {
		if (!entry.sample || entry.record.kind != GM_RECORD_SAMPLE ||
		    entry.record.device != device)
			continue;
		state_take(&r, entry.record.time, entry.sample);
		course->samples++;
	}
	reader_end(&r);
}

/* Calls of a device, each of which has an event. */
static uint64_t events_count(const struct gm_figures *f, unsigned device)
{
	static const unsigned counters[] = {GM_C_allocate_pool, GM_C_free_calls, GM_C_free_context,
					    GM_C_map_calls, GM_C_unmap_calls};
	uint64_t n = 0;
	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		n += gm_figures_device(f, device, counters[i]);
	return n;
}

/* Compute the states from addresses. After events whose addresses do not tell, for instance before
 * the MAP of a chunk that has a block already, there is none. False: they do not tell the end. */
static bool events_read(struct gm_course *course, const struct gm_figures *f, unsigned device)
{
	struct reader r = {.course = course,
			   .figures = f,
			   .length = gm_figures_length(f),
			   .thins = events_count(f, device) > GM_COURSE_MOMENTS};
	struct gm_pieces pieces = {0};
	struct gm_log_entry entry;
	struct gm_sample sample;
	bool fits = true;
	gm_log_read_rewind(f->file);
	while (gm_log_read_next(f->file, &entry)) {
		if (!gm_pieces_follow(&pieces, &entry, device))
			continue;
		fits = gm_pieces_sample(&pieces, &sample);
		if (fits)
			state_take(&r, entry.record.time, &sample);
		course->states += fits;
	}
	reader_end(&r);
	gm_pieces_free(&pieces);
	return fits && course->states;
}

static void course_read(struct gm_course *course, const struct gm_figures *f, unsigned device)
{
	struct gm_course computed = {.computed = true};
	*course = (struct gm_course){0};
	samples_read(course, f, device);
	if (!f->about->complete || !gm_figures_device(f, device, GM_C_allocate_pool))
		return;
	if (!events_read(&computed, f, device)) {
		gm_array_free(&computed.moments);
		return;
	}
	computed.samples = course->samples;
	gm_array_free(&course->moments);
	*course = computed;
}

const struct gm_course *gm_course_of(const struct gm_figures *f, unsigned device)
{
	struct gm_course **kept = &f->courses[device];
	if (!*kept) {
		*kept = malloc(sizeof **kept);
		if (!*kept)
			memory_exhausted();
		course_read(*kept, f, device);
	}
	return *kept;
}

void gm_course_free(struct gm_course *course)
{
	if (course)
		gm_array_free(&course->moments);
	free(course);
}

/* --- counters of samples --- */

/* The figure of a course that a counter has: times `unit`, and the seconds of the course. */
static const struct counter {
	size_t at;
	double unit;
	bool over_time;
} counters[GM_COUNTER_COUNT] = {
#define FIGURE(member, unit, over_time)                             \
	{                                                           \
		offsetof(struct gm_course, member), unit, over_time \
	}
	[GM_C_sampled_ns] = FIGURE(ns, 1, false),
	[GM_C_internal_peak] = FIGURE(peak.internal, 1, false),
	[GM_C_external_peak] = FIGURE(peak.external, 1e6, false),
	[GM_C_external_remap_peak] = FIGURE(peak.external_remap, 1e6, false),
	[GM_C_unreclaimable_peak] = FIGURE(peak.unreclaimable, 1, false),
	[GM_C_requested_seconds] = FIGURE(mean_requested, 1, true),
	[GM_C_mapped_seconds] = FIGURE(mean_mapped, 1, true),
	[GM_C_internal_seconds] = FIGURE(mean.internal, 1, true),
	[GM_C_unreclaimable_seconds] = FIGURE(mean.unreclaimable, 1, true),
	[GM_C_external_seconds] = FIGURE(mean.external, 1e6, true),
	[GM_C_external_remap_seconds] = FIGURE(mean.external_remap, 1e6, true),
#undef FIGURE
};

bool gm_course_counter(const struct gm_figures *f, unsigned device, enum gm_counter c,
		       uint64_t *value)
{
	const struct counter *counter = &counters[c];
	if (!counter->unit || !gm_course_of(f, device)->computed)
		return false;
	const struct gm_course *course = gm_course_of(f, device);
	double figure = counter->unit * *(const double *)((const char *)course + counter->at);
	if (counter->over_time)
		figure *= course->ns / 1e9;
	/* The error of doubles must not take 1 from a whole number. */
	figure = figure * (1 + 1e-12) + 1e-6;
	*value = figure < 0x1p64 ? (uint64_t)figure : UINT64_MAX;
	return true;
}
