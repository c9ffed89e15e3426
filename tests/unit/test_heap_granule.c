/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of policy `granule` that only many lanes at once come to, taken one by one: a granule that
 * is offered to its class while another lane frees the last of it; a slot that comes free after a
 * search found none; shards for very many lanes; and how evenly warps spread over shards.
 */
#include "tests/unit/heap_help.h"

enum { GRANULES = 4, SIZE = 100 * 1024, WARPS = 512, EVERY = 8 };

struct work {
	struct fixture f;
	uint32_t epoch;
	void *block[GRANULES * (GM_GRANULE / SIZE) + 1];
	uint32_t blocks, dry;
	bool first, last;
};

/* By one lane. No shard has a place for the granule, which is one block's alone. */
static void offer_late(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t c = gm_granule_class_of(SIZE);
	struct gm_granule_class *class_ = &all->class_[c];
	if (thread != 0)
		return;
	void *block = gm_granule_malloc(heap, SIZE);
	uint32_t granule = (uint32_t)(((uintptr_t)block - heap->base) >> GM_GRANULE_SHIFT);
	/* As after gm_slab_activate in gm_slab_offer, where one slot was left. */
	class_->shard[0] = 0;
	class_->shards = class_->own = GM_SHARDS;
	gm_granule_free(heap, block);
	gm_and64(&all->slab[granule].state, ~GM_ACTIVE);
	work->epoch = heap->epoch;
	all->dry = 1;
	gm_slab_offer(heap, granule, c, class_->slots, 1);
	class_->shards = class_->own = 1;
}

static void trim(void *arg, uint32_t thread)
{
	struct work *work = arg;
	if (thread == 0)
		gm_granule_trim(&work->f.heap);
}

/* By one lane: of a full heap, free a block of a granule that is in no shard, then one of a granule
 * that is in one, and allocate each again. */
static void refill(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	if (thread != 0)
		return;
	while ((work->block[work->blocks] = gm_granule_malloc(heap, SIZE)))
		work->blocks++;
	work->dry = gm_granules_of(heap)->class_[gm_granule_class_of(SIZE)].dry;
	gm_granule_free(heap, work->block[0]);
	work->first = gm_granule_malloc(heap, SIZE) == work->block[0];
	gm_granule_free(heap, work->block[work->blocks - 1]);
	work->last = gm_granule_malloc(heap, SIZE) == work->block[work->blocks - 1];
	for (uint32_t b = 0; b < work->blocks; b++)
		gm_granule_free(heap, work->block[b]);
}

/* Shards that bring granules of 16-byte slots when so many lanes wait, and so many are free. */
static uint32_t shards_for(struct gm_heap *heap, uint32_t lanes, uint64_t available)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[0];
	uint64_t kept = heap->available;
	heap->available = available;
	gm_granule_wanted(heap, 0, lanes);
	gm_granule_served(heap, 0, lanes);
	heap->available = kept;
	uint32_t own = class_->own, shards = class_->shards;
	class_->own = class_->shards = 1;
	return own == shards ? own : 0;
}

static void check_spread(struct gm_heap *heap)
{
	TAP_IS(shards_for(heap, 1000, 4096), 1, "a granule of small slots serves a thousand lanes");
	TAP_IS(shards_for(heap, 8448, 4096), 8, "more lanes get more granules");
	TAP_IS(shards_for(heap, 8448, 20), 5, "at most a quarter of those that are free");
	TAP_IS(shards_for(heap, 270000, 40), 8, "and few, unless very many are free");
	TAP_IS(shards_for(heap, 270000, 8192), 32, "of which a part is used");
	TAP_IS(shards_for(heap, 270000, 3), 3, "and never fewer than hold the slots");
}

struct census {
	uint32_t shards, every; /* of so many warps one allocates */
	uint32_t warps[WARPS];	/* that begin at a shard */
};

static void choose(void *arg, uint32_t thread)
{
	struct census *census = arg;
	uint32_t warp = thread / GM_WARP;
	if (thread % GM_WARP == 0 && warp % census->every == 0)
		gm_add32(&census->warps[gm_granule_near(census->shards)], 1);
}

/* Warps of the fullest shard, above its share. */
static uint32_t surplus(struct fixture *f, uint32_t shards, uint32_t every)
{
	struct census census = {.shards = shards, .every = every};
	uint32_t most = 0;
	if (!test_launch(f, WARPS, 16, choose, &census))
		return WARPS;
	for (uint32_t s = 0; s < shards; s++)
		most = census.warps[s] > most ? census.warps[s] : most;
	return most - WARPS / every / shards;
}

/* A shard that is full long before others makes its lanes search. */
static void check_shares(struct fixture *f)
{
	static const uint32_t shards[] = {4, 7, 16, 64, 100, 250};
	for (unsigned i = 0; i < sizeof shards / sizeof *shards; i++) {
		TAP_OK(surplus(f, shards[i], 1) <= 2, "warps spread over %u shards", shards[i]);
		TAP_OK(surplus(f, shards[i], EVERY) <= 5, "so does every eighth of them");
	}
}

static const struct gm_policy *granule(void)
{
	unsigned p = 0;
	while (gm_policies[p].malloc != gm_granule_malloc)
		p++;
	return &gm_policies[p];
}

int main(void)
{
	static struct work work;
	test_open(&work.f, granule(), GRANULES, GRANULES, test_seed());
	TAP_OK(test_launch(&work.f, 1, 1, offer_late, &work), "a granule is offered too late");
	TAP_OK(work.f.heap.epoch != work.epoch, "who looked in vain learns of it");
	TAP_OK(test_launch(&work.f, 1, 1, refill, &work), "the heap is filled");
	TAP_OK(work.blocks > 70 && work.dry & 1, "after %u blocks a search finds no slot",
	       work.blocks);
	TAP_OK(work.first, "a block that is freed then can be had again");
	TAP_OK(work.last, "so can one of a granule that is in use");
	TAP_OK(test_launch(&work.f, 1, 1, trim, &work), "the heap is trimmed");
	TAP_IS(work.f.heap.available, GRANULES, "and it goes back like any that is empty");
	check_spread(&work.f.heap);
	check_shares(&work.f);
	test_close(&work.f);
	return tap_done();
}
