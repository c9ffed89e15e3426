/* SPDX-License-Identifier: BSD-3-Clause */
/* Idle chunks are moved to adjacent addresses, so that a longer block fits. */
#include "pool_fake.h"

#include "log/counters.h"

#define PEER 3

static bool may, asked_locked;
static unsigned asked;

static bool may_fake(void *arg)
{
	(void)arg;
	asked++;
	asked_locked |= !gm_lock_none_held(GM_LOCK_RANK_CAPTURE, GM_LOCK_RANK_COUNT);
	return may;
}

static struct gm_pool *open_pool(uint64_t memory)
{
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {
		.driver = &fake_driver, .limit = UINT64_MAX, .may_remap = may_fake};
	fake_open(memory);
	may = true;
	gm_pool_create(&config, &pool);
	return pool;
}

/* `n` chunks of `size`, each of one block; then every other block is freed, from the first on. */
static void stripes(struct gm_pool *pool, struct gm_block *blocks, unsigned n, uint64_t size)
{
	for (unsigned i = 0; i < n; i++)
		blocks[i] = fake_alloc(pool, size);
	for (unsigned i = 0; i < n; i += 2)
		gm_pool_free(pool, blocks[i].base, NULL, NULL);
}

static void moves(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	struct gm_block b[6], found;
	stripes(pool, b, 6, 64 * GM_MIB);
	unsigned created = fake.calls[FAKE_CREATE];
	uint64_t calls = gm_counter_get(0, GM_C_remap_calls);
	uint64_t bytes = gm_counter_get(0, GM_C_remap_bytes);
	struct gm_block large = fake_alloc(pool, 192 * GM_MIB);
	TAP_OK(large.base && fake_valid(pool), "three idle chunks make room for their sum");
	TAP_IS(fake.calls[FAKE_CREATE], created, "a move needs no new memory");
	TAP_IS(fake.calls[FAKE_RELEASE], 0, "a move releases no memory");
	TAP_IS(gm_counter_get(0, GM_C_remap_calls) - calls, 3, "the moves are counted");
	TAP_IS(gm_counter_get(0, GM_C_remap_bytes) - bytes, 192 * GM_MIB,
	       "the moved bytes are counted");
	TAP_OK(!fake_is_mapped(b[0].base) && !fake_is_mapped(b[2].base) &&
		       !fake_is_mapped(b[4].base),
	       "nothing is left at their old addresses");
	TAP_OK(gm_pool_find(pool, b[3].base + 1, &found) && found.live && found.id == b[3].id,
	       "the block between stays");
	TAP_OK(gm_pool_find(pool, b[2].base, &found) && !found.live,
	       "the freed address is no block");
	TAP_IS(fake_stats(pool).mapped, 384 * GM_MIB, "the mapped memory does not change");
	struct gm_block again = fake_alloc(pool, 64 * GM_MIB);
	TAP_IS(again.base, b[0].base, "the old addresses are used again");
	TAP_OK(!asked_locked, "whether it may was asked with no lock held");
	fake_end(pool, "moves");
}

/* The driver's reply takes longer than many growths. */
static void asks_in_need(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	struct gm_block first = fake_alloc(pool, 2 * GM_MIB);
	gm_pool_free(pool, first.base, NULL, NULL);
	asked = 0;
	struct gm_block b = fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(b.base == first.base && fake_stats(pool).mapped == 32 * GM_MIB,
	       "idle memory before free addresses grows where it is");
	TAP_IS(asked, 0, "no question is asked whether chunks may be moved");
	struct gm_block after = fake_alloc(pool, 2 * GM_MIB);
	gm_pool_free(pool, b.base, NULL, NULL);
	fake_alloc(pool, 64 * GM_MIB);
	TAP_IS(asked, 1, "the question is asked when other memory is in between");
	gm_pool_free(pool, after.base, NULL, NULL);
	gm_pool_context_gone(pool, 1);
	fake_end(pool, "asking");
}

