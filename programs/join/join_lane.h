/* SPDX-License-Identifier: BSD-3-Clause */
/* What a lane does in each stage of the join, on the GPU and in the emulation. */
#ifndef JOIN_LANE_H
#define JOIN_LANE_H

#include "heap/device/policies.h"
#include "programs/join/join.h"

#ifndef __CUDACC__
#include <stdlib.h>
#endif

/* --- partitions --- */

GM_DEVICE uint32_t join_hash(uint32_t key)
{
	key = (key ^ key >> 16) * 0x85ebca6bu;
	key = (key ^ key >> 13) * 0xc2b2ae35u;
	return key ^ key >> 16;
}

/* The first `bits` bits of its hash. */
GM_DEVICE uint32_t join_part(uint32_t key, uint32_t bits)
{
	return bits ? join_hash(key) >> (32 - bits) : 0;
}

GM_DEVICE void lane_count(struct join_work *w, int side, uint32_t i)
{
	const struct join_side *s = &w->side[side];
	gm_add32(&s->cursor[join_part(s->tuple[i].key, w->part_bits)], 1);
}

GM_DEVICE void lane_scatter(struct join_work *w, int side, uint32_t i)
{
	const struct join_side *s = &w->side[side];
	struct join_tuple tuple = s->tuple[i];
	s->parted[gm_add32(&s->cursor[join_part(tuple.key, w->part_bits)], 1)] = tuple;
}

/* Tuples of one partition are side by side, and so are its buckets. */
GM_DEVICE void lane_build(struct join_work *w, uint32_t i)
{
	uint32_t bucket = join_part(w->side[0].parted[i].key, w->bucket_bits);
	w->next[i] = (uint32_t)gm_exch64(&w->head[bucket], i + UINT64_C(1));
}

/* --- pages --- */

GM_DEVICE void *page_take(struct join_work *w, enum join_policy policy)
{
	uint64_t at;
	switch (policy) {
	case JOIN_DIRECT:
		at = gm_add64(&w->taken, 1);
		return at < w->page_count ? w->pages + at * JOIN_PAGE : NULL;
#define JOIN_POLICY(name, n) \
	case JOIN_##n:       \
		return gm_##n##_malloc((struct gm_heap *)w->heap, JOIN_PAGE);
#include "programs/join/policies.def"
#undef JOIN_POLICY
	default:
		return malloc(JOIN_PAGE);
	}
}

GM_DEVICE void page_give(struct join_work *w, enum join_policy policy, void *page)
{
	switch (policy) {
	case JOIN_DIRECT:
		break;
#define JOIN_POLICY(name, n)                                    \
	case JOIN_##n:                                          \
		gm_##n##_free((struct gm_heap *)w->heap, page); \
		break;
#include "programs/join/policies.def"
#undef JOIN_POLICY
	default:
		free(page);
	}
}

/* One pair behind the others of this thread. False: there is no page. */
GM_DEVICE bool pair_put(struct join_work *w, enum join_policy policy, struct join_page **first,
			struct join_tuple pair)
{
	struct join_page *page = *first;
	if (!page || page->used == JOIN_PAIRS) {
		page = (struct join_page *)page_take(w, policy);
		if (!page)
			return false;
		page->next = *first;
		page->used = 0;
		*first = page;
	}
	page->pair[page->used++] = pair;
	return true;
}

/* --- probes --- */

GM_DEVICE void lane_probe(struct join_work *w, enum join_policy policy, uint32_t thread)
{
	struct join_page *first = NULL;
	for (uint32_t i = thread; i < w->tuples; i += w->threads) {
		struct join_tuple s = w->side[1].parted[i];
		uint32_t at = (uint32_t)w->head[join_part(s.key, w->bucket_bits)];
		for (; at; at = w->next[at - 1]) {
			struct join_tuple r = w->side[0].parted[at - 1];
			struct join_tuple pair = {r.payload, s.payload};
			if (r.key == s.key && !pair_put(w, policy, &first, pair))
				gm_add64(&w->lacking, 1);
		}
	}
	w->first[thread] = first;
}

GM_DEVICE void lane_finish(struct join_work *w, enum join_policy policy, uint32_t thread)
{
	uint64_t matches = 0, checksum = 0, held = 0;
	for (struct join_page *page = w->first[thread], *next; page; page = next) {
		for (uint32_t i = 0; i < page->used; i++)
			checksum += join_mix(page->pair[i].key, page->pair[i].payload);
		matches += page->used;
		held++;
		next = page->next;
		page_give(w, policy, page);
	}
	if (!held)
		return;
	gm_add64(&w->matches, matches);
	gm_add64(&w->checksum, checksum);
	gm_add64(&w->held, held);
}

/* --- the heap --- */

GM_DEVICE_HOST uint64_t join_heap_bytes(enum join_policy policy, uint32_t capacity)
{
	switch (policy) {
#define JOIN_POLICY(name, n) \
	case JOIN_##n:       \
		return gm_##n##_bytes(capacity);
#include "programs/join/policies.def"
#undef JOIN_POLICY
	default:
		return 0;
	}
}

/* By all lanes of one warp, after gm_span_collect by one of them. As in the paper, the pool of a
 * random walk has all pages from the beginning. */
GM_DEVICE void lane_heap_init(struct gm_heap *heap, enum join_policy policy, uint32_t thread)
{
	switch (policy) {
#define JOIN_POLICY(name, n)                     \
	case JOIN_##n:                           \
		gm_##n##_init(heap, thread, 32); \
		break;
#include "programs/join/policies.def"
#undef JOIN_POLICY
	default:
		break;
	}
	if (thread == 0 && (policy == JOIN_rw || policy == JOIN_rw_bm || policy == JOIN_corw))
		gm_rw_bring(heap, heap->capacity, 0);
}

#endif
