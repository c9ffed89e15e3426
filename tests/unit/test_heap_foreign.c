/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invalid frees, for every policy: they change only the count of invalid frees. All structures of
 * the heap are compared byte by byte. Access to the memory around the heap, and to granules not
 * granted to it, faults as on a GPU.
 */
#include "tests/unit/heap_help.h"

enum { GRANULES = 14, CAPACITY = 64, EACH = 3, LANES = 64, ANYWHERE = 2000, AGAIN = 40 };
enum { MOST = 8192, PAGE = 4096, AREAS = 8 };

/* Large ones first: they need granules side by side. */
static const size_t sizes[] = {5 << 19, 1000000, 20000, 5000, 300, 48, 1};
enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS = SIZES * EACH };

/*
 * The contents of unused memory imitate metadata: read as the head of a kma superblock, this word
 * has 1013 of 1014 blocks of 16 bytes free; read as the head of an Ouroboros chunk, it has pages of
 * 16 bytes.
 */
#define LIKE_BOOKS (1ull << 32 | ((1ull << 30) + 1013))

struct area {
	const char *name;
	void *at;
	size_t size;
	void *copy;
};

struct work {
	struct fixture f, other;
	unsigned char *live[BLOCKS], *twice[BLOCKS], *earlier[BLOCKS];
	unsigned char *bad[MOST]; /* the next pointers to free */
	unsigned bads;
	uint64_t host[32];
	unsigned char *mine[LANES][AGAIN];
	uint64_t null, damaged;
	struct area area[AREAS];
};

/* --- the heap, with guards --- */

static void forbid(uint64_t from, uint64_t end)
{
	if (end > from && mprotect((void *)(uintptr_t)from, end - from, PROT_NONE) != 0)
		abort();
}

static size_t guarded_size(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
}

/* Zeroed memory between two inaccessible pages. */
static char *guarded(size_t bytes)
{
	size_t size = guarded_size(bytes);
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		abort();
	forbid((uintptr_t)memory, (uintptr_t)memory + PAGE);
	forbid((uintptr_t)memory + size - PAGE, (uintptr_t)memory + size);
	return memory + PAGE;
}

static void open_guarded(struct fixture *f, const struct gm_policy *policy)
{
	test_open(f, policy, CAPACITY, GRANULES, test_seed());
	free(f->heap.policy);
	f->heap.policy = guarded(policy->bytes(CAPACITY));
	if (!test_launch(f, 1, 1, test_init_lane, f))
		abort();
	forbid((uintptr_t)f->memory, f->heap.base);
	forbid((uintptr_t)gm_span_address(&f->heap, GRANULES), (uintptr_t)f->memory + f->bytes);
}

static void close_guarded(struct fixture *f)
{
	size_t bytes = f->policy->bytes(CAPACITY);
	munmap((char *)f->heap.policy - PAGE, guarded_size(bytes));
	f->heap.policy = NULL;
	test_close(f);
}

/* --- live allocations, freed ones, and ones freed long ago --- */

/* Allocate all memory that can be had at once, and fill it with imitated metadata. */
static void spoil(struct fixture *f)
{
	uint64_t *run = NULL;
	size_t n = GRANULES + 1;
	while (!run && --n > 1)
		run = f->policy->malloc(&f->heap, n << GM_GRANULE_SHIFT);
	for (size_t i = 0; run && i < n << (GM_GRANULE_SHIFT - 3); i++)
		run[i] = LIKE_BOOKS;
	f->policy->free(&f->heap, run);
}

static void allocate(struct work *work, unsigned char *block[BLOCKS])
{
	for (unsigned b = 0; b < BLOCKS; b++) {
		block[b] = work->f.policy->malloc(&work->f.heap, sizes[b / EACH]);
		if (block[b])
			test_fill(block[b], sizes[b / EACH], b * 77);
		else
			work->null++;
	}
}

static void prepare(void *arg, uint32_t thread)
{
	struct work *work = arg;
	struct fixture *f = &work->f;
	if (thread != 0)
		return;
	spoil(f);
	if (f->policy->can & GM_POLICY_FREES) {
		allocate(work, work->earlier);
		for (unsigned b = 0; b < BLOCKS; b++)
			f->policy->free(&f->heap, work->earlier[b]);
		f->policy->trim(&f->heap);
		spoil(f);
	}
	allocate(work, work->live);
	for (unsigned b = 1; b < BLOCKS && f->policy->can & GM_POLICY_FREES; b += EACH) {
		f->policy->free(&f->heap, work->live[b]);
		work->twice[b] = work->live[b];
		work->live[b] = NULL;
	}
}

