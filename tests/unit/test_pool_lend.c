/* SPDX-License-Identifier: BSD-3-Clause */
/* Loans, pins and peers. */
#include "pool_fake.h"

#define AT ((CUdeviceptr)1 << 46)

static uint64_t driver_mapped(void)
{
	struct gm_null_totals totals;
	gm_null_totals(&totals);
	return totals.mapped;
}

static void lends(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, 200 * GM_MIB);
	TAP_IS(gm_pool_lend(pool, AT, 4 * GM_MIB), CUDA_SUCCESS, "an empty pool lends new memory");
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_OK(stats.lent == 4 * GM_MIB && stats.mapped == 0, "which it does not count as its own");
	struct gm_block block = fake_alloc(pool, 20 * GM_MIB);
	gm_pool_free(pool, block.base, NULL, NULL);
	unsigned created = fake.calls[FAKE_CREATE];
	TAP_IS(gm_pool_lend(pool, AT + GM_GIB, 40 * GM_MIB), CUDA_SUCCESS, "a loan of 40 MiB");
	TAP_IS(fake.calls[FAKE_CREATE], created + 1, "moves the idle chunk, and makes one more");
	stats = fake_stats(pool);
	TAP_OK(stats.lent == 44 * GM_MIB && stats.mapped == 0, "44 MiB are lent");
	TAP_IS(driver_mapped(), 44 * GM_MIB, "as the driver says");
	TAP_OK(fake_valid(pool), "valid");
	TAP_IS(gm_pool_take_back(pool, AT, 2 * GM_MIB), CUDA_ERROR_INVALID_VALUE,
	       "half a loan is not taken back");
	TAP_IS(gm_pool_take_back(pool, AT + GM_GIB, 40 * GM_MIB), CUDA_SUCCESS, "a whole one is");
	TAP_IS(gm_pool_take_back(pool, AT + GM_GIB, 40 * GM_MIB), CUDA_ERROR_INVALID_VALUE,
	       "but once");
	stats = fake_stats(pool);
	TAP_OK(stats.lent == 4 * GM_MIB && stats.idle == 40 * GM_MIB, "and is idle then");
	TAP_OK(fake_alloc(pool, 40 * GM_MIB).base && fake_stats(pool).mapped == 40 * GM_MIB,
	       "for a block that lies across its chunks");
	TAP_IS(gm_pool_lend(pool, AT + GM_GIB, 158 * GM_MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "the limit holds for loans");
	TAP_IS(gm_pool_lend(pool, AT + GM_GIB, 3 * GM_MIB), CUDA_ERROR_INVALID_VALUE,
	       "a loan comes in granules");
	TAP_OK(fake_valid(pool), "valid");
	fake_end(pool, "loans");
}

static void lends_at_the_limit(void)
{
	struct gm_pool *pool = fake_pool(32 * GM_MIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, block.base, NULL, NULL);
	TAP_IS(gm_pool_lend(pool, AT, 2 * GM_MIB), CUDA_SUCCESS,
	       "a chunk that is too long is exchanged for a short one");
	TAP_OK(fake_stats(pool).mapped == 0 && fake_stats(pool).lent == 2 * GM_MIB, "just that");
	TAP_OK(fake_valid(pool), "valid");
	fake_end(pool, "exchange for a loan");
}

static void pins(void)
{
	struct gm_pool *pool = fake_pool(64 * GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, 64 * GM_MIB), other;
	gm_pool_free(pool, block.base, NULL, NULL);
	fake_alloc(pool, 32 * GM_MIB);
	other = fake_alloc(pool, 1000);
	TAP_IS(gm_pool_pin(pool, other.base, 1000), CUDA_SUCCESS, "a small block is pinned");
	TAP_IS(gm_pool_pin(pool, other.base + 10, 5), CUDA_SUCCESS, "twice");
	TAP_IS(gm_pool_pin(pool, other.base, 4096), CUDA_ERROR_INVALID_VALUE,
	       "no more than the block is pinned");
	TAP_IS(gm_pool_pin(pool, block.base + 63 * GM_MIB, 1), CUDA_ERROR_INVALID_VALUE,
	       "nor what is idle");
	TAP_IS(fake_stats(pool).pinned, 64 * GM_MIB, "its chunk is pinned");
	TAP_OK(fake_valid(pool), "valid");
	gm_pool_free(pool, other.base, NULL, NULL);
	TAP_IS(fake_stats(pool).pinned, 0, "while the block lives");
	TAP_OK(fake_valid(pool), "valid");
	fake_end(pool, "pins");
}

