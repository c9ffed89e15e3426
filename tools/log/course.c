/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/course.h"

#include <stdlib.h>
#include <string.h>

#include "tools/log/pieces.h"
#include "tools/tool.h"

/* A moment sorts all live blocks: the more there may be, the fewer moments. */
enum { MOMENTS_MOST = 1024, BLOCKS_SORTED = 20 * 1000 * 1000 };

static void moment_push(struct gm_course *course, uint64_t time, const struct gm_sample *sample)
{
	if (gm_array_push(&course->moments, (struct gm_course_moment){time, *sample}))
		return;
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

static void samples_read(struct gm_course *course, const struct gm_figures *f, unsigned device)
{
	struct gm_log_entry entry;
	gm_log_read_rewind(f->file);
	while (gm_log_read_next(f->file, &entry))
		if (entry.sample && entry.record.kind == GM_RECORD_SAMPLE &&
		    entry.record.device == device)
			moment_push(course, entry.record.time, entry.sample);
	course->samples = course->moments.n;
}

/* Events of a device between two moments. */
static uint64_t events_each(const struct gm_figures *f, unsigned device)
{
	const uint64_t blocks = gm_figures_device(f, device, GM_C_allocate_pool);
	const uint64_t events = blocks + gm_figures_device(f, device, GM_C_free_calls) +
				gm_figures_device(f, device, GM_C_free_context) +
				gm_figures_device(f, device, GM_C_map_calls) +
				gm_figures_device(f, device, GM_C_unmap_calls);
	uint64_t most = blocks ? BLOCKS_SORTED / blocks : MOMENTS_MOST;
	most = most < 1 ? 1 : most > MOMENTS_MOST ? MOMENTS_MOST : most;
	return (events + most - 1) / most;
}

static bool moment_compute(struct gm_course *course, struct gm_pieces *pieces, uint64_t time)
{
	struct gm_sample sample;
	const bool fits = gm_pieces_sample(pieces, &sample);
	if (fits)
		moment_push(course, time, &sample);
	return fits;
}

/* Compute moments from addresses, the last event included. At moments that the addresses do not
 * tell, for instance before the MAP of a chunk that has a block already, there is none. False: they
 * do not tell the end. */
static bool events_read(struct gm_course *course, const struct gm_figures *f, unsigned device)
{
	const uint64_t each = events_each(f, device);
	struct gm_pieces pieces = {0};
	struct gm_log_entry entry;
	uint64_t since = 0, last = 0;
	bool fits = true;
	gm_log_read_rewind(f->file);
	while (gm_log_read_next(f->file, &entry)) {
		if (!gm_pieces_follow(&pieces, &entry, device))
			continue;
		last = entry.record.time;
		if (++since < each)
			continue;
		since = 0;
		fits = moment_compute(course, &pieces, last);
	}
	if (since)
		fits = moment_compute(course, &pieces, last);
	gm_pieces_free(&pieces);
	return fits;
}

void gm_course_read(struct gm_course *course, const struct gm_figures *f, unsigned device)
{
	struct gm_course computed = {0};
	*course = (struct gm_course){0};
	samples_read(course, f, device);
	if (course->samples >= GM_COURSE_FEW || !f->about->complete ||
	    !gm_figures_device(f, device, GM_C_allocate_pool))
		return;
	if (!events_read(&computed, f, device) || computed.moments.n <= course->samples) {
		gm_course_free(&computed);
		return;
	}
	computed.samples = course->samples;
	computed.computed = true;
	gm_course_free(course);
	*course = computed;
}

void gm_course_free(struct gm_course *course)
{
	gm_array_free(&course->moments);
}

static void highest(double *to, double value)
{
	*to = value > *to ? value : *to;
}

void gm_course_peak(const struct gm_course *course, struct gm_frag *out)
{
	uint64_t requested = 0, mapped = 0;
	*out = (struct gm_frag){0};
	for (size_t i = 0; i < course->moments.n; i++) {
		const struct gm_sample *s = &course->moments.at[i].sample;
		struct gm_frag now;
		gm_frag_now(s, &now);
		highest(&out->internal, now.internal);
		highest(&out->external, now.external);
		highest(&out->external_remap, now.external_remap);
		highest(&out->unreclaimable, now.unreclaimable);
		requested = s->requested > requested ? s->requested : requested;
		mapped = s->mapped > mapped ? s->mapped : mapped;
	}
	out->utilisation = mapped ? (double)requested / (double)mapped : 1;
}

void gm_course_mean(const struct gm_course *course, struct gm_frag *out)
{
	double whole = 0, requested = 0, mapped = 0;
	*out = (struct gm_frag){.utilisation = 1};
	for (size_t i = 1; i < course->moments.n; i++) {
		const struct gm_course_moment *m = &course->moments.at[i - 1];
		const uint64_t until = course->moments.at[i].time;
		const double ns = until > m->time ? (double)(until - m->time) : 0;
		struct gm_frag now;
		gm_frag_now(&m->sample, &now);
		out->internal += now.internal * ns;
		out->external += now.external * ns;
		out->external_remap += now.external_remap * ns;
		out->unreclaimable += now.unreclaimable * ns;
		requested += (double)m->sample.requested * ns;
		mapped += (double)m->sample.mapped * ns;
		whole += ns;
	}
	if (whole <= 0)
		return;
	out->internal /= whole;
	out->external /= whole;
	out->external_remap /= whole;
	out->unreclaimable /= whole;
	out->utilisation = mapped > 0 ? requested / mapped : 1;
}
