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
	TAP_OK(stats.lent == 4 * GM_MIB && stats.mapped == 0,
	       "lent memory does not count as mapped");
	struct gm_block block = fake_alloc(pool, 20 * GM_MIB);
	gm_pool_free(pool, block.base, NULL, NULL);
	unsigned created = fake.calls[FAKE_CREATE];
	TAP_IS(gm_pool_lend(pool, AT + GM_GIB, 40 * GM_MIB), CUDA_SUCCESS,
	       "a loan of 40 MiB succeeds");
	TAP_IS(fake.calls[FAKE_CREATE], created + 1,
	       "a loan moves the idle chunk, and makes one more");
	stats = fake_stats(pool);
	TAP_OK(stats.lent == 44 * GM_MIB && stats.mapped == 0, "44 MiB are lent");
	TAP_IS(driver_mapped(), 44 * GM_MIB, "the driver has the lent memory mapped");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_IS(gm_pool_take_back(pool, AT, 2 * GM_MIB), CUDA_ERROR_INVALID_VALUE,
	       "half a loan is not taken back");
	TAP_IS(gm_pool_take_back(pool, AT + GM_GIB, 40 * GM_MIB), CUDA_SUCCESS,
	       "a whole loan is taken back");
	TAP_IS(gm_pool_take_back(pool, AT + GM_GIB, 40 * GM_MIB), CUDA_ERROR_INVALID_VALUE,
	       "a loan is returned once");
	stats = fake_stats(pool);
	TAP_OK(stats.lent == 4 * GM_MIB && stats.idle == 40 * GM_MIB, "returned memory is idle");
	TAP_OK(fake_alloc(pool, 40 * GM_MIB).base && fake_stats(pool).mapped == 40 * GM_MIB,
	       "returned memory serves a block across its chunks");
	TAP_IS(gm_pool_lend(pool, AT + GM_GIB, 158 * GM_MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "the limit holds for loans");
	TAP_IS(gm_pool_lend(pool, AT + GM_GIB, 3 * GM_MIB), CUDA_ERROR_INVALID_VALUE,
	       "a loan comes in granules");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "loans");
}

