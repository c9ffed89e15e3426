// SPDX-License-Identifier: BSD-3-Clause
/*
 * malloc in kernels as a user has it: a fresh process, a fresh heap, default knobs, nothing mapped
 * beforehand. One program for each heap: FRESH_PEER names its adapter (peers/). fresh.py runs them.
 *
 *   fresh-NAME SHAPE SIZE THREADS
 *
 *   thread       a block of SIZE for each thread
 *   beside       the same beside as many live blocks of an earlier kernel; no start, ready, cold
 *   mixed        blocks of 4 to SIZE bytes
 *   warp         a block for the first lane of each warp
 *   churn        only the kernel of first-churn, which is the first of the process, and churn
 *   pass         likewise with first-pass and pass
 *   queue        likewise with first-queue and queue
 *
 * Prints "row NAME UNIT VALUE", first for the fresh heap, then for the same heap after this load:
 *
 *   start        from the start of the process (FRESH_START) to the end of its first kernel, ms
 *   ready        the same from the creation of the context: with the heap's creation or takeover
 *   cold         that kernel's mallocs, us
 *   mapped-...   the heap's bytes of the GPU after cold, warm and churn
 *   first-free   the frees of all these blocks, us
 *   warm, free   the median of five, us
 *   first-churn  malloc, write, read, free, eight times in one kernel, us
 *   churn        the median of five more; mapped-churn
 *   first-pass   each thread of a thread block hands eight blocks, one after another, to a thread
 *                of the next thread block, which frees them, us
 *   pass         the median of five more; mapped-pass
 *   first-queue  half of the thread blocks put eight blocks a thread into one queue of 65,536
 *                places, the others take them out and free them, us
 *   queue        the median of five more; mapped-queue
 *   live         bytes of all blocks together
 *   slack        memory of mapped-churn that is mapped ahead, if the heap's adapter knows it
 *
 * The device measures the times, by events. Exit status 1: a block is missing or damaged.
 */
#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/gpu.h"

#include FRESH_PEER

enum { BLOCK = 256, TURNS = 8, ROUNDS = 5, PLACES = 65536 };

struct Case {
	void **at;
	unsigned threads, every, size, most;
};

struct Counts {
	unsigned long long missing, damaged;
};

/* A place is 0 or a block. Each thread that puts or takes one has a number, whose place it uses. */
struct Queue {
	unsigned long long place[PLACES];
	unsigned put, taken;
};

__device__ static Queue queue;

static __host__ __device__ unsigned scattered(unsigned n)
{
	n = (n ^ n >> 16) * 0x85ebca6bu;
	n = (n ^ n >> 13) * 0xc2b2ae35u;
	return n ^ n >> 16;
}

static __host__ __device__ unsigned size_of(const Case &c, unsigned t)
{
	return c.size ? c.size : 4 + scattered(t) % (c.most - 3);
}

static __device__ bool takes_part(const Case &c, unsigned *t)
{
	*t = blockIdx.x * BLOCK + threadIdx.x;
	return *t < c.threads && *t % c.every == 0;
}

__global__ static void allocate(Peer::Device heap, Case c)
{
	unsigned t;
	if (takes_part(c, &t))
		c.at[t / c.every] = peer_malloc(heap, size_of(c, t));
}

__global__ static void release(Peer::Device heap, Case c)
{
	unsigned t;
	if (takes_part(c, &t))
		peer_free(heap, c.at[t / c.every]);
}

__global__ static void churn(Peer::Device heap, Case c, Counts *counts)
{
	unsigned t;
	for (int i = 0; takes_part(c, &t) && i < TURNS; i++) {
		volatile unsigned *word = (volatile unsigned *)peer_malloc(heap, size_of(c, t));
		if (!word) {
			atomicAdd(&counts->missing, 1);
			continue;
		}
		*word = t;
		if (*word != t)
			atomicAdd(&counts->damaged, 1);
		peer_free(heap, (void *)word);
	}
}

/* The giver waits until its place is empty; thread blocks start in order, so the taker runs or is
 * next. A block is the giver's number until the taker has read it. */
__global__ static void pass(Peer::Device heap, Case c, Counts *counts)
{
	const bool gives = blockIdx.x % 2 == 0;
	const unsigned t = blockIdx.x / 2 * BLOCK + threadIdx.x;
	unsigned long long *at = (unsigned long long *)&c.at[t];
	for (int i = 0; t < c.threads / 2 && i < TURNS;) {
		unsigned long long held = *(volatile unsigned long long *)at;
		if (!gives && held) {
			__threadfence();
			volatile unsigned *word = (volatile unsigned *)held;
			if (*word != t)
				atomicAdd(&counts->damaged, 1);
			atomicExch(at, 0);
			peer_free(heap, (void *)word);
			i++;
		} else if (gives && !held) {
			unsigned *word = (unsigned *)peer_malloc(heap, size_of(c, t));
			for (; !word; word = (unsigned *)peer_malloc(heap, size_of(c, t)))
				atomicAdd(&counts->missing, 1);
			*(volatile unsigned *)word = t;
			__threadfence();
			atomicExch(at, (unsigned long long)word);
			i++;
		}
	}
}

