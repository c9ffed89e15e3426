/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/timeline.h"

#include <stdlib.h>
#include <string.h>

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

/* Join points until there is room for as many again. Points far apart stay apart as long as others
 * can be joined. */
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

/* The sums have changed at `time`. */
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

/* Which series follow events; the others follow samples. */
struct reading {
	struct gm_timelines *out;
	const struct gm_figures *figures;
	bool blocks, chunks;
};

/* Sums of a damaged log may wrap. */
static void sum_add(int64_t *sum, uint64_t n)
{
	*sum = (int64_t)((uint64_t)*sum + n);
}

static void block_follow(struct gm_timeline *t, const struct gm_record *r)
{
	const bool born = r->kind == GM_RECORD_ALLOCATE;
	if (r->flags & GM_RECORD_DRIVER) {
		sum_add(&t->now.of[GM_TIMELINE_DRIVER], born ? r->size : -r->size);
		return;
	}
	sum_add(&t->now.of[GM_TIMELINE_REQUESTED], born ? r->size : -r->size);
	sum_add(&t->now.of[GM_TIMELINE_IN_USE], born ? r->held : -r->held);
}

/* Events count chunks that are lent as mapped; the pool does not. */
static bool sample_follow(const struct reading *reading, struct gm_timeline *t,
			  const struct gm_sample *s)
{
	const struct gm_timeline_values before = t->now;
	int64_t *now = t->now.of;
	if (!reading->blocks) {
		now[GM_TIMELINE_REQUESTED] = (int64_t)s->requested;
		now[GM_TIMELINE_IN_USE] = (int64_t)s->handed_out;
	}
	if (reading->chunks)
		sum_add(&now[GM_TIMELINE_MAPPED], (uint64_t)now[GM_TIMELINE_LENT] - s->lent);
	else
		now[GM_TIMELINE_MAPPED] = (int64_t)s->mapped;
	now[GM_TIMELINE_LENT] = (int64_t)s->lent;
	return !reading->blocks || memcmp(&before, &t->now, sizeof before) != 0;
}

/* True: a sum has changed. */
static bool record_follow(const struct reading *reading, struct gm_timeline *t,
			  const struct gm_log_entry *entry)
{
	const struct gm_record *r = &entry->record;
	switch (r->kind) {
	case GM_RECORD_ALLOCATE:
	case GM_RECORD_FREE:
		if (!reading->blocks || r->status)
			return false;
		block_follow(t, r);
		return true;
	case GM_RECORD_MAP:
	case GM_RECORD_UNMAP:
		if (!reading->chunks || r->status)
			return false;
		sum_add(&t->now.of[GM_TIMELINE_MAPPED],
			r->kind == GM_RECORD_MAP ? r->size : -r->size);
		return true;
	case GM_RECORD_SAMPLE:
	case GM_RECORD_OUT_OF_MEMORY:
		return entry->sample && sample_follow(reading, t, entry->sample);
	default:
		return false;
	}
}

/* --- a log without its beginning --- */

static void values_add(struct gm_timeline_values *values, const struct gm_timeline_values *more)
{
	for (unsigned s = 0; s < GM_TIMELINE_COUNT; s++)
		sum_add(&values->of[s], (uint64_t)more->of[s]);
}

/* What events made wrong by a constant: the difference of the counters and the last sums. */
static void timeline_shift(const struct reading *reading, struct gm_timeline *t, unsigned device)
{
	struct gm_timeline_values less = {0};
#define C(name) (int64_t) gm_figures_device(reading->figures, device, GM_C_##name)
	const struct gm_timeline_values end = {
		{C(requested), C(handed_out), C(mapped), C(foreign_driver), C(lent)}};
#undef C
	const bool events[GM_TIMELINE_COUNT] = {reading->blocks, reading->blocks, reading->chunks,
						reading->blocks, false};
	for (unsigned s = 0; s < GM_TIMELINE_COUNT; s++)
		if (events[s])
			less.of[s] = (int64_t)((uint64_t)end.of[s] - (uint64_t)t->now.of[s]);
	for (size_t i = 0; i < t->points.n; i++) {
		values_add(&t->points.at[i].least, &less);
		values_add(&t->points.at[i].most, &less);
		values_add(&t->points.at[i].end, &less);
	}
}

