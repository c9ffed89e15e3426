// SPDX-License-Identifier: BSD-3-Clause
/*
 * Every policy of the device heap on the GPU: each block is written in full, and read again by
 * another kernel. No blocks may overlap, and none may be lost.
 *
 *   heap [THREADS [POLICY]...]     default: 1000000 threads, all policies
 *
 * Prints a line for each policy and case, with the numbers of faults, which are all 0.
 */
#include "tests/gpu/heap.h"

enum { BLOCK = 256, MIB = 1 << 20 };

struct Wrong {
	unsigned long long null, content, place, usable;
};

/* The case of every thread: `size` bytes each, or between `least` and `most` bytes. */
struct Case {
	const char *name;
	unsigned least, most;
	dim3 block;
	bool divergent;
};

static const Case cases[] = {
	{"16 bytes", 16, 16, BLOCK, false},
	{"100 bytes", 100, 100, BLOCK, false},
	{"1000 bytes", 1000, 1000, BLOCK, false},
	{"8192 bytes", 8192, 8192, BLOCK, false},
	{"0 to 64 bytes", 0, 64, BLOCK, false},
	{"0 to 8192 bytes", 0, 8192, BLOCK, false},
	{"blocks of 7 x 9 x 3", 0, 300, dim3(7, 9, 3), false},
	{"divergent callers", 0, 600, dim3(33, 5), true},
};

__device__ static unsigned size_of(const Case &c, unsigned thread)
{
	return c.least + scatter(thread) % (c.most - c.least + 1);
}

__device__ static void write(void *address, unsigned size, unsigned tag)
{
	for (unsigned i = 0; i < size / 4; i++)
		((unsigned *)address)[i] = pattern(tag, i);
	for (unsigned i = size & ~3u; i < size; i++)
		((unsigned char *)address)[i] = (unsigned char)tag;
}

__device__ static bool holds(const void *address, unsigned size, unsigned tag)
{
	bool good = true;
	for (unsigned i = 0; i < size / 4; i++)
		good = good && ((const unsigned *)address)[i] == pattern(tag, i);
	for (unsigned i = size & ~3u; i < size; i++)
		good = good && ((const unsigned char *)address)[i] == (unsigned char)tag;
	return good;
}

/* Checks that the address is aligned, and inside the heap. */
__device__ static bool placed(const gm_heap *heap, void *address, unsigned size, bool natural)
{
	uint64_t offset = (uint64_t)address - heap->base;
	unsigned aligned = natural && size >= 16 && !(size & (size - 1)) ? size : 16;
	return (uint64_t)address % aligned == 0 && offset + size <= (uint64_t)heap->capacity
									    << GM_GRANULE_SHIFT;
}

template <class P> __device__ void *allocate_one(gm_heap *heap, const Case &c, unsigned t)
{
	unsigned size = size_of(c, t);
	if (!c.divergent)
		return P::malloc(heap, size);
	/* Calls at different places in the code: for some lanes, for the others, and for none. */
	void *address = nullptr;
	if (t % 3 == 0)
		address = P::malloc(heap, size);
	else if (scatter(t) & 1)
		for (unsigned i = 0; i < t % 5 + 1; i++) {
			if (address)
				P::free(heap, address);
			address = P::malloc(heap, size);
		}
	else if (t % 7)
		address = P::malloc(heap, size);
	return address;
}

template <class P>
__global__ void allocate(gm_heap *heap, Case c, unsigned threads, void **at, Wrong *wrong)
{
	unsigned t = this_thread();
	if (t < threads) {
		at[t] = allocate_one<P>(heap, c, t);
		bool skipped = c.divergent && t % 3 && !(scatter(t) & 1) && t % 7 == 0;
		if (!at[t] && !skipped)
			atomicAdd(&wrong->null, 1);
		if (at[t]) {
			size_t usable = P::usable(heap, at[t]);
			write(at[t], size_of(c, t), t);
			if (!placed(heap, at[t], size_of(c, t), P::can & GM_POLICY_NATURAL))
				atomicAdd(&wrong->place, 1);
			if (usable && usable < size_of(c, t))
				atomicAdd(&wrong->usable, 1);
		}
	}
	__syncthreads(); /* all lanes that diverged in malloc meet here */
}

/* Thread t verifies and frees the block of another thread, in another warp and block. */
template <class P>
__global__ void release(gm_heap *heap, Case c, unsigned threads, void **at, Wrong *wrong)
{
	unsigned t = this_thread();
	if (t >= threads)
		return;
	t = (unsigned)(((uint64_t)t * 2654435761u + 12345) % threads);
	void *address = (void *)atomicExch((unsigned long long *)&at[t], 0ull);
	if (!address)
		return;
	if (!holds(address, size_of(c, t), t))
		atomicAdd(&wrong->content, 1);
	P::free(heap, address);
}

