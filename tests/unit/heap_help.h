/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A heap on host memory, for the tests of src/heap: the device code of every policy, run by the
 * SIMT emulation. TEST_SEED in the environment replaces the seed, which is printed.
 */
#ifndef GM_TESTS_HEAP_HELP_H
#define GM_TESTS_HEAP_HELP_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heap/device/policies.h"
#include "tests/tap.h"

struct fixture {
	const struct gm_policy *policy;
	struct gm_heap heap;
	struct gm_mailbox mail;
	char *memory, *behind; /* the heap's, and GM_LINE bytes behind the policy's, if any */
	size_t bytes;
	uint32_t seed;
	enum gm_simt_mode mode;
};

static inline uint32_t test_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint32_t seed = text ? (uint32_t)strtoul(text, NULL, 0) : 20261121;
	static bool said;
	if (!said)
		printf("# TEST_SEED=%u\n", seed);
	said = true;
	return seed;
}

static inline void *test_zeroed(size_t bytes)
{
	void *memory = aligned_alloc(GM_LINE, (bytes + GM_LINE - 1) / GM_LINE * GM_LINE);
	if (!memory)
		abort();
	return memset(memory, 0, (bytes + GM_LINE - 1) / GM_LINE * GM_LINE);
}

static inline bool test_launch(struct fixture *f, unsigned warps, unsigned resident,
			       void (*kernel)(void *, uint32_t), void *arg)
{
	return gm_simt_launch(&(struct gm_simt){warps, resident, f->seed++, f->mode}, kernel, arg);
}

static inline void test_init_lane(void *arg, uint32_t thread)
{
	struct fixture *f = arg;
	f->policy->init(&f->heap, thread, 32);
}

/* A heap with room for `capacity` granules. The host has granted `granted` of them and grants no
 * more. */
static inline void test_open(struct fixture *f, const struct gm_policy *policy, uint32_t capacity,
			     uint32_t granted, uint32_t seed)
{
	memset(f, 0, sizeof *f);
	f->policy = policy;
	f->seed = seed;
	f->bytes = ((size_t)capacity + 1) << GM_GRANULE_SHIFT;
	f->memory = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (f->memory == MAP_FAILED)
		abort();
	/* No code may rely on the former contents: they are not zero. */
	for (size_t at = 0; at < f->bytes; at += GM_GRANULE / 2)
		memset(f->memory + at, 0xa5, 64 * 1024);
	f->heap.base = ((uintptr_t)f->memory + GM_GRANULE - 1) & ~(uintptr_t)(GM_GRANULE - 1);
	f->heap.capacity = capacity;
	f->heap.summaries = (capacity + 4095) / 4096;
	f->heap.mail = &f->mail;
	f->heap.free.word = test_zeroed((capacity + 63) / 64 * sizeof(uint64_t));
	f->heap.free.summary = test_zeroed(f->heap.summaries * sizeof(uint64_t));
	f->heap.run = test_zeroed(capacity * sizeof(uint32_t));
	f->heap.policy = test_zeroed(policy->bytes(capacity) + GM_LINE);
	f->behind = (char *)f->heap.policy + policy->bytes(capacity);
	f->mail.grant[0] = granted;
	f->mail.have.value = granted != 0;
	f->mail.refused.value = 1;
	gm_span_collect(&f->heap);
	if (!test_launch(f, 1, 1, test_init_lane, f))
		abort();
}

static inline void test_close(struct fixture *f)
{
	unsigned changed = 0;
	for (unsigned i = 0; f->heap.policy && i < GM_LINE; i++)
		changed += f->behind[i] != 0;
	TAP_IS(changed, 0, "%s: keeps to its memory", f->policy->name);
	munmap(f->memory, f->bytes);
	free(f->heap.free.word);
	free(f->heap.free.summary);
	free(f->heap.run);
	free(f->heap.policy);
}

static inline struct gm_heap_stats test_stats(struct fixture *f)
{
	struct gm_heap_stats stats = {0};
	f->policy->stats(&f->heap, &stats);
	return stats;
}

/* Fill the memory with words that count up from `number`, the allocation's own; 0 bytes hold
 * none. */
static inline void test_fill(void *address, size_t size, uint32_t number)
{
	uint32_t *word = address;
	for (size_t i = 0; i < size / 4; i++)
		word[i] = number + (uint32_t)i;
	for (size_t i = size & ~(size_t)3; i < size; i++)
		((unsigned char *)address)[i] = (unsigned char)number;
}

static inline bool test_holds(const void *address, size_t size, uint32_t number)
{
	const uint32_t *word = address;
	for (size_t i = 0; i < size / 4; i++)
		if (word[i] != number + (uint32_t)i)
			return false;
	for (size_t i = size & ~(size_t)3; i < size; i++)
		if (((const unsigned char *)address)[i] != (unsigned char)number)
			return false;
	return true;
}

static inline void test_count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
