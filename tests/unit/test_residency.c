/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks that leave the device and return (residency/move.h, pool/away.c) on the simulated driver:
 * contents, addresses, sums, each driver call failing in turn, frees while away, and 4,000 random
 * operations with the contents of all blocks checked, by DMA and into a folder
 * (RESIDENCY_OPERATIONS=N: N operations by DMA, and nothing else).
 */
#include "moved.h"

static uint64_t device_free(void)
{
	size_t left = 0, total = 0;
	sim.cuMemGetInfo_v2(&left, &total);
	return left;
}

static void sleeps_and_wakes(enum way way)
{
	const char *how = ways[way];
	set_up(way, 64 * MIB);
	uint64_t empty = device_free();
	static const size_t sizes[] = {100, 5000, 70000, 3 * MIB, 17 * MIB};
	for (unsigned i = 0; i < 20; i++)
		block_make(i, sizes[i % 5]);
	struct gm_pool_stats before = stats_now();
	TAP_IS(gm_move_drain(&sim, gm_clock_ns() + SECOND), GM_REFUSAL_NONE,
	       "%s: no work is pending", how);
	struct gm_moved out = gm_move_out(&move, pool, 0);
	TAP_IS(out.result, CUDA_SUCCESS, "all chunks with a block leave");
	TAP_OK(out.bytes == before.mapped - before.idle - before.retired + stats_now().idle &&
		       stats_now().away == out.bytes && out.copied == out.bytes,
	       "every chunk that has a block leaves");
	TAP_IS(device_free(), empty, "the device has all memory back");
	TAP_OK(pool_valid() && stats_now().live_blocks == 20,
	       "the books stay while chunks are away");
	struct gm_move_need need = gm_move_need(pool);
	TAP_IS(need.moves, 0, "nothing more can leave");
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_SUCCESS && in.bytes == out.bytes && in.chunks == out.chunks,
	       "all chunks return with their bytes");
	TAP_OK(blocks_wrong() == 0 && stats_now().away == 0 && pool_valid(),
	       "chunks return to the same addresses, with the same bytes");
	tear_down(how);
}

static void frees_while_away(void)
{
	set_up(BY_DRIVER, 0);
	block_make(0, 40 * MIB);
	block_make(1, 3 * MIB);
	block_make(2, 1000);
	struct gm_moved out = gm_move_out(&move, pool, 0);
	block_end(0);
	TAP_OK(pool_valid() && stats_now().away == out.bytes, "a free while away keeps the books");
	gm_pool_give_back(pool, 0, true);
	TAP_OK(pool_valid() && stats_now().away == out.bytes,
	       "chunks that are away are not detached");
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_SUCCESS && in.bytes == out.bytes && in.copied < in.bytes,
	       "a chunk without a block returns without a copy");
	TAP_OK(blocks_wrong() == 0 && pool_valid(), "chunks with a block have their bytes");
	tear_down("frees while away");
}

static void pins_stay(void)
{
	set_up(BY_DRIVER, 0);
	block_make(0, 40 * MIB);
	block_make(1, 4 * MIB);
	gm_pool_pin(pool, blocks[0].base, 40 * MIB);
	uint64_t pinned = stats_now().pinned;
	struct gm_moved out = gm_move_out(&move, pool, 0);
	TAP_OK(out.result == CUDA_SUCCESS && gm_move_need(pool).pinned == pinned &&
		       pinned >= 40 * MIB,
	       "pinned chunks stay, and are named");
	TAP_OK(stats_now().mapped - stats_now().away >= pinned && out.bytes >= 4 * MIB,
	       "chunks that are not pinned leave");
	gm_move_in(&move, pool, 0);
	TAP_IS(blocks_wrong(), 0, "all bytes are right after the pins' way back");
	tear_down("pins");
}

/* --- loans, as taken by heaps of kernels --- */

static CUdeviceptr loan_at;
static size_t loan_size;

static CUdeviceptr loan_reserve(size_t size)
{
	loan_size = size;
	if (sim.cuMemAddressReserve(&loan_at, size, 2 * MIB, 0, 0) != CUDA_SUCCESS)
		loan_at = 0;
	return loan_at;
}

/* Lent memory with contents of its own. */
static bool loan_make(size_t size)
{
	if (!loan_reserve(size) || gm_pool_lend(pool, loan_at, size) != CUDA_SUCCESS)
		return false;
	for (size_t at = 0; at < size; at += 509)
		((unsigned char *)(uintptr_t)loan_at)[at] = (unsigned char)(at * 17 + 3);
	return true;
}

static bool loan_is_right(void)
{
	for (size_t at = 0; at < loan_size; at += 509)
		if (((unsigned char *)(uintptr_t)loan_at)[at] != (unsigned char)(at * 17 + 3))
			return false;
	return true;
}