/* --- pointers of each class --- */

static void add(struct work *work, uint64_t address)
{
	bool valid = address == 0;
	for (unsigned b = 0; b < BLOCKS; b++)
		valid |= (uintptr_t)work->live[b] == address;
	if (valid)
		return;
	if (work->bads == MOST)
		abort();
	work->bad[work->bads++] = (unsigned char *)(uintptr_t)address;
}

static void below(struct work *work)
{
	static const uint32_t far[] = {1, 4, 8, 16, 32, 64, 256, 4096, 8192, 16384, GM_GRANULE};
	for (unsigned b = 0; b < BLOCKS; b++)
		for (unsigned i = 0; work->live[b] && i < sizeof far / sizeof *far; i++)
			add(work, (uintptr_t)work->live[b] - far[i]);
}

static void inside(struct work *work)
{
	for (unsigned b = 0; b < BLOCKS; b++) {
		size_t size = work->live[b] ? sizes[b / EACH] : 0;
		for (size_t at = 1; at < size; at *= 2) {
			add(work, (uintptr_t)work->live[b] + at);
			add(work, (uintptr_t)work->live[b] + size - at);
			add(work, (uintptr_t)work->live[b] + size / 2 / at * at);
		}
	}
}

/* Addresses near the borders of granules [from, end): above the lower border, or below the upper
 * one. */
static void near(struct work *work, unsigned from, unsigned end, bool above)
{
	for (unsigned g = from; g < end; g++) {
		uint64_t border = (uintptr_t)gm_span_address(&work->f.heap, g + !above);
		if (above)
			add(work, border);
		for (uint64_t at = 1; at < GM_GRANULE; at *= 2) {
			add(work, above ? border + at : border - at);
			add(work, above ? border + 3 * at / 2 : border - 3 * at / 2);
		}
	}
}

/* The places of policy `granule`'s bitmaps, and of Ouroboros' chunk heads. */
static void begins(struct work *work)
{
	near(work, 0, GRANULES, true);
}

static void ends(struct work *work)
{
	near(work, 0, GRANULES, false);
}

static void not_granted(struct work *work)
{
	near(work, GRANULES, CAPACITY, true);
	near(work, GRANULES, CAPACITY, false);
}

static void outside(struct work *work)
{
	const struct gm_heap *heap = &work->f.heap;
	const struct gm_heap *other = &work->other.heap;
	uint64_t end = heap->base + ((uint64_t)CAPACITY << GM_GRANULE_SHIFT);
	for (uint64_t at = 1; at; at *= 2) {
		add(work, heap->base - at);
		add(work, end + at - 1);
		add(work, at);
		add(work, 0 - at);
	}
	const void *host[] = {work->host, work->host + 2, heap,	      heap->policy,
			      heap->run,  &end,		  heap->mail, other->policy};
	for (unsigned i = 0; i < sizeof host / sizeof *host; i++)
		add(work, (uintptr_t)host[i]);
	for (unsigned b = 0; b < 2; b++)
		add(work, other->base + b * 16);
}

static void twice(struct work *work)
{
	for (unsigned b = 0; b < BLOCKS; b++)
		add(work, (uintptr_t)work->twice[b]);
}

static void earlier(struct work *work)
{
	for (unsigned b = 0; b < BLOCKS; b++)
		add(work, (uintptr_t)work->earlier[b]);
}

static void anywhere(struct work *work)
{
	uint32_t seed = test_seed();
	for (unsigned i = 0; i < ANYWHERE; i++) {
		uint64_t offset = (uint64_t)(gm_rw_random(&seed) % GRANULES) * GM_GRANULE;
		offset += gm_rw_random(&seed) & (GM_GRANULE - 1) & (i % 2 ? ~0u : ~15u);
		add(work, work->f.heap.base + offset);
	}
}

/* --- no change --- */

static void free_bad(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (unsigned i = thread; i < work->bads; i += LANES)
		work->f.policy->free(&work->f.heap, work->bad[i]);
}

