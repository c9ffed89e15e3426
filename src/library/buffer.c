/* SPDX-License-Identifier: BSD-3-Clause */
#include "library/buffer.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/size.h"
#include "context/fence.h"
#include "context/place.h"

#define SHARE 8				/* a growth adds this part of the capacity, */
#define STEP_MOST ((uint64_t)256 << 20) /* at most this, or the bytes requested */
#define MOVE ((uint64_t)16 << 20)	/* bytes by which a tail moves through free capacity */

struct part {
	CUdeviceptr at;
	uint64_t size;
	CUmemGenericAllocationHandle handle; /* of host memory; 0: a loan of the pool */
};

struct gm_buffer {
	struct gm_buffer_config config;
	CUdeviceptr base;
	uint64_t size, capacity;
	GM_ARRAY(struct part) parts;
	pid_t process; /* a child of fork has no such memory */
	int node;      /* NUMA node of the host, next to the device */
};

static bool buffer_is_here(const struct gm_buffer *b)
{
	return b->process == getpid();
}

/* --- memory of the host --- */

#if CUDA_VERSION >= 12020

#define NODE_SINCE 12020

static CUmemLocation host_location(const struct gm_buffer *b)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = b->node};
}

/* Without such nodes the driver's answer is -1. */
static CUresult host_find(struct gm_buffer *b)
{
	if (b->config.driver->version < NODE_SINCE)
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult result = b->config.driver->cuDeviceGetAttribute(
		&b->node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, b->config.context->device);
	if (result != CUDA_SUCCESS || b->node < 0)
		b->node = 0;
	return CUDA_SUCCESS;
}

