/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of policy `granule` that only many lanes at once come to, taken one by one: a granule that
 * is offered to its class while another lane frees the last of it; a slot that comes free after a
 * search found none; shards for very many lanes; how evenly warps spread over shards; and a slot
 * behind many that are in use; a granule that many lanes want to make active; granules for lanes
 * that all come at once; and growth for lanes that wait for what others free.
 */
#include "tests/unit/heap_help.h"

enum { GRANULES = 4, SIZE = 100 * 1024, WARPS = 512, EVERY = 8 };

struct work {
	struct fixture f;
	uint32_t epoch;
	void *block[GRANULES * (GM_GRANULE / SIZE) + 1];
	uint32_t blocks, dry;
	bool first, last;
	uint32_t active;
};

/* Run by one lane. No shard has room for the granule, which holds only one block. */
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
	/* The state after gm_slab_activate in gm_slab_offer, with one slot left. */
	class_->shard[0] = 0;
	class_->shards = class_->own = GM_SHARDS;
	gm_granule_free(heap, block);
	gm_and64(&gm_slab_of(heap, granule)->state, ~GM_ACTIVE);
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

/* Run by one lane, in a full heap: free a block of a granule that is in no shard, then one of a
 * granule that is in one, and allocate each again. */
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

/* The number of shards that take granules of 16-byte slots for so many lanes of the warp at `seat`,
 * and free granules. */
static uint32_t shards_for(struct gm_heap *heap, uint32_t lanes, uint32_t seat, uint64_t available)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[0];
	uint64_t kept = heap->available;
	heap->available = available;
	gm_granule_wanted(heap, 0, lanes, seat);
	gm_granule_served(heap, 0, lanes);
	heap->available = kept;
	uint32_t own = class_->own, shards = class_->shards;
	class_->own = class_->shards = 1;
	return own == shards && class_->waiting == 0 ? own : 0;
}

static void check_spread(struct gm_heap *heap)
{
	TAP_IS(shards_for(heap, 32, 511, 4096), 1, "a granule of small slots serves some warps");
	TAP_IS(shards_for(heap, 32, 2047, 4096), 4, "more warps get more granules");
	TAP_IS(shards_for(heap, 1, 2047, 4096), 4,
	       "warps with one lane that allocates get as many granules");
	TAP_IS(shards_for(heap, 32, 8447, 12), 6, "half of the free granules at most are taken");
	TAP_IS(shards_for(heap, 32, 8447, 40), 8,
	       "few granules are taken, unless very many are free");
	TAP_IS(shards_for(heap, 32, 8447, 8192), 17, "a part of very many free granules is taken");
	TAP_IS(shards_for(heap, 270000, 0, 3), 3,
	       "never fewer granules than hold the slots are taken");
}

struct census {
	uint32_t shards, every; /* one of `every` warps allocates */
	uint32_t warps[WARPS];	/* number of warps that begin at each shard */
};

static void choose(void *arg, uint32_t thread)
{
	struct census *census = arg;
	uint32_t warp = thread / GM_WARP;
	if (thread % GM_WARP == 0 && warp % census->every == 0)
		gm_add32(&census->warps[gm_granule_near(census->shards)], 1);
}

/* The number of warps at the fullest shard above an equal share. */
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

/* Lanes search if one shard is full long before the others. */
static void check_shares(struct fixture *f)
{
	static const uint32_t shards[] = {4, 7, 16, 64, 100, 250};
	for (unsigned i = 0; i < sizeof shards / sizeof *shards; i++) {
		TAP_OK(surplus(f, shards[i], 1) <= 2, "warps spread over %u shards", shards[i]);
		TAP_OK(surplus(f, shards[i], EVERY) <= 5,
		       "every eighth warp spreads over the shards, too");
	}
}

/* --- a slot other than the cursor's, which is in use --- */

enum { WORDS = 256, LIVE = 200, LANES = 1024 };
struct bitmap {
	uint32_t bits[WORDS], slots;
	uint32_t found[LANES];
};

static void search(void *arg, uint32_t thread)
{
	struct bitmap *map = arg;
	map->found[thread] = gm_granule_search(map->bits, map->slots, thread % (LIVE * 32));
}

/* Number of words in which lanes found a slot. */
static uint32_t words_found(const struct bitmap *map)
{
	uint32_t n = 0, in[WORDS] = {0};
	for (unsigned i = 0; i < LANES; i++)
		n += in[map->found[i] / 32]++ == 0;
	return n;
}

static void check_search(struct fixture *f)
{
	static struct bitmap map = {.slots = WORDS * 32 - 5};
	uint32_t used = 0;
	memset(map.bits, 0xff, LIVE * sizeof *map.bits);
	TAP_OK(test_launch(f, LANES / GM_WARP, 8, search, &map), "lanes find slots behind others");
	for (unsigned i = 0; i < WORDS; i++)
		used += gm_popc(map.bits[i]);
	TAP_IS(used, LIVE * 32 + LANES, "each lane finds a slot of its own");
	TAP_IS(words_found(&map), WORDS - LIVE, "lanes find slots in all words that have one");
	memset(map.bits, 0xff, sizeof map.bits);
	map.bits[WORDS - 1] =
		0xffffffff >> 6; /* the last slot is free; the bits behind it are no slots */
	TAP_IS(gm_granule_search(map.bits, map.slots, 3), map.slots - 1, "the only one is found");
}

