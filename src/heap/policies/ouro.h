/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of the six Ouroboros policies (Winter, Mlakar, Parger, Steinberger, ICS 2020;
 * Winter's thesis, 2021, chapter 5): chunks, the index queue, the access primitive.
 *
 *   chunk   8 KiB of a granule; its number is granule * 256 + place. The first five chunks of a
 *           granule hold the heads of the others, so that pages lie on multiples of their size
 *   page    16 << q bytes of a chunk, q from 0 to 9; larger allocations are runs of granules
 *   kind    of a chunk: pages of queue q, or slots of a queue (queue chunk)
 *
 * Differences from the published code: numbers of chunks have 32 bits and references to pages 64. 0
 * is the deletion marker. A malloc that finds no memory returns NULL, and withdraws its
 * announcement. A free for which a queue has no room parks the page (5.3.1 loses it). Drained queue
 * chunks are reused as queue chunks, never as pages: a slow reader may still read them. The thesis
 * instead keeps a trail of chunks that is usually long enough.
 *
 * Lanes wait for other lanes, of their own warp too: these policies need independent thread
 * scheduling.
 */
#ifndef GM_HEAP_POLICIES_OURO_H
#define GM_HEAP_POLICIES_OURO_H

#include "heap/policies/stock.h"

enum {
	GM_OURO_QUEUES = 10,
	GM_OURO_CHUNK_SHIFT = 13,
	GM_OURO_CHUNK = 1 << GM_OURO_CHUNK_SHIFT,
	GM_OURO_CHUNKS = 1 << (GM_GRANULE_SHIFT - GM_OURO_CHUNK_SHIFT), /* of a granule */
	GM_OURO_HEADS = 5,						/* hold the heads */
	GM_OURO_SPOTS = GM_OURO_CHUNK / 8,				/* slots of a queue chunk */
};

enum gm_ouro_kind { GM_OURO_S, GM_OURO_VA, GM_OURO_VL };

/*
 * A chunk's state: its free or parked pages (32 bits, biased: lanes with an outdated entry subtract
 * some, and add them back), q + 1 or 0 (8), queued.
 */
#define GM_OURO_EMPTY (1ull << 30) /* no pages, and of no queue */
#define GM_OURO_COUNT(state) ((int32_t)((uint32_t)(state) - (uint32_t)GM_OURO_EMPTY))
#define GM_OURO_Q(state) ((uint32_t)((state) >> 32) & 0xff)
#define GM_OURO_OF(q) ((uint64_t)((q) + 1) << 32)
#define GM_OURO_QUEUED (1ull << 40) /* in the queue, parked, or about to be */

struct gm_ouro_chunk {
	uint64_t state; /* stored only while no other lane knows the chunk, then added to */
	/* A chunk of pages: its slot in the queue. A queue chunk: gm_ouro_place. */
	uint64_t place;
	/* A parked chunk: the one below. A queue chunk of VL: tag << 32 | the next one, or 0. */
	uint64_t next;
	uint64_t counts;	 /* queue chunk: slots written << 32 | slots emptied */
	uint32_t mask[512 / 32]; /* queues of chunks: pages that are free; of pages: parked */
	uint32_t used[512 / 32]; /* queues of pages: pages in use */
};

/* The access primitive (5.2.4); below. */
struct gm_ouro_sem {
	uint64_t word;
	uint64_t failures; /* groups of lanes that found no memory for a chunk */
};

struct gm_ouro_queue {
	struct gm_ouro_sem sem; /* of pages */
	uint64_t pad0[6];
	struct gm_ouro_sem room; /* of slots for entries */
	uint64_t back;		 /* position of the next entry to add; positions only grow */
	uint64_t pad1[5];
	uint64_t front;	 /* position of the first entry */
	uint64_t parked; /* tag << 32 | top of the stack of parked chunks */
	uint64_t pad2[6];
	/* S: the ring of slots. VA: of index + 1 << 32 | queue chunk */
	uint64_t *slot;
	uint32_t slots; /* a power of two */
	uint32_t q;
	uint64_t placed;	       /* VA: queue chunks so far */
	uint64_t first, filling, last; /* VL: index << 32 | queue chunk, or 0 */
	uint64_t owned;		       /* pages of the queue's chunks */
	uint32_t extending;	       /* a lane is adding a queue chunk */
	uint32_t advancing;	       /* a lane is moving the front over removed entries */
};

struct gm_ouro {
	struct gm_stock chunks; /* empty chunks; the first member */
	uint64_t pad;
	uint64_t queue_chunks, queue_recycled, chunks_recycled;
	uint64_t pad1;
	struct gm_ring spare; /* drained queue chunks, all slots 0 */
	struct gm_ouro_queue queue[GM_OURO_QUEUES];
};

GM_DEVICE struct gm_ouro *gm_ouro_of(const struct gm_heap *heap)
{
	return (struct gm_ouro *)heap->policy;
}

GM_DEVICE char *gm_ouro_address(const struct gm_heap *heap, uint32_t chunk)
{
	return (char *)(uintptr_t)(heap->base + ((uint64_t)chunk << GM_OURO_CHUNK_SHIFT));
}

GM_DEVICE struct gm_ouro_chunk *gm_ouro_head(const struct gm_heap *heap, uint32_t chunk)
{
	return (struct gm_ouro_chunk *)gm_span_address(heap, chunk / GM_OURO_CHUNKS) +
	       chunk % GM_OURO_CHUNKS;
}

/* The number of pages of a chunk of queue q. */
GM_DEVICE uint32_t gm_ouro_pages(uint32_t q)
{
	return 512u >> q;
}

/* The chunk that the stock gave, or 0 if it gave none. */
GM_DEVICE uint32_t gm_ouro_chunk_of(const struct gm_heap *heap, uint64_t piece)
{
	if (piece == GM_STOCK_NONE)
		return 0;
	if (piece & GM_RING_NEW)
		gm_store64(&gm_ouro_head(heap, (uint32_t)piece)->state, GM_OURO_EMPTY);
	return (uint32_t)piece;
}

/*
 * Begin a chunk from the stock, for queue q, with all pages free but the first `used`, and `mark`
 * in its state; 0: the stock gave none.
 */
GM_DEVICE_SLOW uint32_t gm_ouro_chunk_begin(struct gm_heap *heap, uint64_t piece, uint32_t q,
					    uint32_t used, uint64_t mark)
{
	uint32_t chunk = gm_ouro_chunk_of(heap, piece), pages = gm_ouro_pages(q);
	if (!chunk)
		return 0;
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	for (uint32_t w = 0; w < (pages + 31) >> 5; w++) {
		uint32_t end = pages > 32 * w ? pages - 32 * w : 0;
		uint32_t from = used > 32 * w ? used - 32 * w : 0;
		gm_store32(&head->mask[w],
			   (end >= 32 ? ~0u : (1u << end) - 1) & (from >= 32 ? 0 : ~0u << from));
		gm_store32(&head->used[w], 0);
	}
	gm_store64(&head->place, 0);
	gm_add64_sync(&head->state, GM_OURO_OF(q) + mark + pages - used);
	return chunk;
}

/* --- parked chunks: a stack --- */

GM_DEVICE void gm_ouro_park(struct gm_heap *heap, struct gm_ouro_queue *queue, uint32_t chunk)
{
	uint64_t top = gm_load64(&queue->parked), seen;
	for (;; top = seen) {
		gm_store64(&gm_ouro_head(heap, chunk)->next, (uint32_t)top);
		seen = gm_cas64(&queue->parked, top, ((top >> 32) + 1) << 32 | chunk);
		if (seen == top)
			return;
	}
}

GM_DEVICE uint32_t gm_ouro_unpark(struct gm_heap *heap, struct gm_ouro_queue *queue)
{
	uint64_t top = gm_load64_acquire(&queue->parked), seen;
	for (; (uint32_t)top; top = seen) {
		uint32_t below = (uint32_t)gm_load64(&gm_ouro_head(heap, (uint32_t)top)->next);
		seen = gm_cas64(&queue->parked, top, ((top >> 32) + 1) << 32 | below);
		if (seen == top)
			return (uint32_t)top;
	}
	return 0;
}

/* Take a page by its bit in the chunk's mask; the count has promised one. */
GM_DEVICE uint32_t gm_ouro_pick(struct gm_ouro_chunk *head, uint32_t pages)
{
	uint32_t words = (pages + 31) >> 5;
	for (uint32_t w = gm_lane() % words;; w = (w + 1) % words) {
		uint32_t free = gm_load32(&head->mask[w]);
		while (free) {
			uint32_t above = free >> gm_lane() << gm_lane(),
				 from = above ? above : free;
			uint32_t bit = from & (~from + 1),
				 old = gm_and32_sync(&head->mask[w], ~bit);
			if (old & bit)
				return w << 5 | gm_ctz(bit);
			free = old & ~bit;
		}
	}
}

/*
 * --- the access primitive: a bulk semaphore (Gelado, Garland, PPoPP 2019) ---
 *
 * Algorithm 6 has three counters, of existing, expected and reserved pages, and changes them by
 * compare-and-swap, at which a thousand warps fail again and again. Here lanes add, and the first
 * and the last counter are one: pages available, less pages wanted. A negative value is the number
 * of missing pages. The lane whose addition makes one chunk more necessary brings it; the others
 * wait until the counter is at 0 again. The expected counter is the number of groups of
 * lanes that are bringing chunks.
 *
 * A queue has two semaphores: of its pages, and of slots for entries, which lie on queue chunks.
 * `shift`: the logarithm of the number of them in a chunk.
 */
#define GM_OURO_A1 (1ull << 20)			 /* one more */
#define GM_OURO_A(sem) ((int64_t)(sem) >> 20)	 /* available, less wanted; may be negative */
#define GM_OURO_E(sem) ((uint32_t)(sem)&0xfffff) /* groups of lanes that bring chunks */
#define GM_OURO_PATIENCE 12			 /* polls while no lane brings any */

GM_DEVICE void gm_ouro_signal(struct gm_ouro_sem *sem, uint64_t n)
{
	gm_add64_sync(&sem->word, n * GM_OURO_A1);
}

/* Subtract `wanted`, if they are available. */
GM_DEVICE bool gm_ouro_reduce(struct gm_ouro_sem *sem, uint32_t wanted)
{
	if (GM_OURO_A(gm_load64(&sem->word)) < (int64_t)wanted)
		return false;
	if (GM_OURO_A(gm_add64_sync(&sem->word, 0 - wanted * GM_OURO_A1)) >= (int64_t)wanted)
		return true;
	gm_ouro_signal(sem, wanted);
	return false;
}

/* Subtract as many of `wanted` as are available. Returns that number. */
GM_DEVICE_SLOW uint32_t gm_ouro_reduce_some(struct gm_ouro_sem *sem, uint32_t wanted)
{
	while (wanted && !gm_ouro_reduce(sem, wanted)) {
		int64_t has = GM_OURO_A(gm_load64(&sem->word));
		wanted = has <= 0 ? 0 : has < (int64_t)wanted ? (uint32_t)has : wanted;
	}
	return wanted;
}

/* The number of missing chunks. */
GM_DEVICE int64_t gm_ouro_missing(int64_t available, uint32_t shift)
{
	return available >= 0 ? 0 : ((1 << shift) - 1 - available) >> shift;
}

/*
 * Subtract `wanted`. True: they are available, or will be soon. False: the caller has to bring
 * chunks, and to call gm_ouro_brought.
 */
GM_DEVICE_SLOW bool gm_ouro_wait(struct gm_ouro_sem *sem, uint32_t wanted, uint32_t shift)
{
	uint64_t failures = gm_load64(&sem->failures);
	uint64_t word = gm_add64_sync(&sem->word, 0 - wanted * GM_OURO_A1);
	int64_t had = GM_OURO_A(word), has = had - (int64_t)wanted;
	if (has >= 0)
		return true;
	uint32_t alone = gm_ouro_missing(has, shift) == gm_ouro_missing(had, shift) ? 0 : ~0u;
	for (uint32_t turn = 0; alone < GM_OURO_PATIENCE; turn++) {
		gm_pause(100u << (turn < 5 ? turn : 5));
		word = gm_load64_acquire(&sem->word);
		if (GM_OURO_A(word) >= 0)
			return true;
		alone += GM_OURO_E(word) == 0 || turn % 1024 == 1023;
		/* A lane that relied on another's chunk has to bring one itself. */
		if (gm_load64(&sem->failures) != failures)
			break;
	}
	gm_add64(&sem->word, 1);
	return false;
}

/*
 * After gm_ouro_wait was false: the caller's `wanted` are no longer wanted, and `n` more are
 * available, or will be soon. `failed`: there was no memory for all chunks.
 */
GM_DEVICE void gm_ouro_brought(struct gm_ouro_sem *sem, uint32_t wanted, uint32_t n, bool failed)
{
	gm_add64_sync(&sem->word, ((uint64_t)wanted + n) * GM_OURO_A1 - 1);
	if (failed)
		gm_add64(&sem->failures, 1);
}

/* --- setting up --- */

/* Slots of S: 8 a chunk; pointers of VA: one for 64 chunks; as in the published code. */
GM_DEVICE_HOST uint32_t gm_ouro_slots(enum gm_ouro_kind kind, uint32_t capacity)
{
	uint64_t wanted = kind == GM_OURO_S    ? (uint64_t)capacity * GM_OURO_CHUNKS * 8
			  : kind == GM_OURO_VA ? (uint64_t)capacity * GM_OURO_CHUNKS / 64
					       : 0;
	uint32_t slots = 16;
	if (wanted == 0)
		return 0;
	while (slots < wanted && slots < 1u << 30)
		slots *= 2;
	return slots;
}

GM_DEVICE_HOST size_t gm_ouro_bytes(enum gm_ouro_kind kind, uint32_t capacity)
{
	return sizeof(struct gm_ouro) + (size_t)capacity * GM_OURO_CHUNKS * 2 * sizeof(uint64_t) +
	       (size_t)gm_ouro_slots(kind, capacity) * GM_OURO_QUEUES * sizeof(uint64_t);
}

GM_DEVICE void gm_ouro_init(struct gm_heap *heap, enum gm_ouro_kind kind, uint32_t thread)
{
	struct gm_ouro *ouro = gm_ouro_of(heap);
	uint64_t *slot = (uint64_t *)(ouro + 1);
	uint64_t chunks = (uint64_t)heap->capacity * GM_OURO_CHUNKS;
	if (thread != 0)
		return;
	gm_cut_init(heap, GM_OURO_HEADS, GM_OURO_CHUNKS);
	ouro->chunks.back.slot = slot;
	ouro->chunks.back.size = chunks;
	ouro->spare.slot = slot + chunks;
	ouro->spare.size = chunks;
	slot += 2 * chunks;
	for (uint32_t q = 0; q < GM_OURO_QUEUES; q++) {
		struct gm_ouro_queue *queue = &ouro->queue[q];
		queue->q = q;
		queue->slot = slot;
		queue->slots = gm_ouro_slots(kind, heap->capacity);
		queue->room.word = kind == GM_OURO_S ? queue->slots * GM_OURO_A1 : 0;
		slot += queue->slots;
	}
}

/* The queue for a size of at most GM_OURO_CHUNK. */
GM_DEVICE uint32_t gm_ouro_queue_of(size_t size)
{
	return size <= 16 ? 0 : gm_log2(size - 1) - 3;
}

/* The active lanes that want pages of queue q: they wait together. */
GM_DEVICE uint32_t gm_ouro_group(uint32_t q)
{
	return gm_match(gm_active(), q);
}

/*
 * The queue of the page that begins at an address: page *page of chunk *chunk. GM_OURO_QUEUES: no
 * page begins there.
 */
GM_DEVICE uint32_t gm_ouro_find(const struct gm_heap *heap, const void *address, uint32_t *chunk,
				uint32_t *page)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule, place, q, in = (uint32_t)offset & (GM_OURO_CHUNK - 1);
	*chunk = (uint32_t)(offset >> GM_OURO_CHUNK_SHIFT);
	place = *chunk % GM_OURO_CHUNKS;
	if (!gm_run_is_cut(heap, address, &granule) || place < GM_OURO_HEADS ||
	    !gm_cut_has(heap, granule, place))
		return GM_OURO_QUEUES;
	q = GM_OURO_Q(gm_load64(&gm_ouro_head(heap, *chunk)->state)) - 1;
	if (q >= GM_OURO_QUEUES)
		return GM_OURO_QUEUES;
	*page = in >> (q + 4);
	return *page << (q + 4) == in ? q : GM_OURO_QUEUES;
}

GM_DEVICE void gm_ouro_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	struct gm_ouro *ouro = gm_ouro_of(heap);
	gm_run_stats(heap, stats);
	stats->queue_chunks += gm_load64(&ouro->queue_chunks);
	stats->queue_recycled += gm_load64(&ouro->queue_recycled);
	stats->chunks_recycled += gm_load64(&ouro->chunks_recycled);
}

#endif
