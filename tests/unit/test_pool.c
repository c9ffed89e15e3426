/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread and a pool: sizes, look-ups, growth, limits, return of memory, figures. */
#include "pool/grow.h"
#include "pool/internal.h"
#include "pool_fake.h"

static void serves(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block block = {0}, found;
	TAP_OK(pool != NULL, "a pool is made");
	TAP_IS(fake.calls[FAKE_CREATE], 0, "a new pool maps no memory");
	TAP_IS(gm_pool_alloc(pool, 1000, 7, &block), CUDA_SUCCESS, "1000 bytes are served");
	TAP_OK(block.size == 1000 && block.held == 1024 && block.context == 7 && block.live,
	       "a block has the requested size, in steps of 512");
	TAP_IS(block.base % 512, 0, "a block is aligned to 512 bytes");
	TAP_IS(fake_stats(pool).mapped, 2 * GM_MIB, "the first chunk has 2 MiB");
	TAP_OK(fake.prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
		       fake.prop.allocFlags.gpuDirectRDMACapable == 1,
	       "a chunk can be exported and is RDMA-capable");
	TAP_OK(gm_pool_find(pool, block.base + 999, &found) && found.id == block.id && found.live,
	       "the last byte of a block is found");
	TAP_OK(gm_pool_find(pool, block.base + 1024, &found) && !found.live,
	       "the byte after a block belongs to no block");
	TAP_OK(!gm_pool_find(pool, 4096, &found), "an address outside is not found");
	TAP_IS(gm_pool_free(pool, block.base + 512, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "an inner address is not freed");
	TAP_IS(gm_pool_free(pool, block.base, NULL, &found), CUDA_SUCCESS, "a block is freed");
	TAP_OK(found.id == block.id && found.size == 1000, "a free describes its block");
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a second free fails");
	TAP_OK(gm_pool_find(pool, block.base, &found) && !found.live, "a freed block is not found");
	TAP_IS(gm_pool_alloc(pool, 0, 1, &block), CUDA_ERROR_INVALID_VALUE, "0 bytes are refused");
	TAP_IS(gm_pool_alloc(pool, SIZE_MAX, 1, &block), CUDA_ERROR_OUT_OF_MEMORY,
	       "SIZE_MAX is out of memory");
	fake_end(pool, "first steps");
}

static void rounds(void)
{
	static const struct {
		uint64_t size, held, align;
	} cases[] = {
		{1, 512, 512},
		{513, 1024, 512},
		{64 * GM_KIB, 64 * GM_KIB, 512},
		{64 * GM_KIB + 1, 64 * GM_KIB + 512, 512},
		{1000000, 1000448, 512},
		{GM_MIB - 1, GM_MIB, 512},
		{GM_MIB, GM_MIB, 512},
		{GM_MIB + 1, GM_MIB + 64 * GM_KIB, 512},
		{2 * GM_MIB, 2 * GM_MIB, 2 * GM_MIB},
		{3 * GM_MIB, 3 * GM_MIB, 512},
		{6 * GM_MIB - 100, 6 * GM_MIB, 2 * GM_MIB},
		{8 * GM_MIB - 64 * GM_KIB, 8 * GM_MIB - 64 * GM_KIB, 512},
		{8 * GM_MIB + 1, 8 * GM_MIB + 64 * GM_KIB, 2 * GM_MIB},
		{64 * GM_MIB - 1, 64 * GM_MIB, 2 * GM_MIB},
		{64 * GM_MIB, 64 * GM_MIB, 2 * GM_MIB},
		{100 * GM_MIB + 1, 100 * GM_MIB + 64 * GM_KIB, 2 * GM_MIB},
	};
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct gm_block block = fake_alloc(pool, cases[i].size);
		TAP_IS(block.held, cases[i].held, "bytes held for %" PRIu64 " bytes",
		       cases[i].size);
		TAP_OK(block.base && block.base % cases[i].align == 0,
		       "a block is aligned to %" PRIu64, cases[i].align);
	}
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "sizes");
}

