// SPDX-License-Identifier: BSD-3-Clause
/*
 * Measurements of the device heap's policies on a GPU. heap.py runs them, and writes the rows.
 *
 *   heap PART [POLICY]...
 *
 * Prints a line for each pair, "pair CASE SIZE UNIT OURS PEER THEIRS", where ours is policy
 * `granule`, or "one CASE/POLICY SIZE UNIT VALUE". The two of a pair take turns, each time on a new
 * heap of 16 GiB: cold is its first malloc, warm and free are the median of the next five, churn is
 * malloc, touch, free, eight times in one kernel. The cases are the survey's (Winter, Parger,
 * Mlakar, Steinberger, PPoPP 2021), and some more.
 */
#include <cub/device/device_scan.cuh>

#include "tests/bench/heap.h"

enum { CAPACITY = 8192, PAIRS = 9, ROUNDS = 5, MILLION = 1000000 };

static const unsigned sizes[] = {16,  24,  32,	 40,   64,   100,  128, 256,
				 512, 777, 1024, 2048, 3000, 4096, 8192};
static const unsigned few_sizes[] = {16, 64, 256, 1024, 4096, 8192};
static const unsigned bounds[] = {64, 256, 1024, 4096, 8192};
static Ground *ground;
static Counts *counts;
static void **addresses;

__global__ static void fill_all(Case c)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t >= c.threads || t % c.every || !c.at[t / c.every])
		return;
	for (unsigned i = 0; i < size_of(c, t) / 4; i++)
		((unsigned *)c.at[t / c.every])[i] = pattern(t, i);
}

__global__ static void verify_all(Case c, Counts *counts)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	bool good = true;
	if (t >= c.threads || t % c.every)
		return;
	const unsigned *at = (const unsigned *)c.at[t / c.every];
	if (!at)
		atomicAdd(&counts->null, 1);
	for (unsigned i = 0; at && i < size_of(c, t) / 4; i++)
		good = good && at[i] == pattern(t, i);
	if (!good)
		atomicAdd(&counts->wrong, 1);
}

static void pair_line(const char *name, unsigned size, const char *unit, double ours,
		      const Policy &peer, double theirs)
{
	printf("pair %s %u %s %.3f %s %.3f\n", name, size, unit, ours, peer.name, theirs);
	fflush(stdout);
}

static void one_line(const char *name, const Policy &p, unsigned size, const char *unit,
		     double value)
{
	printf("one %s/%s %u %s %.6g\n", name, p.name, size, unit, value);
	fflush(stdout);
}

static double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

static void check(const Policy &p, const char *name, unsigned size, bool null_too)
{
	Counts seen;
	MUST(cudaMemcpy(&seen, counts, sizeof seen, cudaMemcpyDeviceToHost));
	MUST(cudaMemset(counts, 0, sizeof seen));
	if (seen.wrong || (null_too && seen.null)) {
		printf("error %s %s %u: %llu wrong, %llu NULL\n", p.name, name, size, seen.wrong,
		       seen.null);
		exit(1);
	}
}

struct Sample {
	double cold, warm, free, churn;
};

static Sample sample(const Policy &p, const Case &c, const char *name, bool first)
{
	Sample s = {};
	ground->open(p, CAPACITY);
	gm_heap *heap = ground->device;
	s.cold = microseconds([&] { p.allocate(heap, c); });
	if (first) {
		fill_all<<<grid_of(c), BLOCK>>>(c);
		verify_all<<<grid_of(c), BLOCK>>>(c, counts);
		check(p, name, c.size ? c.size : c.most, true);
	}
	if (p.can & GM_POLICY_FREES) {
		std::vector<double> warm, free;
		p.release(heap, c);
		for (int i = 0; i < ROUNDS && (i == 0 || s.cold < 50000); i++) {
			warm.push_back(microseconds([&] { p.allocate(heap, c); }));
			free.push_back(microseconds([&] { p.release(heap, c); }));
		}
		s.warm = median(warm);
		s.free = median(free);
		if (c.every == 1)
			s.churn = microseconds([&] { p.churn(heap, c, counts); });
		check(p, name, c.size ? c.size : c.most, true);
	}
	ground->close();
	return s;
}

/* Ours and the peer take turns until the time is over. */
static void compare(const Policy &peer, const Case &c, const char *name, double seconds)
{
	const Policy &ours = policy_named("granule");
	unsigned size = c.size ? c.size : c.most;
	auto begin = std::chrono::steady_clock::now();
	for (int i = 0; i < PAIRS; i++) {
		std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
		if (i && spent.count() * (i + 1) / i > seconds)
			break;
		Sample a, b;
		if (i % 2)
			b = sample(peer, c, name, i == 1);
		a = sample(ours, c, name, i == 0);
		if (i % 2 == 0)
			b = sample(peer, c, name, i == 0);
		const struct {
			const char *column;
			double ours, theirs;
		} columns[] = {{"cold", a.cold, b.cold},
			       {"warm", a.warm, b.warm},
			       {"free", a.free, b.free},
			       {"churn", a.churn, b.churn}};
		for (const auto &column : columns) {
			char full[64];
			snprintf(full, sizeof full, "%s/%s", name, column.column);
			if (column.theirs > 0)
				pair_line(full, size, "us", column.ours, peer, column.theirs);
		}
	}
}

