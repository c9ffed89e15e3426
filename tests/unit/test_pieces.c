/* SPDX-License-Identifier: BSD-3-Clause */
/* The idle runs of gm_pieces, against a map of all slots of 64 KiB that is filled anew each time.
 */
#include <string.h>

#include "log/frag.h"
#include "tests/tap.h"
#include "tools/log/pieces.h"

enum { SLOTS = 4096, CHUNKS = 32, BLOCKS = 300, STEPS = 20000 };
#define SLOT ((uint64_t)64 << 10)
#define BASE ((uint64_t)7 << 40)

struct block {
	uint64_t id, slot, n, held;
};

static struct gm_pieces pieces;
static struct block blocks[BLOCKS];
static uint64_t chunk_at[CHUNKS], chunk_slots[CHUNKS]; /* 0 slots: not mapped */
static bool chunk_lent[CHUNKS];
static uint64_t ids;
static uint32_t seed = 1;

static unsigned any(unsigned below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static void record_put(struct gm_record record)
{
	const struct gm_log_entry entry = {.record = record};
	gm_pieces_follow(&pieces, &entry, 0);
}

static bool is_free(uint64_t slot, uint64_t n)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (blocks[i].id && slot < blocks[i].slot + blocks[i].n &&
		    blocks[i].slot < slot + n)
			return false;
	return true;
}

/* A small block takes 1,000 bytes of a slab, which has two slots; a large one takes whole slots. */
static void block_change(void)
{
	struct block *b = &blocks[any(BLOCKS)];
	if (b->id) {
		record_put((struct gm_record){.kind = GM_RECORD_FREE, .id = b->id});
		b->id = 0;
		return;
	}
	const bool small = any(2);
	b->n = 2 * (1 + any(small ? 1 : 24));
	b->slot = 2 * any(SLOTS / 2 - 24);
	b->held = small ? 1000 : b->n * SLOT;
	if (!is_free(b->slot, b->n))
		return;
	b->id = ++ids;
	record_put((struct gm_record){.kind = GM_RECORD_ALLOCATE,
				      .id = b->id,
				      .address = BASE + b->slot * SLOT,
				      .size = b->held - 10,
				      .held = b->held});
}

static void chunk_change(unsigned i)
{
	const uint64_t slot = (uint64_t)i * SLOTS / CHUNKS;
	if (chunk_slots[i] && !any(4)) {
		record_put((struct gm_record){.kind = GM_RECORD_GROW,
					      .address = BASE + (chunk_at[i] + 3) * SLOT});
		chunk_lent[i] = true;
		return;
	}
	record_put((struct gm_record){.kind = chunk_slots[i] ? GM_RECORD_UNMAP : GM_RECORD_MAP,
				      .id = i + 1,
				      .address = BASE + slot * SLOT,
				      .size = SLOTS / CHUNKS * SLOT});
	chunk_at[i] = slot;
	chunk_slots[i] = chunk_slots[i] ? 0 : SLOTS / CHUNKS;
	chunk_lent[i] = false;
}

/* --- the same from the map --- */

static unsigned char used[SLOTS], mapped[SLOTS];

static void run_count(struct gm_sample *s, uint64_t n)
{
	const uint64_t bytes = n * SLOT;
	if (!n)
		return;
	s->idle_extents++;
	s->idle_runs[gm_frag_bin(bytes)]++;
	s->idle_units[gm_frag_bin(bytes)] += (uint32_t)(bytes / GM_SAMPLE_UNIT);
	s->largest_idle = bytes > s->largest_idle ? bytes : s->largest_idle;
}

static void map_fill(void)
{
	memset(used, 0, sizeof used);
	memset(mapped, 0, sizeof mapped);
	for (unsigned i = 0; i < BLOCKS; i++)
		for (uint64_t j = 0; blocks[i].id && j < blocks[i].n; j++)
			used[blocks[i].slot + j] = 1;
	for (unsigned i = 0; i < CHUNKS; i++)
		for (uint64_t j = 0; !chunk_lent[i] && j < chunk_slots[i]; j++)
			mapped[chunk_at[i] + j] = 1;
}

