/* SPDX-License-Identifier: BSD-3-Clause */
/* gm_pool_is_valid notices what is wrong: each corruption is done, named, and undone. */
#include "pool/internal.h"
#include "pool_fake.h"

static struct gm_pool *pool;

static void expect(const char *what)
{
	const char *why = NULL;
	TAP_OK(!gm_pool_is_valid(pool, &why), "noticed: %s", what);
	TAP_OK(why != NULL, "as: %s", why ? why : "");
}

/* Each field is changed by one step of its unit, and back. */
#define CORRUPT(field, by)       \
	do {                     \
		(field) += (by); \
		expect(#field);  \
		(field) -= (by); \
	} while (0)

static void sums(void)
{
	CORRUPT(pool->requested, 1);
	CORRUPT(pool->handed_out, 512);
	CORRUPT(pool->idle, 512);
	CORRUPT(pool->retired, 512);
	CORRUPT(pool->mapped, GM_POOL_GRANULE);
	CORRUPT(pool->lent, GM_POOL_GRANULE);
	CORRUPT(pool->live_blocks, 1);
	CORRUPT(pool->n_chunks, 1);
	CORRUPT(pool->range.taken, GM_POOL_GRANULE);
	CORRUPT(pool->extents.n_idle, 1);
	CORRUPT(pool->extents.idle_histogram[20], 1);
	CORRUPT(pool->extents.idle_bytes[20], 512);
	CORRUPT(pool->chunks->used, 512);
	CORRUPT(pool->chunks->pins, 1);
	CORRUPT(pool->chunks->run->size, GM_POOL_GRANULE);
}

static void pieces(const struct gm_block *large, const struct gm_block *small)
{
	struct gm_extent *extent = gm_table_find(&pool->table, large->base);
	struct gm_extent *cut = gm_table_find(&pool->table, small->base);
	struct gm_slab *slab = GM_GET(cut->slab);
	CORRUPT(extent->piece.size, large->held);
	CORRUPT(extent->piece.held, 512);
	CORRUPT(extent->piece.seq, 1);
	CORRUPT(slab->n_free, 1);
	CORRUPT(slab->slots[0].base, 512);
	slab->free[0] ^= 1;
	expect("a used slot marked free");
	slab->free[0] ^= 1;
	slab->free[0] ^= 2;
	expect("a free slot marked used");
	slab->free[0] ^= 2;
	struct gm_extent *after = extent->after;
	extent->after = NULL;
	expect("a lost neighbour");
	extent->after = after;
	struct gm_extent *root = pool->extents.root;
	pool->extents.root = root->left;
	expect("a lost idle extent");
	pool->extents.root = root;
	uint64_t index = (large->base - pool->table.base) >> (GM_TABLE_SHIFT + GM_TABLE_FAN);
	_Atomic(struct gm_extent *) *entry = &pool->table.level[1][index + 2];
	*entry = NULL;
	expect("a lost entry of the table");
	*entry = extent;
	struct gm_chunk **of =
		&pool->chunk_of[(large->base - pool->range.base) / GM_POOL_GRANULE + 1];
	struct gm_chunk *chunk = *of;
	*of = NULL;
	expect("a lost entry of the chunks");
	*of = chunk;
}

int main(void)
{
	pool = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block small = fake_alloc(pool, 700), large = fake_alloc(pool, 8 * GM_MIB);
	TAP_OK(fake_valid(pool), "valid at first");
	sums();
	pieces(&large, &small);
	TAP_OK(fake_valid(pool), "valid at last");
	fake_end(pool, "corruption");
	return tap_done();
}