static bool loan_end(void)
{
	CUresult result = gm_pool_take_back(pool, loan_at, loan_size);
	sim.cuMemAddressFree(loan_at, loan_size);
	loan_at = 0;
	return result == CUDA_SUCCESS;
}

static void loans_move(enum way way)
{
	set_up(way, 64 * MIB);
	uint64_t empty = device_free();
	block_make(0, 5 * MIB);
	block_make(1, 30 * MIB);
	block_end(1); /* idle memory for the loan */
	TAP_OK(loan_make(40 * MIB), "%s: memory is lent before chunks leave", ways[way]);
	TAP_OK(gm_move_need(pool).moves >= 45 * MIB, "the loan counts as memory to move");
	struct gm_moved out = gm_move_out(&move, pool, 0);
	TAP_OK(out.result == CUDA_SUCCESS && out.copied >= 45 * MIB && pool_valid(),
	       "the loan leaves with the other chunks");
	TAP_OK(device_free() == empty && stats_now().lent == 40 * MIB &&
		       stats_now().away == out.bytes,
	       "the device has all memory back, and the loan remains one");
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_SUCCESS && in.bytes == out.bytes && pool_valid(),
	       "all chunks of the loan return");
	TAP_OK(loan_is_right() && blocks_wrong() == 0, "all bytes of the loan are right");
	TAP_OK(loan_end() && pool_valid(), "the loan can end after its return");
	tear_down("loans");
}

static void loans_end_while_away(void)
{
	set_up(BY_DRIVER, 0);
	block_make(0, 5 * MIB);
	loan_make(40 * MIB);
	struct gm_moved out = gm_move_out(&move, pool, 0);
	unsigned unmaps = gm_sim_calls("cuMemUnmap");
	TAP_OK(loan_end() && pool_valid(), "a loan can be taken back while it is away");
	TAP_OK(gm_sim_calls("cuMemUnmap") == unmaps && stats_now().lent == 0 &&
		       stats_now().away == out.bytes,
	       "the end of a loan unmaps no memory, and leaves idle memory away");
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_SUCCESS && in.bytes == out.bytes && in.copied < 40 * MIB &&
		       stored() == 0,
	       "idle memory of an ended loan returns without a copy");
	TAP_OK(blocks_wrong() == 0 && stats_now().idle >= 40 * MIB && pool_valid(),
	       "idle memory of an ended loan is the pool's");
	tear_down("a loan ends while away");
}

/* The copy back fails, and the driver keeps the mapping; then the loan ends. */
static void loan_with_kept_mapping(void)
{
	set_up(BY_DRIVER, 0);
	loan_make(10 * MIB);
	gm_move_out(&move, pool, 0);
	gm_sim_fail("cuMemcpyHtoDAsync_v2", 1, CUDA_ERROR_LAUNCH_FAILED);
	gm_sim_fail("cuMemUnmap", 1, CUDA_ERROR_LAUNCH_FAILED);
	TAP_OK(gm_move_in(&move, pool, 0).result != CUDA_SUCCESS && pool_valid(),
	       "a move fails whose loan's mapping the driver keeps");
	TAP_OK(loan_end() && pool_valid(), "a loan whose mapping the driver keeps can end");
	TAP_OK(gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && pool_valid() && stored() == 0,
	       "the next wake after a failed move succeeds");
	tear_down("kept mapping of a loan");
}

static void spare_loans_go(void)
{
	_Atomic uint64_t spare = 0;
	set_up(BY_DRIVER, 0);
	block_make(0, 5 * MIB);
	loan_reserve(4 * MIB);
	gm_pool_lend_spare(pool, loan_at, 4 * MIB, &spare);
	uint64_t had = atomic_load(&spare);
	struct gm_moved out = gm_move_out(&move, pool, 0);
	TAP_OK(had == 4 * MIB && atomic_load(&spare) == 0 && out.copied == out.bytes &&
		       out.bytes == stats_now().away && stats_now().lent == 0,
	       "unused memory returns to the driver without a copy");
	gm_move_in(&move, pool, 0);
	sim.cuMemAddressFree(loan_at, loan_size);
	tear_down("spare loans");
}

/* --- each driver call fails in turn --- */

static const char *const calls[] = {
	"cuMemCreate",		"cuMemMap",
	"cuMemSetAccess",	"cuMemUnmap",
	"cuMemRelease",		"cuMemcpyDtoHAsync_v2",
	"cuMemcpyHtoDAsync_v2", "cuStreamSynchronize",
	"cuCtxPushCurrent_v2",	"cuEventCreate",
	"cuEventRecord",	"cuStreamCreate",
	"cuMemHostRegister_v2", "cuStreamWaitEvent",
	"cuEventQuery",		"cuEventSynchronize",
	"cuMemHostUnregister",
};