/* All sizes are multiples of 8. */
static void watch(struct work *work)
{
	struct gm_heap *heap = &work->f.heap;
	const struct area area[AREAS] = {
		{"memory", (void *)(uintptr_t)heap->base, GRANULES * GM_GRANULE, NULL},
		{"policy", heap->policy, guarded_size(work->f.policy->bytes(CAPACITY)) - 2 * PAGE,
		 NULL},
		{"run", heap->run, CAPACITY * sizeof *heap->run, NULL},
		{"free", heap->free.word, sizeof(uint64_t), NULL},
		{"summary", heap->free.summary, sizeof(uint64_t), NULL},
		{"heap", heap, sizeof *heap, NULL},
		{"mailbox", heap->mail, sizeof *heap->mail, NULL},
		{"memory of the host", work->host, sizeof work->host, NULL},
	};
	memcpy(work->area, area, sizeof area);
	for (unsigned a = 0; a < AREAS; a++) {
		work->area[a].copy = malloc(area[a].size);
		if (!work->area[a].copy)
			abort();
		memcpy(work->area[a].copy, area[a].at, area[a].size);
	}
}

static void unwatch(struct work *work)
{
	for (unsigned a = 0; a < AREAS; a++)
		free(work->area[a].copy);
}

/* memcmp is slow under the sanitizers and valgrind, and there is much to compare. */
__attribute__((no_sanitize("thread"))) static bool differs(const struct area *area)
{
	const uint64_t *now = area->at, *before = area->copy;
	uint64_t other = 0;
	for (size_t i = 0; i < area->size / 8; i++)
		other |= now[i] ^ before[i];
	return other != 0;
}

/* The name of the first changed area; NULL: none. */
static const char *changed(struct work *work)
{
	const char *name = NULL;
	uint64_t *count = &work->f.heap.foreign_frees, seen = *count;
	for (unsigned a = 0; a < AREAS; a++) {
		struct area *area = &work->area[a];
		if (area->at == &work->f.heap)
			*count = ((struct gm_heap *)area->copy)->foreign_frees;
		if (!differs(area))
			continue;
		name = area->name;
		memcpy(area->copy, area->at, area->size);
	}
	*count = seen;
	return name;
}

/* bump refuses addresses outside its granules; it cannot tell blocks from other memory inside
 * them. */
static const struct {
	const char *name;
	void (*collect)(struct work *work);
	bool known; /* bump detects it, too */
} classes[] = {
	{"below a block", below, false},
	{"inside a block", inside, false},
	{"where a granule begins", begins, false},
	{"where a granule ends", ends, false},
	{"not granted", not_granted, true},
	{"outside", outside, true},
	{"freed twice", twice, false},
	{"of an earlier life", earlier, false},
	{"anywhere", anywhere, false},
};

static void test_class(struct work *work, unsigned c)
{
	const struct gm_policy *policy = work->f.policy;
	const char *name = classes[c].name;
	unsigned usable = 0;
	work->bads = 0;
	classes[c].collect(work);
	uint64_t before = work->f.heap.foreign_frees;
	TAP_OK(test_launch(&work->f, LANES / 32, LANES / 32, free_bad, work),
	       "%s, %s: %u frees come to their end", policy->name, name, work->bads);
	uint64_t counted = work->f.heap.foreign_frees - before;
	for (unsigned i = 0; i < work->bads; i++)
		usable += policy->usable(&work->f.heap, work->bad[i]) != 0;
	const char *what = changed(work);
	TAP_OK(!what, "%s, %s: %s is as it was", policy->name, name, what ? what : "all");
	TAP_IS(usable, 0, "%s, %s: no byte of them is usable", policy->name, name);
	if (policy->can & GM_POLICY_FREES || classes[c].known)
		TAP_IS(counted, work->bads, "%s, %s: each wrong free is counted", policy->name,
		       name);
}

static bool all_hold(const struct work *work)
{
	for (unsigned b = 0; b < BLOCKS; b++)
		if (work->live[b] && !test_holds(work->live[b], sizes[b / EACH], b * 77))
			return false;
	return true;
}

/* --- together with valid frees --- */