static void adds_what_lacks(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	struct gm_block b[5];
	stripes(pool, b, 5, 64 * GM_MIB);
	gm_pool_free(pool, b[3].base, NULL, NULL);
	/* Idle: 192 MiB in one run at the end, 64 MiB at the beginning. */
	struct gm_block large = fake_alloc(pool, 300 * GM_MIB);
	TAP_OK(large.base == b[2].base && fake_valid(pool), "an idle end stays where it is");
	TAP_IS(gm_counter_get(0, GM_C_remap_bytes) % (64 * GM_MIB), 0,
	       "the chunks that move are whole");
	TAP_OK(!fake_is_mapped(b[0].base), "an idle chunk elsewhere moves behind the idle end");
	TAP_IS(fake_stats(pool).mapped, (320 + 44) * GM_MIB, "new memory is mapped for the rest");
	gm_pool_free(pool, large.base, NULL, NULL);
	TAP_OK(fake_alloc(pool, 300 * GM_MIB).base == large.base && fake_valid(pool),
	       "the next one finds it so");
	fake_end(pool, "shortfall");
}

static void leaves_alone(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	struct gm_block b[6];
	stripes(pool, b, 6, 64 * GM_MIB);
	uint64_t calls = gm_counter_get(0, GM_C_remap_calls);
	may = false;
	struct gm_block large = fake_alloc(pool, 128 * GM_MIB);
	TAP_OK(large.base && gm_counter_get(0, GM_C_remap_calls) == calls &&
		       fake.calls[FAKE_UNMAP] == 0,
	       "new memory is mapped where chunks may not move");
	may = true;
	gm_pool_pin(pool, b[1].base, 1);
	gm_pool_pin(pool, b[3].base, 1);
	for (unsigned i = 1; i < 6; i += 2)
		gm_pool_free(pool, b[i].base, NULL, NULL);
	b[1] = fake_alloc(pool, 400 * GM_MIB);
	TAP_OK(b[1].base && fake_valid(pool), "a chunk that is pinned no more may move");
	fake_end(pool, "left alone");

	pool = open_pool(96 * GM_MIB);
	stripes(pool, b, 3, 32 * GM_MIB);
	may = false;
	TAP_OK(fake_alloc(pool, 64 * GM_MIB).base,
	       "chunks are exchanged instead of moved at the limit");
	TAP_IS(fake.calls[FAKE_RELEASE], 2, "exchanged chunks are given back and made anew");
	fake_end(pool, "exchange");
}

/* The number of chunks moved for one request is bounded; the rest is released and mapped anew. */
static void is_bounded(void)
{
	struct gm_pool *pool = open_pool(GM_GIB);
	struct gm_block b[160];
	stripes(pool, b, 160, 6 * GM_MIB);
	uint64_t calls = gm_counter_get(0, GM_C_remap_calls);
	TAP_OK(fake_alloc(pool, 500 * GM_MIB).base && fake_valid(pool),
	       "a block of 100 idle chunks in pieces is served");
	uint64_t moved = gm_counter_get(0, GM_C_remap_calls) - calls;
	TAP_IS(moved, 64, "64 chunks move for one request");
	TAP_OK(fake_stats(pool).mapped <= GM_GIB, "mapped memory stays within the device");
	fake_end(pool, "bounds");
}

static void prefers_few(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	static const unsigned sizes[] = {8, 8, 64, 8, 100, 8, 16, 8};
	struct gm_block b[8];
	for (unsigned i = 0; i < 8; i++)
		b[i] = fake_alloc(pool, sizes[i] * GM_MIB);
	for (unsigned i = 0; i < 8; i += 2)
		gm_pool_free(pool, b[i].base, NULL, NULL);
	uint64_t calls = gm_counter_get(0, GM_C_remap_calls);
	unsigned created = fake.calls[FAKE_CREATE];
	TAP_OK(fake_alloc(pool, 164 * GM_MIB).base,
	       "164 MiB fit into chunks of 8, 64, 100 and 16 MiB");
	TAP_IS(gm_counter_get(0, GM_C_remap_calls) - calls, 2, "the two that make 164 move");
	TAP_IS(fake.calls[FAKE_CREATE], created, "no chunk is made where moved chunks suffice");
	fake_end(pool, "few");
}

static void opens_to_peers(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	struct gm_block b[3];
	stripes(pool, b, 3, 64 * GM_MIB);
	gm_pool_grant(pool, PEER);
	TAP_OK(fake_alloc(pool, 128 * GM_MIB).base, "a chunk is moved");
	TAP_OK(fake.n_access == 2 && fake.access[0].location.id == 0 &&
		       fake.access[1].location.id == PEER &&
		       fake.access[1].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	       "a moved chunk is open to the device and to its peer");
	fake_end(pool, "peers");
}