static void compare_sizes(const Policy &peer, const unsigned *list, size_t n, double seconds)
{
	for (size_t i = 0; i < n; i++)
		compare(peer, {addresses, MILLION, 1, list[i], 0}, "thread", seconds);
}

static void compare_mixed(const Policy &peer, double seconds)
{
	for (unsigned most : bounds)
		compare(peer, {addresses, MILLION, 1, 0, most}, "mixed", seconds);
}

/* Peers that the targets name: every size. */
static void part_targets(const Policy &peer)
{
	compare_sizes(peer, sizes, sizeof sizes / sizeof *sizes, 1);
	compare_mixed(peer, 1);
}

/* Any peer: some sizes. */
static void part_policies(const Policy &peer)
{
	compare_sizes(peer, few_sizes, sizeof few_sizes / sizeof *few_sizes, 0.7);
	compare_mixed(peer, 0.3);
}

static void part_warp(const Policy &peer)
{
	for (unsigned size : {16u, 64u, 512u, 4096u})
		compare(peer, {addresses, 32 * 100000, 32, size, 0}, "warp", 0.3);
}

static void part_scaling(const Policy &peer)
{
	for (unsigned power = 0; power <= 20; power += 2)
		for (unsigned size : {64u, 4096u}) {
			char name[32];
			snprintf(name, sizeof name, "threads=%u", 1u << power);
			compare(peer, {addresses, 1u << power, 1, size, 0}, name, 0.3);
		}
}

/* The driver's own malloc, for few threads only: its time grows with their square. */
static void part_cuda(const Policy &cuda)
{
	for (unsigned size : {16u, 64u, 256u, 4096u})
		compare(cuda, {addresses, 10000, 1, size, 0}, "threads=10000", 2);
}

/* The address range of 100,000 allocations, and the bytes that they need. */
static void part_range(const Policy &p)
{
	const unsigned n = 100000;
	std::vector<char *> at(n);
	for (unsigned size : few_sizes) {
		Case c = {addresses, n, 1, size, 0};
		ground->open(p, CAPACITY);
		p.allocate(ground->device, c);
		MUST(cudaMemcpy(at.data(), addresses, n * sizeof at[0], cudaMemcpyDeviceToHost));
		ground->close();
		auto ends = std::minmax_element(at.begin(), at.end());
		one_line("range", p, size, "share",
			 double(n) * size / (*ends.second - *ends.first + size));
	}
}

/* Fills a heap of 2 GiB until malloc returns NULL. */
static void part_full(const Policy &p)
{
	const uint32_t granules = 1024;
	unsigned long long *count = Heap<policy_granule>::zeroed<unsigned long long>(sizeof *count),
			   got;
	for (unsigned size : sizes) {
		MUST(cudaMemset(count, 0, sizeof *count));
		ground->open(p, granules);
		p.fill(ground->device, size, count);
		MUST(cudaMemcpy(&got, count, sizeof got, cudaMemcpyDeviceToHost));
		ground->close();
		one_line("utilisation", p, size, "share",
			 double(got) * size / (double(granules) * GM_GRANULE));
	}
	MUST(cudaFree(count));
}

static void part_init(const Policy &p)
{
	for (int i = 0; i < PAIRS; i++) {
		one_line("init", p, CAPACITY * 2, "us", ground->open(p, CAPACITY));
		ground->close();
	}
	cudaFuncAttributes a;
	MUST(cudaFuncGetAttributes(&a, p.kernel_of_malloc));
	one_line("registers/malloc", p, 0, "registers", a.numRegs);
	one_line("stack/malloc", p, 0, "bytes", a.localSizeBytes);
	MUST(cudaFuncGetAttributes(&a, p.kernel_of_free));
	one_line("registers/free", p, 0, "registers", a.numRegs);
	one_line("stack/free", p, 0, "bytes", a.localSizeBytes);
}

__global__ static void write_ints(Case c, unsigned *at, const unsigned *offset)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t >= c.threads)
		return;
	unsigned *mine = offset ? at + offset[t] : (unsigned *)c.at[t];
	for (unsigned i = 0; i < size_of(c, t) / 4; i++)
		mine[i] = t + i;
}

__global__ static void say_sizes(Case c, unsigned *words)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t < c.threads)
		words[t] = (size_of(c, t) + 3) / 4;
}

/* A program without a heap: every thread writes its size, a prefix sum, one cudaMalloc. */
struct Scan {
	unsigned *words, *offset, *at = nullptr;
	void *work = nullptr;
	size_t work_bytes = 0;

