/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "tools/log/course.h"
#include "tools/output/pack.h"
#include "tools/report/report.h"

/* The place of a stack in "call_sites"; the last one is that of all smaller ones. */
struct site {
	uint32_t stack, place;
};

struct sites {
	GM_ARRAY(struct site) all; /* by stack */
	uint32_t rest;
};

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

static int site_compare(const void *a, const void *b)
{
	const struct site *x = a, *y = b;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static void sites_make(struct sites *sites, const struct gm_lives *lives)
{
	const size_t n = gm_report_sites(lives);
	*sites = (struct sites){.rest = (uint32_t)n};
	for (size_t i = 0; i < n; i++)
		if (!gm_array_push(&sites->all,
				   (struct site){lives->stacks.at[i].stack, (uint32_t)i}))
			memory_exhausted();
	if (n)
		qsort(sites->all.at, n, sizeof *sites->all.at, site_compare);
}

static uint32_t site_of(const struct sites *sites, uint32_t stack)
{
	const struct site want = {stack, 0};
	const struct site *found = sites->all.n ? bsearch(&want, sites->all.at, sites->all.n,
							  sizeof want, site_compare)
						: NULL;
	return found ? found->place : sites->rest;
}

/* Write a packed list as "points" and "packed"; frees it. */
static void packed_show(struct gm_emit *emit, size_t n, struct gm_pack *pack)
{
	char *text = gm_pack_end(pack);
	gm_emit_value(emit, "points", GM_COUNT(n));
	gm_emit_value(emit, "packed", GM_TEXT(text));
	free(text);
}

/* --- by call stack --- */

static void site_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
		      const struct gm_lives_stack *site, bool rest)
{
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "stack", rest ? GM_NONE : gm_report_stack_value(blocks, site->stack));
	gm_emit_value(emit, "rest", GM_BOOL(rest));
	gm_emit_value(emit, "calls", GM_COUNT(site->calls));
	gm_emit_value(emit, "bytes", GM_BYTES(site->bytes));
	gm_emit_value(emit, "brief", GM_COUNT(site->brief));
	gm_emit_value(emit, "peak", GM_BYTES(site->peak));
	gm_emit_value(emit, "peak_ns", GM_NS(site->peak_time));
	gm_emit_value(emit, "live", GM_BYTES(site->live));
	gm_emit_value(emit, "live_blocks", GM_COUNT(site->live_blocks));
	gm_emit_end(emit);
}

/* The sum of the smaller stacks; their peak is that of the largest. */
static struct gm_lives_stack rest_sum(const struct gm_lives *lives, size_t from)
{
	struct gm_lives_stack sum = {0};
	for (size_t i = from; i < lives->stacks.n; i++) {
		const struct gm_lives_stack *one = &lives->stacks.at[i];
		sum.calls += one->calls;
		sum.bytes += one->bytes;
		sum.brief += one->brief;
		sum.live += one->live;
		sum.live_blocks += one->live_blocks;
		if (one->peak > sum.peak) {
			sum.peak = one->peak;
			sum.peak_time = one->peak_time;
		}
	}
	return sum;
}

static void sites_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
		       const struct gm_lives *lives)
{
	const size_t n = gm_report_sites(lives);
	const struct gm_lives_stack rest = rest_sum(lives, n);
	gm_emit_list(emit, "call_sites");
	for (size_t i = 0; i < n; i++)
		site_show(emit, blocks, &lives->stacks.at[i], false);
	if (lives->stacks.n > n)
		site_show(emit, blocks, &rest, true);
	gm_emit_end(emit);
}

/* Numbers of a life: birth - birth before; death - birth, 0: none; site; bytes; blocks; of several
 * blocks the largest. */
static void all_show(struct gm_emit *emit, const struct gm_lives *lives, const struct sites *sites)
{
	struct gm_pack pack = {0};
	uint64_t before = 0;
	for (size_t i = 0; i < lives->all.n; i++) {
		const struct gm_life *life = &lives->all.at[i];
		gm_pack_number(&pack, life->birth - before);
		gm_pack_number(&pack, life->death == GM_LIVES_END ? 0 : life->death - life->birth);
		gm_pack_number(&pack, site_of(sites, life->stack));
		gm_pack_number(&pack, life->bytes);
		gm_pack_number(&pack, life->n);
		if (life->n > 1)
			gm_pack_number(&pack, life->largest);
		before = life->birth;
	}
	gm_emit_object(emit, "lives");
	gm_emit_value(emit, "tick", GM_NS(lives->tick));
	gm_emit_value(emit, "passed", GM_COUNT(lives->passed));
	packed_show(emit, lives->all.n, &pack);
	gm_emit_end(emit);
}