/* Each thread makes 16 allocations of random sizes. Most blocks are freed by another thread. */
template <class P>
__global__ void churn(gm_heap *heap, unsigned most, unsigned long long *shelf, unsigned places,
		      Wrong *wrong)
{
	unsigned t = this_thread(), seed = t;
	for (unsigned turn = 0; turn < 16; turn++) {
		seed = scatter(seed + turn);
		unsigned size = 8 + seed % (most - 7);
		unsigned *mine = (unsigned *)P::malloc(heap, size);
		if (!mine) {
			atomicAdd(&wrong->null, 1);
			continue;
		}
		write(mine + 2, size - 8, seed);
		mine[0] = size;
		mine[1] = seed;
		__threadfence();
		unsigned *other = (unsigned *)atomicExch(&shelf[scatter(seed + 1) % places],
							 (unsigned long long)mine);
		__threadfence();
		if (!other)
			continue;
		if (other[0] > most || !holds(other + 2, other[0] - 8, other[1]))
			atomicAdd(&wrong->content, 1);
		P::free(heap, other);
	}
}

/* A kernel's allocations that it frees soon after writing: without a fence, and with the next block
 * already allocated. */
template <class P> __global__ void reuse(gm_heap *heap, unsigned most, Wrong *wrong)
{
	unsigned *before = nullptr, tag = 0, length = 0;
	for (unsigned turn = 0; turn < 16; turn++) {
		unsigned seed = scatter(this_thread() * 16 + turn), size = 4 + seed % (most - 3);
		unsigned *mine = (unsigned *)P::malloc(heap, size);
		if (mine)
			write(mine, size, seed);
		else
			atomicAdd(&wrong->null, 1);
		if (before && !holds(before, length, tag))
			atomicAdd(&wrong->content, 1);
		if (before)
			P::free(heap, before);
		before = mine;
		length = size;
		tag = seed;
	}
	if (before)
		P::free(heap, before);
}

template <class P> __global__ void sweep(gm_heap *heap, unsigned long long *shelf, unsigned places)
{
	unsigned t = this_thread();
	if (t < places)
		P::free(heap, (void *)atomicExch(&shelf[t], 0ull));
}

/* Allocate until the heap is full. *count gets the number of blocks; the lists are per thread. */
template <class P>
__global__ void fill_up(gm_heap *heap, unsigned size, void **lists, unsigned long long *count)
{
	unsigned t = this_thread();
	void **one;
	while ((one = (void **)P::malloc(heap, size))) {
		*one = lists[t];
		lists[t] = one;
		atomicAdd(count, 1);
	}
}

template <class P> __global__ void free_lists(gm_heap *heap, void **lists)
{
	unsigned t = this_thread();
	while (lists[t]) {
		void *one = lists[t];
		lists[t] = *(void **)one;
		P::free(heap, one);
	}
}

static bool good = true;

template <class P> static void say(const char *what, const Wrong &w, unsigned long long left)
{
	bool bad = w.null || w.content || w.place || w.usable || left;
	printf("%-10s %-20s null %llu content %llu place %llu usable %llu left %llu%s\n", P::name,
	       what, w.null, w.content, w.place, w.usable, left, bad ? " WRONG" : "");
	fflush(stdout);
	good = good && !bad;
}

template <class P> static void ends(Heap<P> &heap, const char *what, Wrong *wrong)
{
	Wrong w;
	MUST(cudaDeviceSynchronize());
	MUST(cudaMemcpy(&w, wrong, sizeof w, cudaMemcpyDeviceToHost));
	MUST(cudaMemset(wrong, 0, sizeof *wrong));
	unsigned long long left = P::can & GM_POLICY_FREES ? heap.stats().live_bytes : 0;
	if (P::can & GM_POLICY_RETURNS) {
		heap_trim<P><<<1, 1>>>(heap.device);
		gm_heap words = heap.words();
		left += words.granted - words.available;
	}
	left += heap.words().foreign_frees;
	say<P>(what, w, left);
}

template <class P> static void run_cases(unsigned threads, uint32_t capacity, Wrong *wrong)
{
	void **at = Heap<P>::template zeroed<void *>(threads * sizeof *at);
	cudaStream_t other;
	MUST(cudaStreamCreate(&other));
	Heap<P> *heap = nullptr;
	for (const Case &c : cases) {
		/* One heap for all sizes, if the policy can move memory between sizes. */
		if (!heap || !(P::can & GM_POLICY_MIXES)) {
			delete heap;
			heap = new Heap<P>(capacity);
		}
		unsigned block = c.block.x * c.block.y * c.block.z;
		unsigned grid = (threads + block - 1) / block;
		for (int round = 0; round < (P::can & GM_POLICY_FREES ? 2 : 1); round++) {
			allocate<P><<<grid, c.block>>>(heap->device, c, threads, at, wrong);
			MUST(cudaDeviceSynchronize());
			release<P><<<(threads + 95) / 96, 96, 0, other>>>(heap->device, c, threads,
									  at, wrong);
			MUST(cudaDeviceSynchronize());
		}
		ends(*heap, c.name, wrong);
	}
	delete heap;
	MUST(cudaStreamDestroy(other));
	MUST(cudaFree(at));
}

