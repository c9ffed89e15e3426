/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The random search policies by their memory accesses, counted in the emulation. A malloc makes one
 * atomic access of a word, and a little more as the pool fills up; a free makes one. Words that all
 * lanes read are read only through the cache. The pool grows while lanes wait for it, to the size
 * they need. Free memory is found even if no single word has room for the group, and even if the
 * lane that brings a granule to the pool is slow.
 */
#include "heap/device/simt.h"

static uint64_t changes, loads;
static unsigned delay; /* pauses before a granule is in the table */

static void delayed(void)
{
	for (unsigned i = 0; i < delay; i++)
		gm_pause(1);
}

#define COUNTED(counter, call) (__atomic_fetch_add(&(counter), 1, __ATOMIC_RELAXED), call)

/* A macro is not expanded in its own definition: these call the functions. */
#define gm_load32(word) COUNTED(loads, gm_load32(word))
#define gm_load64(word) COUNTED(loads, gm_load64(word))
#define gm_add32(word, value) COUNTED(changes, gm_add32(word, value))
#define gm_add64(word, value) COUNTED(changes, gm_add64(word, value))
#define gm_or32(word, value) COUNTED(changes, gm_or32(word, value))
#define gm_and32(word, value) COUNTED(changes, gm_and32(word, value))
#define gm_and64_freed(word, value) COUNTED(changes, gm_and64_freed(word, value))
#define gm_and64(word, value) COUNTED(changes, gm_and64(word, value))
#define gm_or64(word, value) COUNTED(changes, gm_or64(word, value))
#define gm_cas32(word, old, value) COUNTED(changes, gm_cas32(word, old, value))
#define gm_cas64(word, old, value) COUNTED(changes, gm_cas64(word, old, value))
#define gm_store32_release(word, value) (delayed(), gm_store32_release(word, value))

#include "tests/unit/heap_help.h"

#ifdef __SANITIZE_THREAD__
enum { WARPS = 16 }; /* emulated lanes are slow under the sanitizers */
#else
enum { WARPS = 64 };
#endif
enum { LANES = WARPS * 32, RESIDENT = 16 };

struct work {
	struct fixture f;
	size_t size; /* 0: 1 to 7 units */
	void *at[LANES];
	uint64_t null;
};

static void allocate(void *arg, uint32_t thread)
{
	struct work *work = arg;
	size_t size = work->size ? work->size : (thread % 7 + 1) * GM_RW_UNIT;
	work->at[thread] = work->f.policy->malloc(&work->f.heap, size);
	if (!work->at[thread])
		test_count(&work->null);
}

static void release(void *arg, uint32_t thread)
{
	struct work *work = arg;
	work->f.policy->free(&work->f.heap, work->at[thread]);
}

static bool walks(const struct gm_policy *policy)
{
	return strncmp(policy->name, "rw", 2) == 0 || strcmp(policy->name, "corw") == 0;
}

/* Accesses of a lane in one launch, in hundredths. */
static uint64_t share(uint64_t *counter)
{
	uint64_t each = *counter * 100 / LANES;
	*counter = 0;
	return each;
}

static void run(struct work *work, void (*kernel)(void *, uint32_t))
{
	changes = loads = 0;
	if (!test_launch(&work->f, WARPS, RESIDENT, kernel, work))
		TAP_OK(false, "%s: comes to its end", work->f.policy->name);
}

/*
 * Warm, in a heap that is four fifths full at the end. By the paper a lane takes 2.01 steps on
 * average with rw, if groups are a word each. corw also sets and clears a lock bit, and all set the
 * bits that join a group.
 */
static void check_accesses(struct work *work, const struct gm_policy *policy, size_t size,
			   uint32_t seed)
{
	const char *name = policy->name;
	bool joins = size > GM_RW_UNIT, locks = strcmp(name, "corw") == 0;
	uint64_t bytes = LANES * (joins ? size : GM_RW_UNIT);
	uint32_t granules = (uint32_t)((bytes + bytes / 4) >> GM_GRANULE_SHIFT) + 1;
	memset(work, 0, sizeof *work);
	work->size = size;
	test_open(&work->f, policy, granules, granules, seed);
	run(work, allocate);
	uint64_t cold = share(&loads);
	run(work, release);
	run(work, allocate);
	uint64_t most = (joins ? 300 : 200) + (locks ? 500 : 0);
	uint64_t warm = share(&changes), read = share(&loads);
	TAP_IS(work->null, 0, "%s, %zu bytes: there is memory", name, size);
	TAP_OK(warm >= 100 && warm <= most, "%s: %lu.%02lu atomic accesses a malloc", name,
	       (unsigned long)warm / 100, (unsigned long)warm % 100);
	TAP_OK(read <= (locks ? 300 : 20), "%s: %lu.%02lu loads miss the cache", name,
	       (unsigned long)read / 100, (unsigned long)read % 100);
	TAP_OK(cold <= 600, "%s: %lu.%02lu loads miss the first time", name,
	       (unsigned long)cold / 100, (unsigned long)cold % 100);
	run(work, release);
	warm = share(&changes);
	read = share(&loads);
	TAP_OK(warm == 100 && read <= 210,
	       "%s: a free is one atomic access, and %lu.%02lu loads miss", name,
	       (unsigned long)read / 100, (unsigned long)read % 100);
	TAP_IS(work->f.heap.foreign_frees, 0, "%s: no free is invalid", name);
	TAP_IS(test_stats(&work->f).live_bytes, 0, "%s: no byte is live after all frees", name);
	test_close(&work->f);
}

