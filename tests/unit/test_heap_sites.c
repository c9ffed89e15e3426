/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of malloc and free by call (heap/device/sites.h): exact for many warps, wrong frees at the
 * call that makes them. The words that hold the numbers of blocks have other values at first.
 */
#include "heap/device/sites.h"

#include "heap_help.h"

enum { WARPS = 24, LANES = WARPS * 32, EACH = 6 };

struct run {
	struct fixture f;
	struct gm_sites_read *read;
	void *block[LANES][EACH];
	size_t size;
};

/* Return addresses, in a page of their own: a reading reads the words around. */
enum { FIRST = 64 };
static _Alignas(4096) uint64_t calls[FIRST + 2048 + 192][2]; /* whole pages */

static uint64_t call_of(unsigned n)
{
	return (uint64_t)(uintptr_t)calls[FIRST + n];
}

static void open_run(struct run *r, enum gm_simt_mode mode, uint32_t capacity)
{
	const struct gm_policy *policy = gm_policies;
	while (strcmp(policy->name, "granule") != 0)
		policy++;
	memset(r, 0, sizeof *r);
	test_open(&r->f, policy, capacity, capacity, test_seed());
	r->f.mode = mode;
	const size_t numbers = ((size_t)capacity << GM_GRANULE_SHIFT) / GM_SITE_NUMBERED * 2;
	r->f.heap.sites = test_zeroed(sizeof *r->f.heap.sites);
	r->f.heap.numbers = malloc(numbers);
	r->read = test_zeroed(sizeof *r->read);
	if (!r->f.heap.numbers)
		abort();
	memset(r->f.heap.numbers, 0xa5, numbers);
}

static void close_run(struct run *r)
{
	free(r->f.heap.sites);
	free(r->f.heap.numbers);
	free(r->read);
	test_close(&r->f);
}

static void *site_malloc(struct run *r, size_t size, uint64_t from)
{
	return gm_sites_malloc(&r->f.heap, size, from);
}

static void site_free(struct run *r, void *address, uint64_t from)
{
	uint32_t wrong = gm_sites_free(&r->f.heap, address);
	if (wrong)
		gm_sites_wrong(&r->f.heap, address, wrong, from);
}

static void read_lane(void *arg, uint32_t thread)
{
	struct run *r = arg;
	gm_sites_read(&r->f.heap, r->read, thread, 256);
}

/* The figures of a call; all 0: it has no site. */
static struct gm_site_figures figures(struct run *r, uint64_t from)
{
	if (!test_launch(&r->f, 8, 8, read_lane, r))
		abort();
	for (unsigned i = 0; i < GM_SITES; i++)
		if (r->read->figures[i].address == from)
			return r->read->figures[i];
	return (struct gm_site_figures){0};
}

static size_t size_of(uint32_t thread, unsigned i)
{
	static const size_t sizes[] = {0, 1, 64, 100, 1000, 5000, 64 * 1024};
	return sizes[(thread / 40 + i) % 7];
}

/* Calls 0, 1 and 2 allocate; call 3 frees all blocks of call 0, and some of call 1. */
static void mixed_lane(void *arg, uint32_t thread)
{
	struct run *r = arg;
	for (unsigned i = 0; i < EACH; i++)
		r->block[thread][i] = site_malloc(r, size_of(thread, i), call_of((thread + i) % 3));
	for (unsigned i = 0; i < EACH; i++)
		if ((thread + i) % 3 == 0 || ((thread + i) % 3 == 1 && thread % 2))
			site_free(r, r->block[thread][i], call_of(3));
}

