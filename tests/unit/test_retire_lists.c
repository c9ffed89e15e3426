/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred reuse: lists of blocks that somebody collected, behind fences that pass one by one. */
#include <limits.h>

#include "retire_fake.h"

/* Pieces that somebody collected, their books done. */
static struct gm_retiring collected(struct gm_pool *pool, unsigned n)
{
	struct gm_retiring list = {.n = n};
	struct gm_block blocks[100];
	for (unsigned i = 0; i < n; i++)
		blocks[i] = fake_alloc(pool, 3000);
	for (unsigned i = 0; i < n; i++) {
		struct gm_piece *piece = gm_table_live(&pool->table, blocks[i].base);
		gm_pool_count_freed(pool, 3000, blocks[i].held);
		GM_SET(piece->state, GM_RETIRED);
		piece->next = list.first;
		list.first = piece;
		list.last = list.last ? list.last : piece;
		list.bytes += blocks[i].held;
	}
	return list;
}

static void lists(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	struct gm_retired *r = gm_retired_of(pool, gm_shelf_mine(pool), 9);
	struct gm_retiring first = collected(pool, 100), second;
	const struct gm_piece *oldest = first.first;
	uint64_t bytes;
	gm_pool_lock(pool);
	gm_retired_add(pool, r, &first);
	TAP_OK(gm_retired_due(pool, r), "a list of blocks is retired at once");
	gm_retired_poll(pool, r);
	TAP_OK(!gm_retired_due(pool, r) && !gm_retired_take(pool, r, UINT64_MAX, &bytes),
	       "behind one fence");
	gm_pool_unlock(pool);
	TAP_IS(retired(), 100 * 3072, "all of it");
	TAP_OK(fake_valid(pool), "valid");
	second = collected(pool, 5);
	const struct gm_piece *later = second.first;
	gm_pool_lock(pool);
	gm_retired_add(pool, r, &second);
	f.passed = 1;
	gm_retired_poll(pool, r);
	struct gm_piece *list = gm_retired_take(pool, r, UINT64_MAX, &bytes);
	unsigned n = 0;
	for (struct gm_piece *piece = list, *next; piece; piece = next, n++) {
		next = piece->next;
		gm_pool_put_back(pool, piece);
	}
	gm_pool_unlock(pool);
	TAP_OK(n == 100 && list == oldest && bytes == 100 * 3072,
	       "and comes back as a list, the oldest first");
	TAP_IS(retired(), 5 * 3072, "without what was retired later");
	TAP_OK(r->batches.ring[r->batches.first].list.first == later && fake_valid(pool), "valid");
	end("lists");
}

static void hand_over(struct gm_retired *r, unsigned n)
{
	struct gm_retiring list = collected(f.pool, n);
	gm_pool_lock(f.pool);
	gm_retired_add(f.pool, r, &list);
	gm_pool_unlock(f.pool);
}

static void poll(struct gm_retired *r)
{
	gm_pool_lock(f.pool);
	gm_retired_poll(f.pool, r);
	gm_pool_unlock(f.pool);
}

/* How many have passed; they are put back. */
static unsigned take(struct gm_retired *r, uint64_t most)
{
	unsigned n = 0;
	uint64_t bytes;
	gm_pool_lock(f.pool);
	for (struct gm_piece *piece = gm_retired_take(f.pool, r, most, &bytes), *next; piece;
	     piece = next, n++) {
		next = piece->next;
		gm_pool_put_back(f.pool, piece);
	}
	gm_pool_unlock(f.pool);
	return bytes == n * 3072 ? n : UINT_MAX;
}

static void as_batches(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	struct gm_retired *r = gm_retired_of(pool, gm_shelf_mine(pool), 9);
	hand_over(r, 10);
	hand_over(r, 10);
	TAP_OK(r->batches.n == 1 && fake_valid(pool), "two lists with no fence between them");
	poll(r);
	for (unsigned i = 0; i < 3; i++) {
		hand_over(r, 20);
		poll(r);
	}
	TAP_OK(r->batches.n == 4 && f.recorded == 4, "three with one each");
	TAP_IS(take(r, UINT64_MAX), 0, "none has passed");
	f.passed = 1;
	poll(r);
	TAP_IS(take(r, UINT64_MAX), 20, "the first two pass together, without the next");
	f.passed = 4;
	poll(r);
	TAP_IS(take(r, 59), 40, "as many as are asked for, in whole batches,");
	hand_over(r, 5);
	TAP_IS(take(r, 1), 20, "are taken, but one at least");
	TAP_OK(r->n == 5 && take(r, UINT64_MAX) == 0, "what comes after one that has passed waits");
	TAP_OK(fake_valid(pool), "valid");
	f.passed = UINTPTR_MAX;
	gm_pool_settle(pool);
	end("as batches");
}

/* More than there are places for. */
static void many_batches(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	struct gm_retired *r = gm_retired_of(pool, gm_shelf_mine(pool), 9);
	for (unsigned i = 0; i < 3 * GM_BATCHES; i++) {
		hand_over(r, 1);
		poll(r);
	}
	TAP_OK(r->batches.n == GM_RETIRE_FENCES + 1 && fake_valid(pool),
	       "there are as many batches as fences, and one that has none yet");
	f.passed = 10;
	poll(r);
	TAP_IS(take(r, UINT64_MAX), 10, "each passes with its own");
	f.passed = UINTPTR_MAX;
	poll(r); /* records one, which the next one asks */
	poll(r);
	TAP_IS(take(r, UINT64_MAX), 3 * GM_BATCHES - 10, "the last one with that of all others");
	for (unsigned i = 0; i < 3 * GM_BATCHES; i++) {
		hand_over(r, 1);
		f.passed = f.recorded;
		poll(r);
	}
	TAP_OK(r->batches.n == GM_BATCHES && r->n == 3 * GM_BATCHES && fake_valid(pool),
	       "where nobody takes what has passed places run out");
	TAP_IS(take(r, UINT64_MAX), GM_BATCHES - 1, "what found none waits for the last fence");
	f.passed = f.recorded;
	poll(r);
	TAP_IS(take(r, UINT64_MAX), 2 * GM_BATCHES + 1, "and none is lost");
	end("many batches");
}

int main(void)
{
	lists();
	as_batches();
	many_batches();
	return tap_done();
}