static void grows(void)
{
	struct gm_pool *pool = fake_pool(64 * GM_GIB, UINT64_MAX);
	struct gm_block a = fake_alloc(pool, 100 * GM_MIB + 1);
	TAP_IS(fake_stats(pool).mapped, 102 * GM_MIB, "a large need is one handle, rounded up");
	TAP_IS(fake.calls[FAKE_CREATE], 1, "a large request makes exactly one handle");
	fake_alloc(pool, 2 * GM_MIB);
	TAP_IS(fake_stats(pool).chunks, 2, "a second block makes another chunk");
	gm_pool_free(pool, a.base, NULL, NULL);
	struct gm_block b = fake_alloc(pool, 100 * GM_MIB);
	TAP_OK(b.base == a.base && fake_stats(pool).chunks == 2, "no chunk is made after a free");
	fake_end(pool, "growth");

	pool = fake_pool(64 * GM_GIB, UINT64_MAX);
	fake.largest = 8 * GM_MIB;
	for (unsigned i = 0; i < 8; i++)
		fake_alloc(pool, 2 * GM_MIB);
	TAP_OK(fake_alloc(pool, 1).base, "a device that refuses 16 MiB gives less");
	TAP_IS(fake_stats(pool).mapped, 18 * GM_MIB,
	       "a refused growth is replaced by the exact size");
	TAP_OK(fake_alloc(pool, 100 * GM_MIB).base, "a large need comes in pieces side by side");
	TAP_IS(fake_stats(pool).chunks, 22, "pieces are as long as the device allows");
	TAP_OK(!fake_alloc(pool, 200 * GM_MIB).base, "the number of pieces is bounded");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "pieces");

	pool = fake_pool(64 * GM_GIB, UINT64_MAX);
	fake.refuse_exportable = true;
	TAP_OK(fake_alloc(pool, 1).base, "handles that must not be exported are made plain");
	unsigned calls = fake.calls[FAKE_CREATE];
	fake_alloc(pool, 60 * GM_MIB);
	TAP_IS(fake.calls[FAKE_CREATE], calls + 1, "later handles are requested plain at once");
	fake_end(pool, "plain handles");
}

static struct gm_pool *growing;

/* Another thread's growth, in the middle of the first one. */
static void grow_beside(enum fake_call call)
{
	if (call != FAKE_CREATE)
		return;
	fake.visit = NULL;
	fake_alloc(growing, GM_MIB);
}

/* Small blocks double the pool, up to 32 MiB at a time. A handle has 1/128 of the memory at most,
 * times the square of the part that is left, in steps of 32 MiB, 32 to 512. */
static void grows_by(void)
{
	static const uint64_t lengths[] = {512, 280, 128, 32, 32, 32, 32};
	static const uint64_t left[] = {64, 48, 32, 16, 8, 4, 1}; /* GiB */
	struct gm_pool *pool = fake_pool(64 * GM_GIB, UINT64_MAX);
	uint64_t doubled = 0;
	for (uint64_t mapped = 0; mapped < 96 * GM_MIB; mapped = fake_stats(pool).mapped) {
		uint64_t by = mapped < 2 * GM_MIB ? 2 * GM_MIB : mapped;
		by = by < 32 * GM_MIB ? by : 32 * GM_MIB;
		while (fake_stats(pool).mapped == mapped)
			fake_alloc(pool, GM_MIB);
		doubled += fake_stats(pool).mapped == mapped + by;
	}
	TAP_IS(doubled, 7, "growths are of 2, 2, 4, 8, 16, 32, 32 MiB");
	fake_end(pool, "doubling");

	pool = growing = fake_pool(64 * GM_GIB, UINT64_MAX);
	fake.visit = grow_beside;
	fake_alloc(pool, GM_MIB);
	TAP_IS(fake_stats(pool).mapped, 4 * GM_MIB, "two threads at once make 2 MiB each");
	fake_end(pool, "growing twice");

	for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
		pool = fake_pool(64 * GM_GIB, UINT64_MAX);
		gm_pool_prewarm(pool, (64 - left[i]) * GM_GIB);
		gm_pool_lock(pool);
		uint64_t piece = gm_pool_piece(pool, 6 * GM_GIB);
		gm_pool_unlock(pool);
		TAP_IS(piece, lengths[i] * GM_MIB, "size of a handle with %" PRIu64 " GiB left",
		       left[i]);
		fake_end(pool, "handles");
	}
}

static void joins_chunks(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block blocks[4];
	for (int i = 0; i < 4; i++)
		blocks[i] = fake_alloc(pool, 32 * GM_MIB);
	for (int i = 0; i < 4; i++)
		gm_pool_free(pool, blocks[i].base, NULL, NULL);
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_IS(stats.idle_extents, 1, "chunks mapped side by side are one idle extent");
	TAP_IS(stats.largest_idle, 128 * GM_MIB, "the idle extent has the size of all chunks");
	TAP_IS(stats.idle_histogram[27], 1, "the histogram has the idle extent");
	TAP_OK(fake_alloc(pool, 100 * GM_MIB).base, "a block lies across the borders of chunks");
	TAP_IS(fake_stats(pool).chunks, 4, "a block across borders needs no other chunk");
	stats = fake_stats(pool);
	TAP_IS(stats.unreclaimable, 28 * GM_MIB, "the rest of the last chunk is unreclaimable");
	TAP_IS(stats.largest_after_remap, 28 * GM_MIB, "the rest of the last chunk is usable");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "borders");
}

