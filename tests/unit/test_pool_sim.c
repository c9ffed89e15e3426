/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool on the simulated driver, which is strict and has writable memory. */
#include "sim/sim.h"

#include "base/size.h"
#include "pool/pool.h"

#include "../tap.h"

static struct gm_driver driver;

static struct gm_pool *open_pool(const char *devices)
{
	struct gm_pool *pool = NULL;
	setenv("SIM_MEMORY", "256M", 1);
	setenv("SIM_DEVICES", devices, 1);
	gm_sim_reset();
	CUresult (*init)(unsigned flags) = gm_sim_symbol(NULL, "cuInit");
	if (init(0) != CUDA_SUCCESS || gm_driver_load(&driver, gm_sim_symbol, NULL))
		return NULL;
	struct gm_pool_config config = {.driver = &driver, .limit = UINT64_MAX};
	gm_pool_create(&config, &pool);
	return pool;
}

static void fill(const struct gm_block *block)
{
	memset((void *)(uintptr_t)block->base, (int)(block->id % 251 + 1), block->size);
}

static bool is_filled(const struct gm_block *block)
{
	const unsigned char *at = (const unsigned char *)(uintptr_t)block->base;
	for (size_t i = 0; i < block->size; i++)
		if (at[i] != block->id % 251 + 1)
			return false;
	return true;
}

static void holds_data(void)
{
	static const uint64_t sizes[] = {1, 511, 5000, 70000, 3 * GM_MIB, 20 * GM_MIB, 40 * GM_MIB};
	enum { N = 28 };
	struct gm_pool *pool = open_pool("1");
	struct gm_block blocks[N];
	TAP_OK(pool != NULL, "a pool is made on the simulated device");
	for (int round = 0; round < 2; round++) {
		unsigned served = 0, filled = 0;
		for (int i = 0; i < N; i++) {
			CUresult result = gm_pool_alloc(pool, sizes[i % 7], 1, &blocks[i]);
			if (result != CUDA_SUCCESS)
				blocks[i].size = 0;
			else
				fill(&blocks[i]);
			served += result == CUDA_SUCCESS;
		}
		for (int i = 0; i < N; i++)
			filled += blocks[i].size && is_filled(&blocks[i]);
		TAP_OK(served > 20, "round %d: %u blocks are served", round, served);
		TAP_IS(filled, served, "each block holds its own data, chunk borders or not");
		for (int i = 0; i < N; i++)
			if (blocks[i].size)
				gm_pool_free(pool, blocks[i].base, NULL, NULL);
		gm_pool_give_back(pool, (unsigned)round * GM_GIB, false);
	}
	const char *why = NULL;
	TAP_OK(gm_pool_is_valid(pool, &why), "the pool is valid");
	gm_pool_destroy(pool);
	TAP_IS(gm_sim_leaks(true), 0, "no memory leaks");
}

static void survives_failures(void)
{
	static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
					    "cuMemUnmap"};
	for (unsigned i = 0; i < 4; i++) {
		struct gm_pool *pool = open_pool("1");
		struct gm_block block = {0};
		gm_sim_fail(calls[i], 1, CUDA_ERROR_OUT_OF_MEMORY);
		CUresult result = gm_pool_alloc(pool, 200 * GM_MIB, 1, &block);
		if (result == CUDA_SUCCESS)
			gm_pool_free(pool, block.base, NULL, NULL);
		gm_pool_give_back(pool, 0, false);
		gm_sim_fail(calls[i], 0, CUDA_SUCCESS);
		TAP_IS(gm_pool_alloc(pool, 200 * GM_MIB, 1, &block), CUDA_SUCCESS,
		       "a failed %s is got over", calls[i]);
		fill(&block);
		TAP_OK(gm_pool_is_valid(pool, NULL), "the pool is valid");
		gm_pool_destroy(pool);
		TAP_IS(gm_sim_leaks(true), 0, "no memory leaks");
	}
}

static void opens_to_a_peer(void)
{
	struct gm_pool *pool = open_pool("2");
	struct gm_block a, b;
	TAP_IS(gm_pool_alloc(pool, 30 * GM_MIB, 1, &a), CUDA_SUCCESS,
	       "a block is allocated before a grant");
	TAP_IS(gm_pool_grant(pool, 1), CUDA_SUCCESS, "the other device is granted access");
	TAP_IS(gm_pool_alloc(pool, 60 * GM_MIB, 1, &b), CUDA_SUCCESS,
	       "a block is allocated after a grant");
	TAP_IS(gm_pool_revoke(pool, 1), CUDA_SUCCESS, "the other device's access is revoked");
	fill(&a);
	fill(&b);
	TAP_OK(is_filled(&a) && is_filled(&b), "the own device reaches the blocks all the time");
	CUdeviceptr at = 0;
	TAP_IS(driver.cuMemAddressReserve(&at, 64 * GM_MIB, 0, 0, 0), CUDA_SUCCESS,
	       "addresses for a loan are reserved");
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(gm_pool_lend(pool, at, 64 * GM_MIB), CUDA_SUCCESS,
	       "memory is lent at other addresses");
	memset((void *)(uintptr_t)at, 1, 64 * GM_MIB);
	TAP_IS(gm_pool_take_back(pool, at, 64 * GM_MIB), CUDA_SUCCESS, "the loan is returned");
	TAP_OK(is_filled(&a), "a block keeps its data all the while");
	driver.cuMemAddressFree(at, 64 * GM_MIB);
	gm_pool_destroy(pool);
	TAP_IS(gm_sim_leaks(true), 0, "no memory leaks");
}

int main(void)
{
	holds_data();
	survives_failures();
	opens_to_a_peer();
	return tap_done();
}