static void test_mixed(enum gm_simt_mode mode)
{
	struct run r;
	uint64_t mallocs[3] = {0}, bytes[3] = {0}, frees[3] = {0}, freed[3] = {0}, wrong = 0;
	open_run(&r, mode, 96);
	TAP_OK(test_launch(&r.f, WARPS, 8, mixed_lane, &r), "%u lanes allocate and free", LANES);
	for (unsigned t = 0; t < LANES; t++)
		for (unsigned i = 0; i < EACH; i++) {
			const unsigned call = (t + i) % 3;
			const uint64_t size = gm_granule_size(gm_granule_class_of(size_of(t, i)));
			const bool gone = call == 0 || (call == 1 && t % 2);
			mallocs[call]++;
			bytes[call] += size;
			frees[call] += gone;
			freed[call] += gone * size;
		}
	for (unsigned call = 0; call < 3; call++) {
		struct gm_site_figures is = figures(&r, call_of(call));
		TAP_OK(is.at[GM_SITE_MALLOCS] == mallocs[call] &&
			       is.at[GM_SITE_BYTES] == bytes[call],
		       "call %u: all mallocs count", call);
		TAP_OK(is.at[GM_SITE_FREES] == frees[call] &&
			       is.at[GM_SITE_FREED_BYTES] == freed[call],
		       "call %u: all frees of its blocks count", call);
		wrong += is.at[GM_SITE_NULLS] + is.at[GM_SITE_TWICE] + is.at[GM_SITE_INVALID];
	}
	TAP_IS(wrong, 0, "no place has a wrong call");
	TAP_IS(figures(&r, call_of(3)).address, 0, "a call that frees well is no site");
	TAP_IS(r.f.heap.foreign_frees, 0, "the heap counts no invalid free");
	close_run(&r);
}

/* --- wrong frees --- */

static void twice_lane(void *arg, uint32_t thread)
{
	struct run *r = arg;
	if (thread == 0)
		__atomic_store_n(&r->block[0][0], site_malloc(r, 200, call_of(0)),
				 __ATOMIC_RELEASE);
	gm_syncwarp(~0u);
	site_free(r, __atomic_load_n(&r->block[0][0], __ATOMIC_ACQUIRE), call_of(1));
	gm_syncwarp(~0u);
	site_free(r, __atomic_load_n(&r->block[0][0], __ATOMIC_ACQUIRE), call_of(2));
}

static void test_twice(enum gm_simt_mode mode)
{
	struct run r;
	open_run(&r, mode, 96);
	TAP_OK(test_launch(&r.f, 1, 1, twice_lane, &r), "a warp frees one block twice");
	struct gm_site_figures made = figures(&r, call_of(0));
	TAP_OK(made.at[GM_SITE_MALLOCS] == 1 && made.at[GM_SITE_FREES] == 1 &&
		       made.at[GM_SITE_BYTES] == made.at[GM_SITE_FREED_BYTES],
	       "one free of a block counts");
	TAP_IS(figures(&r, call_of(1)).at[GM_SITE_TWICE], 31, "31 lanes freed a free block");
	TAP_IS(figures(&r, call_of(2)).at[GM_SITE_TWICE], 32,
	       "32 lanes freed a free block at another call");
	TAP_IS(r.f.heap.foreign_frees, 63, "the heap counts frees of a free block");
	TAP_IS(test_stats(&r.f).live_bytes, 0, "no block is alive after all frees");
	close_run(&r);
}

static void invalid_lane(void *arg, uint32_t thread)
{
	struct run *r = arg;
	char *block = site_malloc(r, 1000, call_of(0)), *odd = block;
	if (thread % 4 == 0)
		odd = block + 16;
	if (thread % 4 == 1)
		odd = (char *)r;
	if (thread % 4 == 2)
		odd = (char *)(uintptr_t)r->f.heap.base +
		      ((uint64_t)r->f.heap.capacity << GM_GRANULE_SHIFT) - 64;
	if (thread % 4 == 3)
		odd = NULL;
	site_free(r, odd, call_of(1));
	site_free(r, block, call_of(2));
}

static void test_invalid(void)
{
	struct run r;
	open_run(&r, GM_SIMT_FAIR, 24);
	TAP_OK(test_launch(&r.f, 2, 2, invalid_lane, &r), "frees inside and outside of blocks");
	struct gm_site_figures made = figures(&r, call_of(0)), wrong = figures(&r, call_of(1));
	TAP_IS(wrong.at[GM_SITE_INVALID], 48, "invalid frees are counted, but not free(NULL)");
	TAP_IS(wrong.at[GM_SITE_TWICE], 0, "invalid frees do not count as frees of a free block");
	TAP_OK(made.at[GM_SITE_MALLOCS] == 64 && made.at[GM_SITE_FREES] == 64,
	       "the blocks of invalid frees are freed later all the same");
	TAP_IS(figures(&r, call_of(2)).address, 0,
	       "a call without a fault has no place of its own");
	close_run(&r);
}

/* --- the limit, and large blocks --- */

static void full_lane(void *arg, uint32_t thread)
{
	struct run *r = arg;
	r->block[thread][0] = site_malloc(r, r->size, call_of(5));
	if (!r->block[thread][0])
		site_malloc(r, SIZE_MAX / 2, call_of(6));
}

