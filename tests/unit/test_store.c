/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory for chunks that have left a device (residency/store.h): kept and registered
 * pieces. */
#include "moved.h"

static void store_is_warm(void)
{
	struct gm_store store = {.warm = 4 * MIB};
	struct gm_parcel *a = gm_store_take(&store, 2 * MIB), *b = gm_store_take(&store, 4 * MIB);
	gm_store_give(&store, a);
	gm_store_give(&store, b);
	TAP_IS(store.kept, 2 * MIB, "pieces are kept as far as the knob allows");
	TAP_OK(gm_store_take(&store, 2 * MIB) == a && store.kept == 0,
	       "kept pieces are used again");
	TAP_OK(gm_store_room(&store) > 0, "the room is known");
	gm_store_give(&store, a);
	b = gm_store_take(&store, 3 * MIB);
	TAP_IS(store.kept, 0, "one that is not used gives way to a new one of another size");
	gm_store_give(&store, b);
	a = gm_store_take(&store, MIB);
	TAP_IS(store.kept, 3 * MIB, "both pieces are kept if the knob allows");
	gm_store_give(&store, a);
	gm_store_trim(&store);
	TAP_OK(store.kept == 0 && store.plain == 0 && !store.newest, "kept pieces can be trimmed");
}

/* --- registered pieces --- */

static unsigned calls_since(const char *call, unsigned *count)
{
	unsigned before = *count;
	return (*count = gm_sim_calls(call)) - before;
}

static void pieces_are_registered_once(void)
{
	unsigned registers = 0, out_copies = 0, in_copies = 0;
	set_up(BY_DMA, 256 * MIB);
	for (unsigned i = 0; i < 6; i++)
		block_make(i, (i % 3) * 9 * MIB + 700000);
	calls_since("cuMemHostRegister_v2", &registers);
	calls_since("cuMemcpyDtoHAsync_v2", &out_copies);
	calls_since("cuMemcpyHtoDAsync_v2", &in_copies);
	struct gm_moved moved = gm_move_out(&move, pool, 0);
	TAP_IS(calls_since("cuMemHostRegister_v2", &registers), moved.chunks,
	       "the first sleep registers each piece that will be kept");
	TAP_OK(move.store.pinned == moved.bytes, "all bytes of kept pieces are registered");
	gm_move_in(&move, pool, 0);
	moved = gm_move_out(&move, pool, 0);
	gm_move_in(&move, pool, 0);
	TAP_IS(calls_since("cuMemHostRegister_v2", &registers), 0, "the second one does not");
	TAP_OK(calls_since("cuMemcpyDtoHAsync_v2", &out_copies) == 2 * moved.chunks &&
		       calls_since("cuMemcpyHtoDAsync_v2", &in_copies) == 2 * moved.chunks,
	       "a chunk is one DMA, each way");
	TAP_OK(blocks_wrong() == 0 && move.store.kept == move.store.pinned, "all bytes are right");
	tear_down("registered pieces");
}

static void pieces_past_the_bounds(void)
{
	set_up(BY_DMA, 256 * MIB);
	move.store.pinnable = 4 * MIB;
	for (unsigned i = 0; i < 3; i++)
		block_make(i, 9 * MIB);
	gm_move_out(&move, pool, 0);
	TAP_OK(move.store.pinned <= 4 * MIB, "no more is registered than may be");
	gm_move_in(&move, pool, 0);
	TAP_OK(blocks_wrong() == 0 && move.store.kept > move.store.pinned, "the rest is kept");
	tear_down("bound of registered pieces");
	set_up(BY_DMA, 4 * MIB);
	for (unsigned i = 0; i < 3; i++)
		block_make(i, 9 * MIB);
	gm_move_out(&move, pool, 0);
	gm_move_in(&move, pool, 0);
	TAP_OK(move.store.kept <= 4 * MIB && move.store.pinned <= 4 * MIB && blocks_wrong() == 0,
	       "nothing is registered that will not be kept");
	tear_down("bound of kept pieces");
}

static void pieces_in_part(void)
{
	unsigned out_copies = 0;
	set_up(BY_DMA, 256 * MIB);
	block_make(0, 40 * MIB);
	block_make(1, 24 * MIB);
	move.store.expected = gm_move_need(pool).moves;
	move.store.pinnable = move.store.expected / 2;
	calls_since("cuMemcpyDtoHAsync_v2", &out_copies);
	struct gm_moved moved = gm_move_out(&move, pool, 0);
	TAP_OK(move.store.fronts == moved.bytes / 2 && move.store.pinned == moved.bytes,
	       "if half may be registered, half of each piece is");
	TAP_OK(calls_since("cuMemcpyDtoHAsync_v2", &out_copies) > moved.chunks,
	       "the rest goes through the ring");
	gm_move_in(&move, pool, 0);
	TAP_OK(blocks_wrong() == 0 && move.store.kept == moved.bytes, "all bytes are right");
	move.ring = NULL;
	TAP_OK(gm_move_out(&move, pool, 0).result == CUDA_SUCCESS &&
		       gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && blocks_wrong() == 0,
	       "without a ring two copies of the driver move all bytes");
	tear_down("pieces registered in part");
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
	TAP_OK(move.store.pinned > 0, "pieces are registered in the context of the move");
	SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(second);
	gm_context_gone(second);
	sim_set_current(context->handle);
	TAP_OK(gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && blocks_wrong() == 0,
	       "pieces are copied by other means once that context has ended");
	unsigned registers = gm_sim_calls("cuMemHostRegister_v2");
	gm_move_out(&move, pool, 0);
	TAP_OK(gm_sim_calls("cuMemHostRegister_v2") > registers, "pieces are registered anew");
	gm_move_in(&move, pool, 0);
	TAP_IS(blocks_wrong(), 0, "all bytes are right after that");
	tear_down("end of the registrar");
}

int main(void)
{
	store_is_warm();
	pieces_are_registered_once();
	pieces_past_the_bounds();
	pieces_in_part();
	driver_registers_nothing();
	registrar_ends();
	return tap_done();
}
