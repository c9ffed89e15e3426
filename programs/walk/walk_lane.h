/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walks of the policies, without their ends: malloc of a policy stops after some words, to
 * bring memory or to search all words in order, and the theory's walk goes on. A step is one random
 * place, which the policies ask gm_rw_place for.
 */
#ifndef WALK_LANE_H
#define WALK_LANE_H

#include "heap/policies/rw_pool.h"

/* `seed`: two words; the second one counts. */
GM_DEVICE uint32_t walk_step(const struct gm_rw *rw, uint32_t held, uint32_t *seed, uint32_t *bit)
{
	seed[1]++;
	return gm_rw_place(rw, held, seed, bit);
}

#define gm_rw_place walk_step
#include "heap/policies/corw.h"
#undef gm_rw_place

#include "programs/walk/walk.h"

GM_DEVICE uint32_t lane_corw(struct gm_rw *rw, uint32_t held, uint32_t *seed)
{
	uint32_t mask = gm_match(gm_active(), 1), need = mask, page = GM_NO_GRANULE;
	while (need) {
		uint32_t got = gm_corw_round(rw, held, mask, need, 1, seed);
		page = got == GM_NO_GRANULE ? page : got;
		need &= ~gm_ballot(mask, got != GM_NO_GRANULE);
	}
	return page;
}

GM_DEVICE void lane_walk(struct walk_work *w, enum walk_policy policy, uint32_t thread)
{
	struct gm_rw *rw = gm_rw_of((struct gm_heap *)w->heap);
	uint32_t held = gm_load32(&rw->held), seed[2] = {gm_rw_seed(), 0};
	w->page[thread] =
		policy == WALK_CORW
			? lane_corw(rw, held, seed)
			: gm_rw_probe(rw, held, 1, ~0u, policy == WALK_RW ? 1 : GM_RW_TRIES, seed);
	w->steps[thread] = seed[1];
}

GM_DEVICE void lane_mark(struct walk_work *w, uint32_t word)
{
	uint32_t used = 0;
	for (uint32_t bit = 0; bit < 32; bit++)
		used |= (uint32_t)(walk_place(word << 5 | bit, w->bits) >= w->free) << bit;
	gm_rw_word(gm_rw_of((struct gm_heap *)w->heap), word)->used = used;
}

/* By one lane: the host's grant is collected, and all of it is the pool's. */
GM_DEVICE void lane_begin(struct gm_heap *heap)
{
	gm_span_collect(heap);
	gm_rw_init(heap, 0, 1);
	gm_rw_bring(heap, heap->capacity, 0);
}

#endif
