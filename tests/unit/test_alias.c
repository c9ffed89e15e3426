/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks with hot memory move to other addresses, and stay mapped at the old ones for a while. */
#include "hot_fake.h"

#include "log/counters.h"
#include "pool/grow.h"

enum { N = 6 };
#define HANDLE (2 * GM_MIB) /* less than 8 GiB are left */
#define BLOCK (64 * GM_MIB)
#define MOVES (N / 2 * BLOCK / HANDLE)

/* Every other block is hot. */
static void stripes(struct gm_block blocks[N])
{
	start(UINT64_MAX);
	for (unsigned i = 0; i < N; i++)
		blocks[i] = take(BLOCK);
	for (unsigned i = 0; i < N; i += 2)
		give(blocks[i]);
}

static void moves(void)
{
	struct gm_block b[N];
	stripes(b);
	unsigned created = fake.calls[FAKE_CREATE];
	uint64_t moved = gm_counter_get(0, GM_C_remap_calls);
	struct gm_block large = take(3 * BLOCK);
	TAP_OK(large.base && fake_valid(f.pool), "three hot blocks make room for their sum");
	TAP_IS(fake.calls[FAKE_CREATE], created, "a move of hot chunks needs no new memory");
	TAP_IS(gm_counter_get(0, GM_C_remap_calls) - moved, MOVES,
	       "the chunks of hot blocks moved");
	TAP_IS(o.waits + f.waits + f.fences + f.recorded, 0, "the allocation waited for nothing");
	TAP_OK(o.takes > 0, "the order was asked whether the memory may be handed out");
	TAP_OK(fake_is_mapped(b[0].base) && fake_is_mapped(b[2].base) &&
		       fake_is_mapped(b[4].base + BLOCK - 1),
	       "the chunks are still mapped at their old addresses");
	TAP_IS(f.pool->n_aliases, MOVES, "each old place is an alias");
	TAP_OK(sums(0, 0), "aliases count as no memory");
	struct gm_block again = take(BLOCK);
	TAP_OK(again.base != b[0].base && again.base != b[2].base && again.base != b[4].base,
	       "an alias's addresses are not used for a block");
	gm_pool_give_back(f.pool, 0, false);
	TAP_OK(fake_is_mapped(b[0].base), "an alias stays until its fence has passed");
	work_has_ended = true;
	gm_pool_give_back(f.pool, 0, false);
	TAP_OK(!fake_is_mapped(b[0].base) && !fake_is_mapped(b[2].base) &&
		       !fake_is_mapped(b[4].base),
	       "an alias's addresses are unmapped when its fence has passed");
	TAP_OK(f.pool->n_aliases == 0 && fake_valid(f.pool), "no alias is left");
	TAP_IS(take(BLOCK).base, b[0].base, "the addresses serve new memory");
	fake_end(f.pool, "moves");
}

/* With an alias when the pool ends. */
static void destroyed(void)
{
	struct gm_block b[N];
	stripes(b);
	take(3 * BLOCK);
	TAP_IS(f.pool->n_aliases, MOVES, "there are aliases at the end of the pool");
	fake_end(f.pool, "a pool with aliases");
}

/* The block moves again while it is hot: each old place is an alias of its own. */
static void moves_twice(void)
{
	struct gm_block b[N];
	stripes(b);
	uint64_t mapped = fake_stats(f.pool).mapped;
	struct gm_block large = take(3 * BLOCK);
	give(large);
	struct gm_block part[3];
	for (unsigned i = 0; i < 3; i++)
		part[i] = take(BLOCK);
	give(part[0]);
	give(part[2]);
	TAP_OK(take(2 * BLOCK).base && fake_valid(f.pool), "hot chunks move a second time");
	TAP_IS(fake_stats(f.pool).mapped, mapped, "no new memory was mapped");
	TAP_OK(f.pool->n_aliases > MOVES, "old places of both moves are aliases");
	gm_pool_give_back(f.pool, 0, true);
	TAP_IS(f.pool->n_aliases, 0, "a wait ends them all");
	fake_end(f.pool, "two moves");
}

/* --- something happens while the chunks are moved --- */

static void (*in_move)(void);

static void visit(enum fake_call call)
{
	void (*act)(void) = in_move;
	if (call != FAKE_MAP || !act)
		return;
	in_move = NULL;
	act();
}

