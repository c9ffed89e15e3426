/* SPDX-License-Identifier: BSD-3-Clause */
/* gm_pool_is_valid finds each corruption, which is made, checked by name, and undone. */
#include "pool/internal.h"
#include "pool_fake.h"

static struct gm_pool *pool;

/* The pool is locked where its books are read. */
static struct gm_extent *extent_at(CUdeviceptr address)
{
	gm_pool_lock(pool);
	struct gm_extent *extent = gm_table_find(&pool->table, address);
	gm_pool_unlock(pool);
	return extent;
}

static void expect(const char *what)
{
	const char *why = NULL;
	TAP_OK(!gm_pool_is_valid(pool, &why), "a wrong value is noticed: %s", what);
	TAP_OK(why != NULL, "a wrong value has a reason: %s", why ? why : "");
}

/* Each field is changed by one step of its unit, and restored. */
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
	CORRUPT(gm_shelf_mine(pool)->handed_out, 512);
	CORRUPT(gm_shelf_mine(pool)->retired, 512);
	CORRUPT(pool->mapped, GM_POOL_GRANULE);
	CORRUPT(pool->lent, GM_POOL_GRANULE);
	CORRUPT(pool->made, GM_POOL_GRANULE);
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
	struct gm_extent *extent = extent_at(large->base);
	struct gm_extent *cut = extent_at(small->base);
	struct gm_slab *slab = GM_GET(cut->slab);
	CORRUPT(extent->piece.size, large->held);
	CORRUPT(extent->piece.held, 512);
	CORRUPT(extent->piece.seq, 1);
	CORRUPT(slab->n_free, 1);
	CORRUPT(slab->n_hot, 1);
	CORRUPT(slab->stamp, 1);
	CORRUPT(pool->extents.n_hot, 1);
	CORRUPT(pool->extents.hot.bytes, 512);
	CORRUPT(pool->stranded, 512);
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