static CUresult host_map(const struct gm_buffer *b, struct part *part)
{
	const struct gm_driver *driver = b->config.driver;
	CUmemLocation host = host_location(b);
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = host};
	const CUmemAccessDesc access[] = {
		{.location = host, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = b->config.context->device},
		 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	CUresult result = driver->cuMemCreate(&part->handle, part->size, &prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver->cuMemMap(part->at, part->size, 0, part->handle, 0);
	if (result == CUDA_SUCCESS) {
		result = driver->cuMemSetAccess(part->at, part->size, access, 2);
		if (result == CUDA_SUCCESS)
			return result;
		driver->cuMemUnmap(part->at, part->size);
	}
	driver->cuMemRelease(part->handle);
	return result;
}

#else

static CUresult host_find(struct gm_buffer *b)
{
	(void)b;
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult host_map(const struct gm_buffer *b, struct part *part)
{
	(void)b;
	(void)part;
	return CUDA_ERROR_NOT_SUPPORTED;
}

#endif

static CUresult host_unmap(const struct gm_buffer *b, const struct part *part)
{
	CUresult result = b->config.driver->cuMemUnmap(part->at, part->size);
	return result == CUDA_SUCCESS ? b->config.driver->cuMemRelease(part->handle) : result;
}

/* --- parts --- */

static CUresult part_map(const struct gm_buffer *b, struct part *part)
{
	if (b->config.host)
		return host_map(b, part);
	CUresult result = gm_pool_lend(b->config.pool, part->at, part->size);
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	b->config.reclaim(b->config.context->ordinal);
	gm_pool_drain(b->config.pool);
	return gm_pool_lend(b->config.pool, part->at, part->size);
}

/* Raise the capacity to `capacity`, a multiple of 2 MiB. */
static CUresult part_add(struct gm_buffer *b, uint64_t capacity)
{
	struct part part = {.at = b->base + b->capacity, .size = capacity - b->capacity};
	if (!gm_array_reserve(&b->parts, b->parts.n + 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(b->config.driver);
	CUresult result = part_map(b, &part);
	gm_driver_quiet_end(b->config.driver, mode);
	if (result != CUDA_SUCCESS)
		return result;
	(void)gm_array_push(&b->parts, part);
	b->capacity = capacity;
	return CUDA_SUCCESS;
}

/* Return the parts that begin at `size` or later, the last one first. */
static CUresult parts_drop(struct gm_buffer *b, uint64_t size)
{
	CUresult result = CUDA_SUCCESS;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(b->config.driver);
	while (b->parts.n) {
		const struct part *last = &b->parts.at[b->parts.n - 1];
		if (last->at - b->base < size)
			break;
		result = b->config.host ? host_unmap(b, last)
					: gm_pool_take_back(b->config.pool, last->at, last->size);
		if (result != CUDA_SUCCESS)
			break;
		b->capacity -= last->size;
		b->parts.n--;
	}
	gm_driver_quiet_end(b->config.driver, mode);
	return result;
}

static CUresult buffer_wait(const struct gm_buffer *b)
{
	enum gm_fenced fenced = GM_FENCED_PASSED;
	CUresult result = gm_fence((void *)(uintptr_t)b->config.driver, b->config.context->key,
				   false, &fenced);
	if (result == CUDA_SUCCESS && fenced == GM_FENCED_LATER)
		return CUDA_ERROR_NOT_READY;
	/* After a fault of a kernel no work runs any more. */
	return CUDA_SUCCESS;
}

/* --- life --- */

static CUresult most_find(struct gm_buffer *b)
{
	uint64_t most = b->config.most;
	size_t total = 0;
	CUresult result = CUDA_SUCCESS;
	if (!most && b->config.host)
		most = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	else if (!most) {
		result = b->config.driver->cuDeviceTotalMem_v2(&total, b->config.context->device);
		most = total;
	}
	b->config.most = gm_round_up(most, GM_POOL_GRANULE);
	return result == CUDA_SUCCESS && b->config.most < most ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

CUresult gm_buffer_create(const struct gm_buffer_config *config, struct gm_buffer **out)
{
	struct gm_buffer *b = calloc(1, sizeof *b);
	*out = NULL;
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	b->config = *config;
	b->process = getpid();
	CUstreamCaptureMode mode = gm_driver_quiet_begin(config->driver);
	CUresult result = most_find(b);
	if (result == CUDA_SUCCESS && config->host)
		result = host_find(b);
	if (result == CUDA_SUCCESS)
		result = config->driver->cuMemAddressReserve(&b->base, b->config.most,
							     GM_POOL_GRANULE, 0, 0);
	gm_driver_quiet_end(config->driver, mode);
	if (result == CUDA_SUCCESS)
		*out = b;
	else
		free(b);
	return result;
}

CUresult gm_buffer_destroy(struct gm_buffer *b)
{
	if (buffer_is_here(b)) {
		CUresult result = b->parts.n ? buffer_wait(b) : CUDA_SUCCESS;
		if (result == CUDA_SUCCESS)
			result = parts_drop(b, 0);
		if (result != CUDA_SUCCESS)
			return result;
		CUstreamCaptureMode mode = gm_driver_quiet_begin(b->config.driver);
		b->config.driver->cuMemAddressFree(b->base, b->config.most);
		gm_driver_quiet_end(b->config.driver, mode);
	}
	gm_array_free(&b->parts);
	free(b);
	return CUDA_SUCCESS;
}

CUresult gm_buffer_shrink(struct gm_buffer *b)
{
	if (!buffer_is_here(b))
		return CUDA_ERROR_NOT_INITIALIZED;
	const struct part *last = b->parts.n ? &b->parts.at[b->parts.n - 1] : NULL;
	if (!last || last->at - b->base < b->size)
		return CUDA_SUCCESS;
	CUresult result = buffer_wait(b);
	return result == CUDA_SUCCESS ? parts_drop(b, b->size) : result;
}

/* --- size --- */

CUresult gm_buffer_reserve(struct gm_buffer *b, uint64_t bytes)
{
	if (!buffer_is_here(b))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (bytes <= b->capacity)
		return CUDA_SUCCESS;
	return bytes > b->config.most ? CUDA_ERROR_OUT_OF_MEMORY
				      : part_add(b, gm_round_up(bytes, GM_POOL_GRANULE));
}

CUresult gm_buffer_resize(struct gm_buffer *b, uint64_t size)
{
	uint64_t step = b->capacity / SHARE < STEP_MOST ? b->capacity / SHARE : STEP_MOST;
	uint64_t ahead = b->capacity + step < b->config.most ? b->capacity + step : b->config.most;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	if (size > b->capacity && size < ahead)
		result = gm_buffer_reserve(b, ahead);
	if (result != CUDA_SUCCESS)
		result = gm_buffer_reserve(b, size);
	if (result == CUDA_SUCCESS)
		b->size = size;
	return result;
}

void gm_buffer_figures(const struct gm_buffer *b, struct gm_buffer_figures *out)
{
	*out = (struct gm_buffer_figures){
		.data = b->base,
		.size = b->size,
		.capacity = b->capacity,
		.most = b->config.most,
	};
}

/* --- content --- */

/* A move of `length` bytes by `shift`, in steps without overlap of source and destination. With
 * `through` a step is copied by way of free capacity behind the content, and may be longer than
 * `shift`. */
struct move {
	CUdeviceptr from, to;
	uint64_t length, step;
	CUdeviceptr through; /* 0: directly */
};

static struct move move_plan(struct gm_buffer *b, uint64_t from, uint64_t to, uint64_t length)
{
	uint64_t shift = to > from ? to - from : from - to;
	uint64_t end = (to > from ? to : from) + length, step = length < MOVE ? length : MOVE;
	struct move move = {b->base + from, b->base + to, length, shift, 0};
	if (shift >= step || end + step > b->config.most ||
	    gm_buffer_reserve(b, end + step) != CUDA_SUCCESS)
		return move;
	move.step = step;
	move.through = b->base + end;
	return move;
}

static CUresult move_step(const struct gm_buffer *b, const struct move *move, uint64_t offset,
			  uint64_t bytes, CUstream stream)
{
	const struct gm_driver *driver = b->config.driver;
	CUdeviceptr from = move->from + offset, to = move->to + offset;
	if (!move->through)
		return driver->cuMemcpyAsync(to, from, bytes, stream);
	CUresult result = driver->cuMemcpyAsync(move->through, from, bytes, stream);
	return result == CUDA_SUCCESS ? driver->cuMemcpyAsync(to, move->through, bytes, stream)
				      : result;
}

/* A move to higher addresses starts at the end, one to lower addresses at the start. */
static CUresult move_run(const struct gm_buffer *b, const struct move *move, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t done = 0;
	while (done < move->length && result == CUDA_SUCCESS) {
		uint64_t rest = move->length - done;
		uint64_t bytes = rest < move->step ? rest : move->step;
		result = move_step(b, move, move->to > move->from ? rest - bytes : done, bytes,
				   stream);
		done += bytes;
	}
	return result;
}

CUresult gm_buffer_insert(struct gm_buffer *b, uint64_t at, CUdeviceptr source, uint64_t bytes,
			  CUstream stream)
{
	struct gm_place place;
	uint64_t before = b->size, tail = before - at;
	if (at > before)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > b->config.most - before)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = gm_buffer_resize(b, before + bytes);
	if (result != CUDA_SUCCESS || !bytes || (!tail && !source))
		return result;
	result = gm_place_enter(&place, b->config.driver, (int)b->config.context->ordinal, stream);
	if (result == CUDA_SUCCESS) {
		const struct move move = move_plan(b, at, at + bytes, tail);
		result = move_run(b, &move, stream);
		if (result == CUDA_SUCCESS && source)
			result = b->config.driver->cuMemcpyAsync(b->base + at, source, bytes,
								 stream);
		gm_place_leave(&place);
	}
	if (result != CUDA_SUCCESS)
		b->size = before;
	return result;
}

CUresult gm_buffer_erase(struct gm_buffer *b, uint64_t at, uint64_t bytes, CUstream stream)
{
	struct gm_place place;
	if (!buffer_is_here(b))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (at > b->size || bytes > b->size - at)
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t tail = b->size - at - bytes;
	if (bytes && tail) {
		CUresult result = gm_place_enter(&place, b->config.driver,
						 (int)b->config.context->ordinal, stream);
		if (result != CUDA_SUCCESS)
			return result;
		const struct move move = move_plan(b, at + bytes, at, tail);
		result = move_run(b, &move, stream);
		gm_place_leave(&place);
		if (result != CUDA_SUCCESS)
			return result;
	}
	b->size -= bytes;
	return CUDA_SUCCESS;
}
