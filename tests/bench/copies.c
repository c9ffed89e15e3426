/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between the host and the device: copy h2d|d2h plain|pinned|fresh SIZE TIME. Plain memory
 * was touched before; fresh memory is new for each copy. Only the copy is timed. Answers the
 * median.
 */
#include <string.h>
#include <sys/mman.h>

#include "client.h"

#define MOST 10000 /* copies of one command */

static void *pages(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		printf("error no host memory for %zu bytes\n", size);
		exit(1);
	}
	return at;
}

/* Returns touched memory, which is kept for later commands. */
static void *plain(size_t size)
{
	static void *kept;
	static size_t room;
	if (size > room) {
		if (kept)
			munmap(kept, room);
		kept = pages(size);
		memset(kept, 1, size);
		room = size;
	}
	return kept;
}

static void *pinned(size_t size)
{
	void *at;
	BENCH_MUST(cudaMallocHost(&at, size));
	memset(at, 1, size);
	return at;
}

static double copy_once(int to_device, void *device, void *host, size_t size)
{
	double begin = bench_now();
	if (to_device)
		BENCH_MUST(cudaMemcpy(device, host, size, cudaMemcpyHostToDevice));
	else
		BENCH_MUST(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
	return bench_now() - begin;
}

void bench_copy(char **words)
{
	static double times[MOST];
	const int to_device = strcmp(words[1], "h2d") == 0;
	const int is_fresh = strcmp(words[2], "fresh") == 0,
		  is_pinned = strcmp(words[2], "pinned") == 0;
	const size_t size = bench_number(words[3]);
	const double end = bench_now() + (double)bench_number(words[4]);
	void *device, *host = is_fresh ? NULL : is_pinned ? pinned(size) : plain(size);
	size_t n = 0;
	BENCH_MUST(cudaMalloc(&device, size));
	do {
		if (is_fresh)
			host = pages(size);
		times[n++] = copy_once(to_device, device, host, size);
		if (is_fresh)
			munmap(host, size);
	} while (bench_now() < end && n < MOST);
	if (is_pinned)
		BENCH_MUST(cudaFreeHost(host));
	BENCH_MUST(cudaFree(device));
	printf("ok %.3f\n", bench_median(times, n));
}