	explicit Scan(unsigned threads)
	{
		words = Heap<policy_granule>::zeroed<unsigned>(threads * sizeof(unsigned));
		offset = Heap<policy_granule>::zeroed<unsigned>(threads * sizeof(unsigned));
		MUST(cub::DeviceScan::ExclusiveSum(nullptr, work_bytes, words, offset, threads));
		MUST(cudaMalloc(&work, work_bytes));
	}
	void allocate(const Case &c)
	{
		unsigned last[2];
		say_sizes<<<grid_of(c), BLOCK>>>(c, words);
		MUST(cub::DeviceScan::ExclusiveSum(work, work_bytes, words, offset, c.threads));
		MUST(cudaMemcpy(&last[0], offset + c.threads - 1, sizeof last[0],
				cudaMemcpyDeviceToHost));
		MUST(cudaMemcpy(&last[1], words + c.threads - 1, sizeof last[1],
				cudaMemcpyDeviceToHost));
		MUST(cudaMalloc(&at, (size_t(last[0]) + last[1]) * 4));
	}
	void release()
	{
		MUST(cudaFree(at));
	}
	~Scan()
	{
		for (void *p : {(void *)words, (void *)offset, work})
			MUST(cudaFree(p));
	}
};

/* Work generation (wall time), and writes to the allocated memory (device time), compared with
 * Scan. */
static void part_work(const Policy &p)
{
	const Policy scan = {"scan"};
	for (unsigned most : {64u, 4096u})
		for (unsigned power : {10u, 15u, 20u}) {
			Case c = {addresses, 1u << power, 1, 0, most};
			Scan s(c.threads);
			char work[32], write[32];
			snprintf(work, sizeof work, "work/threads=%u", c.threads);
			snprintf(write, sizeof write, "write/threads=%u", c.threads);
			ground->open(p, CAPACITY);
			for (int i = 0; i <= PAIRS; i++) {
				double ours = microseconds([&] {
					p.allocate(ground->device, c);
					p.release(ground->device, c);
				});
				double theirs = microseconds([&] {
					s.allocate(c);
					s.release();
				});
				p.allocate(ground->device, c);
				s.allocate(c);
				double written = microseconds([&] {
					write_ints<<<grid_of(c), BLOCK>>>(c, nullptr, nullptr);
				});
				double packed = microseconds([&] {
					write_ints<<<grid_of(c), BLOCK>>>(c, s.at, s.offset);
				});
				p.release(ground->device, c);
				s.release();
				if (i == 0) /* the first round warms up both */
					continue;
				pair_line(work, most, "us", ours, scan, theirs);
				pair_line(write, most, "us", written, scan, packed);
			}
			ground->close();
		}
}

/* Ten kernels allocate and hold their blocks. Each later kernel first frees the blocks of the one
 * before. */
static void part_hold(const Policy &peer)
{
	const Policy *both[] = {&policy_named("granule"), &peer};
	const unsigned n = 100000, kernels = 10;
	for (unsigned most : {64u, 4096u})
		for (int i = 0; i < PAIRS; i++) {
			double took[2];
			for (int k : {i % 2, 1 - i % 2}) {
				const Policy &p = *both[k];
				ground->open(p, CAPACITY);
				took[k] = microseconds([&] {
					for (unsigned j = 0; j < 2 * kernels; j++) {
						Case c = {addresses + j % kernels * n, n, 1, 0,
							  most};
						if (j >= kernels)
							p.release(ground->device, c);
						p.allocate(ground->device, c);
					}
				});
				ground->close();
			}
			pair_line("hold", most, "us", took[0], peer, took[1]);
		}
}

static const struct {
	const char *name;
	void (*run)(const Policy &p);
} parts[] = {{"targets", part_targets}, {"policies", part_policies}, {"warp", part_warp},
	     {"scaling", part_scaling}, {"cuda", part_cuda},	     {"range", part_range},
	     {"full", part_full},	{"init", part_init},	     {"work", part_work},
	     {"hold", part_hold}};

int main(int argc, char **argv)
{
	for (const auto &part : parts) {
		if (argc < 3 || strcmp(argv[1], part.name))
			continue;
		setenv("CUDA_MODULE_LOADING", "EAGER", 1);
		MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize,
					!strcmp(argv[1], "cuda") ? 1ul << 30 : 1ul << 20));
		ground = new Ground(CAPACITY);
		counts = Heap<policy_granule>::zeroed<Counts>(sizeof *counts);
		addresses = Heap<policy_granule>::zeroed<void *>((1 << 20) * sizeof *addresses);
		for (int i = 2; i < argc; i++)
			part.run(policy_named(argv[i]));
		return 0;
	}
	fprintf(stderr, "usage: %s PART POLICY...\nparts:", argv[0]);
	for (const auto &part : parts)
		fprintf(stderr, " %s", part.name);
	fprintf(stderr, "\n");
	return 2;
}