/* --- by all lanes at once --- */

enum { CROWD = 64 };

static void activate(void *arg, uint32_t thread)
{
	struct work *work = arg;
	uint64_t *state = &gm_slab_of(&work->f.heap, 0)->state;
	(void)thread;
	gm_add64(state, 1); /* other lanes change the word meanwhile */
	if (gm_slab_activate(&work->f.heap, 0, 0))
		gm_add32(&work->active, 1);
}

static void check_active(struct work *work)
{
	uint64_t *state = &gm_slab_of(&work->f.heap, 0)->state;
	*state = GM_CLASS_IS(1);
	work->f.mode = GM_SIMT_CROWD;
	TAP_OK(test_launch(&work->f, CROWD / 32, CROWD / 32, activate, work),
	       "lanes make a granule active");
	TAP_IS(work->active, 1, "one lane activates the granule");
	TAP_IS(*state, GM_CLASS_IS(1) | GM_ACTIVE | CROWD, "the word has the counts of all lanes");
	*state = 0;
}

static void crowd(void *arg, uint32_t thread)
{
	struct work *work = arg;
	work->block[thread] = gm_granule_malloc(&work->f.heap, SIZE);
}

static void leave(void *arg, uint32_t thread)
{
	struct work *work = arg;
	gm_granule_free(&work->f.heap, work->block[thread]);
}

static void check_crowd(struct work *work)
{
	const struct gm_granule_class *class_ =
		&gm_granules_of(&work->f.heap)->class_[gm_granule_class_of(SIZE)];
	TAP_OK(test_launch(&work->f, CROWD / 32, CROWD / 32, crowd, work),
	       "lanes come to an empty heap");
	TAP_OK(class_->own > 1, "several shards bring granules for waiting lanes");
	TAP_IS(class_->waiting, 0, "no lane waits after the search");
	test_launch(&work->f, CROWD / 32, CROWD / 32, leave, work);
}

enum { LEAN = 100, LOW = 4 };

/* Run by one lane, of LEAN that wait. A shard always has room when it looks, and another lane has
 * the slot when it comes. */
static void go_short(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	uint32_t c = gm_granule_class_of(SIZE);
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	if (thread != 0)
		return;
	heap->low = LOW;
	class_->waiting = LEAN;
	gm_room_put(class_, 0);
	struct gm_granule_hunt h = {.heap = heap, .c = c, .mask = 1};
	work->first = gm_hunt_hint(&h) == GM_HUNT_AIM && h.next == 0;
	work->blocks = (uint32_t)heap->wanted;
	h.turn = GM_ASK_TURNS;
	work->last = gm_hunt_hint(&h) == GM_HUNT_ASK && gm_hunt_ask(&h) == GM_HUNT_AIM;
	class_->waiting = 0;
	gm_room_remove(heap, c, 0);
}

static void check_short(struct work *work)
{
	struct gm_heap *heap = &work->f.heap;
	uint32_t slots = gm_granules_of(heap)->class_[gm_granule_class_of(SIZE)].slots;
	TAP_OK(test_launch(&work->f, 1, 1, go_short, work) && work->first,
	       "a lane finds a shard with room that others freed");
	TAP_OK(work->last, "a lane asks the host after some turns, and goes on");
	TAP_IS(work->blocks, 0, "a lane that finds a shard wants no memory");
	TAP_IS(heap->wanted, heap->granted + LOW,
	       "a lane that is not served asks for memory, without waiting");
	TAP_IS(heap->wished, LEAN / slots + 1, "a lane wishes for what all waiting lanes need");
	TAP_IS(work->f.mail.want.value, heap->wanted, "the host sees what is wanted");
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
	TAP_OK(work.f.heap.epoch != work.epoch, "a lane that searched in vain is notified");
	TAP_OK(test_launch(&work.f, 1, 1, refill, &work), "the heap is filled");
	TAP_OK(work.blocks > 70 && work.dry & 1, "after %u blocks a search finds no slot",
	       work.blocks);
	TAP_OK(work.first, "a block that is freed then can be had again");
	TAP_OK(work.last, "a freed block of a used granule can be allocated");
	TAP_OK(test_launch(&work.f, 1, 1, trim, &work), "the heap is trimmed");
	TAP_IS(work.f.heap.available, GRANULES, "an empty granule returns like any other");
	check_spread(&work.f.heap);
	check_shares(&work.f);
	check_search(&work.f);
	test_close(&work.f);
	test_open(&work.f, granule(), GRANULES, GRANULES, test_seed());
	check_active(&work);
	check_crowd(&work);
	test_close(&work.f);
	/* No granule is free: the heap was granted none. */
	test_open(&work.f, granule(), GRANULES, 0, test_seed());
	check_short(&work);
	test_close(&work.f);
	return tap_done();
}
