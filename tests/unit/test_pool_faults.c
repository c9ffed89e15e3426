/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every driver call of every path fails in turn, with out of memory and with another error: the
 * pool stays valid, no memory leaks, and the same operation succeeds afterwards.
 */
#include "pool_fake.h"

#define LOAN ((CUdeviceptr)1 << 46)
#define PEER 5

/* Operations on a pool; each leaves it ready for a repetition. */
static void do_alloc(struct gm_pool *pool)
{
	struct gm_block block = fake_alloc(pool, 48 * GM_MIB);
	if (block.base)
		gm_pool_free(pool, block.base, NULL, NULL);
	gm_pool_give_back(pool, 0, false);
}

static void do_pieces(struct gm_pool *pool)
{
	fake.largest = 12 * GM_MIB;
	do_alloc(pool);
	fake.largest = 0;
}

/* Two idle chunks with a used one between them must make room for a longer chunk. */
static void do_exchange(struct gm_pool *pool)
{
	struct gm_block blocks[3], large;
	for (int i = 0; i < 3; i++)
		blocks[i] = fake_alloc(pool, 64 * GM_MIB);
	for (int i = 0; i < 3; i += 2)
		if (blocks[i].base)
			gm_pool_free(pool, blocks[i].base, NULL, NULL);
	large = fake_alloc(pool, 120 * GM_MIB);
	if (large.base)
		gm_pool_free(pool, large.base, NULL, NULL);
	if (blocks[1].base)
		gm_pool_free(pool, blocks[1].base, NULL, NULL);
	gm_pool_give_back(pool, 0, false);
}

static void do_lend(struct gm_pool *pool)
{
	struct gm_block block = fake_alloc(pool, 10 * GM_MIB);
	if (block.base)
		gm_pool_free(pool, block.base, NULL, NULL);
	if (gm_pool_lend(pool, LOAN, 40 * GM_MIB) == CUDA_SUCCESS) {
		/* A chunk that could not be unmapped stays lent; a second call takes it back. */
		if (gm_pool_take_back(pool, LOAN, 40 * GM_MIB) != CUDA_SUCCESS)
			gm_pool_take_back(pool, LOAN, 40 * GM_MIB);
	}
	gm_pool_give_back(pool, 0, false);
}

static void do_grant(struct gm_pool *pool)
{
	struct gm_block a = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_grant(pool, PEER);
	struct gm_block b = fake_alloc(pool, 32 * GM_MIB);
	if (gm_pool_revoke(pool, PEER) != CUDA_SUCCESS)
		gm_pool_revoke(pool, PEER);
	if (a.base)
		gm_pool_free(pool, a.base, NULL, NULL);
	if (b.base)
		gm_pool_free(pool, b.base, NULL, NULL);
	gm_pool_give_back(pool, 0, false);
}

static void free_some(struct gm_pool *pool, struct gm_block *blocks, unsigned from, unsigned step)
{
	for (unsigned i = from; i < 6; i += step) {
		if (blocks[i].base)
			gm_pool_free(pool, blocks[i].base, NULL, NULL);
		blocks[i].base = 0;
	}
}

/* Idle chunks are moved together, first with none to spare, then with new memory and after
 * releasing another one, while a peer has access and a loan is out. */