/* No thread waits for a thread block that has not started: these start in order, and the queue has
 * room for more than one thread block gives. */
__global__ static void pass_by_queue(Peer::Device heap, Case c, Counts *counts)
{
	const bool gives = blockIdx.x % 2 == 0;
	unsigned long long *at = nullptr, block = 0;
	for (int i = 0; i < TURNS;) {
		if (!at)
			at = &queue.place[atomicAdd(gives ? &queue.put : &queue.taken, 1) % PLACES];
		if (gives && !block) {
			unsigned *word = (unsigned *)peer_malloc(heap, size_of(c, i));
			for (; !word; word = (unsigned *)peer_malloc(heap, size_of(c, i)))
				atomicAdd(&counts->missing, 1);
			block = (unsigned long long)word;
			*(volatile unsigned *)word = (unsigned)(block >> 4);
			__threadfence();
		}
		bool filled = *(volatile unsigned long long *)at != 0;
		if (gives && !filled && atomicCAS(at, 0, block) == 0) {
			at = nullptr, block = 0;
			i++;
		} else if (!gives && filled && (block = atomicExch(at, 0))) {
			__threadfence();
			if (*(volatile unsigned *)block != (unsigned)(block >> 4))
				atomicAdd(&counts->damaged, 1);
			peer_free(heap, (void *)block);
			at = nullptr;
			i++;
		}
	}
}

static __device__ unsigned word_of(unsigned t, unsigned i)
{
	return t * 2654435761u + i * 40503u;
}

__global__ static void fill(Case c)
{
	unsigned t;
	if (!takes_part(c, &t) || !c.at[t / c.every])
		return;
	for (unsigned i = 0; i < size_of(c, t) / 4; i++)
		((unsigned *)c.at[t / c.every])[i] = word_of(t, i);
}

__global__ static void verify(Case c, Counts *counts)
{
	unsigned t;
	if (!takes_part(c, &t))
		return;
	const unsigned *at = (const unsigned *)c.at[t / c.every];
	bool good = true;
	if (!at)
		atomicAdd(&counts->missing, 1);
	for (unsigned i = 0; at && i < size_of(c, t) / 4; i++)
		good = good && at[i] == word_of(t, i);
	if (!good)
		atomicAdd(&counts->damaged, 1);
}

/* --- time and memory --- */

/* Microseconds by the device's clock. */
static double timed(Peer &peer, const std::function<void()> &launch)
{
	static cudaEvent_t begin, end;
	float ms;
	if (!begin) {
		MUST(cudaEventCreate(&begin));
		MUST(cudaEventCreate(&end));
	}
	peer.begin();
	MUST(cudaEventRecord(begin));
	launch();
	MUST(cudaGetLastError());
	MUST(cudaEventRecord(end));
	peer.end();
	MUST(cudaEventSynchronize(end));
	MUST(cudaEventElapsedTime(&ms, begin, end));
	return ms * 1e3;
}

static double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

/* Bytes of the GPU in use by all processes, as NVML reports: the preload does not change NVML's
 * answer. 0: NVML is missing. */