/* For each size, all lanes of the warp free the same block at once. */
static void free_one(void *arg, uint32_t thread)
{
	struct work *work = arg;
	(void)thread;
	for (unsigned b = 0; b < BLOCKS; b += EACH)
		work->f.policy->free(&work->f.heap, work->live[b]);
}

static void take(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (unsigned i = 0; i < AGAIN; i++) {
		size_t size = sizes[SIZES - 1 - (thread + i) % 4];
		work->mine[thread][i] = work->f.policy->malloc(&work->f.heap, size);
		if (work->mine[thread][i])
			test_fill(work->mine[thread][i], size, thread * 1000 + i);
		else
			test_count(&work->null);
	}
}

/* In each call half of the warp's frees are valid. */
static void give(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (unsigned i = 0; i < AGAIN; i++) {
		unsigned char *mine = work->mine[thread][i];
		size_t size = sizes[SIZES - 1 - (thread + i) % 4];
		if (mine && !test_holds(mine, size, thread * 1000 + i))
			test_count(&work->damaged);
		gm_syncwarp(~0u);
		work->f.policy->free(&work->f.heap, thread % 2 ? mine : mine + 8);
		gm_syncwarp(~0u);
		work->f.policy->free(&work->f.heap, mine);
	}
}

static void free_live(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (unsigned b = thread; b < BLOCKS; b += LANES)
		work->f.policy->free(&work->f.heap, work->live[b]);
}

/* No validly freed memory was lost, and no memory is allocated twice. */
static void test_valid(struct work *work)
{
	struct fixture *f = &work->f;
	const char *name = f->policy->name;
	uint64_t before = f->heap.foreign_frees;
	TAP_OK(test_launch(f, 1, 1, free_one, work), "%s: a warp frees one block", name);
	TAP_IS(f->heap.foreign_frees - before, SIZES * 31,
	       "%s: 31 lanes free a block of another lane in vain", name);
	for (unsigned b = 0; b < BLOCKS; b += EACH)
		work->live[b] = NULL;
	TAP_OK(test_launch(f, LANES / 32, LANES / 32, take, work),
	       "%s: malloc goes on after wrong frees", name);
	before = f->heap.foreign_frees;
	TAP_OK(all_hold(work), "%s: other live blocks keep their contents", name);
	TAP_OK(test_launch(f, LANES / 32, LANES / 32, give, work),
	       "%s: lanes free blocks that are valid or not", name);
	TAP_IS(work->damaged, 0, "%s: nothing is handed out twice", name);
	TAP_IS(f->heap.foreign_frees - before, LANES * AGAIN,
	       "%s: half of the frees of each lane is counted", name);
	before = f->heap.foreign_frees;
	TAP_OK(test_launch(f, LANES / 32, LANES / 32, free_live, work),
	       "%s: the remaining blocks are freed", name);
	TAP_IS(f->heap.foreign_frees, before, "%s: valid blocks are freed as usual", name);
	TAP_IS(test_stats(f).live_bytes, 0, "%s: no byte is live after all frees", name);
	TAP_IS(work->null, 0, "%s: no lane gets NULL", name);
}

static void test_policy(const struct gm_policy *policy)
{
	static struct work work;
	memset(&work, 0, sizeof work);
	open_guarded(&work.f, policy);
	open_guarded(&work.other, policy);
	memset(work.host, 0xa5, sizeof work.host);
	TAP_OK(test_launch(&work.f, 1, 1, prepare, &work), "%s: a heap in use", policy->name);
	TAP_IS(work.null, 0, "%s: a heap in use has blocks of all sizes", policy->name);
	watch(&work);
	for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++)
		test_class(&work, c);
	uint64_t before = work.f.heap.foreign_frees;
	policy->free(&work.f.heap, NULL);
	TAP_OK(!changed(&work) && work.f.heap.foreign_frees == before,
	       "%s: a free of NULL is nothing", policy->name);
	unwatch(&work);
	TAP_OK(all_hold(&work), "%s: live blocks keep their contents", policy->name);
	if (policy->can & GM_POLICY_FREES)
		test_valid(&work);
	close_guarded(&work.other);
	close_guarded(&work.f);
}

int main(void)
{
	for (unsigned p = 0; p < GM_POLICIES; p++)
		test_policy(&gm_policies[p]);
	return tap_done();
}