template <class P> static void run_churn(unsigned threads, uint32_t capacity, Wrong *wrong)
{
	const unsigned places = threads / 2 + 1;
	unsigned long long *shelf = Heap<P>::template zeroed<unsigned long long>(places * 8ul);
	Heap<P> heap(capacity);
	for (unsigned most : {64u, 256u, 3000u}) {
		char name[32];
		snprintf(name, sizeof name, "come and go to %u", most);
		churn<P><<<threads / 16 / BLOCK + 1, BLOCK>>>(heap.device, most, shelf, places,
							      wrong);
		sweep<P><<<(places + BLOCK - 1) / BLOCK, BLOCK>>>(heap.device, shelf, places);
		ends(heap, name, wrong);
		snprintf(name, sizeof name, "reused at once to %u", most);
		reuse<P><<<threads / 16 / BLOCK + 1, BLOCK>>>(heap.device, most, wrong);
		ends(heap, name, wrong);
	}
	MUST(cudaFree(shelf));
}

/* Fill the heap, free all, and fill it again: as many blocks as before with GM_POLICY_EXACT. */
template <class P> static void run_full(uint32_t capacity, unsigned size, Wrong *wrong)
{
	enum { THREADS = 4096 };
	unsigned long long *count = Heap<P>::template zeroed<unsigned long long>(sizeof *count);
	void **lists = Heap<P>::template zeroed<void *>(THREADS * sizeof *lists);
	unsigned long long got[2] = {}, most = ((uint64_t)capacity << GM_GRANULE_SHIFT) / size;
	char name[32];
	Heap<P> heap(capacity);
	for (unsigned long long &n : got) {
		MUST(cudaMemset(count, 0, sizeof *count));
		fill_up<P><<<THREADS / BLOCK, BLOCK>>>(heap.device, size, lists, count);
		MUST(cudaMemcpy(&n, count, sizeof n, cudaMemcpyDeviceToHost));
		free_lists<P><<<THREADS / BLOCK, BLOCK>>>(heap.device, lists);
		MUST(cudaDeviceSynchronize());
	}
	snprintf(name, sizeof name, "full of %u bytes", size);
	ends(heap, name, wrong);
	/* Queues that were made meanwhile may keep their own chunks. */
	gm_heap_stats stats = heap.stats();
	unsigned long long queues =
		(stats.queue_chunks + stats.queue_recycled) * (GM_OURO_CHUNK / size);
	bool bad = !got[0] || got[0] > most || got[1] > most ||
		   /* Runs of units may leave gaps, in different places each time. */
		   ((P::can & GM_POLICY_FREES) && (P::can & GM_POLICY_EXACT) && size <= 256 &&
		    (got[1] > got[0] || got[0] - got[1] > queues)) ||
		   (strcmp(P::name, "granule") == 0 && got[0] < most / 20 * 19);
	if (bad)
		printf("%-10s %-20s %llu, then %llu of %llu WRONG\n", P::name, name, got[0], got[1],
		       most);
	good = good && !bad;
	MUST(cudaFree(count));
	MUST(cudaFree(lists));
}

template <class P> static void run(unsigned threads)
{
	Wrong *wrong = Heap<P>::template zeroed<Wrong>(sizeof *wrong);
	/* Room for 8 KiB a thread, twice, plus 64 granules. */
	uint32_t capacity = (uint32_t)((threads * 2ull * 8192 >> GM_GRANULE_SHIFT) + 64);
	run_cases<P>(threads, capacity, wrong);
	if (P::can & GM_POLICY_FREES)
		run_churn<P>(threads, capacity, wrong);
	for (unsigned size : {16u, 256u, 3000u})
		run_full<P>(32, size, wrong);
	MUST(cudaFree(wrong));
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	bool wanted = argc <= 2;
	for (int i = 2; i < argc; i++)
		wanted = wanted || strcmp(argv[i], name) == 0;
	return wanted;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 1 ? (unsigned)atol(argv[1]) : 1000000;
	int known = 0;
	if (!threads) {
		fprintf(stderr, "usage: %s [THREADS [POLICY]...]\n", argv[0]);
		return 2;
	}
#define GM_POLICY(name, n, can)            \
	if (is_wanted(name, argc, argv)) { \
		known++;                   \
		run<policy_##n>(threads);  \
	}
#include "heap/device/policy.def"
	if (argc > 2 && known != argc - 2) {
		printf("of these policies there are %d\n", known);
		return 1;
	}
	return good ? 0 : 1;
}