static void allocate_share(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (uint32_t i = 0; i < GM_RW_UNITS / LANES; i++)
		allocate(work, thread);
}

/* All units of a granule, taken by lanes that find the pool empty. Returns hundredths of an atomic
 * access a malloc. */
static uint64_t check_all_units(struct work *work, const struct gm_policy *policy, uint32_t seed)
{
	memset(work, 0, sizeof *work);
	work->size = GM_RW_UNIT;
	test_open(&work->f, policy, 1, 1, seed);
	run(work, allocate_share);
	uint64_t steps = share(&changes) * LANES / GM_RW_UNITS;
	TAP_IS(work->null, 0, "%s: all units of a granule are taken by %lu.%02lu accesses each",
	       policy->name, (unsigned long)steps / 100, (unsigned long)steps % 100);
	test_close(&work->f);
	return steps;
}

/* Lanes take all granules from the heap and are slow to enter them in the pool's table. Other lanes
 * wait, for there is room for all. */
static void check_slow_granules(struct work *work, const struct gm_policy *policy, uint32_t seed)
{
	memset(work, 0, sizeof *work);
	work->size = GM_RW_UNIT;
	test_open(&work->f, policy, 2, 2, seed);
	delay = 4000;
	bool ends = test_launch(&work->f, 2, 2, allocate, work);
	delay = 0;
	TAP_OK(ends, "%s: a lane that is slow with a granule comes to its end", policy->name);
	TAP_IS(work->null, 0, "%s: lanes wait for granules that others bring", policy->name);
	test_close(&work->f);
}

/* Groups of different sizes, more than fit: lanes that search all words in order collide, and leave
 * no bits behind. */
static void check_mixed(struct work *work, const struct gm_policy *policy, uint32_t seed)
{
	memset(work, 0, sizeof *work);
	test_open(&work->f, policy, 1, 1, seed);
	for (unsigned i = 0; i < 3; i++) {
		void *rest = work->f.policy->malloc(&work->f.heap, GM_GRANULE / 2);
		void *more =
			LANES < 2000 ? work->f.policy->malloc(&work->f.heap, GM_GRANULE / 4) : NULL;
		run(work, allocate);
		run(work, release);
		work->f.policy->free(&work->f.heap, rest);
		work->f.policy->free(&work->f.heap, more);
	}
	TAP_OK(work->null > 0, "%s: groups of all sizes until there is no room", policy->name);
	TAP_IS(test_stats(&work->f).live_bytes, 0, "%s: all memory is free again", policy->name);
	TAP_IS(work->f.heap.foreign_frees, 0, "%s: each group is freed once", policy->name);
	test_close(&work->f);
}

/* The last units of a granule, one by one: a random walk does not find them. */
static void units(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	uint32_t n = 0;
	if (thread != 0)
		return;
	while (work->f.policy->malloc(heap, 100))
		n++;
	TAP_IS(n, GM_RW_UNITS, "%s: all units of a granule by one lane", work->f.policy->name);
}

/* Two used units in each word, 16 apart, leave no word room for 16 units. The end of a word and the
 * beginning of the next one together have that room. */