static void do_remap(struct gm_pool *pool)
{
	struct gm_block b[6];
	gm_pool_prewarm(pool, 10 * GM_MIB);
	for (unsigned i = 0; i < 6; i++)
		b[i] = fake_alloc(pool, (i % 2 ? 8 : 20) * GM_MIB);
	gm_pool_lend(pool, LOAN, 4 * GM_MIB);
	gm_pool_grant(pool, PEER);
	free_some(pool, b, 0, 2);
	b[0] = fake_alloc(pool, 40 * GM_MIB);
	gm_pool_free(pool, b[0].base, NULL, NULL);
	b[0] = fake_alloc(pool, 75 * GM_MIB);
	gm_pool_trim(pool, UINT64_MAX);
	b[2] = fake_alloc(pool, 30 * GM_MIB);
	free_some(pool, b, 0, 1);
	b[4] = fake_alloc(pool, 150 * GM_MIB);
	free_some(pool, b, 4, 6);
	if (gm_pool_take_back(pool, LOAN, 4 * GM_MIB) != CUDA_SUCCESS)
		gm_pool_take_back(pool, LOAN, 4 * GM_MIB);
	if (gm_pool_revoke(pool, PEER) != CUDA_SUCCESS)
		gm_pool_revoke(pool, PEER);
	gm_pool_give_back(pool, 0, false);
}

static const struct {
	const char *name;
	void (*act)(struct gm_pool *pool);
} acts[] = {
	{"alloc", do_alloc}, {"pieces", do_pieces}, {"exchange", do_exchange},
	{"lend", do_lend},   {"grant", do_grant},   {"remap", do_remap},
};

static const CUresult errors[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED,
				  CUDA_ERROR_UNKNOWN};

/* Run one operation with its nth call failing, and `more` mappings after that. False: it makes
 * fewer calls. */
static bool fail_one(size_t act, unsigned nth, unsigned more, CUresult with)
{
	struct gm_pool *pool = fake_pool(192 * GM_MIB, UINT64_MAX);
	struct gm_null_totals totals;
	fake.with = with;
	fake.fail_any = nth;
	fake.fail_more = more;
	acts[act].act(pool);
	bool failed = fake.fail_any == 0, valid = fake_valid(pool);
	fake.fail_any = fake.fail_more = 0;
	gm_pool_give_back(pool, 0, true);
	gm_null_totals(&totals);
	/* A handle that the driver refused to release is lost; all other memory is returned. */
	uint64_t lost = fake.unreleased ? totals.created : 0;
	bool clean = totals.mapped == 0 && totals.created == lost && fake_stats(pool).mapped == 0 &&
		     fake_stats(pool).lent == 0;
	acts[act].act(pool);
	bool again = fake_valid(pool);
	gm_pool_destroy(pool);
	gm_null_totals(&totals);
	clean = clean && totals.mapped == 0 && totals.created == lost && totals.reserved == 0;
	if (!failed || !valid || !clean || !again)
		TAP_OK(valid && clean && again, "%s: call %u, %s, answers %d", acts[act].name, nth,
		       failed ? fake_names[fake.failed] : "beyond the last", (int)with);
	return failed;
}

static CUresult no_addresses(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
			     unsigned long long flags)
{
	(void)address, (void)size, (void)alignment, (void)wish, (void)flags;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult no_vmm(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)attribute, (void)device;
	*value = 0;
	return CUDA_SUCCESS;
}

static void creation(void)
{
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {.driver = &fake_driver, .limit = UINT64_MAX};
	fake_open(GM_GIB);
	fake_driver.cuMemAddressReserve = no_addresses;
	TAP_IS(gm_pool_create(&config, &pool), CUDA_ERROR_OUT_OF_MEMORY,
	       "no pool is made without addresses");
	fake_open(GM_GIB);
	fake_driver.cuDeviceGetAttribute = no_vmm;
	TAP_IS(gm_pool_create(&config, &pool), CUDA_ERROR_NOT_SUPPORTED,
	       "no pool is made without virtual memory management");
	TAP_OK(!pool, "a refused pool is NULL");
}

int main(void)
{
	for (size_t act = 0; act < sizeof acts / sizeof *acts; act++)
		for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
			unsigned nth = 1;
			while (fail_one(act, nth, 0, errors[e]) && fail_one(act, nth, 1, errors[e]))
				nth++;
			TAP_OK(nth > 5, "%s: each of %u calls failed with %d", acts[act].name,
			       nth - 1, (int)errors[e]);
		}
	creation();
	return tap_done();
}