static void runs_out(void)
{
	struct gm_pool *pool = fake_pool(64 * GM_MIB, UINT64_MAX);
	struct gm_block blocks[80];
	unsigned n = 0, served;
	while (n < 80 && (blocks[n] = fake_alloc(pool, GM_MIB)).base)
		n++;
	TAP_IS(n, 64, "a device of 64 MiB holds 64 blocks of 1 MiB");
	TAP_OK(fake_valid(pool), "a full pool is valid");
	TAP_IS(fake_stats(pool).idle, 0, "a full pool has no idle memory");
	TAP_OK(!fake_alloc(pool, 1).base, "a full pool refuses one byte");
	gm_pool_free(pool, blocks[5].base, NULL, NULL);
	for (served = 0; served < 9; served++)
		blocks[64 + served] = fake_alloc(pool, 112 * GM_KIB);
	gm_pool_free(pool, blocks[64].base, NULL, NULL);
	gm_pool_free(pool, blocks[66].base, NULL, NULL);
	for (served = 0; fake_alloc(pool, 1000).base;)
		served++;
	TAP_IS(served, 2, "small blocks take extents where no slab fits");
	TAP_OK(fake_valid(pool), "the pool is valid");
	for (unsigned i = 0; i < n; i++)
		if (i != 5)
			gm_pool_free(pool, blocks[i].base, NULL, NULL);
	TAP_OK(!fake_alloc(pool, 64 * GM_MIB).base, "small blocks prevent a block of 64 MiB");
	TAP_OK(fake_alloc(pool, 58 * GM_MIB).base, "small blocks leave room for 58 MiB");
	fake_end(pool, "exhaustion");

	pool = fake_pool(96 * GM_MIB, UINT64_MAX);
	for (int i = 0; i < 3; i++)
		blocks[i] = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, blocks[0].base, NULL, NULL);
	gm_pool_free(pool, blocks[2].base, NULL, NULL);
	TAP_OK(!fake_alloc(pool, 65 * GM_MIB).base, "65 MiB do not fit beside 32 of 96");
	TAP_IS(fake.calls[FAKE_UNMAP], 0, "no chunk is released in vain");
	TAP_OK(fake_alloc(pool, 64 * GM_MIB).base, "64 MiB fit after idle chunks were exchanged");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "exchange");
}

static void keeps_the_limit(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, 40 * GM_MIB);
	struct gm_block a = fake_alloc(pool, 20 * GM_MIB);
	TAP_OK(a.base && fake_alloc(pool, 18 * GM_MIB).base, "40 MiB hold 20 and 18");
	TAP_IS(fake_stats(pool).mapped, 38 * GM_MIB, "the requested 38 MiB alone are mapped");
	TAP_OK(!fake_alloc(pool, 3 * GM_MIB).base, "3 MiB more are refused");
	TAP_OK(!fake_alloc(pool, 41 * GM_MIB).base, "41 MiB are refused");
	gm_pool_free(pool, a.base, NULL, NULL);
	TAP_OK(fake_alloc(pool, 20 * GM_MIB).base, "20 MiB fit again after a free");
	TAP_OK(fake_stats(pool).mapped_peak <= 40 * GM_MIB, "the limit was kept");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "limit");
}

/* Memory of the process outside of the pool counts against the limit, whichever comes first. */
static void shares_the_limit(void)
{
	static _Atomic uint64_t outside;
	struct gm_pool *pool = fake_pool(GM_GIB, 40 * GM_MIB);
	pool->config.outside = &outside;
	TAP_OK(gm_pool_outside_take(pool, 30 * GM_MIB), "30 of 40 MiB are taken outside");
	TAP_OK(!gm_pool_outside_take(pool, 10 * GM_MIB + 1), "10 MiB and a byte more are refused");
	TAP_IS(atomic_load(&outside), 30 * GM_MIB, "a refusal takes nothing");
	TAP_OK(!fake_alloc(pool, 12 * GM_MIB).base,
	       "12 MiB of the pool are refused beyond the limit");
	struct gm_block a = fake_alloc(pool, 10 * GM_MIB);
	TAP_OK(a.base, "10 MiB of the pool are served within the limit");
	TAP_OK(!gm_pool_outside_take(pool, 1), "no byte more is outside when the limit is reached");
	gm_pool_free(pool, a.base, NULL, NULL);
	TAP_OK(!gm_pool_outside_take(pool, 2 * GM_MIB),
	       "idle memory of the pool is not taken outside");
	gm_pool_give_back(pool, 0, true);
	TAP_OK(gm_pool_outside_take(pool, 10 * GM_MIB),
	       "memory that the pool gave back is taken outside");
	atomic_fetch_add(&outside, 20 * GM_MIB); /* what could not be refused */
	TAP_OK(!fake_alloc(pool, 2 * GM_MIB).base, "memory beyond the limit leaves the pool none");
	atomic_fetch_sub(&outside, 40 * GM_MIB);
	TAP_OK(fake_alloc(pool, 20 * GM_MIB).base, "memory given up outside is the pool's again");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "shared limit");
}

