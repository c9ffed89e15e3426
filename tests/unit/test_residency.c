/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks that leave the device and return (residency/move.h, pool/away.c) on the simulated driver:
 * contents, addresses, sums, each call of the driver failing in turn, frees while away, and 4,000
 * random operations with the contents of all blocks checked (RESIDENCY_OPERATIONS: so many, and
 * nothing else).
 */
#include "base/clock.h"
#include "base/size.h"
#include "context/fence.h"
#include "residency/move.h"

#include "on_sim.h"
#include "pool/internal.h"

#define MIB ((size_t)GM_MIB)
#define SECOND 1000000000u
enum { BLOCKS = 64 };

static struct gm_move move;
static struct gm_ring ring;
static struct gm_context *context;
static struct gm_pool *pool;
static struct gm_block blocks[BLOCKS];

static struct gm_ring *ring_any(void)
{
	return &ring;
}

static void set_up(bool staged, uint64_t warm)
{
	CUresult ignored;
	setenv("SIM_MEMORY", "256M", 1);
	sim_start("13.0", "1");
	sim_set_current(sim_primary(0));
	gm_context_forget_all();
	context = gm_context_current(&sim, &ignored);
	memset(ring.site, 0, sizeof ring.site);
	ring.registrar = NULL;
	gm_store_trim(&move.store);
	move = (struct gm_move){.driver = &sim, .ring = staged ? ring_any : NULL};
	move.store.warm = warm;
	struct gm_pool_config config = {.driver = &sim,
					.limit = UINT64_MAX,
					.trim_after = UINT64_MAX,
					.fences = gm_fence_ops(&sim),
					.fence_arg = &sim};
	if (gm_pool_create(&config, &pool) != CUDA_SUCCESS ||
	    (staged && !gm_ring_init(&ring, &sim, 2, 2 * MIB))) {
		printf("Bail out! no pool\n");
		exit(1);
	}
	memset(blocks, 0, sizeof blocks);
}

static unsigned char *block_bytes(const struct gm_block *b)
{
	return (unsigned char *)(uintptr_t)b->base;
}

static bool block_make(unsigned i, size_t size)
{
	if (gm_pool_alloc(pool, size, context->key, &blocks[i]) != CUDA_SUCCESS) {
		blocks[i].size = 0;
		return false;
	}
	for (size_t at = 0; at < size; at += 509)
		block_bytes(&blocks[i])[at] = (unsigned char)(at * 31 + blocks[i].id * 7);
	return true;
}

static void block_end(unsigned i)
{
	gm_pool_free(pool, blocks[i].base, NULL, NULL);
	blocks[i].size = 0;
}

/* Blocks whose bytes are not what block_make wrote. */
static unsigned blocks_wrong(void)
{
	unsigned wrong = 0;
	for (unsigned i = 0; i < BLOCKS; i++) {
		const struct gm_block *b = &blocks[i];
		bool same = true;
		for (size_t at = 0; at < b->size && same; at += 509)
			same = block_bytes(b)[at] == (unsigned char)(at * 31 + b->id * 7);
		wrong += !same;
	}
	return wrong;
}

static void tear_down(const char *title)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (blocks[i].size)
			block_end(i);
	if (ring.slots && gm_ring_take(&ring)) {
		gm_ring_release(&ring);
		gm_ring_leave(&ring);
	}
	gm_pool_destroy(pool);
	gm_store_trim(&move.store);
	SIM(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000)(0); /* events */
	TAP_IS(gm_sim_leaks(true), 0, "%s: nothing leaks", title);
}

static struct gm_pool_stats stats_now(void)
{
	struct gm_pool_stats stats;
	gm_pool_stats(pool, &stats);
	return stats;
}

static bool pool_valid(void)
{
	const char *why = "";
	bool valid = gm_pool_is_valid(pool, &why);
	if (!valid)
		printf("# %s\n", why);
	return valid;
}

