/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's figure of free device memory, read together with the figures of the pool: their sum
 * is the memory in no block, even while memory is being mapped, moved or released.
 */
#include "pool_fake.h"

#define MEMORY (512 * GM_MIB)
#define AT ((CUdeviceptr)1 << 46)

static struct gm_pool *pool;
static unsigned asked, looks, wrong;
static uint64_t expected;    /* memory in no block */
static void (*during)(void); /* called at the first question */

static CUresult ask(void *left)
{
	struct gm_null_totals totals;
	gm_null_totals(&totals);
	*(uint64_t *)left = MEMORY - totals.created;
	asked++;
	if (asked == 1 && during)
		during();
	return CUDA_SUCCESS;
}

static uint64_t spare(void)
{
	struct gm_pool_stats s;
	uint64_t left;
	gm_pool_stats_beside(pool, ask, &left, &s);
	return left + s.made - s.lent - s.handed_out;
}

static void look(enum fake_call call)
{
	if (call == FAKE_RESERVE)
		return;
	looks++;
	uint64_t got = spare();
	wrong += got != expected;
	if (got != expected)
		printf("# in %s: %llu MiB, not %llu\n", fake_names[call],
		       (unsigned long long)(got / GM_MIB), (unsigned long long)(expected / GM_MIB));
}

static void begin(void)
{
	pool = fake_pool(MEMORY, UINT64_MAX);
	asked = looks = wrong = 0;
	during = NULL;
	expected = MEMORY;
	fake.visit = look;
}

static void end(const char *name)
{
	fake.visit = NULL;
	TAP_OK(fake_valid(pool), "%s: the pool is valid", name);
	fake_end(pool, name);
}

static struct gm_block take(uint64_t size)
{
	struct gm_block block = fake_alloc(pool, size);
	expected -= block.base ? block.held : 0;
	return block;
}

static void give(const struct gm_block *block)
{
	gm_pool_free(pool, block->base, NULL, NULL);
	expected += block->held;
}

static void in_the_middle(void)
{
	begin();
	struct gm_block a = take(96 * GM_MIB), b = take(40 * GM_MIB), c = take(96 * GM_MIB);
	TAP_OK(looks >= 9 && wrong == 0, "the sum is right while memory is mapped: %u looks",
	       looks);
	give(&a);
	give(&c);
	looks = 0;
	struct gm_block d = take(350 * GM_MIB);
	TAP_OK(d.base && looks && wrong == 0,
	       "the sum is right while idle memory is moved: %u looks", looks);
	give(&d);
	looks = 0;
	TAP_IS(gm_pool_lend(pool, AT, 8 * GM_MIB), CUDA_SUCCESS, "memory is lent beside looks");
	expected -= 8 * GM_MIB;
	TAP_OK(looks && wrong == 0, "a loan is spare memory until it is mapped: %u looks", looks);
	give(&b);
	fake.visit = NULL;
	gm_pool_take_back(pool, AT, 8 * GM_MIB);
	fake.visit = look;
	expected += 8 * GM_MIB;
	looks = 0;
	gm_pool_give_back(pool, 0, true);
	TAP_OK(looks && wrong == 0, "the sum is right while memory is released: %u looks", looks);
	TAP_IS(spare(), MEMORY, "the sum is right after the release");
	end("in the middle");
}

static void while_failing(void)
{
	static const enum fake_call calls[] = {FAKE_CREATE, FAKE_MAP, FAKE_ACCESS, FAKE_UNMAP};
	begin();
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
		fake.fail[calls[i]] = 1;
		struct gm_block block = take(96 * GM_MIB);
		if (block.base)
			give(&block);
		gm_pool_give_back(pool, 0, true);
	}
	TAP_OK(looks && wrong == 0, "the sum is right while the driver refuses: %u looks", looks);
	end("while failing");
}

/* --- memory is mapped or released between the question and the figures --- */

static struct gm_block kept;

static void grow(void)
{
	kept = take(96 * GM_MIB);
}

static void shrink(void)
{
	gm_pool_give_back(pool, 0, true);
}

static void after_the_question(void)
{
	begin();
	fake.visit = NULL;
	during = grow;
	uint64_t got = spare();
	TAP_IS(got, MEMORY - kept.held, "memory comes after the driver was asked");
	TAP_IS(asked, 2, "the driver is asked again");
	give(&kept);
	asked = 0;
	during = shrink;
	TAP_IS(spare(), MEMORY, "the sum is right when memory is taken meanwhile");
	TAP_IS(asked, 2, "the driver is asked again when memory is taken meanwhile");
	end("after the question");
}

static unsigned questions;

/* Called at each question; after the last one the result must be accepted. */
static void again(void)
{
	questions++;
	asked = 0;
	grow();
	give(&kept);
	shrink();
}

static void at_every_question(void)
{
	begin();
	fake.visit = NULL;
	during = again;
	spare();
	TAP_OK(questions > 1 && questions < 100, "the questions end after %u", questions);
	end("at every question");
}

static CUresult refuse(void *left)
{
	*(uint64_t *)left = 0;
	return CUDA_ERROR_INVALID_CONTEXT;
}

static void refused(void)
{
	struct gm_pool_stats s;
	uint64_t left;
	begin();
	fake.visit = NULL;
	TAP_IS(gm_pool_stats_beside(pool, refuse, &left, &s), CUDA_ERROR_INVALID_CONTEXT,
	       "the driver's error is returned");
	end("refused");
}

int main(void)
{
	in_the_middle();
	while_failing();
	after_the_question();
	at_every_question();
	refused();
	return tap_done();
}
