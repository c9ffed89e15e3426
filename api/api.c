/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of gpumem.h: each forwards to the preload, or else to the library's own pool. */
/* before gpumem.h: all other functions in this file are hidden */
#pragma GCC visibility push(default)
#include "gpumem.h"
#pragma GCC visibility pop

#include "core.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/msg.h"
#include "knob/knob.h"

static const struct gm_core *core; /* NULL: all memory is refused */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct gm_core *core_of_preload(void)
{
	const struct gm_core *(*entry)(unsigned version) = dlsym(RTLD_DEFAULT, GM_CORE_ENTRY);
	return entry ? entry(GM_CORE_VERSION) : NULL;
}

static void core_find(void)
{
	/* Under the preload this is the preload's cuInit, which starts the preload. */
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	CUresult (*init)(unsigned) = driver ? (CUresult(*)(unsigned))dlsym(driver, "cuInit") : NULL;
	gm_msg_follow();
	gm_msg_set_level((enum gm_msg_level)gm_knob_get()->verbose.choice);
	if (!init || init(0) != CUDA_SUCCESS) {
		gm_msg(GM_MSG_WARN,
		       "libgpumem-core: no CUDA driver that works: all memory is refused");
		return;
	}
	core = core_of_preload();
	if (!core)
		core = gm_core_alone(dlsym, driver);
}

static const struct gm_core *core_get(void)
{
	pthread_once(&once, core_find);
	return core;
}

/* --- statistics and the log --- */

int gpumem_stats(int device, struct gpumem_stats *stats)
{
	struct gpumem_stats all = {0};
	if (!stats || stats->size <= sizeof stats->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!core_get())
		return CUDA_ERROR_NO_DEVICE;
	CUresult result = core->stats(device, &all);
	all.size = stats->size < sizeof all ? stats->size : sizeof all;
	if (result == CUDA_SUCCESS)
		memcpy(stats, &all, all.size);
	return (int)result;
}

uint64_t gpumem_trim(void)
{
	return core_get() ? core->trim() : 0;
}

int gpumem_mark(const char *text)
{
	return text && core_get() && core->mark(text);
}

/* --- sleep --- */

int gpumem_sleep(void)
{
	return core_get() ? (int)core->sleep() : CUDA_ERROR_NO_DEVICE;
}

int gpumem_wake(void)
{
	return core_get() ? (int)core->wake() : CUDA_ERROR_NO_DEVICE;
}

/* --- memory --- */

void *gpumem_cupy_malloc(void *stream, size_t size, int device)
{
	CUdeviceptr block;
	if (!size || !core_get() ||
	    core->alloc(size, device, stream, stream != NULL, &block) != CUDA_SUCCESS)
		return NULL;
	return (void *)block;
}

void gpumem_cupy_free(void *stream, void *block, int device)
{
	if (!block || !core_get())
		return;
	CUresult result = core->free((CUdeviceptr)block, device, stream, stream != NULL);
	if (result != CUDA_SUCCESS)
		GM_MSG_ONCE(GM_MSG_WARN, "libgpumem-core: free of %p on device %d: error %d%s",
			    block, device, (int)result,
			    result == CUDA_ERROR_INVALID_VALUE ? ": no block of it is in use there"
							       : "");
}

/* --- heaps --- */

/* The handle is a pointer to the host's side, made by `core`. */
static struct gm_heap_host *heap_host(const struct gpumem_heap *heap)
{
	return (struct gm_heap_host *)(uintptr_t)heap;
}

int gpumem_heap_create(int device, size_t limit, struct gpumem_heap **heap)
{
	struct gm_heap_host *made = NULL;
	if (!heap)
		return CUDA_ERROR_INVALID_VALUE;
	*heap = NULL;
	if (!core_get())
		return CUDA_ERROR_NO_DEVICE;
	CUresult result = core->heap.create(device, limit, &made);
	if (result == CUDA_SUCCESS)
		*heap = (struct gpumem_heap *)made;
	return (int)result;
}

void gpumem_heap_destroy(struct gpumem_heap *heap)
{
	if (heap && core_get())
		core->heap.destroy(heap_host(heap));
}

struct gm_heap *gpumem_heap_device(const struct gpumem_heap *heap)
{
	return heap && core_get() ? (struct gm_heap *)(uintptr_t)core->heap.device(heap_host(heap))
				  : NULL;
}

void gpumem_heap_begin(struct gpumem_heap *heap, struct CUstream_st *stream)
{
	if (heap && core_get())
		core->heap.begin(heap_host(heap), stream);
}