static uint64_t device_free(void)
{
	size_t left = 0, total = 0;
	sim.cuMemGetInfo_v2(&left, &total);
	return left;
}

static void sleeps_and_wakes(bool staged)
{
	const char *how = staged ? "by the ring" : "by the driver";
	set_up(staged, 64 * MIB);
	uint64_t empty = device_free();
	static const size_t sizes[] = {100, 5000, 70000, 3 * MIB, 17 * MIB};
	for (unsigned i = 0; i < 20; i++)
		block_make(i, sizes[i % 5]);
	struct gm_pool_stats before = stats_now();
	TAP_IS(gm_move_drain(&sim, gm_clock_ns() + SECOND), GM_REFUSAL_NONE,
	       "%s: no work is pending", how);
	struct gm_moved out = gm_move_out(&move, pool, 0);
	TAP_IS(out.result, CUDA_SUCCESS, "all leaves");
	TAP_OK(out.bytes == before.mapped - before.idle - before.retired + stats_now().idle &&
		       stats_now().away == out.bytes && out.copied == out.bytes,
	       "every chunk that has a block");
	TAP_IS(device_free(), empty, "the device has all of it back");
	TAP_OK(pool_valid() && stats_now().live_blocks == 20, "the books stay");
	struct gm_move_need need = gm_move_need(pool);
	TAP_IS(need.moves, 0, "nothing more can leave");
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_SUCCESS && in.bytes == out.bytes && in.chunks == out.chunks,
	       "all returns");
	TAP_OK(blocks_wrong() == 0 && stats_now().away == 0 && pool_valid(),
	       "under the same addresses, with the same bytes");
	tear_down(how);
}

static void frees_while_away(void)
{
	set_up(false, 0);
	block_make(0, 40 * MIB);
	block_make(1, 3 * MIB);
	block_make(2, 1000);
	struct gm_moved out = gm_move_out(&move, pool, 0);
	block_end(0);
	TAP_OK(pool_valid() && stats_now().away == out.bytes, "a free while away keeps the books");
	gm_pool_give_back(pool, 0, true);
	TAP_OK(pool_valid() && stats_now().away == out.bytes, "nothing detaches what is away");
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_SUCCESS && in.bytes == out.bytes && in.copied < in.bytes,
	       "a chunk without a block returns without a copy");
	TAP_OK(blocks_wrong() == 0 && pool_valid(), "the others have their bytes");
	tear_down("frees while away");
}

static void pins_stay(void)
{
	set_up(false, 0);
	block_make(0, 40 * MIB);
	block_make(1, 4 * MIB);
	gm_pool_pin(pool, blocks[0].base, 40 * MIB);
	uint64_t pinned = stats_now().pinned;
	struct gm_moved out = gm_move_out(&move, pool, 0);
	TAP_OK(out.result == CUDA_SUCCESS && gm_move_need(pool).pinned == pinned &&
		       pinned >= 40 * MIB,
	       "pinned chunks stay, and are named");
	TAP_OK(stats_now().mapped - stats_now().away >= pinned && out.bytes >= 4 * MIB,
	       "the others leave");
	gm_move_in(&move, pool, 0);
	TAP_IS(blocks_wrong(), 0, "all bytes are there");
	tear_down("pins");
}

/* --- each call of the driver fails in turn --- */

static const char *const calls[] = {
	"cuMemCreate",		"cuMemMap",
	"cuMemSetAccess",	"cuMemUnmap",
	"cuMemRelease",		"cuMemcpyDtoHAsync_v2",
	"cuMemcpyHtoDAsync_v2", "cuStreamSynchronize",
	"cuCtxPushCurrent_v2",	"cuEventCreate",
	"cuEventRecord",	"cuStreamCreate",
	"cuMemHostRegister_v2", "cuStreamWaitEvent",
	"cuEventQuery",		"cuEventSynchronize",
};

