/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/range.h"

#include "pool_fake.h"

static struct gm_range range;

static void opens(void)
{
	fake_open(GM_GIB);
	TAP_IS(gm_range_open(&range, &fake_driver, 64 * GM_MIB, 8 * GM_MIB), CUDA_SUCCESS,
	       "a range is reserved");
	TAP_IS(range.size, 64 * GM_MIB, "a range has the wanted size");
	gm_range_close(&range, &fake_driver);
	fake.fail[FAKE_RESERVE] = 1;
	TAP_IS(gm_range_open(&range, &fake_driver, 64 * GM_MIB, 8 * GM_MIB), CUDA_SUCCESS,
	       "a refused range is tried again");
	TAP_IS(range.size, 32 * GM_MIB, "a range half as long is taken after a refusal");
	gm_range_close(&range, &fake_driver);
	fake.fail[FAKE_RESERVE] = 1;
	TAP_IS(gm_range_open(&range, &fake_driver, 64 * GM_MIB, 64 * GM_MIB),
	       CUDA_ERROR_OUT_OF_MEMORY, "a range below the least size is refused");
	TAP_OK(!range.free && !range.size, "a refused range holds no addresses");
}

static void hands_out(void)
{
	gm_range_open(&range, &fake_driver, 64 * GM_MIB, 64 * GM_MIB);
	struct gm_run *a = gm_range_take(&range, 8 * GM_MIB);
	struct gm_run *b = gm_range_take(&range, 16 * GM_MIB);
	struct gm_run *c = gm_range_take(&range, 40 * GM_MIB);
	TAP_OK(a->base == range.base && b->base == a->base + a->size &&
		       c->base == b->base + b->size,
	       "runs are taken side by side from the bottom");
	TAP_OK(!gm_range_take(&range, 2 * GM_MIB), "a full range has none left");
	TAP_OK(!gm_range_check(&range), "a full range is valid");
	gm_range_put(&range, b);
	TAP_OK(!gm_range_take(&range, 18 * GM_MIB), "a gap is only as long as it is");
	b = gm_range_take(&range, 16 * GM_MIB);
	TAP_OK(b && b->base == range.base + 8 * GM_MIB, "a freed gap is taken again");
	struct gm_run *rest = gm_range_cut(b, 6 * GM_MIB);
	TAP_OK(b->size == 6 * GM_MIB && rest->size == 10 * GM_MIB &&
		       rest->base == b->base + b->size,
	       "a taken run is cut in two");
	gm_range_put(&range, a);
	gm_range_put(&range, rest);
	TAP_OK(!gm_range_check(&range), "two gaps are valid");
	gm_range_put(&range, b);
	TAP_OK(range.free->size == 24 * GM_MIB && !range.free->next, "three gaps join into one");
	gm_range_put(&range, c);
	TAP_OK(range.free->size == range.size && !range.taken, "all gaps join the whole range");
	TAP_OK(!gm_range_check(&range), "the whole range is valid");
	range.free->size -= 2 * GM_MIB;
	TAP_OK(gm_range_check(&range), "lost addresses are noticed");
	gm_range_close(&range, &fake_driver);
}

int main(void)
{
	opens();
	hands_out();
	return tap_done();
}
