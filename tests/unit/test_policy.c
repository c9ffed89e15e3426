/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policies of gpumemstat replay under random requests: blocks do not overlap, the policy maps
 * no more than the device has, and once all is freed a request for the whole device succeeds.
 */
#include "base/size.h"
#include "tools/replay/policy.h"
#include "tools/replay/policy_meter.h"
#include "tools/replay/policy_span.h"

#include "../tap.h"

#define BLOCKS 100
#define STEPS 2000
#define MEMORY (320 * GM_MIB) /* a multiple of every policy's growth step */

static struct block {
	struct gm_policy_place place;
	uint64_t size;
} live[BLOCKS];
static unsigned n_live;
static uint64_t seed;

static uint64_t next(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 20) % below;
}

static uint64_t random_size(void)
{
	return 1 + next((uint64_t)1 << (3 + next(24)));
}

/* --- spans --- */

#define SPANS 300

/* The first in order of at least `size`, by linear search. */
static struct gm_span *first_of(struct gm_span **spans, unsigned n, bool by_size, uint64_t size)
{
	struct gm_span *best = NULL;
	for (unsigned i = 0; i < n; i++) {
		struct gm_span *s = spans[i];
		if (s->size < size)
			continue;
		bool smaller = best && by_size && s->size != best->size;
		if (!best || (smaller ? s->size < best->size : s->address < best->address))
			best = s;
	}
	return best;
}

static void count(void *arg, struct gm_span *span)
{
	(void)span;
	++*(unsigned *)arg;
}

static void test_find(bool by_size)
{
	struct gm_spans spans = {.by_size = by_size};
	struct gm_span *all[SPANS];
	unsigned n = 0, wrong = 0, seen = 0;
	for (unsigned i = 0; i < 4000; i++) {
		if (n < SPANS && next(3)) {
			/* Only 64 sizes, so that many spans have equal sizes; all addresses
			 * differ. */
			all[n] = gm_span_add(&spans, NULL, next(1 << 20) * 4096 + i, 1 + next(64));
			n++;
		} else if (n) {
			unsigned which = (unsigned)next(n);
			gm_span_drop(&spans, all[which]);
			all[which] = all[--n];
		}
		uint64_t size = 1 + next(70);
		wrong += gm_span_find(&spans, size) != first_of(all, n, by_size, size);
	}
	TAP_IS(wrong, 0, "the %s is found, as by looking at all", by_size ? "best" : "first");
	gm_span_each(&spans, count, &seen);
	TAP_IS(seen, n, "each of them is met");
	gm_spans_close(&spans);
	TAP_OK(!spans.root, "no span remains after all frees");
}

static void test_neighbours(void)
{
	struct gm_spans spans = {0};
	struct gm_span *a = gm_span_add(&spans, NULL, 1000, 100), *b, *c;
	gm_span_take(&spans, a, 10);
	b = a->after;
	TAP_OK(a->used && a->size == 10 && b->address == 1010 && b->size == 90,
	       "a span is split into a used and a free part");
	gm_span_take(&spans, b, 20);
	c = b->after;
	gm_span_take(&spans, c, 70);
	TAP_OK(!c->after && !gm_span_find(&spans, 1), "a free span is taken whole");
	TAP_OK(gm_span_give(&spans, a) == a && gm_span_give(&spans, c) == c,
	       "free spans between used ones stay alone");
	TAP_OK(gm_span_find(&spans, 11) == c && gm_span_find(&spans, 71) == NULL,
	       "free spans with a gap are not merged");
	b = gm_span_give(&spans, b);
	TAP_OK(b == a && a->address == 1000 && a->size == 100 && !a->after && !a->before,
	       "a freed span is merged with two free neighbours");
	gm_span_extend(&spans, a, 50);
	TAP_OK(gm_span_find(&spans, 150) == a && !gm_span_find(&spans, 151),
	       "an extended span is longer");
	gm_spans_close(&spans);
}