/* What the store has of the pool: of chunks that are away, with a handle or without. */
static uint64_t away_or_kept(void)
{
	uint64_t bytes = 0;
	for (const struct gm_chunk *chunk = pool->chunks; chunk; chunk = chunk->after)
		bytes += chunk->away ? chunk->size : 0;
	return bytes;
}

/* Does the move out, or the move in, survive a failure of call number `nth`? *reached: the call was
 * made that often. All bytes are where they were, and a second try moves the rest. */
static bool survives(const char *call, unsigned nth, bool in, bool staged, bool *reached)
{
	bool good = true;
	set_up(staged, 0);
	for (unsigned i = 0; i < 6; i++)
		block_make(i, (i % 3) * MIB + 700000 + i);
	if (in)
		good = gm_move_out(&move, pool, 0).result == CUDA_SUCCESS;
	unsigned made = gm_sim_calls(call);
	gm_sim_fail(call, nth, CUDA_ERROR_LAUNCH_FAILED);
	struct gm_moved first = in ? gm_move_in(&move, pool, 0) : gm_move_out(&move, pool, 0);
	*reached = gm_sim_calls(call) - made >= nth;
	gm_sim_fail(call, 0, CUDA_SUCCESS);
	good &= pool_valid() && move.store.taken == away_or_kept();
	struct gm_moved again = in ? gm_move_in(&move, pool, 0) : gm_move_out(&move, pool, 0);
	good &= first.result == CUDA_SUCCESS ? again.bytes == 0 : again.result == CUDA_SUCCESS;
	good &= again.result == CUDA_SUCCESS && pool_valid();
	if (!in)
		good &= gm_move_in(&move, pool, 0).result == CUDA_SUCCESS;
	good &= blocks_wrong() == 0 && stats_now().away == 0 && pool_valid();
	good &= move.store.taken == 0;
	for (unsigned i = 0; i < 6; i++)
		block_end(i);
	if (ring.slots && gm_ring_take(&ring)) {
		gm_ring_release(&ring);
		gm_ring_leave(&ring);
	}
	gm_pool_destroy(pool);
	return good;
}

static void faults(bool in, bool staged)
{
	unsigned bad = 0, tried = 0;
	for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
		bool reached = true;
		for (unsigned nth = 1; nth < 40 && reached; nth++) {
			bool good = survives(calls[c], nth, in, staged, &reached);
			atomic_store(&ring.useless, false);
			tried += reached;
			bad += !good;
			if (!good)
				printf("# %s number %u\n", calls[c], nth);
		}
	}
	TAP_OK(tried > 10 && bad == 0, "%s, %s: of %u calls each fails once, and no byte is lost",
	       in ? "wake" : "sleep", staged ? "ring" : "driver", tried);
}

static void no_room(void)
{
	set_up(false, 0);
	block_make(0, 100 * MIB);
	block_make(1, 20 * MIB);
	gm_move_out(&move, pool, 0);
	CUdeviceptr other;
	TAP_IS(sim.cuMemAlloc_v2(&other, 200 * MIB), CUDA_SUCCESS, "another takes the device");
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_ERROR_OUT_OF_MEMORY && stats_now().away > 0 && pool_valid(),
	       "what does not fit stays away");
	sim.cuMemFree_v2(other);
	in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_SUCCESS && blocks_wrong() == 0, "and returns once there is room");
	tear_down("no room");
}

/* The copy back fails, and then the driver keeps the mapping. */
static void kept_mapping(void)
{
	set_up(false, 0);
	block_make(0, 10 * MIB);
	gm_move_out(&move, pool, 0);
	uint64_t away = stats_now().away;
	gm_sim_fail("cuMemcpyHtoDAsync_v2", 1, CUDA_ERROR_LAUNCH_FAILED);
	gm_sim_fail("cuMemUnmap", 1, CUDA_ERROR_LAUNCH_FAILED);
	TAP_OK(gm_move_in(&move, pool, 0).result != CUDA_SUCCESS && stats_now().away < away &&
		       pool_valid(),
	       "a mapping that the driver keeps counts as the device's");
	TAP_OK(gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && blocks_wrong() == 0 &&
		       pool_valid() && move.store.taken == 0,
	       "and takes the contents the next time");
	tear_down("kept mapping");
}

