/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory for chunks that have left a device (residency/store.h): parcels
 * across banks, pages made ahead, registration. */
#include "moved.h"

/* Take a parcel, and mark each of its 4 KiB with `seed`. */
static struct gm_parcel *parcel_make(struct gm_store *store, size_t size, unsigned seed)
{
	struct gm_parcel *parcel = gm_store_take(store, size);
	struct gm_stored part = {0};
	while (parcel && gm_store_part(parcel, &part))
		for (uint64_t at = 0; at < part.size; at += 4096)
			memcpy(part.host + at, &(uint64_t){seed + part.begin + at}, 8);
	return parcel;
}

static bool parcel_is_right(const struct gm_parcel *parcel, size_t size, unsigned seed)
{
	struct gm_stored part = {0};
	uint64_t sum = 0, there;
	while (gm_store_part(parcel, &part)) {
		if (part.begin != sum)
			return false;
		sum += part.size;
		for (uint64_t at = 0; at < part.size; at += 4096) {
			memcpy(&there, part.host + at, 8);
			if (there != seed + part.begin + at)
				return false;
		}
	}
	return sum == size;
}

static unsigned shrink(struct gm_store *store)
{
	unsigned n = 0;
	while (gm_store_shrink(store))
		n++;
	return n;
}

static void parcels_across_banks(void)
{
	static const size_t sizes[] = {2 * MIB, 60 * MIB, 10 * MIB, 150 * MIB, 4 * MIB};
	struct gm_store store = {.warm = 0, .expected = 226 * MIB};
	struct gm_parcel *parcels[5];
	bool right = true;
	for (unsigned i = 0; i < 5; i++)
		parcels[i] = parcel_make(&store, sizes[i], i);
	TAP_OK(store.taken == 226 * MIB && store.banks == 226 * MIB && store.expected == 0,
	       "banks have the bytes that were expected, and no more");
	for (unsigned i = 0; i < 5; i++)
		right &= parcel_is_right(parcels[i], sizes[i], i);
	TAP_OK(right, "parcels across the borders of banks have their own bytes");
	gm_store_give(&store, parcels[1]);
	TAP_OK(shrink(&store) == 0 && parcel_is_right(parcels[2], sizes[2], 2),
	       "a bank stays while one of its parcels does");
	gm_store_give(&store, parcels[3]);
	TAP_OK(shrink(&store) == 1 && parcel_is_right(parcels[4], sizes[4], 4),
	       "a bank between two ends once its parcel has");
	parcels[1] = parcel_make(&store, 130 * MIB, 9);
	TAP_OK(parcel_is_right(parcels[1], 130 * MIB, 9) &&
		       parcel_is_right(parcels[4], sizes[4], 4) &&
		       parcel_is_right(parcels[2], sizes[2], 2),
	       "later parcels go behind the newest");
	gm_store_give(&store, parcels[0]);
	gm_store_give(&store, parcels[4]);
	gm_store_give(&store, parcels[2]);
	gm_store_give(&store, parcels[1]);
	TAP_OK(store.taken == 0 && store.kept == store.banks && !store.newest,
	       "all parcels are given back");
	gm_store_trim(&store);
	TAP_OK(store.banks == 0 && store.kept == 0,
	       "the banks of parcels given back return to the system");
}

static void store_is_warm(void)
{
	struct gm_store store = {.warm = 100 * MIB};
	struct gm_parcel *a = gm_store_take(&store, 100 * MIB), *b;
	struct gm_bank *bank = a->bank;
	gm_store_give(&store, a);
	TAP_OK(store.kept == 100 * MIB && shrink(&store) == 0, "banks are kept as far as allowed");
	TAP_OK(gm_store_room(&store) >= store.kept && gm_store_room(&store) < UINT64_MAX,
	       "the room of a store with kept banks is theirs and the system's");
	a = gm_store_take(&store, 30 * MIB);
	b = gm_store_take(&store, 70 * MIB);
	TAP_OK(store.banks == 100 * MIB &&
		       (a->bank == bank || b->bank == bank || atomic_load(&a->bank->next) == bank),
	       "kept banks are used again, for parcels of any size");
	TAP_OK(gm_store_room(&store) > 0, "the room of a store is known");
	gm_store_give(&store, a);
	gm_store_give(&store, b);
	store.warm = 70 * MIB;
	TAP_OK(shrink(&store) == 1 && store.kept == store.banks && store.banks <= 70 * MIB,
	       "banks beyond what may be kept return to the system");
	gm_store_trim(&store);
	TAP_OK(store.kept == 0 && store.banks == 0, "kept banks can be trimmed");
}

/* --- pages that are made ahead --- */

static void pages_are_made_ahead(void)
{
	struct gm_store store = {
		.warm = UINT64_MAX, .crew = &crew, .threads = 2, .expected = 200 * MIB};
	struct gm_parcel *parcels[50];
	bool right = true;
	gm_store_begin(&store);
	TAP_IS(store.ahead_bytes, 200 * MIB, "banks are made before they are needed");
	for (unsigned i = 0; i < 45; i++) {
		parcels[i] = gm_store_take(&store, 4 * MIB);
		gm_store_ready(&store, parcels[i]->bank, NULL);
		right &= atomic_load(&parcels[i]->bank->populated) == parcels[i]->bank->size;
	}
	TAP_OK(right, "a bank that is ready has all pages");
	gm_store_stop(&store);
	TAP_OK(store.taken == 180 * MIB && store.banks == 200 * MIB && !store.ahead,
	       "banks made ahead are kept if they were not needed");
	TAP_OK(atomic_load(&crew.job) % 2 == 0 && atomic_load(&crew.inside) == 0,
	       "no thread makes pages of a store that has stopped");
	for (unsigned i = 0; i < 45; i++)
		gm_store_give(&store, parcels[i]);
	gm_store_begin(&store);
	gm_store_stop(&store);
	gm_store_trim(&store);
	TAP_IS(store.banks, 0, "all banks end with a trim");
}