static void lends_at_the_limit(void)
{
	struct gm_pool *pool = fake_pool(32 * GM_MIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, block.base, NULL, NULL);
	TAP_IS(gm_pool_lend(pool, AT, 2 * GM_MIB), CUDA_SUCCESS,
	       "a chunk that is too long is exchanged for a short one");
	TAP_OK(fake_stats(pool).mapped == 0 && fake_stats(pool).lent == 2 * GM_MIB,
	       "the short chunk alone is mapped");
	TAP_OK(fake_valid(pool), "the pool is valid");
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
	TAP_IS(gm_pool_pin(pool, other.base + 10, 5), CUDA_SUCCESS, "a block is pinned twice");
	TAP_IS(gm_pool_pin(pool, other.base, 4096), CUDA_ERROR_INVALID_VALUE,
	       "no more than the block is pinned");
	TAP_IS(gm_pool_pin(pool, block.base + 63 * GM_MIB, 1), CUDA_ERROR_INVALID_VALUE,
	       "idle memory cannot be pinned");
	TAP_IS(fake_stats(pool).pinned, 64 * GM_MIB, "the chunk of a pinned block is pinned");
	TAP_OK(fake_valid(pool), "the pool is valid");
	gm_pool_free(pool, other.base, NULL, NULL);
	TAP_IS(fake_stats(pool).pinned, 0, "a pin ends with its block");
	TAP_OK(fake_valid(pool), "the pool is valid");
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
	TAP_IS(fake.calls[FAKE_ACCESS], calls + 2, "a grant opens both chunks");
	TAP_OK(granted(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "a grant is for reads and writes");
	TAP_IS(gm_pool_grant(pool, 3), CUDA_SUCCESS, "a second grant succeeds");
	TAP_IS(fake.calls[FAKE_ACCESS], calls + 2, "a second grant makes no driver call");
	fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(granted(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) &&
		       granted(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
	       "a new chunk is open to its device and the peer");
	TAP_IS(gm_pool_revoke(pool, 3), CUDA_SUCCESS, "a peer's access is revoked");
	TAP_OK(granted(3, CU_MEM_ACCESS_FLAGS_PROT_NONE), "a revocation closes all chunks");
	fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(!granted(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
	       "new chunks are closed after a revocation");
	calls = fake.calls[FAKE_ACCESS];
	TAP_IS(gm_pool_grant(pool, 0), CUDA_SUCCESS, "the own device needs no grant");
	TAP_IS(gm_pool_revoke(pool, 4), CUDA_SUCCESS, "the revocation of an unknown peer succeeds");
	TAP_IS(fake.calls[FAKE_ACCESS], calls,
	       "grants of the own device and revocations make no driver call");
	fake.fail[FAKE_ACCESS] = 2;
	fake.with = CUDA_ERROR_INVALID_DEVICE;
	TAP_IS(gm_pool_grant(pool, 4), CUDA_ERROR_INVALID_DEVICE, "a grant may fail halfway");
	TAP_OK(granted(4, CU_MEM_ACCESS_FLAGS_PROT_NONE), "a grant that fails halfway is undone");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "peers");
}

static struct gm_pool *granting;

/* A peer is granted access while the chunks of a loan are in no list. */
static void grant_during_unmap(enum fake_call call)
{
	if (call != FAKE_UNMAP)
		return;
	fake.visit = NULL;
	gm_pool_grant(granting, 3);
}

/* A chunk that cannot be lent returns to its place, with the access granted by then. */
static void brings_home(void)
{
	struct gm_pool *pool = granting = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, block.base, NULL, NULL);
	fake.visit = grant_during_unmap;
	fake.fail[FAKE_MAP] = 1;
	TAP_IS(gm_pool_lend(pool, AT, 32 * GM_MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "a loan that the driver does not map fails");
	TAP_OK(!fake.visit && fake_stats(pool).idle == 32 * GM_MIB,
	       "the chunk of a failed loan is idle again");
	TAP_OK(granted(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
	       "the chunk is open to the peer granted meanwhile");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "brought home");
}

/* --- spare loans --- */

static uint64_t fake_now = 1;
static _Atomic uint64_t spare;
static struct gm_pool *sparing;
static CUresult kept;
static uint64_t spare_then;

static uint64_t fake_clock(void)
{
	return fake_now;
}

/* A pool that may map 200 MiB of 1 GiB; a spare loan holds 10 MiB. */
static struct gm_pool *spare_pool(void)
{
	struct gm_pool *pool = NULL;
	const struct gm_pool_config config = {
		.driver = &fake_driver, .limit = 200 * GM_MIB, .clock = fake_clock};
	fake_open(GM_GIB);
	atomic_store(&spare, 0);
	TAP_IS(gm_pool_create(&config, &pool), CUDA_SUCCESS, "a pool with a clock is made");
	TAP_IS(gm_pool_to_spare(pool), 12 * GM_MIB, "a sixteenth of the pool is to spare");
	TAP_IS(gm_pool_lend_spare(pool, AT, 10 * GM_MIB, &spare), CUDA_SUCCESS, "10 MiB are lent");
	TAP_OK(atomic_load(&spare) == 10 * GM_MIB && fake_stats(pool).spare == 10 * GM_MIB &&
		       fake_stats(pool).lent == 10 * GM_MIB,
	       "the loan is counted as spare");
	TAP_OK(fake_valid(pool), "the pool is valid");
	return sparing = pool;
}

static void spares_little(void)
{
	struct gm_pool *pool = spare_pool();
	_Atomic uint64_t other = 0;
	TAP_IS(gm_pool_to_spare(pool), 2 * GM_MIB, "the share holds for all spare loans");
	TAP_IS(gm_pool_lend_spare(pool, AT + GM_GIB, 4 * GM_MIB, &other), CUDA_ERROR_OUT_OF_MEMORY,
	       "a second spare loan gets no more than the rest of the share");
	struct gm_block block = fake_alloc(pool, 188 * GM_MIB);
	unsigned created = fake.calls[FAKE_CREATE];
	TAP_IS(gm_pool_to_spare(pool), 0, "no spare loan if as much again could not be mapped");
	gm_pool_free(pool, block.base, NULL, NULL);
	TAP_IS(gm_pool_lend_spare(pool, AT + GM_GIB, 2 * GM_MIB, &other), CUDA_ERROR_OUT_OF_MEMORY,
	       "idle memory is not lent as spare");
	TAP_IS(fake.calls[FAKE_CREATE], created, "a refused spare loan makes no driver call");
	TAP_OK(atomic_load(&other) == 0 && atomic_load(&spare) == 10 * GM_MIB,
	       "existing spare loans do not change");
	TAP_IS(gm_pool_take_back(pool, AT, 10 * GM_MIB), CUDA_SUCCESS,
	       "the borrower gives the spare loan back");
	TAP_OK(atomic_load(&spare) == 0 && fake_stats(pool).lent == 0,
	       "no spare loan remains after the return");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "to spare");
}

static void recalls(void)
{
	struct gm_pool *pool = spare_pool();
	fake_alloc(pool, 190 * GM_MIB);
	TAP_IS(atomic_load(&spare), 10 * GM_MIB, "the loan stays while memory suffices");
	TAP_OK(fake_alloc(pool, 4 * GM_MIB).base,
	       "an allocation that lacks memory gets the spare loan");
	TAP_OK(atomic_load(&spare) == 0 && fake_stats(pool).lent == 0,
	       "the borrower is told of the recall");
	TAP_IS(gm_pool_keep(pool, AT, 10 * GM_MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "a recalled loan cannot be kept");
	TAP_IS(gm_pool_take_back(pool, AT, 10 * GM_MIB), CUDA_ERROR_INVALID_VALUE,
	       "a recalled loan cannot be returned");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "recall");

	pool = spare_pool();
	TAP_IS(gm_pool_lend(pool, AT + GM_GIB, 192 * GM_MIB), CUDA_SUCCESS,
	       "a loan that lacks memory gets the spare loan");
	TAP_OK(atomic_load(&spare) == 0 && fake_stats(pool).lent == 192 * GM_MIB,
	       "a loan takes all of the spare loan");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "recall for a loan");

	pool = spare_pool();
	TAP_IS(gm_pool_give_back(pool, 0, false), 0,
	       "a release without need leaves the spare loan");
	TAP_IS(gm_pool_give_back(pool, 0, true), 10 * GM_MIB,
	       "a release in need takes the spare loan");
	TAP_IS(driver_mapped(), 0, "the driver has the memory of the recalled loan");
	TAP_IS(gm_pool_to_spare(pool), 0, "no memory is to spare right after a recall");
	fake_now += 999999999;
	TAP_IS(gm_pool_to_spare(pool), 0, "no spare loan is made soon after a lack of memory");
	fake_now++;
	TAP_IS(gm_pool_to_spare(pool), 12 * GM_MIB, "spare loans are made again a second later");
	fake_end(pool, "recall for the driver");
}

