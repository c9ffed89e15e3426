/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache of C frames, with made-up stacks in an array. */
#include "stack/recent.h"

#include "../tap.h"

#if defined(__x86_64__)

enum { WORDS = 4096, DEPTH = 40, RANDOM = 20000, KINDS = 64 };

/* The innermost word is first; `lengths` of the frames are in words and include the last frame. */
static uintptr_t words[WORDS];

struct made {
	uint32_t n;
	uintptr_t address[DEPTH];
	uint32_t length[DEPTH];
};

static struct gm_recent_key key_of(const struct made *made, uintptr_t end, uint64_t generation)
{
	return (struct gm_recent_key){{made->address[0], (uintptr_t)(words + 1)}, end, generation};
}

/* Write the stack into the array; words in the gaps keep their former contents. */
static void stand(const struct made *made)
{
	uint32_t at = 0;
	for (uint32_t i = 0; i < made->n; at += made->length[i++])
		words[at] = made->address[i];
}

static struct gm_frame frame_of(uintptr_t address)
{
	return (struct gm_frame){.object = (uint32_t)(address % 7), .place = address};
}

/* `python`: the last frame is the one that ends the walk. */
static void keep(const struct made *made, struct gm_recent_key key, bool python, bool cut)
{
	struct gm_unwound unwound = {
		.n = made->n - python, .cut = cut, .certain = true, .n_returns = made->n};
	struct gm_frame frames[GM_UNWIND_MOST];
	uint32_t at = 0;
	stand(made);
	for (uint32_t i = 0; i < made->n; at += made->length[i++]) {
		unwound.addresses[i] = made->address[i];
		unwound.returns[i] =
			(struct gm_unwound_return){(uintptr_t)(words + at), made->address[i]};
		frames[i] = frame_of(made->address[i]);
	}
	gm_recent_keep(&key, &unwound, frames);
}

enum answer { UNKNOWN, RIGHT, WRONG };
static uint64_t serial; /* of the last answer */

static enum answer ask(const struct made *made, struct gm_recent_key key, bool python, bool cut)
{
	struct gm_frame frames[GM_FRAMES_MOST];
	uint32_t n;
	bool was_cut;
	stand(made);
	if (!gm_recent_find(&key, frames, &n, &was_cut, &serial))
		return UNKNOWN;
	if (n != made->n - python || was_cut != cut)
		return WRONG;
	for (uint32_t i = 0; i < n; i++) {
		const struct gm_frame wished = frame_of(made->address[i]);
		if (memcmp(&frames[i], &wished, sizeof wished) != 0)
			return WRONG;
	}
	return RIGHT;
}

static void test_few(void)
{
	struct made a = {4, {101, 102, 103, 104}, {3, 5, 2, 9}}, b = a, longer = a;
	const struct gm_recent_key key = key_of(&a, 0, 1);
	b.address[2] = 203;
	longer.length[1] = 6;
	TAP_IS(ask(&a, key, false, false), UNKNOWN, "no stack is known before it was unwound");
	keep(&a, key, false, false);
	TAP_IS(ask(&a, key, false, false), RIGHT, "a stack is known after it was unwound");
	TAP_OK(serial && serial >> 47 == 0, "the serial of a stack's frames has less than 47 bits");
	TAP_IS(ask(&b, key, false, false), UNKNOWN, "another stack of the same depth is not known");
	keep(&b, key, false, false);
	TAP_OK(ask(&a, key, false, false) == RIGHT && ask(&b, key, false, false) == RIGHT,
	       "two stacks are known by turns");
	memset(words, 0, sizeof words);
	TAP_IS(ask(&longer, key, false, false), UNKNOWN, "a frame has another length");
	keep(&longer, key, false, false);
	TAP_IS(ask(&longer, key, false, false), RIGHT,
	       "the other length of a frame is known once kept");
	memset(words, 0, sizeof words);
	TAP_IS(ask(&a, key, false, false), UNKNOWN,
	       "the earlier length of a frame is not known any more");
	TAP_IS(ask(&longer, key_of(&longer, 0, 2), false, false), UNKNOWN,
	       "frames of an earlier generation of objects are unknown");
}

