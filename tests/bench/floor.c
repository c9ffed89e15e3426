/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor of a cudaMalloc call, to be preloaded: what a program takes with an allocator that does
 * nothing. A freed block is handed out again at once, to any stream, for a request of its class;
 * nothing is returned. So results may be wrong if the program has several streams.
 *
 *     cudaFree  ->  the stack of the block's class  ->  cudaMalloc
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int cudaMalloc(void **at, size_t size);
EXPORT int cudaFree(void *at);

#define STACKS 16384 /* twice the most classes and blocks; later ones are the runtime's alone */
#define BLOCKS (1u << 20)
#define MIB ((size_t)1 << 20)

struct stack {
	size_t size;
	void **blocks;
	size_t n, room;
};

struct block {
	void *at;
	struct stack *stack;
};

static struct stack stacks[STACKS];
static struct block blocks[BLOCKS];
static unsigned n_stacks, n_blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned hash(uint64_t value, unsigned bits)
{
	return (unsigned)(value * 0x9e3779b97f4a7c15u >> (64 - bits));
}

static size_t class_size(size_t size)
{
	size_t unit = size > 16 * MIB ? 16 * MIB : size > MIB ? 2 * MIB : 512;
	return (size + unit - 1) / unit * unit;
}

/* NULL: there are too many. */
static struct stack *stack_of(size_t size)
{
	unsigned i = hash(size, 14);
	while (stacks[i].size && stacks[i].size != size)
		i = (i + 1) % STACKS;
	if (stacks[i].size)
		return &stacks[i];
	if (n_stacks == STACKS / 2)
		return NULL;
	n_stacks++;
	stacks[i].size = size;
	return &stacks[i];
}

/* The entry of the block, or a free one. */
static struct block *block_at(void *at)
{
	unsigned i = hash((uintptr_t)at >> 9, 20);
	while (blocks[i].at && blocks[i].at != at)
		i = (i + 1) % BLOCKS;
	return &blocks[i];
}

int cudaMalloc(void **at, size_t size)
{
	static int (*next)(void **, size_t);
	int error = 0;
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "cudaMalloc");
	if (!at || !size || size > SIZE_MAX / 2)
		return next(at, size);
	pthread_mutex_lock(&lock);
	struct stack *stack = stack_of(class_size(size));
	if (stack && stack->n) {
		*at = stack->blocks[--stack->n];
	} else {
		error = next(at, stack ? stack->size : size);
		if (!error && stack && n_blocks < BLOCKS / 2) {
			*block_at(*at) = (struct block){*at, stack};
			n_blocks++;
		}
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int cudaFree(void *at)
{
	static int (*next)(void *);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "cudaFree");
	pthread_mutex_lock(&lock);
	struct stack *stack = at ? block_at(at)->stack : NULL;
	if (stack && stack->n == stack->room) {
		size_t room = stack->room ? 2 * stack->room : 16;
		void **more = realloc(stack->blocks, room * sizeof *more);
		stack->blocks = more ? more : stack->blocks;
		stack->room = more ? room : stack->room;
	}
	/* Without host memory for the stack the block is lost. */
	if (stack && stack->n < stack->room)
		stack->blocks[stack->n++] = at;
	pthread_mutex_unlock(&lock);
	return stack ? 0 : next(at);
}
