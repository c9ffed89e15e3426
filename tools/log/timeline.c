/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "tools/log/usage.h"
#include "tools/output/pack.h"
#include "tools/tool.h"

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* --- points --- */

static void point_join(struct gm_timeline_point *to, const struct gm_timeline_point *next)
{
	to->to = next->to;
	to->events += next->events;
	to->end = next->end;
	for (unsigned s = 0; s < GM_TIMELINE_COUNT; s++) {
		if (next->least.of[s] < to->least.of[s])
			to->least.of[s] = next->least.of[s];
		if (next->most.of[s] > to->most.of[s])
			to->most.of[s] = next->most.of[s];
	}
}

static bool points_fit(const struct gm_timeline *t, const struct gm_timeline_point *a,
		       const struct gm_timeline_point *b)
{
	return a->events + b->events <= t->each && b->to - a->from <= t->gap;
}

static void points_merge(struct gm_timeline *t)
{
	size_t to = 0;
	for (size_t i = 1; i < t->points.n; i++)
		if (points_fit(t, &t->points.at[to], &t->points.at[i]))
			point_join(&t->points.at[to], &t->points.at[i]);
		else
			t->points.at[++to] = t->points.at[i];
	t->points.n = to + 1;
}

static uint64_t twice(uint64_t n)
{
	return n > UINT64_MAX / 2 ? UINT64_MAX : 2 * n;
}

/* Join points until at most half of the limit remains. Points close in time are joined first. */
static void points_thin(struct gm_timeline *t, size_t most)
{
	while (t->points.n > most / 2) {
		const size_t before = t->points.n;
		t->each = twice(t->each);
		points_merge(t);
		if (t->points.n > before / 4 * 3)
			t->gap = twice(t->gap);
	}
}

/* Add a point for a change of the sums at `time`. */
static void point_add(struct gm_timeline *t, size_t most, uint64_t time)
{
	struct gm_timeline_point point = {time, time, 1, t->now, t->now, t->now};
	struct gm_timeline_point *last = t->points.n ? &t->points.at[t->points.n - 1] : NULL;
	if (last && point.from < last->to)
		point.from = point.to = last->to; /* a damaged log */
	t->events++;
	if (last && points_fit(t, last, &point)) {
		point_join(last, &point);
		return;
	}
	if (!gm_array_push(&t->points, point))
		memory_exhausted();
	if (t->points.n >= most)
		points_thin(t, most);
}

/* --- records --- */

static struct gm_timeline_values values_make(const struct gm_usage_now *now, int64_t tensors)
{
	return (struct gm_timeline_values){{
		[GM_TIMELINE_REQUESTED] = (int64_t)now->requested,
		[GM_TIMELINE_IN_USE] = (int64_t)now->in_use,
		[GM_TIMELINE_MAPPED] = (int64_t)now->mapped,
		[GM_TIMELINE_DRIVER] = (int64_t)now->driver,
		[GM_TIMELINE_LENT] = (int64_t)now->lent,
		[GM_TIMELINE_TENSORS] = tensors < 0 ? 0 : tensors & ((INT64_C(1) << 53) - 1),
	}};
}

/* One from before the log has no number. */
static bool tensor_follow(struct gm_timeline *t, const struct gm_record *r)
{
	const bool born = r->kind == GM_RECORD_TENSOR;
	if ((!born && r->kind != GM_RECORD_TENSOR_FREE) || !r->id)
		return false;
	t->tensors = (int64_t)((uint64_t)t->tensors + (born ? r->size : -r->size));
	return true;
}

/* If the log lacks its oldest events, the sums before the first one: the counters less the events.
 */
static void tensors_begin(struct gm_timelines *out, const struct gm_figures *figures)
{
	struct gm_log_entry entry;
	if (figures->about->complete || !(figures->about->kept >> GM_RECORD_TENSOR & 1))
		return;
	gm_log_read_rewind(figures->file);
	while (gm_log_read_next(figures->file, &entry))
		if (entry.record.device < GM_COUNTER_DEVICES)
			tensor_follow(&out->devices[entry.record.device], &entry.record);
	for (unsigned d = 0; d < figures->n_devices && d < GM_COUNTER_DEVICES; d++)
		out->devices[d].tensors =
			(int64_t)(gm_figures_device(figures, d, GM_C_tensor_bytes) -
				  (uint64_t)out->devices[d].tensors);
}

