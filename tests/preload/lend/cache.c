/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the stand-in for libc10_cuda.so: each call under the mutex of its device. */
#include "cache.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "blocks.h"

#define LEND_MOST ((size_t)1 << 60) /* from here on PyTorch refuses by itself */

static struct lend_device devices[LEND_DEVICES] = {
	{.mutex = PTHREAD_MUTEX_INITIALIZER, .index = 0, .small.small = true},
	{.mutex = PTHREAD_MUTEX_INITIALIZER, .index = 1, .small.small = true}};

static _Thread_local struct lend_pool *capturing;

static struct lend_device *device_lock(void)
{
	CUdevice ordinal;
	if (cuCtxGetDevice(&ordinal) != CUDA_SUCCESS || ordinal >= LEND_DEVICES)
		abort();
	pthread_mutex_lock(&devices[ordinal].mutex);
	return &devices[ordinal];
}

static void device_unlock(struct lend_device *device)
{
	pthread_mutex_unlock(&device->mutex);
}

/* --- OutOfMemoryError --- */

/*
 * PyTorch's allocate() of an absurd size throws. A caller below the report thereby leaves malloc:
 * C++ unwinds its frames and those of C in between, which have nothing to clean up, and releases
 * the mutex. A longjmp to malloc does the same. As there, the block is not returned to its pool,
 * and its bytes stay in the sum.
 */
static _Thread_local jmp_buf *thrown_to;

struct data_pointer {
	void *data, *context, *deleter, *device;
};

static struct data_pointer allocator_allocate(void *self, size_t size)
{
	(void)self;
	if (size < LEND_MOST || !thrown_to) {
		fprintf(stderr, "libc10_cuda: allocate(%zu) is not caught\n", size);
		abort();
	}
	longjmp(*thrown_to, 1);
}

/* As the table of virtual functions of c10::Allocator: two destructors first. */
static const struct {
	void (*destroy)(void *), (*destroy_and_free)(void *);
	struct data_pointer (*allocate)(void *self, size_t size);
} allocator_table = {NULL, NULL, allocator_allocate};

static const struct {
	const void *table;
} allocator = {&allocator_table};

/* std::atomic<c10::cuda::CUDACachingAllocator::CUDAAllocator *> */
#define ALLOCATOR _ZN3c104cuda20CUDACachingAllocator9allocatorE
extern const void *ALLOCATOR;
const void *ALLOCATOR = &allocator;

/* --- reports --- */

static void report(struct lend_device *device, CUdeviceptr at, int64_t bytes)
{
	size_t sum = device->counts.allocated;
	if (device->wrong_sum)
		sum += 512;
	device->wrong_sum = false;
	LEND_REPORT((void *)(uintptr_t)at, bytes, sum, device->counts.reserved,
		    (struct lend_device_name){1, device->index});
}

/* --- the table --- */

static struct lend_block *take(size_t size, CUstream stream)
{
	struct lend_device *device = device_lock();
	jmp_buf here;
	thrown_to = &here;
	if (setjmp(here)) {
		thrown_to = NULL;
		device->counts.thrown++;
		device_unlock(device);
		return NULL;
	}
	struct lend_block *block = lend_block_find(device, capturing, size, stream);
	if (block) {
		device->counts.tensors++;
		device->counts.allocated += block->size;
		report(device, block->at, (int64_t)block->size);
	} else {
		device->counts.refused++;
	}
	thrown_to = NULL;
	device_unlock(device);
	return block;
}

/* The block is merged with its neighbours before the report. */
static void give(struct lend_block *block)
{
	struct lend_device *device = block->device;
	pthread_mutex_lock(&device->mutex);
	const CUdeviceptr at = block->at;
	const size_t size = block->size;
	block->allocated = false;
	device->counts.allocated -= size;
	lend_block_return(block);
	report(device, at, -(int64_t)size);
	device_unlock(device);
}

static CUdeviceptr address(const struct lend_block *block)
{
	return block->at;
}

static void record(struct lend_block *block, CUstream stream)
{
	struct lend_device *device = block->device;
	pthread_mutex_lock(&device->mutex);
	bool known = lend_forgets || block->stream == stream;
	for (unsigned i = 0; i < block->n_uses; i++)
		known |= block->uses[i] == stream;
	if (!known && block->n_uses < LEND_STREAMS)
		block->uses[block->n_uses++] = stream;
	device_unlock(device);
}

static bool empty(void)
{
	struct lend_device *device = device_lock();
	bool may = !device->captures && !lend_keeps;
	if (may)
		lend_segments_free(device);
	device_unlock(device);
	return may;
}

/* With the mutex held. */
static struct lend_pool *pool_make(struct lend_device *device)
{
	struct lend_pool *pool = calloc(1, sizeof *pool);
	if (!pool)
		abort();
	pool->small.small = true;
	pool->small.owner = pool->large.owner = pool;
	pool->next = device->pools;
	return device->pools = pool;
}

static struct lend_pool *capture_begin(struct lend_pool *pool)
{
	struct lend_device *device = device_lock();
	if (!pool)
		pool = pool_make(device);
	pool->graphs++;
	device->captures++;
	device_unlock(device);
	return capturing = pool;
}

static void capture_end(void)
{
	struct lend_device *device = device_lock();
	device->captures--;
	capturing = NULL;
	device_unlock(device);
}

static void pool_release(struct lend_pool *pool)
{
	struct lend_device *device = device_lock();
	pool->graphs--;
	device_unlock(device);
}

/* Reports with the sum that would fit. */
static void wrong(enum lend_wrong what, struct lend_block *block)
{
	struct lend_device *device = device_lock();
	const bool twice = what == LEND_WRONG_TWICE;
	const int64_t bytes = twice ? (int64_t)block->size : -512;
	device->wrong_sum = what == LEND_WRONG_SUM;
	if (!device->wrong_sum) {
		device->counts.allocated += (size_t)bytes;
		report(device, twice ? block->at : block->at + 512, bytes);
		device->counts.allocated -= (size_t)bytes;
	}
	device_unlock(device);
}

static bool runtime(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return false;
	*(void **)&lend_runtime_malloc = dlsym(handle, "cudaMalloc");
	*(void **)&lend_runtime_free = dlsym(handle, "cudaFree");
	return lend_runtime_malloc && lend_runtime_free;
}

static void keep(void)
{
	lend_keeps = true;
}

static void forget(void)
{
	lend_forgets = true;
}

static void counts(struct lend_counts *out)
{
	struct lend_device *device = device_lock();
	*out = device->counts;
	device_unlock(device);
}

const struct lend_cache *lend_cache(void)
{
	static const struct lend_cache cache = {.take = take,
						.give = give,
						.address = address,
						.record = record,
						.empty = empty,
						.capture_begin = capture_begin,
						.capture_end = capture_end,
						.pool_release = pool_release,
						.wrong = wrong,
						.runtime = runtime,
						.keep = keep,
						.forget = forget,
						.counts = counts};
	return &cache;
}