static void fence_passes(void)
{
	segment_end();
	gm_hot_memory()->passed(f.pool, CONTEXT, o.covered);
}

static void next_run(void)
{
	run_end();
	o.run = 2;
}

static void run_ends(void)
{
	struct gm_block b[N];
	stripes(b);
	fake.visit = visit;
	in_move = run_end;
	struct gm_block large = take(3 * BLOCK);
	TAP_OK(large.base && fake_valid(f.pool), "the run ends during a move");
	TAP_IS(o.waits + f.waits + f.fences, 0, "the allocation waits for nothing");
	TAP_IS(fake_stats(f.pool).retired, 3 * BLOCK, "the moved memory is retired");
	TAP_IS(f.pool->n_aliases, MOVES, "moved memory stays mapped at its old addresses");
	work_has_ended = true;
	gm_pool_give_back(f.pool, UINT64_MAX, false);
	TAP_OK(sums(3 * BLOCK, 0) && f.pool->n_aliases == 0,
	       "moved memory is idle when a fence has passed");
	fake_end(f.pool, "an ended run");
}

static void another_run_begins(void)
{
	struct gm_block b[N];
	stripes(b);
	fake.visit = visit;
	in_move = next_run;
	TAP_OK(take(3 * BLOCK).base && fake_valid(f.pool), "another run begins during a move");
	TAP_IS(fake_stats(f.pool).retired, 3 * BLOCK,
	       "another run does not get the memory of the first");
	give(b[1]);
	TAP_IS(take(BLOCK).base, b[1].base, "hot memory of its own is used again");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	fake_end(f.pool, "another run");
}

static void fence_passes_meanwhile(void)
{
	struct gm_block b[N];
	stripes(b);
	fake.visit = visit;
	in_move = fence_passes;
	unsigned created = fake.calls[FAKE_CREATE];
	TAP_OK(take(3 * BLOCK).base && fake_valid(f.pool), "the fence passes during a move");
	TAP_IS(fake.calls[FAKE_CREATE], created, "the moved memory is handed out");
	gm_pool_give_back(f.pool, UINT64_MAX, false);
	TAP_IS(f.pool->n_aliases, 0, "aliases of moved memory end with the next look");
	fake_end(f.pool, "a fence");
}

/* --- the driver fails --- */

static void map_fails(void)
{
	for (unsigned nth = 1; nth <= 6; nth++) {
		struct gm_block b[N];
		stripes(b);
		uint64_t mapped = fake_stats(f.pool).mapped;
		fake.fail[FAKE_MAP] = nth;
		struct gm_block large = take(3 * BLOCK);
		TAP_OK(large.base && fake_valid(f.pool), "map %u of a move fails", nth);
		uint64_t grown = fake_stats(f.pool).mapped - mapped;
		TAP_OK(grown <= 3 * BLOCK, "no more than the block is mapped instead");
		work_has_ended = true;
		gm_pool_give_back(f.pool, 0, false);
		TAP_OK(f.pool->n_aliases == 0 && fake_stats(f.pool).mapped == 6 * BLOCK,
		       "memory in use alone stays mapped");
		fake_end(f.pool, "a failed map");
	}
}

/* Addresses that the driver does not unmap are not used again. */
static void unmap_fails(void)
{
	struct gm_block b[N];
	stripes(b);
	take(3 * BLOCK);
	work_has_ended = true;
	fake.fail[FAKE_UNMAP] = 1;
	gm_pool_give_back(f.pool, UINT64_MAX, false);
	TAP_OK(fake_valid(f.pool), "the pool is valid after the driver fails to unmap an alias");
	TAP_IS(f.pool->n_aliases, 0,
	       "an alias that the driver does not unmap is no alias any more");
	unsigned found = 0;
	CUdeviceptr stuck = 0;
	for (unsigned i = 0; i < MOVES; i++) {
		CUdeviceptr at = b[i * HANDLE / BLOCK * 2].base + i * HANDLE % BLOCK;
		found += fake_is_mapped(at);
		stuck = fake_is_mapped(at) ? at : stuck;
	}
	TAP_IS(found, 1, "one old place is still mapped");
	bool apart = true;
	for (unsigned i = 0; i < 4; i++) {
		struct gm_block block = take(BLOCK / 2);
		apart = apart && block.base && block.base != stuck;
	}
	TAP_OK(apart && fake_valid(f.pool), "further blocks have other addresses");
	gm_pool_destroy(f.pool);
}