/* False: blocks are outside of the chunks. */
static bool map_sample(struct gm_sample *s)
{
	uint64_t run = 0, inside = 0, whole = 0, chunk_used[CHUNKS] = {0};
	*s = (struct gm_sample){0};
	map_fill();
	for (unsigned i = 0; i < SLOTS; i++) {
		run = mapped[i] && !used[i] ? run + 1 : (run_count(s, run), 0);
	}
	run_count(s, run);
	for (unsigned i = 0; i < BLOCKS; i++) {
		const struct block *b = &blocks[i];
		const uint64_t piece = b->n ? b->held / b->n : 0;
		if (!b->id)
			continue;
		s->live_blocks++;
		s->requested += b->held - 10;
		s->handed_out += b->held;
		if (b->held == 1000)
			chunk_used[b->slot / (SLOTS / CHUNKS)] += 1000;
		for (uint64_t j = 0; b->held != 1000 && j < b->n; j++)
			chunk_used[(b->slot + j) / (SLOTS / CHUNKS)] += piece;
	}
	for (unsigned i = 0; i < CHUNKS; i++) {
		const uint64_t size = chunk_slots[i] * SLOT;
		if (!size)
			continue;
		*(chunk_lent[i] ? &s->lent : &s->mapped) += size;
		s->chunks += !chunk_lent[i];
		inside += chunk_lent[i] ? 0 : chunk_used[i];
		if (!chunk_lent[i])
			*(chunk_used[i] ? &s->unreclaimable : &whole) += size - chunk_used[i];
	}
	s->idle = s->mapped - inside;
	s->largest_after_remap = whole > s->largest_idle ? whole : s->largest_idle;
	return inside == s->handed_out;
}

static void steps_compare(void)
{
	struct gm_sample got, want;
	unsigned wrong = 0, fits = 0;
	for (unsigned i = 0; i < STEPS; i++) {
		if (i < CHUNKS)
			chunk_change(i);
		else if (i < STEPS / 2 || any(20))
			block_change();
		else
			chunk_change(any(CHUNKS));
		const bool is = gm_pieces_sample(&pieces, &got);
		const bool should = map_sample(&want);
		fits += is;
		wrong += is != should || memcmp(&got, &want, sizeof got) != 0;
	}
	TAP_IS(wrong, 0, "idle runs and sums after each of %d events", STEPS);
	TAP_OK(fits >= STEPS / 2 && fits < STEPS,
	       "half of the samples have no block outside of chunks");
}

static void order_compare(void)
{
	const uint64_t at = BASE + SLOTS * SLOT;
	struct gm_sample before, after;
	record_put((struct gm_record){
		.kind = GM_RECORD_MAP, .id = 1000, .address = at, .size = 64 * SLOT});
	record_put((struct gm_record){.kind = GM_RECORD_ALLOCATE,
				      .id = ++ids,
				      .address = at,
				      .size = 4 * SLOT,
				      .held = 4 * SLOT});
	gm_pieces_sample(&pieces, &before);
	record_put((struct gm_record){.kind = GM_RECORD_ALLOCATE,
				      .id = ++ids,
				      .address = at + SLOT,
				      .size = 4 * SLOT,
				      .held = 4 * SLOT});
	record_put((struct gm_record){.kind = GM_RECORD_FREE, .id = ids - 1});
	gm_pieces_sample(&pieces, &after);
	TAP_IS(after.idle, before.idle, "an allocation may come before the free of its addresses");
	TAP_IS(after.idle_extents, before.idle_extents + 1,
	       "addresses freed late are in no idle run");
	record_put((struct gm_record){.kind = GM_RECORD_FREE, .id = ids});
	gm_pieces_sample(&pieces, &after);
	TAP_IS(after.idle_extents, before.idle_extents,
	       "addresses are in an idle run after their own free");
}

static void damage_follow(void)
{
	struct gm_sample got;
	const struct gm_record records[] = {
		{.kind = GM_RECORD_MAP, .id = 2000, .address = UINT64_MAX - 5, .size = 1 << 21},
		{.kind = GM_RECORD_MAP, .id = 2001, .address = 0, .size = UINT64_MAX},
		{.kind = GM_RECORD_ALLOCATE, .id = 9000, .address = UINT64_MAX - 5, .held = 1000},
		{.kind = GM_RECORD_ALLOCATE, .id = 9001, .address = 5, .held = UINT64_MAX - 5},
		{.kind = GM_RECORD_ALLOCATE, .id = 9002, .address = UINT64_MAX - 999, .held = 999},
		{.kind = GM_RECORD_FREE, .id = 9002},
		{.kind = GM_RECORD_FREE, .id = 9001},
		{.kind = GM_RECORD_FREE, .id = 9000},
		{.kind = GM_RECORD_UNMAP, .id = 2001},
		{.kind = GM_RECORD_UNMAP, .id = 2000},
	};
	struct gm_sample before;
	const bool fits = gm_pieces_sample(&pieces, &before);
	for (size_t i = 0; i < sizeof records / sizeof *records; i++)
		record_put(records[i]);
	TAP_OK(gm_pieces_sample(&pieces, &got) == fits && got.mapped == before.mapped &&
		       got.handed_out == before.handed_out && got.chunks == before.chunks,
	       "chunks and blocks of a damaged log come and go");
}

int main(void)
{
	steps_compare();
	order_compare();
	damage_follow();
	gm_pieces_free(&pieces);
	return tap_done();
}