static void test_ends(void)
{
	struct made a = {3, {301, 302, 303}, {1, 1, 1}};
	const struct gm_recent_key c = key_of(&a, 0, 5), python = key_of(&a, 77, 5);
	keep(&a, c, false, true);
	TAP_IS(ask(&a, c, false, true), RIGHT, "a stack that was cut is cut");
	TAP_IS(ask(&a, python, true, false), UNKNOWN, "frames that end at Python are other frames");
	keep(&a, python, true, false);
	TAP_OK(ask(&a, python, true, false) == RIGHT && ask(&a, c, false, true) == RIGHT,
	       "stacks with and without Python's frames are known");
	struct gm_recent_key nowhere = c;
	nowhere.from.address = 0;
	TAP_IS(ask(&a, nowhere, false, true), UNKNOWN, "no stack is known without a caller");
	gm_recent_forget();
	TAP_IS(ask(&a, c, false, true), UNKNOWN, "no stack is known in a child of fork");
}

static void test_signal(void)
{
	struct made a = {2, {401, 402}, {4, 4}};
	const struct gm_recent_key key = key_of(&a, 0, 9);
	struct gm_unwound unwound = {.n = 2, .certain = true, .n_returns = 2};
	const struct gm_frame frames[2] = {frame_of(401), frame_of(402)};
	stand(&a);
	unwound.returns[0] = (struct gm_unwound_return){(uintptr_t)words, 401};
	unwound.returns[1] = (struct gm_unwound_return){(uintptr_t)(words + 3), 402};
	gm_recent_keep(&key, &unwound, frames);
	TAP_IS(ask(&a, key, false, false), UNKNOWN,
	       "a stack with return addresses at other places is not kept");
}

/* A stack of few addresses with fixed frame lengths, so that stacks often share their inner frames.
 * The outermost function has no caller. */
static struct made made_random(unsigned *seed)
{
	struct made made = {.n = 2 + (uint32_t)rand_r(seed) % (DEPTH - 2)};
	for (uint32_t i = 0; i < made.n; i++) {
		const unsigned kind = i ? (unsigned)rand_r(seed) % KINDS : 0;
		made.address[i] = (i + 1 < made.n ? 1000 : 9000) + kind;
		made.length[i] = 1 + kind % 3;
	}
	return made;
}

/* Far more frames than the cache has room for. */
static void test_random(void)
{
	unsigned seed = getenv("TEST_SEED") ? (unsigned)atoi(getenv("TEST_SEED")) : 1;
	unsigned wrong = 0, lost = 0, known = 0;
	struct made last[16];
	printf("# TEST_SEED=%u\n", seed);
	for (unsigned i = 0; i < RANDOM; i++) {
		struct made now = made_random(&seed);
		const struct gm_recent_key key = key_of(&now, 0, 11);
		memset(words, 0, sizeof words);
		wrong += ask(&now, key, false, false) == WRONG;
		keep(&now, key, false, false);
		lost += ask(&now, key, false, false) != RIGHT;
		last[i % 16] = now;
		if (i % 16 == 15)
			for (unsigned k = 0; k < 16; k++)
				known += ask(&last[k], key, false, false) == RIGHT;
	}
	TAP_IS(wrong, 0, "no stack is taken for another one");
	TAP_IS(lost, 0, "each that was unwound is known");
	TAP_OK(known > RANDOM / 2, "some stacks are known before they were unwound");
}

int main(void)
{
	struct made early = {2, {1, 2}, {1, 1}};
	TAP_IS(ask(&early, key_of(&early, 0, 1), false, false), UNKNOWN,
	       "no stack before the start of the array is known");
	gm_recent_open();
	test_few();
	test_ends();
	test_signal();
	test_random();
	return tap_done();
}

#else

int main(void)
{
	TAP_SKIP_ALL("x86-64 alone knows frames again");
}

#endif