/* Of 100 bytes at 1000, a part is mapped. */
static void test_absent(void)
{
	struct gm_spans spans = {.by_size = true};
	struct gm_span *first = gm_span_reserve(1000, 100), *a, *b;
	TAP_OK(first->absent && !gm_span_find(&spans, 1), "a reserved span is absent");
	a = gm_span_map(&spans, first, 40);
	TAP_OK(a == first && !a->absent && a->size == 40 && a->after->absent &&
		       a->after->address == 1040 && a->after->size == 60,
	       "the front of an absent span is mapped");
	gm_span_take(&spans, a, 10);
	b = a->after;
	TAP_OK(gm_span_map(&spans, b->after, 20) == b && b->address == 1010 && b->size == 50,
	       "memory mapped behind a free span joins it");
	gm_span_unmap(&spans, b, 1020, 1040);
	TAP_OK(b->size == 10 && b->after->absent && b->after->size == 20 && b->after->after &&
		       !b->after->after->used && b->after->after->size == 20,
	       "memory in the middle of a free span is unmapped");
	TAP_OK(!gm_span_find(&spans, 21) && gm_span_find(&spans, 20) == b->after->after &&
		       gm_span_find(&spans, 1) == b && gm_span_next(&spans, b)->size == 20 &&
		       !gm_span_next(&spans, gm_span_next(&spans, b)),
	       "two free spans are left, in the order of their sizes");
	TAP_OK(gm_span_give(&spans, a) == a && a->size == 20, "a free span ends at an absent one");
	gm_span_unmap(&spans, a->after->after, 1040, 1060);
	TAP_OK(a->after->absent && a->after->size == 80 && !a->after->after,
	       "absent spans join on both sides");
	gm_span_unmap(&spans, a, 1000, 1020);
	TAP_OK(a->absent && a->size == 100 && !a->after && !spans.root,
	       "absent spans join the first one");
	free(a);
}

/* --- policies --- */

static bool overlaps(const struct block *block)
{
	uint64_t a = block->place.address;
	for (unsigned i = 0; i < n_live; i++) {
		uint64_t b = live[i].place.address;
		if (a < b + live[i].size && b < a + block->size)
			return true;
	}
	return false;
}

/* One request or free. Returns the error, or NULL. */
static const char *step(const struct gm_policy *policy, void *state, uint64_t now,
			uint64_t *requested, unsigned *refused)
{
	struct block block = {.size = random_size()};
	struct gm_meter meter;
	if (n_live == BLOCKS || (n_live && next(5) < 2)) {
		unsigned which = (unsigned)next(n_live);
		policy->free(state, &live[which].place, now);
		*requested -= live[which].size;
		live[which] = live[--n_live];
		return NULL;
	}
	if (!policy->alloc(state, block.size, now, &block.place)) {
		++*refused;
		return block.size <= MEMORY / 2 && n_live == 0 ? "refused though all is free"
							       : NULL;
	}
	if (!block.place.address || block.place.address % 512)
		return "not aligned";
	if (overlaps(&block))
		return "overlaps another";
	live[n_live++] = block;
	*requested += block.size;
	gm_meter_read(&meter);
	return meter.peak > MEMORY	 ? "more than the device has"
	       : meter.peak < *requested ? "less than is alive"
					 : NULL;
}

static void test_policy(const struct gm_policy *policy)
{
	struct gm_driver driver;
	struct gm_policy_place place;
	const char *why = NULL;
	uint64_t requested = 0;
	unsigned refused = 0;
	seed = 1;
	n_live = 0;
	gm_meter_open(&driver, MEMORY);
	void *state = policy->open(&driver, MEMORY, UINT64_MAX);
	for (unsigned i = 0; i < STEPS && !why; i++)
		why = step(policy, state, i, &requested, &refused);
	TAP_STR(why, NULL, "%s: %u random steps have no fault", policy->name, STEPS);
	TAP_OK(refused > 0, "%s: the device was full at times", policy->name);
	while (n_live)
		policy->free(state, &live[--n_live].place, STEPS);
	TAP_OK(policy->alloc(state, MEMORY - 2 * GM_MIB, STEPS, &place),
	       "%s: nearly all memory can be allocated at once when all is freed", policy->name);
	policy->free(state, &place, STEPS);
	TAP_OK(!policy->alloc(state, GM_POLICY_LARGEST, STEPS, &place),
	       "%s: more memory than there is cannot be allocated", policy->name);
	policy->close(state);
	gm_meter_close();
}

int main(void)
{
	test_find(false);
	test_find(true);
	test_neighbours();
	test_absent();
	for (unsigned i = 0; i < GM_POLICY_COUNT; i++)
		test_policy(gm_policies[i]);
	return tap_done();
}