static void test_full(size_t size, unsigned granules)
{
	struct run r;
	uint64_t got = 0;
	open_run(&r, GM_SIMT_FAIR, 24);
	r.size = size;
	TAP_OK(test_launch(&r.f, 2, 2, full_lane, &r), "64 lanes ask for %zu bytes each", size);
	for (unsigned t = 0; t < 64; t++)
		got += r.block[t][0] != NULL;
	struct gm_site_figures is = figures(&r, call_of(5));
	TAP_IS(is.at[GM_SITE_MALLOCS], got, "%ju lanes got a block", (uintmax_t)got);
	TAP_IS(is.at[GM_SITE_NULLS], 64 - got, "the other lanes got NULL");
	TAP_IS(is.at[GM_SITE_BYTES], got * granules << GM_GRANULE_SHIFT,
	       "the bytes of blocks count in whole granules");
	TAP_IS(figures(&r, call_of(6)).at[GM_SITE_NULLS], 64 - got,
	       "NULL is counted at another call");
	close_run(&r);
}

/* --- the table --- */

static void many_lane(void *arg, uint32_t thread)
{
	struct run *r = arg;
	site_malloc(r, 16, call_of(thread));
}

static void test_many(void)
{
	struct run r;
	uint64_t sum = 0, sites = 0;
	open_run(&r, GM_SIMT_CROWD, 24);
	TAP_OK(test_launch(&r.f, 64, 16, many_lane, &r), "2048 calls come to their end");
	figures(&r, 1);
	for (unsigned i = 1; i < GM_SITES; i++) {
		sites += r.read->figures[i].address != 0;
		sum += r.read->figures[i].at[GM_SITE_MALLOCS];
	}
	TAP_OK(sites > GM_SITES / 2 && sites == sum,
	       "most places of the table are used, once each");
	TAP_IS(r.read->figures[0].at[GM_SITE_MALLOCS], 2048 - sum,
	       "the calls without a place count as place 0");
	close_run(&r);
}

static void test_code(void)
{
	struct run r;
	_Alignas(4096) static uint64_t page[512];
	for (unsigned i = 0; i < 512; i++)
		page[i] = i + 1;
	open_run(&r, GM_SIMT_FAIR, 24);
	site_malloc(&r, 16, (uint64_t)(uintptr_t)&page[64]);
	site_malloc(&r, 16, (uint64_t)(uintptr_t)&page[4]);
	figures(&r, 1);
	uint32_t far = gm_sites_find(r.f.heap.sites, (uint64_t)(uintptr_t)&page[64]),
		 near = gm_sites_find(r.f.heap.sites, (uint64_t)(uintptr_t)&page[4]);
	TAP_OK(r.read->code[far].word[0] == 33 && r.read->code[far].word[32] == 65 &&
		       r.read->code[far].word[63] == 96,
	       "the code around the return address is read");
	TAP_OK(r.read->code[near].word[27] == 0 && r.read->code[near].word[28] == 1 &&
		       r.read->code[near].word[63] == 36,
	       "the code beyond 4 KiB is not read");
	close_run(&r);
}

/* Code that may have been unloaded is not read, not even by a later reading. */
static void test_blind(void)
{
	struct run r;
	open_run(&r, GM_SIMT_FAIR, 4);
	site_free(&r, site_malloc(&r, 64, call_of(100)), 0);
	r.read->blind = 1;
	TAP_IS(figures(&r, call_of(100)).at[GM_SITE_MALLOCS], 1, "a blind reading has the figures");
	r.read->blind = 0;
	figures(&r, call_of(100));
	bool any = false;
	for (unsigned i = 0; i < GM_SITES; i++)
		for (unsigned word = 0; word < GM_SITE_WORDS; word++)
			any = any || r.read->code[i].word[word];
	TAP_OK(!any, "a blind reading has no code, nor has the next one");
	close_run(&r);
}

int main(void)
{
	for (enum gm_simt_mode mode = GM_SIMT_FAIR; mode <= GM_SIMT_UNFAIR; mode++) {
		test_mixed(mode);
		test_twice(mode);
	}
	test_invalid();
	test_full(3 << 20, 2);
	test_full(1 << 21, 1);
	test_many();
	test_code();
	test_blind();
	return tap_done();
}