/* Bytes of the pool in the store: chunks that are away, with a handle or without. */
static uint64_t away_or_kept(void)
{
	uint64_t bytes = 0;
	for (const struct gm_chunk *chunk = pool->chunks; chunk; chunk = chunk->after)
		bytes += chunk->away ? chunk->size : 0;
	for (const struct gm_loan *loan = pool->loans; loan; loan = loan->next)
		for (const struct gm_chunk *chunk = loan->chunks; chunk; chunk = chunk->after)
			bytes += chunk->away ? chunk->size : 0;
	return bytes;
}

/* Does the move out, or the move in, survive a failure of call number `nth`? *reached: the call was
 * made that often. All contents must be intact, and a second attempt must move the rest. */
static bool survives(const char *call, unsigned nth, bool in, enum way way, bool *reached)
{
	bool good;
	set_up(way, way == BY_DMA ? 64 * MIB : 0);
	for (unsigned i = 0; i < 6; i++)
		block_make(i, (i % 3) * MIB + 700000 + i);
	good = loan_make(4 * MIB);
	if (in)
		good &= gm_move_out(&move, pool, 0).result == CUDA_SUCCESS;
	unsigned made = gm_sim_calls(call);
	gm_sim_fail(call, nth, CUDA_ERROR_LAUNCH_FAILED);
	struct gm_moved first = in ? gm_move_in(&move, pool, 0) : gm_move_out(&move, pool, 0);
	*reached = gm_sim_calls(call) - made >= nth;
	gm_sim_fail(call, 0, CUDA_SUCCESS);
	good &= pool_valid() && stored() == away_or_kept();
	struct gm_moved again = in ? gm_move_in(&move, pool, 0) : gm_move_out(&move, pool, 0);
	good &= first.result == CUDA_SUCCESS ? again.bytes == 0 : again.result == CUDA_SUCCESS;
	good &= again.result == CUDA_SUCCESS && pool_valid();
	if (!in)
		good &= gm_move_in(&move, pool, 0).result == CUDA_SUCCESS;
	good &= blocks_wrong() == 0 && loan_is_right() && stats_now().away == 0 && pool_valid();
	good &= stored() == 0 && loan_end();
	all_end();
	return good && move.store.pinned == 0 && move.store.kept == 0 && stored() == 0;
}

static void faults(bool in, enum way way)
{
	unsigned bad = 0, tried = 0;
	for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
		bool reached = true;
		for (unsigned nth = 1; nth < 40 && reached; nth++) {
			bool good = survives(calls[c], nth, in, way, &reached);
			atomic_store(&ring.useless, false);
			tried += reached;
			bad += !good;
			if (!good)
				printf("# %s number %u\n", calls[c], nth);
		}
	}
	TAP_OK(tried > 10 && bad == 0, "%s, %s: each of %u calls fails once, and no byte is lost",
	       in ? "wake" : "sleep", ways[way], tried);
}

static void no_room(void)
{
	set_up(BY_DRIVER, 0);
	block_make(0, 100 * MIB);
	block_make(1, 20 * MIB);
	gm_move_out(&move, pool, 0);
	CUdeviceptr other;
	TAP_IS(sim.cuMemAlloc_v2(&other, 200 * MIB), CUDA_SUCCESS,
	       "another process takes the device");
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_ERROR_OUT_OF_MEMORY && stats_now().away > 0 && pool_valid(),
	       "chunks that do not fit stay away");
	sim.cuMemFree_v2(other);
	in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_SUCCESS && blocks_wrong() == 0,
	       "chunks that did not fit return once there is room");
	tear_down("no room");
}

/* The copy back fails, and then the driver keeps the mapping. */
static void kept_mapping(void)
{
	set_up(BY_DRIVER, 0);
	block_make(0, 10 * MIB);
	gm_move_out(&move, pool, 0);
	uint64_t away = stats_now().away;
	gm_sim_fail("cuMemcpyHtoDAsync_v2", 1, CUDA_ERROR_LAUNCH_FAILED);
	gm_sim_fail("cuMemUnmap", 1, CUDA_ERROR_LAUNCH_FAILED);
	TAP_OK(gm_move_in(&move, pool, 0).result != CUDA_SUCCESS && stats_now().away < away &&
		       pool_valid(),
	       "a mapping that the driver keeps counts as the device's");
	TAP_OK(gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && blocks_wrong() == 0 &&
		       pool_valid() && stored() == 0,
	       "the next attempt writes the contents");
	tear_down("kept mapping");
}