/* --- registered banks --- */

static unsigned calls_since(const char *call, unsigned *count)
{
	unsigned before = *count;
	return (*count = gm_sim_calls(call)) - before;
}

static void banks_are_registered_once(void)
{
	unsigned registers = 0;
	set_up(BY_DMA, 256 * MIB);
	for (unsigned i = 0; i < 6; i++)
		block_make(i, (i % 3) * 9 * MIB + 700000);
	calls_since("cuMemHostRegister_v2", &registers);
	move.store.expected = gm_move_need(pool).moves;
	struct gm_moved moved = gm_move_out(&move, pool, 0);
	TAP_OK(calls_since("cuMemHostRegister_v2", &registers) >= 1 &&
		       move.store.pinned == moved.bytes,
	       "a sleep registers what it copies into");
	gm_move_in(&move, pool, 0);
	move.store.expected = gm_move_need(pool).moves;
	moved = gm_move_out(&move, pool, 0);
	gm_move_in(&move, pool, 0);
	TAP_IS(calls_since("cuMemHostRegister_v2", &registers), 0,
	       "the next sleep registers nothing, for the banks were kept");
	TAP_OK(blocks_wrong() == 0 && move.store.kept == move.store.pinned, "all bytes are right");
	tear_down("registered banks");
}

/* Two copies are in flight while the driver unmaps and maps. */
static void copies_overlap(void)
{
	unsigned waits = 0, legacy = 0;
	set_up(BY_DMA, 256 * MIB);
	for (unsigned i = 0; i < 6; i++)
		block_make(i, 20 * MIB);
	calls_since("cuStreamSynchronize", &waits);
	struct gm_moved moved = gm_move_out(&move, pool, 0);
	legacy = calls_since("cuStreamSynchronize", &waits);
	TAP_IS(legacy, moved.chunks, "each chunk is waited for once");
	TAP_OK(move.turn == moved.chunks && moved.chunks > 1, "the streams take turns");
	gm_move_in(&move, pool, 0);
	TAP_IS(blocks_wrong(), 0, "all bytes are right");
	tear_down("copies that overlap");
}

static void banks_past_the_bounds(void)
{
	set_up(BY_DMA, 256 * MIB);
	move.store.pinnable = 4 * MIB;
	for (unsigned i = 0; i < 3; i++)
		block_make(i, 9 * MIB);
	gm_move_out(&move, pool, 0);
	TAP_OK(move.store.pinned <= 4 * MIB, "no more is registered than may be");
	gm_move_in(&move, pool, 0);
	TAP_OK(blocks_wrong() == 0 && move.store.kept > move.store.pinned, "all bytes are right");
	move.ring = NULL;
	TAP_OK(gm_move_out(&move, pool, 0).result == CUDA_SUCCESS &&
		       gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && blocks_wrong() == 0,
	       "the driver copies the rest where there is no ring");
	tear_down("bound of registered banks");
}

static void driver_registers_nothing(void)
{
	set_up(BY_DMA, 256 * MIB);
	block_make(0, 40 * MIB);
	for (unsigned i = 0; i < 3; i++) {
		gm_sim_fail("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
		gm_move_out(&move, pool, 0);
		gm_sim_fail("cuMemHostRegister_v2", 0, CUDA_SUCCESS);
		gm_move_in(&move, pool, 0);
		gm_store_trim(&move.store);
	}
	unsigned registers = gm_sim_calls("cuMemHostRegister_v2");
	gm_move_out(&move, pool, 0);
	gm_move_in(&move, pool, 0);
	TAP_OK(gm_sim_calls("cuMemHostRegister_v2") == registers && blocks_wrong() == 0,
	       "a driver that refuses three times is not asked again");
	tear_down("refusals");
}

static void registrar_ends(void)
{
	CUresult ignored;
	set_up(BY_DMA, 256 * MIB);
	CUcontext second = sim_context(0);
	sim_set_current(second);
	gm_context_current(&sim, &ignored);
	sim_set_current(context->handle);
	block_make(0, 20 * MIB);
	block_make(1, 3 * MIB);
	gm_move_out(&move, pool, 0);
	TAP_OK(move.store.pinned > 0, "banks are registered in the context of the move");
	SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(second);
	gm_context_gone(second);
	sim_set_current(context->handle);
	TAP_OK(gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && blocks_wrong() == 0,
	       "banks are copied by other means once that context has ended");
	unsigned registers = gm_sim_calls("cuMemHostRegister_v2");
	gm_move_out(&move, pool, 0);
	TAP_OK(gm_sim_calls("cuMemHostRegister_v2") > registers, "banks are registered anew");
	gm_move_in(&move, pool, 0);
	TAP_IS(blocks_wrong(), 0, "all bytes are right after that");
	tear_down("end of the registrar");
}

int main(void)
{
	parcels_across_banks();
	store_is_warm();
	pages_are_made_ahead();
	banks_are_registered_once();
	copies_overlap();
	banks_past_the_bounds();
	driver_registers_nothing();
	registrar_ends();
	return tap_done();
}