/* --- by address --- */

/* Numbers of a block, and of a chunk: birth - birth before, a difference; death - birth; address -
 * address before, a difference; bytes; of a block its site, of a chunk its kind. */
static void area_pack(struct gm_pack *pack, const uint64_t now[4], uint64_t before[2])
{
	gm_pack_difference(pack, (int64_t)(now[0] - before[0]));
	gm_pack_number(pack, now[1] - now[0]);
	gm_pack_difference(pack, (int64_t)(now[2] - before[1]));
	gm_pack_number(pack, now[3]);
	before[0] = now[0];
	before[1] = now[2];
}

static void areas_show(struct gm_emit *emit, const struct gm_lives *lives,
		       const struct sites *sites)
{
	struct gm_pack blocks = {0}, chunks = {0};
	uint64_t of_block[2] = {0}, of_chunk[2] = {0};
	for (size_t i = 0; i < lives->blocks.n; i++) {
		const struct gm_lives_block *b = &lives->blocks.at[i];
		area_pack(&blocks, (uint64_t[]){b->birth, b->death, b->address, b->size}, of_block);
		gm_pack_number(&blocks, site_of(sites, b->stack));
	}
	for (size_t i = 0; i < lives->chunks.n; i++) {
		const struct gm_lives_chunk *c = &lives->chunks.at[i];
		area_pack(&chunks, (uint64_t[]){c->birth, c->death, c->address, c->size}, of_chunk);
		gm_pack_number(&chunks, c->kind);
	}
	gm_emit_object(emit, "areas");
	gm_emit_value(emit, "omitted", GM_COUNT(lives->blocks_omitted));
	packed_show(emit, lives->blocks.n, &blocks);
	gm_emit_end(emit);
	gm_emit_object(emit, "chunks");
	gm_emit_value(emit, "omitted", GM_COUNT(lives->chunks_omitted));
	packed_show(emit, lives->chunks.n, &chunks);
	gm_emit_end(emit);
}

/* --- fragmentation --- */

static uint64_t ppm(double share)
{
	return (uint64_t)(share * 1e6 + 0.5);
}

/* Numbers of a moment: ns - ns before; external fragmentation, after remapping, and utilisation in
 * parts per million; bytes idle, lost inside blocks, and not reclaimable. */
static void frag_show(struct gm_emit *emit, const struct gm_figures *f, unsigned device)
{
	const struct gm_course *course = gm_course_of(f, device);
	struct gm_pack pack = {0};
	uint64_t before = 0;
	for (size_t i = 0; i < course->moments.n; i++) {
		const struct gm_course_moment *moment = &course->moments.at[i];
		const uint64_t at = gm_figures_at(f, moment->time);
		struct gm_frag frag;
		gm_frag_now(&moment->sample, &frag);
		gm_pack_number(&pack, at > before ? at - before : 0);
		gm_pack_number(&pack, ppm(frag.external));
		gm_pack_number(&pack, ppm(frag.external_remap));
		gm_pack_number(&pack, ppm(frag.utilisation));
		gm_pack_number(&pack, moment->sample.idle);
		gm_pack_number(&pack, (uint64_t)frag.internal);
		gm_pack_number(&pack, (uint64_t)frag.unreclaimable);
		before = at > before ? at : before;
	}
	gm_emit_object(emit, "frag");
	gm_emit_value(emit, "computed", GM_BOOL(course->computed));
	gm_emit_value(emit, "states",
		      GM_COUNT(course->computed ? course->states : course->samples));
	packed_show(emit, course->moments.n, &pack);
	gm_emit_end(emit);
}

void gm_report_lives_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
			  unsigned device)
{
	const struct gm_lives *lives = &blocks->lives.devices[device];
	struct sites sites;
	sites_make(&sites, lives);
	sites_show(emit, blocks, lives);
	all_show(emit, lives, &sites);
	areas_show(emit, lives, &sites);
	frag_show(emit, blocks->figures, device);
	gm_array_free(&sites.all);
}