/* Other processes use host memory meanwhile, so it is looked up again after each 256 MiB. */
static void room_is_looked_up(void)
{
	struct gm_store store = {.warm = 0};
	struct gm_parcel *parcels[5];
	TAP_OK(!gm_store_take(&store, UINT64_C(1) << 50) && !store.taken && !store.banks,
	       "no parcel is made beyond the room");
	for (unsigned i = 0; i < 5; i++)
		parcels[i] = gm_store_take(&store, 64 * MIB);
	TAP_OK(parcels[4] && store.promised == 192 * MIB,
	       "the fifth bank of 64 MiB looks the room up again");
	struct gm_parcel *large = gm_store_take(&store, 512 * MIB);
	TAP_OK(large && store.promised == 0 &&
		       !gm_store_take(&store, gm_store_room(&store) + GM_GIB),
	       "a parcel larger than that uses up what was looked up");
	gm_store_give(&store, large);
	for (unsigned i = 0; i < 5; i++)
		gm_store_give(&store, parcels[i]);
	while (gm_store_shrink(&store))
		continue;
	TAP_OK(!store.taken && !store.kept && !store.banks, "all banks end without parcels");
}

static void nothing_run(void *unused)
{
	(void)unused;
}

static void pending_work(void)
{
	set_up(BY_DRIVER, 0);
	gm_sim_hold(NULL);
	gm_sim_launch(NULL, nothing_run, NULL);
	TAP_IS(gm_move_drain(&sim, gm_clock_ns()), GM_REFUSAL_BUSY,
	       "a kernel in flight is refused");
	gm_sim_release(NULL, (unsigned)-1);
	TAP_IS(gm_move_drain(&sim, gm_clock_ns() + 3600 * (uint64_t)SECOND), GM_REFUSAL_NONE,
	       "a drain waits for that kernel");
	atomic_fetch_add(&context->captures, 1);
	TAP_IS(gm_move_drain(&sim, gm_clock_ns() + SECOND), GM_REFUSAL_CAPTURE,
	       "an open capture is refused");
	atomic_fetch_sub(&context->captures, 1);
	tear_down("drain");
}

/* --- random operations --- */

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

/* Few large ones: most time of a move is spent on new pages of the simulated device. */
static size_t random_size(uint64_t r)
{
	size_t most = r % 128 == 0 ? 3 * MIB : r % 3 ? 2000 : 30000;
	return 1 + (r >> 8) % most;
}

static void soak(enum way way)
{
	const char *text = getenv("RESIDENCY_OPERATIONS"), *seeded = getenv("TEST_SEED");
	uint64_t n = text ? strtoull(text, NULL, 10) : 4000, moves = 0, wrong = 0;
	uint64_t seed = seeded ? strtoull(seeded, NULL, 10) : 1;
	uint64_t state = seed * 0x9e3779b97f4a7c15u | 1;
	bool valid = true;
	set_up(way, 32 * MIB);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t r = random_next(&state);
		unsigned b = (unsigned)(r >> 32) % BLOCKS;
		if (r % 100 == 0) {
			valid &= gm_move_out(&move, pool, 0).result == CUDA_SUCCESS;
			if (loan_at && r >> 20 & 1)
				valid &= loan_end();
			for (unsigned f = 0; f < (r >> 12) % 4; f++)
				if (blocks[(b + f) % BLOCKS].size)
					block_end((b + f) % BLOCKS);
			valid &= gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && pool_valid();
			wrong += blocks_wrong() + (loan_at && !loan_is_right());
			valid &= loan_at || loan_make((1 + (r >> 24) % 2) * 2 * MIB);
			moves++;
		} else if (blocks[b].size) {
			block_end(b);
		} else {
			block_make(b, random_size(r));
		}
	}
	TAP_OK(valid && wrong == 0 && moves * 200 >= n,
	       "%s, seed %llu: %llu operations, %llu moves out and in, all bytes right", ways[way],
	       (unsigned long long)seed, (unsigned long long)n, (unsigned long long)moves);
	if (loan_at)
		loan_end();
	tear_down("soak");
}

int main(void)
{
	if (getenv("RESIDENCY_OPERATIONS")) {
		soak(BY_DMA);
		return tap_done();
	}
	for (unsigned way = 0; way < WAYS; way++)
		sleeps_and_wakes(way);
	frees_while_away();
	pins_stay();
	for (unsigned way = 0; way < WAYS; way++)
		loans_move(way);
	loans_end_while_away();
	loan_with_kept_mapping();
	spare_loans_go();
	for (unsigned i = 0; i < 2 * WAYS; i++)
		faults(i & 1, i / 2);
	no_room();
	kept_mapping();
	pending_work();
	room_is_looked_up();
	soak(BY_DMA);
	soak(BY_FOLDER);
	return tap_done();
}