void gpumem_heap_end(struct gpumem_heap *heap, struct CUstream_st *stream)
{
	if (heap && core_get())
		core->heap.end(heap_host(heap), stream);
}

uint64_t gpumem_heap_trim(struct gpumem_heap *heap)
{
	return heap && core_get() ? core->heap.trim(heap_host(heap)) : 0;
}

int gpumem_heap_stats(struct gpumem_heap *heap, struct gpumem_heap_stats *stats)
{
	struct gm_heap_figures figures;
	if (!heap || !stats || stats->size <= sizeof stats->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!core_get())
		return CUDA_ERROR_NO_DEVICE;
	CUresult result = core->heap.figures(heap_host(heap), &figures);
	const struct gpumem_heap_stats all = {
		.size = stats->size < sizeof all ? stats->size : sizeof all,
		.limit = figures.limit,
		.mapped = figures.mapped,
		.chunks = figures.chunks,
		.own = figures.own,
		.grown = figures.grown,
		.shrunk = figures.shrunk,
		.used = figures.used,
		.live = figures.live,
		.nulls = figures.nulls,
		.foreign_frees = figures.foreign_frees,
	};
	memcpy(stats, &all, all.size);
	return (int)result;
}

/* --- growable buffers --- */

/* The handle is a pointer to the buffer, made by `core`. */
static struct gm_buffer *buffer_inner(const struct gpumem_buffer *buffer)
{
	return (struct gm_buffer *)(uintptr_t)buffer;
}

static struct gm_buffer_figures buffer_figures(const struct gpumem_buffer *buffer)
{
	struct gm_buffer_figures figures = {0};
	if (buffer && core_get())
		core->buffer.figures(buffer_inner(buffer), &figures);
	return figures;
}

/* The result of a call on a buffer. */
#define BUFFER_CALL(name, buffer, ...)                                                        \
	((buffer) && core_get() ? (int)core->buffer.name(buffer_inner(buffer), ##__VA_ARGS__) \
				: CUDA_ERROR_INVALID_VALUE)

int gpumem_buffer_create(int device, enum gpumem_memory memory, size_t most,
			 struct gpumem_buffer **buffer)
{
	struct gm_buffer *made = NULL;
	if (!buffer)
		return CUDA_ERROR_INVALID_VALUE;
	*buffer = NULL;
	if (memory != GPUMEM_MEMORY_DEVICE && memory != GPUMEM_MEMORY_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	if (!core_get())
		return CUDA_ERROR_NO_DEVICE;
	CUresult result = core->buffer.create(device, memory == GPUMEM_MEMORY_HOST, most, &made);
	*buffer = (struct gpumem_buffer *)made;
	return (int)result;
}

int gpumem_buffer_destroy(struct gpumem_buffer *buffer)
{
	return buffer ? BUFFER_CALL(destroy, buffer) : CUDA_SUCCESS;
}

void *gpumem_buffer_data(const struct gpumem_buffer *buffer)
{
	return (void *)buffer_figures(buffer).data;
}

size_t gpumem_buffer_size(const struct gpumem_buffer *buffer)
{
	return buffer_figures(buffer).size;
}

size_t gpumem_buffer_capacity(const struct gpumem_buffer *buffer)
{
	return buffer_figures(buffer).capacity;
}

int gpumem_buffer_reserve(struct gpumem_buffer *buffer, size_t bytes)
{
	return BUFFER_CALL(reserve, buffer, bytes);
}

int gpumem_buffer_resize(struct gpumem_buffer *buffer, size_t size)
{
	return BUFFER_CALL(resize, buffer, size);
}

int gpumem_buffer_append(struct gpumem_buffer *buffer, const void *from, size_t bytes,
			 struct CUstream_st *stream)
{
	return gpumem_buffer_insert(buffer, gpumem_buffer_size(buffer), from, bytes, stream);
}

int gpumem_buffer_insert(struct gpumem_buffer *buffer, size_t at, const void *from, size_t bytes,
			 struct CUstream_st *stream)
{
	return BUFFER_CALL(insert, buffer, at, (CUdeviceptr)from, bytes, stream);
}

int gpumem_buffer_erase(struct gpumem_buffer *buffer, size_t at, size_t bytes,
			struct CUstream_st *stream)
{
	return BUFFER_CALL(erase, buffer, at, bytes, stream);
}

int gpumem_buffer_shrink(struct gpumem_buffer *buffer)
{
	return BUFFER_CALL(shrink, buffer);
}
