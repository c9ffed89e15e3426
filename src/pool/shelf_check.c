/* SPDX-License-Identifier: BSD-3-Clause */
/* Invariants of shelves while all their locks are held. */
#include "pool/internal.h"

static bool piece_is_shelved(const struct gm_piece *piece)
{
	return GM_GET(piece->state) == GM_SHELVED && !piece->pinned;
}

static const char *bin_check(const struct gm_bin *bin, uint64_t slot)
{
	uint64_t last = UINT64_MAX, n = 0;
	for (const struct gm_piece *piece = bin->first; piece; piece = piece->next, n++) {
		if (!piece_is_shelved(piece))
			return "what is on a shelf is shelved";
		if (GM_GET(piece->held) != slot)
			return "blocks on a shelf have the size of their place";
		if (gm_piece_shelved_at(piece) > last)
			return "shelved blocks are listed by age";
		last = gm_piece_shelved_at(piece);
	}
	return n == bin->n ? NULL : "shelved blocks are counted";
}

static const char *row_check(const struct gm_shelf *shelf)
{
	uint64_t bytes = 0, last = 0;
	for (uint32_t i = 0; i < shelf->n_row; i++) {
		const struct gm_piece *piece = shelf->row[i].piece;
		if (!piece_is_shelved(piece))
			return "what is on a shelf is shelved";
		if (GM_GET(piece->held) != shelf->row[i].held ||
		    GM_GET(piece->held) <= GM_SLAB_LARGEST)
			return "blocks on a shelf have the size of their place";
		if (gm_piece_shelved_at(piece) < last)
			return "shelved blocks are listed by age";
		last = gm_piece_shelved_at(piece);
		bytes += shelf->row[i].held;
	}
	if (bytes != shelf->row_bytes)
		return "shelved bytes are counted";
	return NULL;
}

static const char *passed_check(const struct gm_passed *passed, uint64_t *n)
{
	uint64_t bytes = 0;
	for (const struct gm_piece *piece = passed->first; piece; piece = piece->next) {
		if (GM_GET(piece->state) != GM_RETIRED)
			return "blocks that have passed were retired";
		bytes += GM_GET(piece->held);
		++*n;
	}
	return bytes == passed->bytes ? NULL : "blocks that have passed are counted";
}

static const char *shelf_check(const struct gm_pool *pool, const struct gm_shelf *shelf,
			       uint64_t *n_all)
{
	uint64_t n = shelf->n_row;
	const char *why = shelf->n_row <= gm_shelf_most_in_row(pool) ? row_check(shelf)
								     : "a shelf has its bounds";
	for (unsigned i = 0; i < GM_SLAB_CLASSES && !why; i++) {
		why = bin_check(&shelf->bins[i], gm_slab_slot(i));
		n += shelf->bins[i].n;
		if (shelf->bins[i].n > gm_shelf_most_slots(pool, gm_slab_slot(i)))
			why = "a shelf has its bounds";
	}
	if (why)
		return why;
	if (n != GM_GET(shelf->n))
		return "shelved blocks are counted";
	if ((int64_t)shelf->requested > shelf->most || shelf->most > shelf->allowance)
		return "a shelf keeps to its allowance";
	*n_all += n;
	return shelf->id <= shelf->id_end ? NULL : "a shelf keeps to its ids";
}

const char *gm_shelves_check(const struct gm_pool *pool, uint64_t *n, uint64_t *n_retired)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_lock_assert_all_held(GM_LOCK_RANK_SHELF, GM_GET(pool->n_shelves));
	const char *why = NULL;
	int64_t granted = 0;
	uint64_t sealed = 0;
	for (unsigned i = 0; i < GM_SHELVES && !why; i++) {
		if (i >= GM_GET(pool->n_shelves) &&
		    (pool->shelves[i].n || pool->shelves[i].limbo.used))
			return "shelves in use are counted";
		why = shelf_check(pool, &pool->shelves[i], n);
		if (!why)
			why = passed_check(&pool->shelves[i].passed, n_retired);
		if (!why)
			why = gm_limbo_check(pool, &pool->shelves[i], n_retired, &sealed);
		granted += pool->shelves[i].allowance;
	}
	if (!why && sealed != pool->sealed)
		why = "sealed bytes are counted";
	if (!why && granted != pool->granted)
		why = "allowances are counted";
	if (!why && (int64_t)pool->requested + granted > (int64_t)pool->requested_peak)
		why = "allowances do not reach beyond the peak";
	return why;
}