static void nothing_run(void *unused)
{
	(void)unused;
}

static void pending_work(void)
{
	set_up(false, 0);
	gm_sim_hold(NULL);
	gm_sim_launch(NULL, nothing_run, NULL);
	TAP_IS(gm_move_drain(&sim, gm_clock_ns()), GM_REFUSAL_BUSY,
	       "a kernel in flight is refused");
	gm_sim_release(NULL, (unsigned)-1);
	TAP_IS(gm_move_drain(&sim, gm_clock_ns() + 3600 * (uint64_t)SECOND), GM_REFUSAL_NONE,
	       "and waited for");
	atomic_fetch_add(&context->captures, 1);
	TAP_IS(gm_move_drain(&sim, gm_clock_ns() + SECOND), GM_REFUSAL_CAPTURE,
	       "an open capture is refused");
	atomic_fetch_sub(&context->captures, 1);
	tear_down("drain");
}

static void store_is_warm(void)
{
	struct gm_store store = {.warm = 4 * MIB};
	void *a = gm_store_take(&store, 2 * MIB), *b = gm_store_take(&store, 4 * MIB);
	gm_store_give(&store, a, 2 * MIB);
	gm_store_give(&store, b, 4 * MIB);
	TAP_IS(store.kept, 2 * MIB, "pieces are kept as far as the knob allows");
	TAP_OK(gm_store_take(&store, 2 * MIB) == a && store.kept == 0, "and used again");
	TAP_OK(gm_store_room(&store) > 0, "the room is known");
	gm_store_give(&store, a, 2 * MIB);
	gm_store_trim(&store);
	TAP_IS(store.kept, 0, "they can be trimmed");
}

/* --- random operations --- */

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static size_t random_size(uint64_t r)
{
	size_t most = r % 16 == 0 ? 3 * MIB : r % 3 ? 2000 : 30000;
	return 1 + (r >> 8) % most;
}

static void soak(void)
{
	const char *text = getenv("RESIDENCY_OPERATIONS"), *seeded = getenv("TEST_SEED");
	uint64_t n = text ? strtoull(text, NULL, 10) : 4000, moves = 0, wrong = 0;
	uint64_t seed = seeded ? strtoull(seeded, NULL, 10) : 1;
	uint64_t state = seed * 0x9e3779b97f4a7c15u | 1;
	bool valid = true;
	set_up(false, 32 * MIB);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t r = random_next(&state);
		unsigned b = (unsigned)(r >> 32) % BLOCKS;
		if (r % 100 == 0) {
			valid &= gm_move_out(&move, pool, 0).result == CUDA_SUCCESS;
			for (unsigned f = 0; f < (r >> 12) % 4; f++)
				if (blocks[(b + f) % BLOCKS].size)
					block_end((b + f) % BLOCKS);
			valid &= gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && pool_valid();
			wrong += blocks_wrong();
			moves++;
		} else if (blocks[b].size) {
			block_end(b);
		} else {
			block_make(b, random_size(r));
		}
	}
	TAP_OK(valid && wrong == 0 && moves * 200 >= n,
	       "seed %llu: %llu operations, %llu moves out and in, all bytes right",
	       (unsigned long long)seed, (unsigned long long)n, (unsigned long long)moves);
	tear_down("soak");
}

int main(void)
{
	if (getenv("RESIDENCY_OPERATIONS")) {
		soak();
		return tap_done();
	}
	sleeps_and_wakes(false);
	sleeps_and_wakes(true);
	frees_while_away();
	pins_stay();
	for (unsigned i = 0; i < 4; i++)
		faults(i & 1, i & 2);
	no_room();
	kept_mapping();
	pending_work();
	store_is_warm();
	soak();
	return tap_done();
}
