/* SPDX-License-Identifier: BSD-3-Clause */
/* Export a block's memory to other processes: a descriptor for each chunk under the block. */
#include "base/sys.h"
#include "pool/internal.h"
#include "pool/valid.h"

/* The next chunk under a block that ends at `end`; NULL: `chunk` is the last. */
static struct gm_chunk *chunk_next(const struct gm_pool *pool, const struct gm_chunk *chunk,
				   CUdeviceptr end)
{
	CUdeviceptr at = chunk->base + chunk->size;
	return at < end ? gm_chunk_at(pool, at) : NULL;
}

bool gm_pool_exports(const struct gm_pool *pool)
{
	return GM_GET(pool->extras) & GM_CHUNK_EXPORTABLE;
}

bool gm_pool_can_export(struct gm_pool *pool, CUdeviceptr address)
{
	bool can = false;
	gm_pool_lock(pool);
	const struct gm_piece *piece = gm_table_live(&pool->table, address);
	if (piece) {
		CUdeviceptr base = GM_GET(piece->base), end = base + GM_GET(piece->held);
		const struct gm_chunk *chunk = gm_chunk_at(pool, base);
		for (can = true; chunk && can; chunk = chunk_next(pool, chunk, end))
			can = chunk->exportable;
	}
	gm_pool_unlock(pool);
	return can;
}

/* Collect the parts from out->first on, and keep their chunks in place. The pool's lock is held. */
static CUresult export_plan(struct gm_pool *pool, CUdeviceptr base, uint64_t id,
			    struct gm_export *out, struct gm_chunk *chunks[GM_EXPORT_PARTS])
{
	const struct gm_piece *piece = gm_table_live(&pool->table, base);
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!piece || GM_GET(piece->id) != id || GM_GET(piece->base) != base || !piece->pinned)
		return CUDA_ERROR_INVALID_VALUE;
	CUdeviceptr end = base + GM_GET(piece->held);
	struct gm_chunk *chunk = gm_chunk_at(pool, base);
	out->offset = base - chunk->base;
	out->size = GM_GET(piece->size);
	for (; chunk; chunk = chunk_next(pool, chunk, end)) {
		unsigned index = out->chunks++;
		out->total += chunk->size;
		if (index < out->first || out->n == GM_EXPORT_PARTS)
			continue;
		chunk->busy++;
		chunks[out->n] = chunk;
		out->part[out->n++].size = chunk->size;
	}
	return out->first < out->chunks ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* No lock is held: the chunks are busy. */
static CUresult export_make(struct gm_pool *pool, struct gm_export *out,
			    struct gm_chunk *const chunks[GM_EXPORT_PARTS])
{
	CUresult result = CUDA_SUCCESS;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	unsigned made = 0;
	for (; made < out->n && result == CUDA_SUCCESS; made++)
		result = pool->driver->cuMemExportToShareableHandle(
			&out->part[made].fd, chunks[made]->handle,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	gm_driver_quiet_end(pool->driver, mode);
	if (result == CUDA_SUCCESS)
		return result;
	while (--made)
		gm_sys_close(out->part[made - 1].fd);
	return result;
}

CUresult gm_pool_export(struct gm_pool *pool, CUdeviceptr base, uint64_t id, unsigned first,
			struct gm_export *out)
{
	struct gm_chunk *chunks[GM_EXPORT_PARTS];
	*out = (struct gm_export){.first = first};
	gm_pool_lock(pool);
	CUresult result = export_plan(pool, base, id, out, chunks);
	gm_pool_unlock(pool);
	if (result == CUDA_SUCCESS)
		result = export_make(pool, out, chunks);
	gm_pool_lock(pool);
	for (unsigned i = 0; i < out->n; i++)
		chunks[i]->busy--;
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	if (result != CUDA_SUCCESS)
		out->n = 0;
	return result;
}
