/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two policies on cuMemAlloc.
 *   round-2m    one cuMemAlloc a request, rounded up to 2 MiB
 *   exact-size  requests are rounded up to 512 bytes; freed blocks are kept and serve only requests
 *               of their own size; when the driver refuses, all kept blocks are freed and the call
 *               is retried
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/size.h"
#include "pool/pool.h"
#include "tools/replay/policy.h"
#include "tools/tool.h"

enum { STEP = 512 };

/* --- round-2m --- */

static void *round_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	(void)memory, (void)limit;
	return (void *)driver;
}

static bool round_alloc(void *arg, uint64_t size, uint64_t now, struct gm_policy_place *out)
{
	const struct gm_driver *driver = arg;
	CUdeviceptr address;
	(void)now;
	if (driver->cuMemAlloc_v2(&address, gm_round_up(size, GM_POOL_GRANULE)) != CUDA_SUCCESS)
		return false;
	out->address = address;
	return true;
}

static void round_free(void *arg, const struct gm_policy_place *place, uint64_t now)
{
	const struct gm_driver *driver = arg;
	(void)now;
	driver->cuMemFree_v2(place->address);
}

static void round_close(void *arg)
{
	(void)arg;
}

extern const struct gm_policy gm_policy_round;
const struct gm_policy gm_policy_round = {"round-2m",
					  false,
					  round_open,
					  round_alloc,
					  round_free,
					  round_close,
					  "the driver serves each request, in multiples of 2 MiB"};

/* --- exact-size --- */

/* Blocks of one size. */
struct shelf {
	uint64_t size;
	GM_ARRAY(uint64_t) idle; /* addresses; last freed, first reused */
	UT_hash_handle hh;
};

struct exact {
	const struct gm_driver *driver;
	struct shelf *shelves;
};

static void *exact_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	struct exact *exact = gm_policy_make(sizeof *exact);
	(void)memory, (void)limit;
	exact->driver = driver;
	return exact;
}

static struct shelf *exact_shelf(struct exact *exact, uint64_t size)
{
	struct shelf *shelf;
	HASH_FIND(hh, exact->shelves, &size, sizeof size, shelf);
	if (shelf)
		return shelf;
	shelf = gm_policy_make(sizeof *shelf);
	shelf->size = size;
	HASH_ADD(hh, exact->shelves, size, sizeof shelf->size, shelf);
	if (gm_hash_failed(shelf)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	return shelf;
}

static void exact_return_all(struct exact *exact)
{
	for (struct shelf *shelf = exact->shelves; shelf; shelf = shelf->hh.next) {
		for (size_t i = 0; i < shelf->idle.n; i++)
			exact->driver->cuMemFree_v2(shelf->idle.at[i]);
		shelf->idle.n = 0;
	}
}

static bool exact_alloc(void *arg, uint64_t size, uint64_t now, struct gm_policy_place *out)
{
	struct exact *exact = arg;
	struct shelf *shelf = exact_shelf(exact, gm_round_up(size, STEP));
	CUdeviceptr address;
	(void)now;
	out->of = shelf;
	if (shelf->idle.n) {
		out->address = shelf->idle.at[--shelf->idle.n];
		return true;
	}
	if (exact->driver->cuMemAlloc_v2(&address, shelf->size) != CUDA_SUCCESS) {
		exact_return_all(exact);
		if (exact->driver->cuMemAlloc_v2(&address, shelf->size) != CUDA_SUCCESS)
			return false;
	}
	out->address = address;
	return true;
}

static void exact_free(void *arg, const struct gm_policy_place *place, uint64_t now)
{
	struct shelf *shelf = place->of;
	(void)arg, (void)now;
	if (!gm_array_push(&shelf->idle, place->address)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
}

static void exact_close(void *arg)
{
	struct exact *exact = arg;
	struct shelf *shelf, *next;
	HASH_ITER(hh, exact->shelves, shelf, next)
	{
		HASH_DEL(exact->shelves, shelf);
		gm_array_free(&shelf->idle);
		free(shelf);
	}
	free(exact);
}

extern const struct gm_policy gm_policy_exact;
const struct gm_policy gm_policy_exact = {"exact-size",
					  false,
					  exact_open,
					  exact_alloc,
					  exact_free,
					  exact_close,
					  "a freed block serves requests of exactly its size"};