/* --- what takes no hot memory --- */

static bool stripes_are_mapped(const struct gm_block blocks[N])
{
	bool all = true;
	for (unsigned i = 0; i < MOVES; i++)
		all = all &&
		      fake_is_mapped(blocks[i * HANDLE / BLOCK * 2].base + i * HANDLE % BLOCK);
	return all;
}

#define ELSEWHERE ((CUdeviceptr)1 << 46)

static void lent(void)
{
	struct gm_block b[N];
	stripes(b);
	TAP_IS(gm_pool_lend(f.pool, ELSEWHERE, 2 * BLOCK), CUDA_SUCCESS,
	       "memory is lent before hot chunks move");
	TAP_OK(stripes_are_mapped(b), "hot memory is not lent, for it is in use where it is");
	TAP_IS(o.waits, 0, "a loan does not wait");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	gm_pool_take_back(f.pool, ELSEWHERE, 2 * BLOCK);
	fake_end(f.pool, "lent");
}

static void of_another_context(void)
{
	struct gm_block b[N], large = {0};
	stripes(b);
	uint64_t moved = gm_counter_get(0, GM_C_remap_calls), retired = fake_stats(f.pool).retired;
	gm_pool_alloc(f.pool, 3 * BLOCK, CONTEXT + 1, &large);
	TAP_OK(large.base, "a block of another context is served");
	TAP_IS(gm_counter_get(0, GM_C_remap_calls) - moved, 0,
	       "no hot chunk moves for a block of another context");
	TAP_IS(fake_stats(f.pool).retired, retired, "the hot memory stays hot");
	uint64_t mapped = fake_stats(f.pool).mapped;
	TAP_OK(take(BLOCK).base && fake_stats(f.pool).mapped == mapped,
	       "the hot memory is used again by its own context");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	gm_pool_context_gone(f.pool, CONTEXT + 1);
	fake_end(f.pool, "another context");
}

/* Memory mapped behind it would be joined with it, and then be as hot. */
static void tail_of_another_context(void)
{
	struct gm_block tail, large = {0};
	start(UINT64_MAX);
	take(BLOCK);
	tail = take(BLOCK);
	give(tail);
	gm_pool_alloc(f.pool, 2 * BLOCK, CONTEXT + 1, &large);
	TAP_OK(large.base && large.base != tail.base,
	       "a hot tail is not extended for another context");
	TAP_IS(fake_stats(f.pool).mapped, 4 * BLOCK, "the pool grows by the whole block, once");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	gm_pool_context_gone(f.pool, CONTEXT + 1);
	fake_end(f.pool, "a tail of another context");
}

static unsigned n_visits;

static void grant_in_move(enum fake_call call)
{
	if (call != FAKE_MAP || n_visits++)
		return;
	fake.visit = NULL;
	gm_pool_grant(f.pool, 1);
	fake.fail[FAKE_ACCESS] = 1;
}

/* A map of a hot chunk fails, and then its access cannot be set where it is. */
static void access_fails(void)
{
	struct gm_block b[N];
	stripes(b);
	n_visits = 0;
	fake.visit = grant_in_move;
	fake.fail[FAKE_MAP] = 1;
	take(3 * BLOCK);
	TAP_OK(f.waits + f.fences > 0 || stripes_are_mapped(b),
	       "memory whose access cannot be set is unmapped after a wait for its work");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	gm_pool_destroy(f.pool);
}

