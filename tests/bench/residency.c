/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that leaves the device while the program holds it, and returns. hold SIZE allocates and
 * fills blocks; held reads them back; touch launches a kernel and waits for it; room answers the
 * device's free memory; checkpoint PID moves another process to host memory and back by the
 * driver's own calls.
 */
#include <dlfcn.h>
#include <string.h>

#include "client.h"

#define BLOCK ((size_t)136 << 20)
#define PIECE ((size_t)2 << 20) /* each piece has a byte value of its own */
#define MOST 512		/* blocks */

static unsigned char *blocks[MOST];
static size_t sizes[MOST], n_blocks;

static unsigned char piece_byte(size_t block, size_t piece)
{
	return (unsigned char)(1 + (block * 31 + piece * 7) % 251);
}

void bench_hold(char **words)
{
	size_t left = bench_number(words[1]);
	for (; left && n_blocks < MOST; n_blocks++) {
		const size_t size = left < BLOCK ? left : BLOCK;
		BENCH_MUST(cudaMalloc((void **)&blocks[n_blocks], size));
		sizes[n_blocks] = size;
		left -= size;
		for (size_t at = 0; at < size; at += PIECE)
			BENCH_MUST(cudaMemset(blocks[n_blocks] + at,
					      piece_byte(n_blocks, at / PIECE),
					      size - at < PIECE ? size - at : PIECE));
	}
	BENCH_MUST(cudaDeviceSynchronize());
	printf("ok %zu\n", n_blocks);
}

/* Counts wrong words: eight bytes in the middle of each piece, and eight at its end. */
void bench_held(char **words)
{
	size_t wrong = 0;
	(void)words;
	for (size_t b = 0; b < n_blocks; b++)
		for (size_t at = 0; at < sizes[b]; at += PIECE) {
			const size_t length = sizes[b] - at < PIECE ? sizes[b] - at : PIECE;
			unsigned char there[8], here[8];
			memset(here, piece_byte(b, at / PIECE), sizeof here);
			BENCH_MUST(cudaMemcpy(there, blocks[b] + at + length / 2 - 4, sizeof there,
					      cudaMemcpyDeviceToHost));
			wrong += memcmp(there, here, sizeof here) != 0;
			BENCH_MUST(cudaMemcpy(there, blocks[b] + at + length - 8, sizeof there,
					      cudaMemcpyDeviceToHost));
			wrong += memcmp(there, here, sizeof here) != 0;
		}
	printf("ok %zu\n", wrong);
}

void bench_touch(char **words)
{
	(void)words;
	double begin = bench_now();
	bench_kernel_empty(NULL);
	BENCH_MUST(cudaDeviceSynchronize());
	printf("ok %.1f\n", bench_now() - begin);
}

void bench_room(char **words)
{
	size_t room, total;
	(void)words;
	BENCH_MUST(cudaMemGetInfo(&room, &total));
	printf("ok %zu %zu\n", room, total);
}

/* Answers the times of lock and checkpoint together, and of restore and unlock. "ok" alone: the
 * driver is older than 12.8, and lacks these calls. */
void bench_checkpoint(char **words)
{
	static const char *const names[] = {
		"cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint",
		"cuCheckpointProcessRestore", "cuCheckpointProcessUnlock"};
	static uint64_t arguments[32]; /* larger than each of their structs; 0: defaults */
	double times[2] = {0, 0};
	const int process = (int)bench_number(words[1]);
	for (int i = 0; i < 4; i++) {
		int (*call)(int, void *) = (int (*)(int, void *))dlsym(RTLD_DEFAULT, names[i]);
		if (!call) {
			puts("ok");
			return;
		}
		double begin = bench_now();
		BENCH_MUST(call(process, arguments));
		times[i / 2] += bench_now() - begin;
	}
	printf("ok %.0f %.0f\n", times[0], times[1]);
}
