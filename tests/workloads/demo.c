/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary CUDA program: thousands of allocations of mixed sizes and lifetimes, filled, copied
 * and checked, in several streams. It does not use gpumem's interfaces. Prints one line, the same
 * on every machine and with every allocator.
 *
 *     demo [ROUNDS [MIB]]     defaults: 4000 rounds, at most 256 MiB at a time
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#define BLOCKS 256
#define STREAMS 4
#define CHECKED 256 /* bytes checked at each end of a block */

struct block {
	char *at;
	size_t size;
	unsigned char value;
};

static struct block blocks[BLOCKS];
static cudaStream_t streams[STREAMS];
static size_t live, peak, most;
static unsigned long long checksum;
static uint64_t state = 42;

#define CHECK(call)                                                                         \
	do {                                                                                \
		cudaError_t error_ = (call);                                                \
		if (error_ != cudaSuccess) {                                                \
			fprintf(stderr, "demo: %s: %s\n", #call, cudaGetErrorName(error_)); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

static uint64_t number(void) /* the same on every machine: xorshift64 */
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Mostly small, sometimes large: 1 byte to 8 MiB, uniform in the logarithm. */
static size_t some_size(void)
{
	size_t top = (size_t)1 << number() % 23;
	return top + number() % top;
}

static void look(const struct block *b, size_t from, size_t n)
{
	unsigned char bytes[CHECKED];
	CHECK(cudaMemcpy(bytes, b->at + from, n, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] != b->value) {
			fprintf(stderr, "demo: byte %zu of %zu is %u, not %u\n", from + i, b->size,
				bytes[i], b->value);
			exit(1);
		}
	}
	checksum = checksum * 31 + b->value + n;
}

static void let_go(struct block *b)
{
	size_t n = b->size < CHECKED ? b->size : CHECKED;
	look(b, 0, n);
	look(b, b->size - n, n);
	CHECK(cudaFree(b->at));
	live -= b->size;
	memset(b, 0, sizeof *b);
}

static void make(struct block *b, unsigned round)
{
	cudaStream_t stream = streams[round % STREAMS];
	do {
		b->size = some_size();
	} while (b->size > most / 8);
	for (size_t i = 0; live + b->size > most && i < BLOCKS; i++)
		if (blocks[i].at)
			let_go(&blocks[i]);
	b->value = (unsigned char)(round * 7 + 1);
	CHECK(cudaMalloc((void **)&b->at, b->size));
	CHECK(cudaMemsetAsync(b->at, b->value, b->size, stream));
	CHECK(cudaStreamSynchronize(stream));
	live += b->size;
	peak = live > peak ? live : peak;
}

/* Overwrite the beginning of one block with that of another, which contains its identity. */
static void copy_between(struct block *to, const struct block *from)
{
	size_t n = to->size < from->size ? to->size : from->size;
	unsigned char value = to->value;
	if (to == from || !to->at || !from->at)
		return;
	CHECK(cudaMemcpy(to->at, from->at, n, cudaMemcpyDeviceToDevice));
	to->value = from->value;
	look(to, 0, n < CHECKED ? n : CHECKED);
	to->value = value;
	CHECK(cudaMemset(to->at, value, n));
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 4000;
	most = (argc > 2 ? strtoul(argv[2], NULL, 10) : 256) << 20;
	if (!rounds || !most || argc > 3) {
		fprintf(stderr, "usage: demo [ROUNDS [MIB]]\n");
		return 2;
	}
	for (unsigned i = 0; i < STREAMS; i++)
		CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
	for (unsigned round = 0; round < rounds; round++) {
		struct block *b = &blocks[number() % BLOCKS];
		if (b->at)
			let_go(b);
		else
			make(b, round);
		if (round % 8 == 0)
			copy_between(&blocks[number() % BLOCKS], &blocks[number() % BLOCKS]);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		if (blocks[i].at)
			let_go(&blocks[i]);
	for (unsigned i = 0; i < STREAMS; i++)
		CHECK(cudaStreamDestroy(streams[i]));
	printf("demo: %u rounds, at most %zu MiB at a time, checksum %016llx\n", rounds, peak >> 20,
	       checksum);
	return 0;
}