/* Change a field for a moment; the pool must report exactly this corruption. */
#define WRONG(field, value, said)                                                      \
	do {                                                                           \
		const char *why = NULL;                                                \
		__typeof__(field) was = (field);                                       \
		(field) = (value);                                                     \
		gm_pool_is_valid(pool, &why);                                          \
		(field) = was;                                                         \
		TAP_STR(why ? why : "nothing", said, "a wrong " #field " is noticed"); \
	} while (0)

static void lists(const struct gm_block *large, const struct gm_block *small)
{
	struct gm_extent *first = extent_at(large->base);
	struct gm_extent *cut = extent_at(small->base);
	struct gm_slab *slab = GM_GET(cut->slab);
	struct gm_slab_class *class = &pool->slabs.classes[slab->class];
	WRONG(slab->extent, NULL, "a slab knows its extent");
	WRONG(slab->before, slab, "the list of slabs is linked both ways");
	WRONG(slab->class, slab->class + 1, "the list of slabs is linked both ways");
	WRONG(class->empty, slab, "one slab of a class at most is empty");
	WRONG(class->last, NULL, "the empty slab is listed last");
	while (first->before)
		first = first->before;
	WRONG(first->before, first, "an extent touches the one before it");
	WRONG(pool->chunks->access, pool->access + 1, "access has a generation that was");
	WRONG(pool->chunks->size, 0, "extents are mapped");
	WRONG(pool->chunks->after->before, NULL, "chunks are linked both ways");
	struct gm_shelf *mine = gm_shelf_mine(pool);
	WRONG(mine->limbo.used, 1, "bags are counted");
	WRONG(mine->limbo.sealed_n, 1, "bags are counted");
	WRONG(mine->limbo.bags[3].n, 1, "blocks in limbo are counted");
	WRONG(mine->limbo.bags[3].number, pool->seals + 1, "bags have a number that was");
	WRONG(pool->sealed, 1, "sealed bytes are counted");
	WRONG(pool->mapped_peak, 0, "peaks are not below what is");
	WRONG(pool->config.limit, pool->mapped - 1, "no more is mapped than the limit");
}

static void addresses(void)
{
	struct gm_range *range = &pool->range;
	struct gm_run low = {.base = range->base, .size = GM_POOL_GRANULE};
	WRONG(range->free->base, range->free->base + 512, "free addresses come in granules");
	WRONG(range->free->base, range->free->base + GM_POOL_GRANULE,
	      "free addresses lie in the range");
	WRONG(range->free->next, &low, "free addresses are sorted and joined");
}

/* The treap is ordered by length; takes the longest idle extent and another one. */
static void idle_extents(void)
{
	struct gm_extent *root = pool->extents.root;
	struct gm_extent *child = root->left ? root->left : root->right;
	if (!TAP_OK(child, "two extents are idle"))
		return;
	WRONG(child->priority, UINT32_MAX, "the treap of idle extents is a heap");
	struct gm_extent *left = root->left, *right = root->right;
	const char *why = NULL;
	root->left = right;
	root->right = left;
	gm_pool_is_valid(pool, &why);
	root->left = left;
	root->right = right;
	TAP_STR(why ? why : "nothing", "the treap of idle extents is in order",
		"exchanged sides of the treap are noticed");
}

/* `hole` and a slot are on this thread's shelf. */
static void shelves(const struct gm_block *hole)
{
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	struct gm_piece *piece = &extent_at(hole->base)->piece;
	if (!TAP_OK(shelf->n == 2 && shelf->n_row == 1 && shelf->row[0].piece == piece,
		    "freed blocks are on the shelf of their thread"))
		return;
	struct gm_bin *bin = &shelf->bins[gm_slab_class(3000)];
	struct gm_piece *slot = bin->first;
	WRONG(bin->first, NULL, "shelved blocks are counted");
	WRONG(bin->n, 2, "shelved blocks are counted");
	WRONG(shelf->n, 3, "shelved blocks are counted");
	WRONG(shelf->n_row, GM_SHELF_ROW + 1, "a shelf has its bounds");
	WRONG(shelf->row_bytes, 512, "shelved bytes are counted");
	WRONG(shelf->row[0].held, 512, "blocks on a shelf have the size of their place");
	WRONG(shelf->row[0].piece, slot, "blocks on a shelf have the size of their place");
	WRONG(piece->state, GM_RETIRED, "what is on a shelf is shelved");
	WRONG(slot->pinned, true, "what is on a shelf is shelved");
	struct gm_piece other = {.state = GM_SHELVED, .held = 512};
	WRONG(bin->first, &other, "blocks on a shelf have the size of their place");
	struct gm_piece newer = {.state = GM_SHELVED, .held = GM_GET(slot->held), .next = slot};
	slot->id = 1; /* the time of shelving */
	WRONG(bin->first, &newer, "shelved blocks are listed by age");
	slot->id = 0; /* the time of shelving */
	WRONG(shelf->most, (int64_t)shelf->requested - 1, "a shelf keeps to its allowance");
	WRONG(shelf->allowance, shelf->most - 1, "a shelf keeps to its allowance");
	WRONG(shelf->id, shelf->id_end + 1, "a shelf keeps to its ids");
	WRONG(pool->granted, pool->granted + 1, "allowances are counted");
	WRONG(pool->requested_peak, pool->requested - 1, "allowances do not reach beyond the peak");
	WRONG(shelf->handed_out, shelf->handed_out + 512,
	      "handed_out is the sum of sizes handed out");
	WRONG(shelf->requested, shelf->requested - 1, "requested is the sum of requested sizes");
	WRONG(shelf->live_blocks, shelf->live_blocks + 1, "live blocks are counted");
	/* Removed from the row without a change of any count. */
	struct gm_shelved was = shelf->row[0];
	shelf->n--;
	shelf->n_row--;
	shelf->row_bytes = 0;
	const char *why = NULL;
	gm_pool_is_valid(pool, &why);
	TAP_STR(why ? why : "nothing", "shelved blocks are on a shelf", "a block that got lost");
	shelf->n++;
	shelf->n_row++;
	shelf->row_bytes = was.held;
}

int main(void)
{
	pool = fake_pool(64 * GM_GIB, UINT64_MAX);
	gm_pool_prewarm(pool, 32 * GM_MIB);
	struct gm_block small = fake_alloc(pool, 700), large = fake_alloc(pool, 8 * GM_MIB);
	TAP_OK(fake_valid(pool), "a pool is valid at first");
	sums();
	pieces(&large, &small);
	struct gm_block huge = fake_alloc(pool, 64 * GM_MIB);
	struct gm_block hole = fake_alloc(pool, GM_MIB), after = fake_alloc(pool, GM_MIB);
	TAP_OK(huge.base && hole.base && after.base, "two chunks, and a hole in one");
	gm_pool_free(pool, hole.base, NULL, NULL);
	gm_pool_free(pool, fake_alloc(pool, 3000).base, NULL, NULL);
	lists(&large, &small);
	shelves(&hole);
	addresses();
	fake_stats(pool); /* empties the shelf */
	idle_extents();
	TAP_OK(fake_valid(pool), "a pool is valid at last");
	fake_end(pool, "corruption");
	return tap_done();
}