static double device_used()
{
	static void *const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	struct {
		unsigned long long total, free, used;
	} memory = {};
	char bus[32];
	void *device;
	if (!library)
		return 0;
	auto init = (int (*)())dlsym(library, "nvmlInit_v2");
	auto find =
		(int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
	auto ask = (int (*)(void *, void *))dlsym(library, "nvmlDeviceGetMemoryInfo");
	MUST(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
	if (!init || !find || !ask || init() || find(bus, &device) || ask(device, &memory))
		return 0;
	return (double)memory.used;
}

/* Bytes mapped ahead, if the adapter knows them; else less than 0. */
template <class P> static auto slack_of(P &peer, int) -> decltype(peer.slack(device_used))
{
	return peer.slack(device_used);
}

template <class P> static double slack_of(P &, long)
{
	return -1;
}

static void row(const char *name, const char *unit, double value)
{
	printf("row %s %s %.6g\n", name, unit, value);
	fflush(stdout);
}

static void check(Counts *counts, const char *when)
{
	Counts seen;
	MUST(cudaMemcpy(&seen, counts, sizeof seen, cudaMemcpyDeviceToHost));
	if (!seen.missing && !seen.damaged)
		return;
	printf("error %s: %llu blocks missing, %llu damaged\n", when, seen.missing, seen.damaged);
	exit(1);
}

static double now_ms()
{
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* Milliseconds since the start of the process, which FRESH_START gives. */
static double since_start()
{
	const char *text = getenv("FRESH_START");
	return text ? now_ms() - strtod(text, nullptr) / 1e6 : 0;
}

static double live_of(const Case &c)
{
	double bytes = 0;
	for (unsigned t = 0; t < c.threads; t += c.every)
		bytes += size_of(c, t);
	return bytes;
}

static void repeat(Peer &peer, const char *name, const std::function<void()> &turn, Counts *counts)
{
	std::vector<double> later;
	row((std::string("first-") + name).c_str(), "us", timed(peer, turn));
	for (int i = 0; i < ROUNDS; i++)
		later.push_back(timed(peer, turn));
	row(name, "us", median(later));
	row((std::string("mapped-") + name).c_str(), "bytes", device_used() - peer.used_before);
	check(counts, name);
	double slack = slack_of(peer, 0);
	if (slack >= 0)
		row("slack", "bytes", slack);
}

static void measure(Peer &peer, Case c, bool beside, Counts *counts, double began)
{
	const unsigned grid = (c.threads + BLOCK - 1) / BLOCK;
	const auto take = [&] { allocate<<<grid, BLOCK>>>(peer.device(), c); };
	const auto give = [&] { release<<<grid, BLOCK>>>(peer.device(), c); };
	const auto turn = [&] { churn<<<grid, BLOCK>>>(peer.device(), c, counts); };
	std::vector<double> warm, free;
	if (beside) {
		timed(peer, take);
		MUST(cudaMalloc(&c.at, (c.threads / c.every + 1) * sizeof *c.at));
	}
	double cold = timed(peer, take), start = since_start(), ready = now_ms() - began;
	double before = peer.used_before;
	if (!beside) {
		row("cold", "us", cold);
		row("start", "ms", start);
		row("ready", "ms", ready);
	}
	row("live", "bytes", live_of(c) * (beside ? 2 : 1));
	row("mapped-cold", "bytes", device_used() - before);
	fill<<<grid, BLOCK>>>(c);
	verify<<<grid, BLOCK>>>(c, counts);
	check(counts, "cold");
	row("first-free", "us", timed(peer, give));
	for (int i = 0; i < ROUNDS; i++) {
		warm.push_back(timed(peer, take));
		if (i == 0)
			verify<<<grid, BLOCK>>>(c, counts), fill<<<grid, BLOCK>>>(c);
		free.push_back(timed(peer, give));
	}
	row("warm", "us", median(warm));
	row("free", "us", median(free));
	row("mapped-warm", "bytes", device_used() - before);
	MUST(cudaMemset(counts, 0, sizeof *counts)); /* warm's verify ran before its fill */
	repeat(peer, "churn", turn, counts);
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr,
			"usage: %s thread|beside|mixed|warp|churn|pass|queue SIZE THREADS\n",
			argv[0]);
		return 2;
	}
	bool mixed = !strcmp(argv[1], "mixed"), warp = !strcmp(argv[1], "warp");
	bool beside = !strcmp(argv[1], "beside");
	unsigned size = (unsigned)strtoul(argv[2], nullptr, 0);
	unsigned threads = (unsigned)strtoul(argv[3], nullptr, 0), every = warp ? 32 : 1;
	Case c = {nullptr, threads, every, mixed ? 0 : size, size};
	Counts *counts;
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	MUST(cudaMalloc(&c.at, threads / every * sizeof *c.at + sizeof *c.at));
	MUST(cudaMalloc(&counts, sizeof *counts));
	MUST(cudaMemset(counts, 0, sizeof *counts));
	MUST(cudaMemset(c.at, 0, threads / every * sizeof *c.at + sizeof *c.at));
	double before = device_used(), began = now_ms();
	Peer peer(size_t(threads / every) * (size < 16 ? 16 : size) * (beside ? 2 : 1));
	peer.used_before = before;
	const unsigned grid = (threads + BLOCK - 1) / BLOCK;
	const unsigned pairs = 2 * ((threads / 2 + BLOCK - 1) / BLOCK);
	if (!strcmp(argv[1], "churn"))
		repeat(
			peer, "churn", [&] { churn<<<grid, BLOCK>>>(peer.device(), c, counts); },
			counts);
	else if (!strcmp(argv[1], "pass"))
		repeat(
			peer, "pass", [&] { pass<<<pairs, BLOCK>>>(peer.device(), c, counts); },
			counts);
	else if (!strcmp(argv[1], "queue"))
		repeat(
			peer, "queue",
			[&] { pass_by_queue<<<pairs, BLOCK>>>(peer.device(), c, counts); }, counts);
	else
		measure(peer, c, beside, counts, began);
	return 0;
}
