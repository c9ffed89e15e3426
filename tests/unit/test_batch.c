/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of batches against what each piece of it was told. */
#include "pool/batch.h"

#include <limits.h>

#include "pool/block.h"

#include "../tap.h"

#define PIECES 1000
#define STEPS 200000

static struct gm_batches batches;
static struct gm_piece pieces[PIECES];
static uint64_t numbers[PIECES]; /* of the retirement of each */
static uint64_t number;		 /* the last one */
static unsigned from, n;	 /* those in the queue, in their order, begin there */
static unsigned seed = 1;

static unsigned draw(unsigned below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 16) % below;
}

static const char *check(void)
{
	const char *why = gm_batch_check(&batches, n, number);
	return why ? why : "nothing";
}

/* A list of `more` pieces, numbered one by one. */
static void add(unsigned more, bool join)
{
	struct gm_retiring list = {0};
	for (unsigned i = 0; i < more; i++) {
		unsigned at = (from + n++) % PIECES;
		pieces[at] = (struct gm_piece){.state = GM_RETIRED, .held = 512 * (at + 1)};
		numbers[at] = ++number;
		*(list.last ? &list.last->next : &list.first) = &pieces[at];
		list.last = &pieces[at];
		list.bytes += 512 * (at + 1);
	}
	list.n = more;
	gm_batch_add(&batches, &list, number, join);
}

/* As many as come, which have passed and are the oldest ones; UINT_MAX: they are not. */
static unsigned take(uint64_t passed, uint64_t most)
{
	struct gm_retiring list = gm_batch_take(&batches, passed, most);
	uint64_t bytes = 0, taken = 0;
	const struct gm_piece *last = NULL;
	for (const struct gm_piece *piece = list.first; piece; piece = piece->next, taken++) {
		if (n == 0 || piece != &pieces[from] || numbers[from] > passed)
			return UINT_MAX;
		bytes += GM_GET(piece->held);
		last = piece;
		from = (from + 1) % PIECES;
		n--;
	}
	if (taken != list.n || bytes != list.bytes || last != list.last)
		return UINT_MAX;
	return (unsigned)taken;
}

static void whole(void)
{
	TAP_OK(gm_batch_oldest(&batches) == UINT64_MAX && take(UINT64_MAX, UINT64_MAX) == 0,
	       "there is nothing at first");
	add(3, true);
	add(4, true);
	add(5, false);
	TAP_OK(batches.n == 2 && gm_batch_oldest(&batches) == 7, "two lists make a batch");
	TAP_IS(take(6, UINT64_MAX), 0, "which waits for the second one,");
	TAP_IS(take(11, UINT64_MAX), 7, "and passes as a whole");
	add(5, false);
	add(5, false);
	TAP_IS(take(UINT64_MAX, 14), 10, "as many as are asked for");
	TAP_IS(take(UINT64_MAX, 1), 5, "but at least one batch");
}

static void full(void)
{
	for (unsigned i = 0; i < GM_BATCHES + 10; i++)
		add(1, false);
	TAP_OK(batches.n == GM_BATCHES && n == GM_BATCHES + 10, "all have a place");
	TAP_IS(take(number - 1, UINT64_MAX), GM_BATCHES - 1, "the last ones the same:");
	TAP_IS(take(number, UINT64_MAX), 11, "they wait for the newest");
}

/* It fills and empties by turns. What is joined is late: it passes with the last of its batch. */
static void random_steps(void)
{
	unsigned wrong = 0, filled = 0, late = 0;
	uint64_t passed = number;
	for (unsigned i = 0; i < STEPS; i++) {
		unsigned more = 1 + draw(4);
		bool fills = i / 1000 % 2;
		if (n + more <= PIECES && draw(3))
			add(more, draw(4) == 0);
		filled += batches.n == GM_BATCHES;
		if (draw(fills ? 300 : 4) == 0) {
			passed += draw((unsigned)(number - passed) + 1);
			uint64_t most = draw(2) ? UINT64_MAX : draw(20);
			wrong += take(passed, most) == UINT_MAX;
			late += n && numbers[from] <= passed && most == UINT64_MAX;
		}
		wrong += i % 100 == 0 && gm_batch_check(&batches, n, number);
	}
	TAP_OK(wrong == 0, "none comes early, or is lost (%u times), in %u steps", wrong, STEPS);
	TAP_OK(filled > 0 && late > 0, "full %u times, late %u times", filled, late);
	take(UINT64_MAX, UINT64_MAX);
	TAP_IS(n, 0, "all come in the end");
}

#define WRONG(field, value, why)                 \
	do {                                     \
		__typeof__(field) was = (field); \
		(field) = (value);               \
		TAP_STR(check(), why, #field);   \
		(field) = was;                   \
	} while (0)

static void checks(void)
{
	add(2, false);
	add(3, false);
	struct gm_batch *first = &batches.ring[batches.first];
	TAP_STR(check(), "nothing", "valid");
	WRONG(batches.n, GM_BATCHES + 1, "retired blocks are listed");
	WRONG(batches.n, 1, "retired blocks are listed by age");
	WRONG(first->number, number, "retired blocks are listed by age");
	WRONG(number, number + 1, "retired blocks are listed by age");
	WRONG(n, 4, "retired blocks are listed");
	WRONG(first->list.n, 3, "retired blocks are listed");
	WRONG(first->list.bytes, 512, "retired blocks are listed");
	WRONG(first->list.last, first->list.first, "retired blocks are listed");
	WRONG(first->list.first->state, GM_LIVE, "retired blocks are listed");
}

int main(void)
{
	whole();
	full();
	random_steps();
	checks();
	return tap_done();
}