static void fragment(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	struct gm_rw *rw = gm_rw_of(heap);
	if (thread != 0)
		return;
	void *first = work->f.policy->malloc(heap, 1);
	for (uint32_t w = 0; w < GM_RW_WORDS; w++)
		gm_or32(&gm_rw_word(rw, w)->used, 1u << 8 | 1u << 23);
	void *across = work->f.policy->malloc(heap, (size_t)16 * GM_RW_UNIT);
	uint64_t unit = ((uintptr_t)across - heap->base) / GM_RW_UNIT;
	TAP_OK(across && unit % 32 + 16 > 32, "%s: a group lies across two words",
	       work->f.policy->name);
	TAP_IS(work->f.policy->usable(heap, across), 16 * GM_RW_UNIT, "%s: the group has its size",
	       work->f.policy->name);
	TAP_OK(!work->f.policy->malloc(heap, (size_t)17 * GM_RW_UNIT),
	       "%s: a group of 17 units is refused", work->f.policy->name);
	work->f.policy->free(heap, (char *)across + (32 - unit % 32) * GM_RW_UNIT);
	TAP_IS(heap->foreign_frees, 1, "%s: the group is not freed where the second word begins",
	       work->f.policy->name);
	work->f.policy->free(heap, across);
	TAP_IS(work->f.policy->usable(heap, across), 0, "%s: the group is freed",
	       work->f.policy->name);
	work->f.policy->free(heap, first);
	TAP_IS(heap->foreign_frees, 1, "%s: the free of the group is valid", work->f.policy->name);
}

/* Adjacent blocks that end or begin at a border of words. */
static void border(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	const struct gm_policy *policy = work->f.policy;
	static char *at[GM_RW_WORDS];
	uint64_t wrong = 0;
	if (thread != 0)
		return;
	for (uint32_t i = 0; i < GM_RW_WORDS; i++)
		at[i] = policy->malloc(heap, 8192);
	for (uint32_t i = 0; i < GM_RW_WORDS; i++) {
		wrong += !at[i] || policy->usable(heap, at[i]) != 8192;
		wrong += policy->usable(heap, at[i] + GM_RW_UNIT) != 0;
		policy->free(heap, at[i] + GM_RW_UNIT);
	}
	TAP_IS(wrong, 0, "%s: blocks of a word each, next to each other", policy->name);
	TAP_IS(heap->foreign_frees, GM_RW_WORDS,
	       "%s: blocks of a word each are not freed from inside", policy->name);
	TAP_OK(!policy->malloc(heap, 1), "%s: blocks of a word each fill the granule",
	       policy->name);
	for (uint32_t i = 0; i < GM_RW_WORDS; i++) {
		policy->free(heap, at[i]);
		policy->free(heap, at[i]);
	}
	TAP_IS(heap->foreign_frees, 2 * GM_RW_WORDS, "%s: blocks of a word each are freed once",
	       policy->name);
}

/* One unit of two full granules is freed. A random probe is unlikely to hit it. */
static void last_unit(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct gm_heap *heap = &work->f.heap;
	struct gm_rw *rw = gm_rw_of(heap);
	if (thread != 0)
		return;
	while (work->f.policy->malloc(heap, GM_GRANULE / 2))
		;
	for (uint32_t w = 0; w < 2 * GM_RW_WORDS; w++)
		gm_or32(&gm_rw_word(rw, w)->used, ~0u);
	uint32_t word = rw->granule[rw->held - 1] * GM_RW_WORDS - 1;
	gm_and32(&gm_rw_word(rw, word)->used, ~(1u << 31));
	TAP_IS(rw->held, 2, "%s: the heap holds two granules", work->f.policy->name);
	char *found = work->f.policy->malloc(heap, 1);
	TAP_PTR(found, (char *)(uintptr_t)heap->base + (uint64_t)(word * 32 + 31) * GM_RW_UNIT,
		"%s: the last unit of the last granule is found", work->f.policy->name);
}

int main(void)
{
	static struct work work;
	static const size_t sizes[] = {16, 256, 1024, 4096, 8192};
	static const struct {
		void (*kernel)(void *, uint32_t);
		uint32_t granules;
	} rows[] = {{units, 1}, {fragment, 1}, {border, 1}, {last_unit, 2}};
	uint32_t seed = test_seed();
	uint64_t steps[GM_POLICIES];
	for (unsigned p = 0; p < GM_POLICIES; p++) {
		if (!walks(&gm_policies[p]))
			continue;
		for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
			check_accesses(&work, &gm_policies[p], sizes[s], seed);
		steps[p] = check_all_units(&work, &gm_policies[p], seed);
		if (strcmp(gm_policies[p].name, "rw-bm") == 0)
			TAP_OK(steps[p] * 4 < steps[p - 1] * 3,
			       "rw-bm: a walk takes fewer accesses than rw's, as it tries all bits "
			       "of a word");
		check_slow_granules(&work, &gm_policies[p], seed);
		check_mixed(&work, &gm_policies[p], seed);
		for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
			memset(&work, 0, sizeof work);
			test_open(&work.f, &gm_policies[p], rows[i].granules, rows[i].granules,
				  seed);
			test_launch(&work.f, 1, 1, rows[i].kernel, &work);
			test_close(&work.f);
		}
	}
	return tap_done();
}