static int64_t clamp(int64_t n, int64_t least, int64_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* A damaged log may free more than it allocated, or allocate more than JavaScript can count. */
static void timeline_clamp(struct gm_timeline *t)
{
	const int64_t highest = (int64_t)1 << 53;
	for (size_t i = 0; i < t->points.n; i++) {
		struct gm_timeline_point *p = &t->points.at[i];
		for (unsigned s = 0; s < GM_TIMELINE_COUNT; s++) {
			p->end.of[s] = clamp(p->end.of[s], 0, highest);
			p->least.of[s] = clamp(p->least.of[s], 0, p->end.of[s]);
			p->most.of[s] = clamp(p->most.of[s], p->end.of[s], highest);
		}
	}
}

void gm_timelines_read(struct gm_timelines *out, const struct gm_figures *figures, size_t most)
{
	const struct gm_log_about *about = figures->about;
	const uint32_t ends = 1u << GM_RECORD_ALLOCATE | 1u << GM_RECORD_FREE;
	const bool events = strcmp(about->level, "events") == 0;
	const struct reading reading = {
		.out = out,
		.figures = figures,
		.blocks = events && (about->kept & ends) == ends,
		.chunks = events && about->kept & 1u << GM_RECORD_MAP,
	};
	struct gm_log_entry entry;
	*out = (struct gm_timelines){.most = most};
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		out->devices[d].each = 1;
		out->devices[d].gap = gm_figures_length(figures) / most + 1;
	}
	gm_log_read_rewind(figures->file);
	while (gm_log_read_next(figures->file, &entry)) {
		const unsigned d = entry.record.device;
		if (d < figures->n_devices && record_follow(&reading, &out->devices[d], &entry))
			point_add(&out->devices[d], most,
				  gm_figures_at(figures, entry.record.time));
	}
	for (unsigned d = 0; d < figures->n_devices; d++) {
		if (!about->complete)
			timeline_shift(&reading, &out->devices[d], d);
		timeline_clamp(&out->devices[d]);
	}
}

void gm_timelines_free(struct gm_timelines *timelines)
{
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		gm_array_free(&timelines->devices[d].points);
}

/* --- base64 --- */

struct bytes {
	GM_ARRAY(uint8_t) all;
};

static void number_put(struct bytes *bytes, uint64_t n)
{
	for (;; n >>= 7) {
		if (!gm_array_push(&bytes->all, (uint8_t)((n & 127) | (n > 127 ? 128 : 0))))
			memory_exhausted();
		if (n <= 127)
			return;
	}
}

static void difference_put(struct bytes *bytes, int64_t n)
{
	number_put(bytes, (uint64_t)n << 1 ^ (n < 0 ? UINT64_MAX : 0));
}

static char *base64_make(const uint8_t *at, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((n + 2) / 3 * 4 + 1), *to = text;
	if (!text)
		memory_exhausted();
	for (size_t i = 0; i < n; i += 3) {
		const size_t rest = n - i;
		const uint32_t three = (uint32_t)at[i] << 16 |
				       (rest > 1 ? (uint32_t)at[i + 1] << 8 : 0) |
				       (rest > 2 ? at[i + 2] : 0);
		*to++ = digits[three >> 18];
		*to++ = digits[three >> 12 & 63];
		*to++ = rest > 1 ? digits[three >> 6 & 63] : '=';
		*to++ = rest > 2 ? digits[three & 63] : '=';
	}
	*to = '\0';
	return text;
}

char *gm_timeline_pack(const struct gm_timeline *timeline)
{
	struct bytes bytes = {0};
	struct gm_timeline_point before = {0};
	for (size_t i = 0; i < timeline->points.n; i++) {
		const struct gm_timeline_point *p = &timeline->points.at[i];
		number_put(&bytes, p->from - before.to);
		number_put(&bytes, p->to - p->from);
		number_put(&bytes, p->events);
		for (unsigned s = 0; s < GM_TIMELINE_COUNT; s++) {
			difference_put(&bytes, p->end.of[s] - before.end.of[s]);
			number_put(&bytes, (uint64_t)(p->end.of[s] - p->least.of[s]));
			number_put(&bytes, (uint64_t)(p->most.of[s] - p->end.of[s]));
		}
		before = *p;
	}
	char *text = base64_make(bytes.all.at, bytes.all.n);
	gm_array_free(&bytes.all);
	return text;
}