/* True: the record makes a point. In a log of events a sample does only if it changes a value. */
static bool record_follow(struct gm_timeline *t, struct gm_usage *usage,
			  const struct gm_log_entry *entry)
{
	const struct gm_timeline_values before = t->now;
	const bool tensor = tensor_follow(t, &entry->record);
	if (!tensor && !gm_usage_follow(usage, entry))
		return false;
	t->now = values_make(&usage->now, t->tensors);
	return !entry->sample || !usage->blocks_known || memcmp(&before, &t->now, sizeof before);
}

/* --- peaks between samples --- */

/* The point at `time`; if there is none, a new one with the values before it, or those of the first
 * sample. */
static struct gm_timeline_point *point_at(struct gm_timeline *t, uint64_t time)
{
	struct gm_timeline_point point = {.from = time, .to = time};
	size_t i = t->points.n;
	while (i > 0 && t->points.at[i - 1].to >= time)
		i--;
	if (i < t->points.n && t->points.at[i].from <= time)
		return &t->points.at[i];
	if (t->points.n)
		point.end = i > 0 ? t->points.at[i - 1].end : t->points.at[0].least;
	point.least = point.most = point.end;
	if (!gm_array_push(&t->points, point))
		memory_exhausted();
	memmove(&t->points.at[i + 1], &t->points.at[i],
		(t->points.n - 1 - i) * sizeof *t->points.at);
	t->points.at[i] = point;
	return &t->points.at[i];
}

/* What is mapped has what is in use, which has what was requested. */
static void peak_add(struct gm_timeline *t, const struct gm_figures *figures, uint64_t time,
		     uint64_t bytes, enum gm_timeline_series series)
{
	const int64_t value = bytes < INT64_C(1) << 53 ? (int64_t)bytes : INT64_C(1) << 53;
	if (time < figures->about->since || !bytes)
		return;
	struct gm_timeline_point *point = point_at(t, gm_figures_at(figures, time));
	for (unsigned s = series; s <= GM_TIMELINE_MAPPED; s++)
		if (point->most.of[s] < value)
			point->most.of[s] = value;
}

/* The counters have the peaks, and when they were. */
static void peaks_add(struct gm_timeline *t, const struct gm_figures *figures, unsigned device)
{
#define C(name) gm_figures_device(figures, device, GM_C_##name)
	peak_add(t, figures, C(requested_peak_time), C(requested_peak), GM_TIMELINE_REQUESTED);
	peak_add(t, figures, C(mapped_peak_time), C(mapped_peak), GM_TIMELINE_MAPPED);
#undef C
}

void gm_timelines_read(struct gm_timelines *out, const struct gm_figures *figures, size_t most)
{
	struct gm_usage usages[GM_COUNTER_DEVICES];
	struct gm_log_entry entry;
	*out = (struct gm_timelines){.most = most};
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		out->devices[d].each = 1;
		out->devices[d].gap = gm_figures_length(figures) / most + 1;
	}
	tensors_begin(out, figures);
	gm_usages_begin(usages, figures);
	while (gm_log_read_next(figures->file, &entry)) {
		const unsigned d = entry.record.device;
		if (d < figures->n_devices && record_follow(&out->devices[d], &usages[d], &entry))
			point_add(&out->devices[d], most,
				  gm_figures_at(figures, entry.record.time));
	}
	for (unsigned d = 0; d < figures->n_devices; d++)
		if (!usages[d].blocks_known)
			peaks_add(&out->devices[d], figures, d);
}

void gm_timelines_free(struct gm_timelines *timelines)
{
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		gm_array_free(&timelines->devices[d].points);
}

char *gm_timeline_pack(const struct gm_timeline *timeline)
{
	struct gm_pack pack = {0};
	struct gm_timeline_point before = {0};
	for (size_t i = 0; i < timeline->points.n; i++) {
		const struct gm_timeline_point *p = &timeline->points.at[i];
		gm_pack_number(&pack, p->from - before.to);
		gm_pack_number(&pack, p->to - p->from);
		gm_pack_number(&pack, p->events);
		for (unsigned s = 0; s < GM_TIMELINE_COUNT; s++) {
			gm_pack_difference(&pack, p->end.of[s] - before.end.of[s]);
			gm_pack_number(&pack, (uint64_t)(p->end.of[s] - p->least.of[s]));
			gm_pack_number(&pack, (uint64_t)(p->most.of[s] - p->end.of[s]));
		}
		before = *p;
	}
	return gm_pack_end(&pack);
}