/* Long blocks of all sizes, while runs and fences come and go, and maps fail now and then. */
static void random_calls(void)
{
	struct gm_block block[32] = {0};
	uint64_t seed = 88172645463325252u, live = 0, moves = 0;
	start(UINT64_MAX);
	for (unsigned i = 0; i < 20000; i++) {
		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		struct gm_block *b = &block[seed % 32];
		unsigned what = (unsigned)(seed >> 8) % 256, before = f.pool->n_aliases;
		if (what == 0)
			run_end();
		else if (what < 32 && !o.run)
			o.run = 100 + i;
		else if (what < 36)
			work_has_ended = !work_has_ended;
		else if (what < 40)
			gm_pool_give_back(f.pool, 64 * GM_MIB, what == 36);
		else if (what < 44)
			fake.fail[FAKE_MAP] = 1 + (unsigned)(seed >> 20) % 8;
		else if (what < 48)
			segment_end();
		else if (b->base) {
			live -= b->held;
			give(*b);
			b->base = 0;
		} else {
			gm_pool_alloc(f.pool, 1 + (seed >> 16) % (48 * GM_MIB), CONTEXT, b);
			live += b->base ? b->held : 0;
		}
		moves += f.pool->n_aliases > before;
		if (i % 100 == 0 && !fake_valid(f.pool))
			break;
	}
	TAP_OK(fake_valid(f.pool), "the pool is valid after 20,000 random calls");
	TAP_OK(moves > 20, "hot chunks moved %llu times", (unsigned long long)moves);
	TAP_IS(fake_stats(f.pool).handed_out, live, "live blocks are counted");
	gm_pool_give_back(f.pool, 0, true);
	TAP_IS(f.pool->n_aliases, 0, "no alias is left after a wait");
	fake_end(f.pool, "random calls");
}

/* Up to a part of the live peak the pool grows, and later blocks fit without moves. */
static void headroom(void)
{
	struct gm_block b[N];
	stripes(b);
	f.pool->config.headroom_ppm = 400000; /* of N blocks: 2.4 */
	uint64_t mapped = fake_stats(f.pool).mapped;
	struct gm_block two = take(BLOCK * 3 / 2);
	TAP_OK(two.base && fake_valid(f.pool), "no hot block is long enough for a block");
	TAP_IS(f.pool->n_aliases, 0, "no chunk moves while there is little headroom");
	TAP_IS(fake_stats(f.pool).mapped - mapped, BLOCK * 3 / 2,
	       "the pool grows within its headroom");
	give(two);
	TAP_IS(take(BLOCK * 3 / 2).base, two.base, "a later block fits where the pool grew");
	TAP_OK(take(BLOCK * 2).base && f.pool->n_aliases > 0,
	       "hot chunks move beyond the headroom");
	TAP_IS(fake_stats(f.pool).mapped - mapped, BLOCK * 3 / 2,
	       "the pool does not grow when hot chunks move");
	fake_end(f.pool, "headroom");
}

/* A peak of which much was returned to the driver counts no more. */
static void headroom_after_peak(void)
{
	struct gm_block b[N];
	start(UINT64_MAX);
	give(take(12 * BLOCK));
	work_has_ended = true;
	gm_pool_give_back(f.pool, 0, true);
	work_has_ended = false;
	for (unsigned i = 0; i < N; i++)
		b[i] = take(BLOCK);
	for (unsigned i = 0; i < N; i += 2)
		give(b[i]);
	f.pool->config.headroom_ppm = 125000;
	TAP_OK(take(3 * BLOCK).base && fake_valid(f.pool), "a block is served after an early peak");
	TAP_IS(fake_stats(f.pool).mapped, N * BLOCK,
	       "a block after an early peak is served without growth");
	TAP_IS(f.pool->n_aliases, MOVES, "chunks move for a block after an early peak");
	fake_end(f.pool, "an early peak");
}

/* What the driver refused is not tried again for headroom. */
static void headroom_refused(void)
{
	struct gm_block b[N];
	stripes(b);
	f.pool->config.headroom_ppm = 1000000;
	fake.largest = 1; /* the driver has no memory left */
	unsigned created = fake.calls[FAKE_CREATE];
	struct gm_block block = take(BLOCK * 3 / 2);
	TAP_OK(block.base && fake.calls[FAKE_CREATE] > created, "the driver refuses headroom");
	TAP_OK(f.pool->n_aliases > 0 && fake_valid(f.pool),
	       "chunks move when the driver refused headroom");
	give(b[1]);
	created = fake.calls[FAKE_CREATE];
	TAP_OK(take(BLOCK * 9 / 4).base && fake_valid(f.pool),
	       "chunks move for the next block after a refusal");
	TAP_IS(fake.calls[FAKE_CREATE], created, "the driver is not asked again");
	fake_end(f.pool, "refused");
}

