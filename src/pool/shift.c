/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that moves from unused places to vacant ones (gm_pool_shift). */
#include <stdlib.h>

#include "pool/internal.h"
#include "pool/vacant.h"
#include "pool/valid.h"

/* One move. LOST: the driver has the memory. */
enum state { NONE, STAYED, MOVED, LOST };
struct shift {
	struct gm_chunk *from, *to;
	enum state state;
};

/* --- the pool's lock is held --- */

static void shift_plan(struct gm_pool *pool, struct shift *s, CUdeviceptr from, CUdeviceptr to)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	s->from = gm_pool_has(pool, from) ? gm_chunk_at(pool, from) : NULL;
	s->to = gm_pool_has(pool, to) ? gm_chunk_at(pool, to) : NULL;
	if (!s->from || !s->to || s->from->size != s->to->size || !s->to->vacant || s->to->handle ||
	    s->to->moving || !gm_vacant_may_begin(pool, s->from))
		return;
	s->from->busy++;
	s->from->moving = s->to->moving = true;
	s->state = STAYED;
}

static void shift_finish(struct gm_pool *pool, struct shift *s, uint64_t access)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_chunk *from = s->from, *to = s->to;
	if (s->state == NONE)
		return;
	from->moving = to->moving = false;
	if (s->state == STAYED) {
		from->busy--;
		return;
	}
	if (s->state == MOVED) {
		to->handle = from->handle;
		to->exportable = from->exportable;
		to->access = access;
		to->vacant = false;
		to->busy--;
	} else {
		pool->vacant += from->size;
	}
	from->handle = 0;
	from->vacant = true; /* and busy */
}

/* --- no lock is held --- */

static void shift_back(struct gm_pool *pool, struct shift *s, const struct gm_access *access)
{
	s->state = STAYED;
	if (gm_chunk_map(pool, s->from, s->from->base, access) == CUDA_SUCCESS)
		return;
	gm_chunk_release(pool, s->from);
	s->state = LOST;
}

static void shift_map(struct gm_pool *pool, struct shift *s, const struct gm_access *access)
{
	const struct gm_chunk *from = s->from, *to = s->to;
	if (gm_chunk_unmap(pool, s->from) != CUDA_SUCCESS)
		return;
	s->state = MOVED;
	if (pool->driver->cuMemMap(to->base, to->size, 0, from->handle, 0) != CUDA_SUCCESS)
		shift_back(pool, s, access);
}

/* The number of moves from `s` on whose new places are side by side. */
static size_t run_length(const struct shift *s, size_t n)
{
	size_t i = 1;
	while (i < n && s[i].state == MOVED &&
	       s[i].to->base == s[i - 1].to->base + s[i - 1].to->size)
		i++;
	return i;
}

static void run_open(struct gm_pool *pool, struct shift *s, size_t n,
		     const struct gm_access *access)
{
	const CUdeviceptr base = s[0].to->base, end = s[n - 1].to->base + s[n - 1].to->size;
	if (gm_access_set(pool->driver, base, end - base, access) == CUDA_SUCCESS)
		return;
	for (size_t i = 0; i < n; i++) {
		pool->driver->cuMemUnmap(s[i].to->base, s[i].to->size);
		shift_back(pool, &s[i], access);
	}
}

static void shifts_make(struct gm_pool *pool, struct shift *list, size_t n,
			const struct gm_access *access)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].state == STAYED)
			shift_map(pool, &list[i], access);
	for (size_t i = 0, length; i < n; i += length) {
		length = list[i].state == MOVED ? run_length(&list[i], n - i) : 1;
		if (list[i].state == MOVED)
			run_open(pool, &list[i], length, access);
	}
}

void gm_pool_shift(struct gm_pool *pool, const CUdeviceptr *from, const CUdeviceptr *to, size_t n,
		   bool *moved)
{
	struct gm_access access;
	struct shift *list = calloc(n, sizeof *list);
	for (size_t i = 0; i < n; i++)
		moved[i] = false;
	if (!list)
		return;
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	for (size_t i = 0; i < n; i++)
		shift_plan(pool, &list[i], from[i], to[i]);
	gm_access_now(pool, true, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	shifts_make(pool, list, n, &access);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	for (size_t i = 0; i < n; i++) {
		shift_finish(pool, &list[i], access.generation);
		moved[i] = list[i].state == MOVED;
	}
	if (pool->access != access.generation) /* granted or revoked meanwhile */
		gm_access_refresh(pool);
	gm_vacant_count(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	free(list);
}
