/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of the chunks under a block: which chunks, of which process, and that they are the
 * memory. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"
#include "pool/internal.h"
#include "pool/pin.h"

#include "on_sim.h"

#define CHUNK (2 * GM_MIB)

static struct gm_pool *pool;

/* The pool is locked where its books are read. */
static struct gm_chunk *chunk_at(CUdeviceptr address)
{
	gm_pool_lock(pool);
	struct gm_chunk *chunk = gm_chunk_at(pool, address);
	gm_pool_unlock(pool);
	return chunk;
}

static void begin(uint64_t chunk)
{
	struct gm_pool_config config = {
		.driver = &sim, .limit = UINT64_MAX, .chunk = chunk, .trim_after = UINT64_MAX};
	setenv("SIM_MEMFD", "1", 1);
	setenv("SIM_MEMORY", "1G", 1);
	sim_start("13.0", "1");
	TAP_IS(gm_pool_create(&config, &pool), CUDA_SUCCESS, "a pool with chunks of %u MiB",
	       (unsigned)(chunk / GM_MIB));
}

static unsigned descriptors(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void close_all(const struct gm_export *e)
{
	for (unsigned i = 0; i < e->n; i++)
		close(e->part[i].fd);
}

static struct gm_block block_of(size_t size)
{
	struct gm_block b = {.base = 0};
	TAP_IS(gm_pool_alloc(pool, size, 1, &b), CUDA_SUCCESS, "a block of %zu bytes", size);
	return b;
}

/* A small block shares its chunk with others. */
static void exports_small(void)
{
	struct gm_export e;
	struct gm_block first = block_of(5000), b = block_of(5000);
	memset((void *)(uintptr_t)b.base, 42, b.size);
	TAP_OK(gm_pool_can_export(pool, b.base + 1), "a block can be exported");
	TAP_OK(gm_pool_exports(pool), "all memory of the pool can be exported");
	TAP_IS(gm_pool_export(pool, b.base, b.id, 0, &e), CUDA_ERROR_INVALID_VALUE,
	       "a block that is not pinned is not exported");
	TAP_IS(gm_pool_pin(pool, b.base, b.size), CUDA_SUCCESS, "a small block is pinned");
	TAP_IS(gm_pool_pin(pool, b.base, b.size), CUDA_SUCCESS, "a block is pinned twice");
	TAP_IS(pool->pins.n, 1, "a block pinned twice counts once");
	TAP_IS(gm_pool_export(pool, b.base + 512, b.id, 0, &e), CUDA_ERROR_INVALID_VALUE,
	       "an interior address is not given");
	TAP_IS(gm_pool_export(pool, b.base, b.id + 1, 0, &e), CUDA_ERROR_INVALID_VALUE,
	       "another block's id is not exported");
	TAP_IS(gm_pool_export(pool, b.base, b.id, 1, &e), CUDA_ERROR_INVALID_VALUE,
	       "a chunk beyond the last is not exported");
	unsigned before = descriptors();
	TAP_IS(gm_pool_export(pool, b.base, b.id, 0, &e), CUDA_SUCCESS, "the chunk is exported");
	TAP_OK(e.chunks == 1 && e.n == 1 && e.total == e.part[0].size && e.size == 5000 &&
		       e.offset == b.base - chunk_at(b.base)->base,
	       "the export has the chunk and the block's place in it");
	TAP_IS(descriptors(), before + 1, "the export has one descriptor");
	const char *at = mmap(NULL, e.total, PROT_READ, MAP_SHARED, e.part[0].fd, 0);
	TAP_OK(at != MAP_FAILED && at[e.offset] == 42 && at[e.offset + 4999] == 42,
	       "the descriptor is the block's memory");
	munmap((void *)at, e.total);
	close_all(&e);
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(pool->pins.n, 0, "a free ends the pin of its block");
	TAP_IS(gm_pool_export(pool, b.base, b.id, 0, &e), CUDA_ERROR_INVALID_VALUE,
	       "a freed block is not exported");
	TAP_OK(!gm_pool_can_export(pool, b.base), "a freed block cannot be exported");
	gm_pool_free(pool, first.base, NULL, NULL);
}

/* A shared block keeps its chunk on the device only while it is open, a pin as well. */
static void exports_shared(void)
{
	struct gm_export e;
	struct gm_block b = block_of(CHUNK);
	const struct gm_chunk *chunk = chunk_at(b.base);
	TAP_OK(!gm_pool_share_open(pool, b.base, b.id, true),
	       "a block that is not shared is not opened");
	TAP_IS(gm_pool_share(pool, b.base, b.size), CUDA_SUCCESS, "a block is shared");
	TAP_IS(gm_pool_share(pool, b.base, b.size), CUDA_SUCCESS, "a block is shared twice");
	TAP_IS(pool->pins.n, 1, "a block shared twice counts once");
	TAP_IS(chunk->pins, 0, "a shared block that nobody has open pins no chunk");
	TAP_OK(!gm_pool_share_open(pool, b.base, b.id + 1, true),
	       "another block's id opens nothing");
	TAP_OK(gm_pool_share_open(pool, b.base, b.id, true) &&
		       gm_pool_share_open(pool, b.base, b.id, true) && chunk->pins == 1,
	       "a shared block opened twice is one pin");
	TAP_IS(gm_pool_export(pool, b.base, b.id, 0, &e), CUDA_SUCCESS,
	       "a shared block is exported");
	close_all(&e);
	TAP_IS(gm_pool_pin(pool, b.base, b.size), CUDA_SUCCESS, "a shared block is pinned as well");
	TAP_OK(gm_pool_share_open(pool, b.base, b.id, false) && chunk->pins == 1,
	       "the other pin stays when a shared block is closed");
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(pool->pins.n, 0, "a free ends the share and the pin");
	TAP_IS(chunk->pins, 0, "a free ends the pin of the chunk");
	TAP_OK(!gm_pool_share_open(pool, b.base, b.id, true), "a freed block is not opened");
	gm_pool_give_back(pool, 0, true);
}

/* More chunks than one call returns. */
static void exports_long(void)
{
	enum { N = 2 * GM_EXPORT_PARTS + 5 };
	struct gm_export e;
	struct gm_block b = block_of(N * CHUNK);
	unsigned before = descriptors(), got = 0;
	gm_pool_pin(pool, b.base, b.size);
	for (unsigned first = 0; first < N; first += e.n) {
		if (gm_pool_export(pool, b.base, b.id, first, &e) != CUDA_SUCCESS)
			break;
		got += e.chunks == N && e.total == N * CHUNK && e.first == first ? e.n : 0;
		close_all(&e);
	}
	TAP_IS(got, N, "all chunks in three calls");
	gm_sim_fail("cuMemExportToShareableHandle", 3, CUDA_ERROR_OPERATING_SYSTEM);
	TAP_IS(gm_pool_export(pool, b.base, b.id, 0, &e), CUDA_ERROR_OPERATING_SYSTEM,
	       "the driver's error is the result");
	gm_sim_fail("cuMemExportToShareableHandle", 1, CUDA_ERROR_OPERATING_SYSTEM);
	TAP_IS(gm_pool_export(pool, b.base, b.id, 0, &e), CUDA_ERROR_OPERATING_SYSTEM,
	       "the driver's error is the result of the first call, too");
	gm_sim_fail("cuMemExportToShareableHandle", 0, CUDA_SUCCESS);
	TAP_IS(e.n, 0, "a failed export has no parts");
	TAP_IS(descriptors(), before, "a failed export leaves no descriptor");
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_OK(gm_pool_give_back(pool, 0, true) >= N * CHUNK, "the chunks can go afterwards");
}

/* While the driver exports the chunk, the block is freed and the chunk would be released. */
static struct gm_block victim;

static void free_now(void)
{
	gm_pool_free(pool, victim.base, NULL, NULL);
	TAP_IS(gm_pool_give_back(pool, 0, false), 0, "a chunk that is being exported stays");
}

static void exports_against_free(void)
{
	struct gm_export e;
	victim = block_of(CHUNK);
	gm_pool_pin(pool, victim.base, victim.size);
	gm_sim_before("cuMemExportToShareableHandle", free_now);
	TAP_IS(gm_pool_export(pool, victim.base, victim.id, 0, &e), CUDA_SUCCESS,
	       "freed meanwhile, it is given");
	close_all(&e);
	TAP_IS(gm_pool_give_back(pool, 0, false), CHUNK, "the chunk is returned after the export");
}

static void end(void)
{
	const char *why = "";
	TAP_OK(gm_pool_is_valid(pool, &why), "the pool is valid: %s", why);
	gm_pool_destroy(pool);
	TAP_IS(gm_sim_leaks(true), 0, "no memory leaks");
}

int main(void)
{
	begin(0);
	exports_small();
	end();
	begin(CHUNK);
	exports_shared();
	exports_long();
	exports_against_free();
	end();
	setenv("SIM_ATTRIBUTE", "103:0", 1);
	begin(0);
	struct gm_block b = block_of(100);
	TAP_OK(!gm_pool_can_export(pool, b.base), "no block can be exported without descriptors");
	TAP_OK(!gm_pool_exports(pool), "the pool cannot export without descriptors");
	gm_pool_free(pool, b.base, NULL, NULL);
	end();
	return tap_done();
}