static void gives_back(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block blocks[6];
	for (int i = 0; i < 6; i++)
		blocks[i] = fake_alloc(pool, 32 * GM_MIB);
	for (int i = 0; i < 6; i++)
		if (i != 2)
			gm_pool_free(pool, blocks[i].base, NULL, NULL);
	TAP_IS(gm_pool_give_back(pool, 100 * GM_MIB, false), 64 * GM_MIB,
	       "chunks go until no more than 100 MiB are idle");
	TAP_IS(fake_stats(pool).idle, 96 * GM_MIB, "96 MiB stay idle");
	TAP_IS(gm_pool_give_back(pool, 0, true), 96 * GM_MIB, "a full release returns the rest");
	TAP_IS(fake_stats(pool).mapped, 32 * GM_MIB, "the chunk in use stays");
	TAP_OK(fake_valid(pool), "the pool is valid");
	gm_pool_free(pool, blocks[2].base, NULL, NULL);
	struct gm_block small = fake_alloc(pool, 512);
	TAP_IS(gm_pool_give_back(pool, 0, false), 0, "a chunk with one small block stays");
	gm_pool_free(pool, small.base, NULL, NULL);
	TAP_IS(gm_pool_give_back(pool, 0, false), 32 * GM_MIB,
	       "the chunk is returned when the block is free");
	TAP_IS(fake_stats(pool).mapped, 0, "nothing is mapped after the last chunk went");
	TAP_OK(fake_alloc(pool, 512).base, "the pool serves again from nothing");
	fake_end(pool, "giving back");
}

struct seen {
	unsigned n;
	uint64_t size;
};

static void see(void *arg, const struct gm_block *block)
{
	struct seen *seen = arg;
	seen->n += block->live;
	seen->size += block->size;
}

static void walks(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	struct seen seen = {0};
	struct gm_block a = fake_alloc(pool, 3), b = fake_alloc(pool, 3 * GM_MIB);
	fake_alloc(pool, 700);
	gm_pool_walk(pool, see, &seen);
	TAP_OK(seen.n == 3 && seen.size == 703 + 3 * GM_MIB, "a walk sees every live block");
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, b.base, NULL, NULL);
	seen = (struct seen){0};
	gm_pool_walk(pool, see, &seen);
	TAP_OK(seen.n == 1 && seen.size == 700, "a walk sees no freed block");
	fake_end(pool, "walk");
}

static struct gm_pool *robbed;
static struct gm_block loot;

/* Another thread allocates while memory is mapped. */
static void rob(enum fake_call call)
{
	if (call == FAKE_CREATE && !loot.base)
		loot = fake_alloc(robbed, GM_MIB);
}

/* Growth adds to an idle tail, and does so again if the tail is taken meanwhile. */
static void tail_is_taken(void)
{
	struct gm_pool *pool = robbed = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block first = fake_alloc(pool, 8 * GM_MIB);
	gm_pool_free(pool, first.base, &fake_done, NULL);
	first = fake_alloc(pool, 4 * GM_MIB);
	loot.base = 0;
	fake.visit = rob;
	struct gm_block block = fake_alloc(pool, 11 * GM_MIB / 2);
	fake.visit = NULL;
	TAP_OK(loot.base && loot.base == first.base + 4 * GM_MIB, "another thread takes the tail");
	TAP_OK(block.base, "the request is served nevertheless");
	TAP_OK(fake_valid(pool), "the pool is valid");
	gm_pool_free(pool, first.base, &fake_done, NULL);
	gm_pool_free(pool, loot.base, &fake_done, NULL);
	gm_pool_free(pool, block.base, &fake_done, NULL);
	fake_end(pool, "a tail that is taken");
}

int main(void)
{
	serves();
	rounds();
	grows();
	grows_by();
	joins_chunks();
	runs_out();
	keeps_the_limit();
	shares_the_limit();
	gives_back();
	walks();
	tail_is_taken();
	return tap_done();
}
