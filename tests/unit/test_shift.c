/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of unused parts of one block that moves to vacant places of another. */
#include "pool_fake.h"

#include "pool/internal.h"
#include "pool/vacant.h"

#define CHUNK (8 * GM_MIB)
enum { PARTS = 4 };

static struct gm_pool *open_pool(void)
{
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {.driver = &fake_driver, .limit = 6 * CHUNK, .chunk = CHUNK};
	fake_open(GM_GIB);
	gm_pool_create(&config, &pool);
	return pool;
}

/* Two blocks of four and two chunks; the first two chunks of the long one are vacant, and no memory
 * is idle. */
static struct gm_pool *open_blocks(struct gm_block *full, struct gm_block *vacant)
{
	struct gm_pool *pool = open_pool();
	*vacant = fake_alloc(pool, PARTS * CHUNK);
	gm_pool_vacate(pool, vacant->base, 2 * CHUNK);
	*full = fake_alloc(pool, PARTS * CHUNK);
	return pool;
}

static void moves(void)
{
	struct gm_block full, vacant;
	struct gm_pool *pool = open_blocks(&full, &vacant);
	const CUdeviceptr from[] = {full.base + 2 * CHUNK, full.base};
	const CUdeviceptr to[] = {vacant.base, vacant.base + CHUNK};
	const unsigned created = fake.calls[FAKE_CREATE], accesses = fake.calls[FAKE_ACCESS],
		       maps = fake.calls[FAKE_MAP];
	bool moved[2];
	gm_pool_shift(pool, from, to, 2, moved);
	TAP_OK(moved[0] && moved[1], "two chunks move to vacant places");
	TAP_OK(fake_is_mapped(to[0]) && fake_is_mapped(to[1]) && !fake_is_mapped(from[0]) &&
		       !fake_is_mapped(from[1]),
	       "moved chunks are mapped at their new places alone");
	TAP_OK(gm_pool_is_vacant(pool, from[0]) && gm_pool_is_vacant(pool, from[1]),
	       "the old places of moved chunks are vacant");
	TAP_OK(fake_stats(pool).vacant == 2 * CHUNK && fake_valid(pool),
	       "the number of vacant places is as before the move");
	TAP_OK(fake.calls[FAKE_CREATE] == created && fake.calls[FAKE_MAP] == maps + 2,
	       "moved chunks need no new memory, and are mapped once each");
	TAP_IS(fake.calls[FAKE_ACCESS], accesses + 1, "places side by side get access by one call");
	gm_pool_free(pool, full.base, NULL, NULL);
	TAP_IS(gm_pool_occupy(pool, vacant.base, PARTS * CHUNK), CUDA_SUCCESS,
	       "no memory is missing after the move");
	TAP_OK(!fake_stats(pool).vacant && fake_valid(pool), "no place is vacant after a free");
	gm_pool_free(pool, vacant.base, NULL, NULL);
	fake_end(pool, "moves");
}

static void stays(void)
{
	struct gm_block full, vacant;
	struct gm_pool *pool = open_blocks(&full, &vacant);
	bool moved[4];
	gm_pool_pin(pool, full.base, 1);
	const CUdeviceptr pinned[] = {full.base}, to[] = {vacant.base};
	gm_pool_shift(pool, pinned, to, 1, moved);
	TAP_OK(!moved[0] && fake_is_mapped(full.base), "memory of a pinned block stays");
	gm_pool_free(pool, full.base, NULL, NULL);
	full = fake_alloc(pool, PARTS * CHUNK);
	const CUdeviceptr from[] = {full.base, full.base + CHUNK, vacant.base, 1};
	const CUdeviceptr there[] = {vacant.base + 2 * CHUNK, 0, vacant.base + CHUNK, vacant.base};
	gm_pool_shift(pool, from, there, 4, moved);
	TAP_OK(!moved[0], "a place that has memory gets none");
	TAP_OK(!moved[1], "an address of no block gets none");
	TAP_OK(!moved[2] && !moved[3], "a vacant place and an unknown address have none");
	TAP_OK(fake_stats(pool).vacant == 2 * CHUNK && fake_valid(pool),
	       "nothing has changed after a refused move");
	const CUdeviceptr twice[] = {full.base, full.base + CHUNK};
	const CUdeviceptr one[] = {vacant.base, vacant.base};
	gm_pool_shift(pool, twice, one, 2, moved);
	TAP_OK(moved[0] && !moved[1] && fake_valid(pool), "a place gets memory once");
	gm_pool_free(pool, full.base, NULL, NULL);
	gm_pool_free(pool, vacant.base, NULL, NULL);
	fake_end(pool, "stays");
}

/* Each driver call of a move fails in turn, alone or with those that map after it. */
static void faults(void)
{
	for (unsigned more = 0; more < 3; more++)
		for (unsigned nth = 1; nth < 8; nth++) {
			struct gm_block full, vacant;
			struct gm_pool *pool = open_blocks(&full, &vacant);
			const CUdeviceptr from[] = {full.base, full.base + CHUNK};
			const CUdeviceptr to[] = {vacant.base, vacant.base + CHUNK};
			bool moved[2], valid = true;
			fake.fail_any = nth;
			fake.fail_more = more;
			gm_pool_shift(pool, from, to, 2, moved);
			fake.fail_any = fake.fail_more = 0;
			for (unsigned i = 0; i < 2; i++) {
				valid = valid && fake_is_mapped(to[i]) == moved[i];
				valid = valid &&
					gm_pool_is_vacant(pool, from[i]) != fake_is_mapped(from[i]);
			}
			valid = valid && fake_valid(pool);
			gm_pool_free(pool, full.base, NULL, NULL);
			CUresult last = gm_pool_occupy(pool, vacant.base, PARTS * CHUNK);
			gm_pool_free(pool, vacant.base, NULL, NULL);
			TAP_OK(valid && last == CUDA_SUCCESS && fake_valid(pool) &&
				       !fake_stats(pool).vacant,
			       "call %u of a move fails, and %u maps after it", nth, more);
			gm_pool_destroy(pool);
		}
}

static void peers(void)
{
	struct gm_block full, vacant;
	struct gm_pool *pool = open_blocks(&full, &vacant);
	bool moved;
	gm_pool_grant(pool, 3);
	gm_pool_shift(pool, &full.base, &vacant.base, 1, &moved);
	TAP_OK(moved && fake.n_access == 2, "a place gets the access of peers");
	TAP_OK(fake_valid(pool), "the pool is valid with access of peers");
	gm_pool_free(pool, full.base, NULL, NULL);
	gm_pool_free(pool, vacant.base, NULL, NULL);
	fake_end(pool, "peers");
}

int main(void)
{
	moves();
	stays();
	faults();
	peers();
	return tap_done();
}
