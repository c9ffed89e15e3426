/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"
#include "pool/extent.h"

#include "base/size.h"

#include "../tap.h"

#define BASE ((CUdeviceptr)1 << 40)
#define KIB GM_KIB
#define MIB GM_MIB

static struct gm_table table;
static struct gm_extents extents;

static void add(uint64_t from, uint64_t length)
{
	gm_extents_promise(&extents);
	gm_extent_add(&extents, BASE + from, length);
}

static struct gm_extent *take(uint64_t length, uint64_t align)
{
	gm_extents_reserve(&extents, 2);
	struct gm_extent *extent = gm_extent_take(&extents, length, align);
	if (extent)
		gm_extent_use(&extents, extent, GM_LIVE, NULL);
	return extent;
}

static uint64_t at(const struct gm_extent *extent)
{
	return extent ? GM_GET(extent->piece.base) - BASE : UINT64_MAX;
}

static uint64_t longest(void)
{
	struct gm_extent *extent = gm_extent_longest(&extents);
	return extent ? GM_GET(extent->piece.held) : 0;
}

static void joins(void)
{
	add(0, 4 * MIB);
	add(8 * MIB, 4 * MIB);
	TAP_IS(extents.n_idle, 2, "memory mapped apart is two idle extents");
	add(4 * MIB, 4 * MIB);
	TAP_IS(extents.n_idle, 1, "memory mapped between two extents joins them");
	TAP_IS(longest(), 12 * MIB, "memory between two extents makes one of all");
	struct gm_extent *a = take(100 * KIB, 512), *b = take(5 * MIB, 512);
	TAP_OK(at(a) == 0 && at(b) == 100 * KIB, "blocks are cut from the front of an idle extent");
	TAP_OK(gm_table_find(&table, BASE) == a &&
		       gm_table_find(&table, BASE + 100 * KIB - 1) == a &&
		       gm_table_find(&table, BASE + 100 * KIB) == b &&
		       gm_table_find(&table, BASE + 3 * MIB) == b &&
		       gm_table_find(&table, BASE + 5 * MIB + 100 * KIB - 1) == b &&
		       !gm_table_find(&table, BASE + 5 * MIB + 100 * KIB),
	       "every address leads to its extent");
	gm_extent_give(&extents, a);
	TAP_IS(extents.n_idle, 2, "a gap before a used extent stays apart");
	gm_extent_give(&extents, b);
	TAP_IS(extents.n_idle, 1, "all extents are joined when the last one is freed");
	TAP_OK(!gm_table_find(&table, BASE + 3 * MIB), "no address of a joined extent is found");
}

static void fits_best(void)
{
	struct gm_extent *a = take(2 * MIB, 512), *b = take(MIB, 512), *c = take(3 * MIB, 512);
	struct gm_extent *d = take(MIB, 512);
	gm_extent_give(&extents, a);
	gm_extent_give(&extents, c);
	TAP_IS(extents.n_idle, 3, "gaps of 2, 3 and 5 MiB");
	a = take(2 * MIB + 512, 512);
	TAP_IS(at(a), 3 * MIB, "the shortest extent that is long enough is taken");
	c = take(2 * MIB, 2 * MIB);
	TAP_IS(at(c), 0, "the shortest aligned extent that is long enough is taken");
	struct gm_extent *e = take(2 * MIB, 2 * MIB);
	TAP_IS(at(e), 8 * MIB, "an aligned extent leaves a gap before it");
	TAP_OK(!gm_extents_check(&extents), "the treap is in order");
	TAP_OK(!take(6 * MIB, 512), "no gap is long enough for 6 MiB");
	struct gm_extent *all[] = {a, b, c, d, e};
	for (unsigned i = 0; i < 5; i++)
		gm_extent_give(&extents, all[i]);
	TAP_IS(longest(), 12 * MIB, "all extents are joined again");
}

static void unmaps(void)
{
	gm_extents_reserve(&extents, 1);
	struct gm_extent *rest = gm_extent_remove(&extents, extents.root, BASE + 4 * MIB, 4 * MIB);
	TAP_OK(rest && at(rest) == 8 * MIB && extents.n_idle == 2, "a piece is taken out");
	TAP_OK(!rest->before && !rest->after, "nothing touches across the hole");
	gm_extents_reserve(&extents, 1);
	TAP_OK(!gm_extent_remove(&extents, rest, BASE + 8 * MIB, 4 * MIB),
	       "the last piece of an extent is taken out");
	/* A short idle end before an unmapped piece; later that piece is mapped. */
	struct gm_extent *a = take(4 * MIB - 512, 512);
	TAP_IS(longest(), 512, "a short gap is left");
	add(4 * MIB, 4 * MIB);
	TAP_IS(longest(), 4 * MIB + 512, "a short extent joins memory mapped behind it");
	struct gm_extent *b = take(4 * MIB - 1024, 512);
	gm_extent_give(&extents, a);
	gm_extents_reserve(&extents, 1);
	gm_extent_remove(&extents, gm_extent_longest(&extents), BASE, 4 * MIB - 512);
	add(0, 4 * MIB - 512);
	TAP_IS(longest(), 4 * MIB - 512, "a short gap before a used extent is found");
	gm_extent_give(&extents, b);
	TAP_OK(extents.n_idle == 1 && !gm_extents_check(&extents),
	       "all memory is one extent again");
}

int main(void)
{
	struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_POOL); /* as if of the pool */
	gm_lock_take(&lock);
	TAP_OK(gm_table_open(&table, BASE, 64 * MIB), "a table for 64 MiB");
	gm_extents_open(&extents, &table);
	joins();
	fits_best();
	unmaps();
	gm_extents_close(&extents);
	gm_table_close(&table);
	return tap_done();
}
