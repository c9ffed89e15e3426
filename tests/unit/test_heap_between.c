/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A granule between two states, step by step: what other lanes free and allocate before a lane ends
 * the step that it has begun. One lane of the emulation at a time.
 */
#include "tests/unit/heap_help.h"

enum { SIZE = 100 << 10, LARGER = 300 << 10, MOST = 200 };

static struct fixture f;
static void *block[MOST];

/* A heap that cannot grow, of `n` granules. */
static struct gm_heap *start(uint32_t n)
{
	unsigned p = 0;
	while (gm_policies[p].malloc != gm_granule_malloc)
		p++;
	test_open(&f, &gm_policies[p], n, n, 1);
	return &f.heap;
}

static unsigned fill(struct gm_heap *heap)
{
	unsigned n = 0;
	while (n < MOST && (block[n] = gm_granule_malloc(heap, SIZE)))
		n++;
	return n;
}

static void drop(struct gm_heap *heap, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		gm_granule_free(heap, block[i]);
}

static struct gm_granule_class *class_of(struct gm_heap *heap)
{
	return &gm_granules_of(heap)->class_[gm_granule_class_of(SIZE)];
}

/* The number of the shard that holds a granule. */
static uint32_t shard_in_use(struct gm_heap *heap)
{
	uint32_t s = 0;
	while (*gm_shard_of(class_of(heap), s) == 0)
		s++;
	return s;
}

/* A lane has read the shard's word; another one takes the empty granule out; the first one
 * reserves a slot, which is valid. */
static void taken_out_meanwhile(void)
{
	struct gm_heap *heap = start(4);
	uint32_t c = gm_granule_class_of(SIZE);
	unsigned all = fill(heap);
	drop(heap, all);
	gm_granule_trim(heap);
	gm_granule_free(heap, gm_granule_malloc(heap, SIZE));
	uint32_t s = shard_in_use(heap), granule = *gm_shard_of(class_of(heap), s) - 1;
	TAP_OK(gm_granule_strip_one(heap, c, s), "an empty granule is taken out of its shard");
	uint64_t old = gm_add64(&gm_slab_of(heap, granule)->state, UINT64_C(1) << 32 | 1);
	void *held = gm_granule_take(heap, c, granule, (uint32_t)(old >> 32), 1);
	TAP_OK(held, "a lane that saw the granule in its shard has a slot of it");
	TAP_IS(fill(heap), all - 1, "the other slots of all granules can be had");
	gm_granule_free(heap, held);
	drop(heap, all - 1);
	test_close(&f);
}

/* A lane looks for another granule for shard `s`, and has marked it. */
static struct gm_granule_hunt mark(struct gm_heap *heap, uint32_t s)
{
	uint32_t *shard = gm_shard_of(class_of(heap), s);
	struct gm_granule_hunt hunt = {.heap = heap,
				       .c = gm_granule_class_of(SIZE),
				       .mask = 1,
				       .turn = 6,
				       .granule = GM_NO_GRANULE};
	hunt.t.seen = *shard;
	hunt.t.s = s;
	gm_cas32(shard, hunt.t.seen, GM_SHARD_BUSY);
	return hunt;
}

/* It finds none, so the shard keeps its own, which has become empty. */
static void emptied_meanwhile(void)
{
	struct gm_heap *heap = start(1);
	unsigned n = fill(heap);
	struct gm_granule_hunt hunt = mark(heap, shard_in_use(heap));
	drop(heap, n);
	TAP_OK(!gm_granule_malloc(heap, LARGER), "another class finds no granule meanwhile");
	gm_hunt_unmark(&hunt);
	void *larger = gm_granule_malloc(heap, LARGER);
	TAP_OK(larger, "another class finds the empty granule back in its shard");
	gm_granule_free(heap, larger);
	test_close(&f);
}

/* The same, with some slots free, which another lane has missed. */
static void missed_meanwhile(void)
{
	struct gm_heap *heap = start(1);
	unsigned n = fill(heap);
	uint32_t s = shard_in_use(heap), slot;
	struct gm_granule_hunt hunt = mark(heap, s);
	drop(heap, n / 2);
	gm_granule_reserve(heap, hunt.c, s, 1, true, &slot);
	gm_hunt_unmark(&hunt);
	TAP_IS(gm_room_find(class_of(heap), 0), s, "lanes are told of a shard with room again");
	for (unsigned i = n / 2; i < n; i++)
		gm_granule_free(heap, block[i]);
	test_close(&f);
}

int main(void)
{
	taken_out_meanwhile();
	emptied_meanwhile();
	missed_meanwhile();
	return tap_done();
}