static bool granted(CUdevice device, CUmemAccess_flags flags)
{
	for (size_t i = 0; i < fake.n_access; i++)
		if (fake.access[i].location.id == device && fake.access[i].flags == flags)
			return true;
	return false;
}

static void opens_to_peers(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	fake_alloc(pool, 32 * GM_MIB);
	fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(granted(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) && fake.n_access == 1,
	       "a chunk is open to its own device");
	unsigned calls = fake.calls[FAKE_ACCESS];
	TAP_IS(gm_pool_grant(pool, 3), CUDA_SUCCESS, "a peer is granted access");
	TAP_IS(fake.calls[FAKE_ACCESS], calls + 2, "to both chunks");
	TAP_OK(granted(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "to read and write");
	TAP_IS(gm_pool_grant(pool, 3), CUDA_SUCCESS, "again");
	TAP_IS(fake.calls[FAKE_ACCESS], calls + 2, "costs nothing");
	fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(granted(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) &&
		       granted(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
	       "a new chunk is open to both");
	TAP_IS(gm_pool_revoke(pool, 3), CUDA_SUCCESS, "access is revoked");
	TAP_OK(granted(3, CU_MEM_ACCESS_FLAGS_PROT_NONE), "from all");
	fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(!granted(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "and from new chunks");
	calls = fake.calls[FAKE_ACCESS];
	TAP_IS(gm_pool_grant(pool, 0), CUDA_SUCCESS, "the own device needs no grant");
	TAP_IS(gm_pool_revoke(pool, 4), CUDA_SUCCESS, "nor an unknown one a revocation");
	TAP_IS(fake.calls[FAKE_ACCESS], calls, "so nothing is done");
	fake.fail[FAKE_ACCESS] = 2;
	fake.with = CUDA_ERROR_INVALID_DEVICE;
	TAP_IS(gm_pool_grant(pool, 4), CUDA_ERROR_INVALID_DEVICE, "a grant may fail halfway");
	TAP_OK(granted(4, CU_MEM_ACCESS_FLAGS_PROT_NONE), "and is then taken back");
	TAP_OK(fake_valid(pool), "valid");
	fake_end(pool, "peers");
}

static struct gm_pool *granting;

/* A peer comes while the chunks of a loan are in nobody's list. */
static void grant_during_unmap(enum fake_call call)
{
	if (call != FAKE_UNMAP)
		return;
	fake.visit = NULL;
	gm_pool_grant(granting, 3);
}

/* A chunk that cannot be lent goes back to where it was, with the access that is granted now. */
static void brings_home(void)
{
	struct gm_pool *pool = granting = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, block.base, NULL, NULL);
	fake.visit = grant_during_unmap;
	fake.fail[FAKE_MAP] = 1;
	TAP_IS(gm_pool_lend(pool, AT, 32 * GM_MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "a loan that the driver does not map");
	TAP_OK(!fake.visit && fake_stats(pool).idle == 32 * GM_MIB, "its chunk is idle again");
	TAP_OK(granted(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
	       "and open to the peer that came meanwhile");
	TAP_OK(fake_valid(pool), "valid");
	fake_end(pool, "brought home");
}

int main(void)
{
	lends();
	lends_at_the_limit();
	pins();
	opens_to_peers();
	brings_home();
	return tap_done();
}