/* Before the pool grows, hot memory joins idle neighbours. */
static void headroom_after_join(void)
{
	start(UINT64_MAX);
	struct gm_block first = take(BLOCK), second = take(BLOCK);
	take(BLOCK);
	f.pool->config.headroom_ppm = 1000000;
	give(first);
	work_has_ended = true;
	gm_pool_give_back(f.pool, UINT64_MAX, false);
	work_has_ended = false;
	give(second);
	uint64_t mapped = fake_stats(f.pool).mapped;
	TAP_IS(take(2 * BLOCK).base, first.base, "idle and hot memory side by side serve a block");
	TAP_IS(fake_stats(f.pool).mapped, mapped,
	       "the pool does not grow beside idle and hot neighbours");
	fake_end(f.pool, "joined memory");
}

/* Memory of an ended run comes back soon, so it is no reason to map more. */
static void growth_beside_run(void)
{
	start(UINT64_MAX);
	struct gm_block first = take(BLOCK);
	take(BLOCK);
	f.pool->config.headroom_ppm = 1000000;
	give(first);
	run_end();
	uint64_t mapped = fake_stats(f.pool).mapped;
	TAP_OK(take(BLOCK / 16).base != first.base, "memory of an ended run waits for its fence");
	TAP_IS(fake_stats(f.pool).retired, BLOCK, "memory of an ended run is retired");
	TAP_IS(fake_stats(f.pool).mapped, mapped + BLOCK / 16, "the pool grows by one block");
	fake_end(f.pool, "growth beside an ended run");
}

/* While much is idle, chunks move: headroom of 2.4 blocks, and 4 blocks idle. */
static void headroom_while_idle(void)
{
	struct gm_block b[N];
	start(UINT64_MAX);
	for (unsigned i = 0; i < N; i++)
		b[i] = take(BLOCK);
	for (unsigned i = 0; i < N; i++)
		if (i % 3 != 2)
			give(b[i]);
	f.pool->config.headroom_ppm = 400000;
	TAP_OK(take(2 * BLOCK + BLOCK / 8).base && fake_valid(f.pool),
	       "a block is served while much is idle");
	TAP_OK(f.pool->n_aliases > 0, "chunks move for a block while much is idle");
	TAP_IS(fake_stats(f.pool).mapped, N * BLOCK,
	       "the pool does not grow for a block while much is idle");
	fake_end(f.pool, "idle memory");
}

/* At a limit there is no headroom. */
static void headroom_at_limit(void)
{
	struct gm_block b[N];
	stripes(b);
	f.pool->config.headroom_ppm = 250000;
	f.pool->config.limit = N * BLOCK + BLOCK;
	TAP_OK(take(BLOCK * 3 / 2).base && fake_valid(f.pool), "a block is served at the limit");
	TAP_OK(f.pool->n_aliases > 0, "chunks move for a block at the limit");
	TAP_IS(fake_stats(f.pool).mapped, N * BLOCK,
	       "the pool does not grow for a block at the limit");
	fake_end(f.pool, "headroom at a limit");
}

/* A hole between live blocks keeps a part of a handle at either end. */
static void handles(void)
{
	static const uint64_t lengths[] = {16, 10, 6, 4, 2, 2};
	static const uint64_t left[] = {64, 32, 20, 16, 4, 1}; /* GiB */
	start(UINT64_MAX);
	for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
		f.pool->memory = left[i] * GM_GIB;
		gm_pool_lock(f.pool);
		uint64_t piece = gm_pool_piece(f.pool, 6 * GM_GIB);
		gm_pool_unlock(f.pool);
		TAP_IS(piece, lengths[i] * GM_MIB, "size of a handle with %" PRIu64 " GiB left",
		       left[i]);
	}
	f.pool->memory = MEMORY;
	fake_end(f.pool, "handles");
}

int main(void)
{
	handles();
	moves();
	destroyed();
	moves_twice();
	run_ends();
	another_run_begins();
	fence_passes_meanwhile();
	map_fails();
	unmap_fails();
	headroom();
	headroom_after_peak();
	headroom_refused();
	headroom_after_join();
	growth_beside_run();
	headroom_while_idle();
	headroom_at_limit();
	lent();
	of_another_context();
	tail_of_another_context();
	access_fails();
	random_calls();
	return tap_done();
}