static void keeps(void)
{
	struct gm_pool *pool = spare_pool();
	TAP_IS(gm_pool_keep(pool, AT, 8 * GM_MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "a spare loan is not kept in part");
	TAP_IS(gm_pool_keep(pool, AT, 10 * GM_MIB), CUDA_SUCCESS, "the loan is kept");
	TAP_OK(atomic_load(&spare) == 0 && fake_stats(pool).spare == 0 &&
		       fake_stats(pool).lent == 10 * GM_MIB,
	       "a kept loan is lent, and not spare");
	struct gm_block block;
	TAP_IS(gm_pool_alloc(pool, 192 * GM_MIB, 1, &block), CUDA_ERROR_OUT_OF_MEMORY,
	       "no allocation gets the kept memory");
	TAP_IS(gm_pool_keep(pool, AT, 10 * GM_MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "a loan is kept once");
	TAP_IS(gm_pool_take_back(pool, AT, 10 * GM_MIB), CUDA_SUCCESS,
	       "a kept loan is returned as any loan");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "keep");
}

static void keep_during_unmap(enum fake_call call)
{
	if (call != FAKE_UNMAP)
		return;
	fake.visit = NULL;
	kept = gm_pool_keep(sparing, AT, 10 * GM_MIB);
	spare_then = atomic_load(&spare);
}

static void recalls_once(void)
{
	struct gm_pool *pool = spare_pool();
	fake.visit = keep_during_unmap;
	TAP_OK(fake_alloc(pool, 192 * GM_MIB).base, "an allocation recalls memory");
	TAP_IS(kept, CUDA_ERROR_OUT_OF_MEMORY, "a loan cannot be kept during its recall");
	TAP_IS(spare_then, 10 * GM_MIB, "the addresses of a loan are in use during its recall");
	TAP_IS(atomic_load(&spare), 0, "the addresses of a loan are free after its recall");
	fake_end(pool, "recall in progress");

	struct gm_block block;
	pool = spare_pool();
	fake_alloc(pool, 190 * GM_MIB);
	fake.fail[FAKE_UNMAP] = 1;
	TAP_IS(gm_pool_alloc(pool, 4 * GM_MIB, 1, &block), CUDA_ERROR_OUT_OF_MEMORY,
	       "an allocation fails where the driver does not unmap the loan");
	TAP_IS(atomic_load(&spare), 10 * GM_MIB, "a loan that the driver does not unmap stays");
	unsigned calls = fake.calls[FAKE_UNMAP];
	TAP_IS(gm_pool_alloc(pool, 4 * GM_MIB, 1, &block), CUDA_ERROR_OUT_OF_MEMORY,
	       "a failed recall is not tried again");
	TAP_IS(fake.calls[FAKE_UNMAP], calls,
	       "an allocation that lacks memory does not unmap the loan again");
	TAP_IS(gm_pool_take_back(pool, AT, 10 * GM_MIB), CUDA_SUCCESS,
	       "the borrower's take-back succeeds");
	TAP_IS(atomic_load(&spare), 0, "no spare loan remains");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "stuck");
}

int main(void)
{
	spares_little();
	recalls();
	keeps();
	recalls_once();
	lends();
	lends_at_the_limit();
	pins();
	opens_to_peers();
	brings_home();
	return tap_done();
}