static struct gm_pool *granting;
static CUresult (*map_before)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
			      unsigned long long);

/* Another thread's grant in the middle of a move. */
static CUresult map_and_grant(CUdeviceptr address, size_t size, size_t offset,
			      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct gm_pool *pool = granting;
	granting = NULL;
	if (pool)
		gm_pool_grant(pool, PEER);
	return map_before(address, size, offset, handle, flags);
}

static void opens_to_late_peers(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	struct gm_block b[3];
	stripes(pool, b, 3, 64 * GM_MIB);
	map_before = fake_driver.cuMemMap;
	fake_driver.cuMemMap = map_and_grant;
	granting = pool;
	unsigned accesses = fake.calls[FAKE_ACCESS];
	TAP_OK(fake_alloc(pool, 128 * GM_MIB).base && fake_valid(pool),
	       "a peer is let in meanwhile");
	/* The two chunks that stay, the chunk that is moved last, and that chunk again. */
	TAP_IS(fake.calls[FAKE_ACCESS] - accesses, 4,
	       "moved chunks are opened to the peer afterwards");
	TAP_IS(fake.access[fake.n_access - 1].location.id, PEER,
	       "the chunk moved last is opened to the peer");
	fake_driver.cuMemMap = map_before;
	fake_end(pool, "late peers");
}

/* Other processes take what the limit would allow: the shortfall is found by giving back. */
static void gives_back_for_the_rest(void)
{
	struct gm_pool *pool = open_pool(98 * GM_MIB);
	struct gm_block b[4];
	static const unsigned sizes[] = {32, 18, 24, 24};
	for (unsigned i = 0; i < 4; i++)
		b[i] = fake_alloc(pool, sizes[i] * GM_MIB);
	gm_pool_free(pool, b[0].base, NULL, NULL);
	gm_pool_free(pool, b[2].base, NULL, NULL);
	TAP_OK(fake_alloc(pool, 46 * GM_MIB).base && fake_valid(pool),
	       "a chunk that is too long is released for the shortfall");
	TAP_IS(fake_stats(pool).mapped, 88 * GM_MIB, "no more than that is made");
	fake_end(pool, "the rest");
}

static void fails_in_the_middle(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	struct gm_block b[6];
	stripes(pool, b, 6, 64 * GM_MIB);
	fake.with = CUDA_ERROR_NOT_SUPPORTED;
	fake.fail[FAKE_MAP] = 2;
	unsigned released = fake.calls[FAKE_RELEASE];
	struct gm_block large = fake_alloc(pool, 192 * GM_MIB);
	TAP_OK(large.base && fake_valid(pool), "if a chunk cannot be moved, new memory is mapped");
	TAP_IS(fake.calls[FAKE_RELEASE], released, "a failed move loses no idle chunk");
	TAP_IS(fake_stats(pool).mapped, (384 + 128) * GM_MIB,
	       "the new memory is behind the moved chunk");
	TAP_OK(fake_alloc(pool, 64 * GM_MIB).base && fake_alloc(pool, 64 * GM_MIB).base &&
		       fake_stats(pool).mapped == (384 + 128) * GM_MIB,
	       "the two others can be used");
	fake_end(pool, "failures");
}

static void fails_after_making(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB);
	struct gm_block b[6];
	stripes(pool, b, 6, 64 * GM_MIB);
	fake.fail[FAKE_MAP] = 3; /* calls: new memory, the first chunk, and this one */
	TAP_OK(fake_alloc(pool, 250 * GM_MIB).base && fake_valid(pool),
	       "a failed move beside new memory is got over");
	TAP_IS(fake_stats(pool).mapped, (384 + 250 - 64) * GM_MIB,
	       "new memory beside a failed move is not kept");
	fake_end(pool, "new memory");
}

int main(void)
{
	moves();
	adds_what_lacks();
	leaves_alone();
	is_bounded();
	prefers_few();
	opens_to_peers();
	opens_to_late_peers();
	gives_back_for_the_rest();
	fails_in_the_middle();
	fails_after_making();
	asks_in_need();
	return tap_done();
}
