/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/foreign/prefetch.h"

#include <stdatomic.h>

#include "base/array.h"
#include "shim/foreign/foreign.h"
#include "shim/memory/device.h"

struct range {
	CUdeviceptr at;
	size_t size;
};

struct ranges {
	GM_ARRAY(struct range) a;
	unsigned ordinal;
};

static _Atomic uint64_t sent[GM_COUNTER_DEVICES];

/* Under the table's lock. */
static void range_add(void *arg, const struct gm_foreign *piece)
{
	struct ranges *ranges = arg;
	if (piece->ordinal == ranges->ordinal)
		(void)gm_array_push(&ranges->a, (struct range){piece->key, piece->size});
}

struct order {
	struct gm_move *move;
	const struct ranges *ranges;
};

/* A range that was freed meanwhile is refused, or is other managed memory by now: both do no harm.
 * The driver makes the pages, so memory that the store keeps is no room for them. */
static struct gm_moved ranges_send(void *arg, const struct gm_mover *unused)
{
	const struct order *order = arg;
	const struct gm_driver *driver = order->move->driver;
	const CUstream stream = order->move->streams[0];
	uint64_t room = gm_store_room_beside(&order->move->store), bytes = 0;
	(void)unused;
	for (size_t i = 0; order->move->context && i < order->ranges->a.n; i++) {
		const struct range *r = &order->ranges->a.at[i];
		if (r->size <= room - bytes &&
		    driver->cuMemPrefetchAsync(r->at, r->size, CU_DEVICE_CPU, stream) ==
			    CUDA_SUCCESS)
			bytes += r->size;
	}
	if (bytes && driver->cuStreamSynchronize(stream) == CUDA_SUCCESS)
		atomic_store(&sent[order->ranges->ordinal], bytes);
	return (struct gm_moved){.result = CUDA_SUCCESS};
}

struct gm_moved gm_prefetch_send(struct gm_move *move, unsigned ordinal)
{
	struct ranges ranges = {.ordinal = ordinal};
	struct order order = {move, &ranges};
	if (move->driver->cuMemPrefetchAsync)
		gm_foreign_each(GM_FOREIGN_MANAGED, range_add, &ranges);
	if (ranges.a.n)
		gm_move_run(move, ordinal, true, ranges_send, &order);
	gm_array_free(&ranges.a);
	return (struct gm_moved){.result = CUDA_SUCCESS};
}

void gm_prefetch_woke(unsigned ordinal)
{
	atomic_store(&sent[ordinal], 0);
}

uint64_t gm_prefetch_sent(unsigned ordinal)
{
	return atomic_load(&sent[ordinal]);
}

void gm_prefetch_forget(void)
{
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		atomic_store(&sent[i], 0);
}
