/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies. Each kind becomes a struct copy of up to three dimensions. One function checks both ends:
 * memory of cuMemAlloc to the requested byte, mapped memory handle by handle.
 */
#include "sim/copy.h"

#include <stdlib.h>
#include <string.h>

/* From so many bytes on an asynchronous copy from pageable memory returns when complete (H100). */
#define STAGED_AT_ONCE (4u << 20)

/* --- checking an end --- */

/* Check that all of [address, +size) may be used: one allocation, or a run of mappings with access.
 * *reach: devices with memory of it, and devices that can use all of it. */
static CUresult range_check(CUdeviceptr address, size_t size, struct sim_reach *reach)
{
	size_t at = sim_region_place(address);
	CUdeviceptr end = address + size;
	if (end < address || at == sim.regions.n || sim.regions.at[at]->base > address)
		return CUDA_ERROR_INVALID_VALUE;
	while (address < end) {
		if (at == sim.regions.n)
			return CUDA_ERROR_INVALID_VALUE;
		const struct sim_region *r = sim.regions.at[at++];
		bool mapping = r->kind == SIM_MAPPING;
		if (r->base > address || r->freeing || (!mapping && end > r->base + r->size))
			return CUDA_ERROR_INVALID_VALUE;
		reach->host |= r->kind == SIM_HOST || r->kind == SIM_REGISTERED;
		if (r->kind == SIM_DEVICE || r->kind == SIM_ASYNC || r->kind == SIM_MODULE)
			reach->at |= 1u << r->device;
		if (mapping && r->device < SIM_MAX_DEVICES)
			reach->at |= 1u << r->device;
		for (unsigned d = 0; mapping && d < SIM_MAX_DEVICES; d++)
			if (!r->access[d])
				reach->by &= ~(1u << d);
		address = r->base + r->size;
	}
	return reach->by ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_check_end(const struct sim_end *end, size_t width, size_t height, size_t depth,
		       struct sim_reach *reach)
{
	*reach = (struct sim_reach){.by = (1u << SIM_MAX_DEVICES) - 1};
	size_t rows = height + (depth - 1) * end->height, extent;
	if ((end->pitch && end->pitch < width) || !end->at ||
	    __builtin_mul_overflow(rows - 1, end->pitch, &extent) ||
	    __builtin_add_overflow(extent, width, &extent))
		return CUDA_ERROR_INVALID_VALUE;
	if (end->array) {
		size_t offset = (size_t)(end->at - end->array->at);
		return offset + extent <= end->array->bytes ? CUDA_SUCCESS
							    : CUDA_ERROR_INVALID_VALUE;
	}
	if (end->kind == SIM_END_HOST)
		reach->host = true;
	if (end->kind == SIM_END_HOST && !sim_region_find((CUdeviceptr)end->at)) {
		reach->pageable = true;
		return CUDA_SUCCESS; /* as on the device, the process may fault */
	}
	if (end->kind == SIM_END_ANY && !sim_region_find((CUdeviceptr)end->at)) {
		reach->host = reach->pageable = true;
		return sim_maybe_device((CUdeviceptr)end->at) ? CUDA_ERROR_INVALID_VALUE
							      : CUDA_SUCCESS;
	}
	return range_check((CUdeviceptr)end->at, extent, reach);
}

/* --- copying --- */

struct copy {
	struct sim_end to, from;
	size_t width, height, depth;
	char *staged;	   /* pageable source of an asynchronous copy, taken at the call */
	CUDA_MEMCPY3D box; /* of a node */
};

static void copy_run(void *data)
{
	const struct copy *c = data;
	for (size_t z = 0; z < c->depth; z++)
		for (size_t y = 0; y < c->height; y++)
			memmove(c->to.at + (z * c->to.height + y) * c->to.pitch,
				c->from.at + (z * c->from.height + y) * c->from.pitch, c->width);
}

static void copy_drop(void *data)
{
	free(((struct copy *)data)->staged);
}

static void copy_stage(struct copy *c)
{
	size_t rows = c->height + (c->depth - 1) * c->from.height;
	size_t extent = (rows - 1) * c->from.pitch + c->width;
	c->staged = malloc(extent);
	if (c->staged)
		c->from.at = memcpy(c->staged, c->from.at, extent);
}

/* Memory mapped only for its own device cannot be copied to or from another device. */
static bool copy_crosses_border(const struct sim_reach *to, const struct sim_reach *from)
{
	unsigned both = to->at | from->at;
	return (both & to->by & from->by) != both;
}

CUresult sim_copy_work(struct sim_end to, struct sim_end from, const size_t size[3], unsigned how,
		       struct sim_work **work, struct sim_reach *at, struct sim_reach *out)
{
	CUresult result = sim_check_end(&to, size[0], size[1], size[2], at);
	if (result == CUDA_SUCCESS)
		result = sim_check_end(&from, size[0], size[1], size[2], out);
	if (result == CUDA_SUCCESS && !(how & SIM_COPY_PEER) && copy_crosses_border(at, out))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	*work = sim_work_make(copy_run, copy_drop, sizeof(struct copy));
	if (!*work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(struct copy *)(*work)->data =
		(struct copy){.to = to, .from = from, size[0], size[1], size[2]};
	return CUDA_SUCCESS;
}

/* The context that owns memory; mapped memory has none. */
static CUcontext end_owner(const struct sim_end *end)
{
	const struct sim_region *region = end->array ? NULL : sim_region_find((CUdeviceptr)end->at);
	struct sim_context *ctx = end->array ? end->array->ctx : region ? region->ctx : NULL;
	return ctx ? sim_context_handle(ctx) : NULL;
}

void sim_box_keep(struct sim_work *work, const CUDA_MEMCPY3D *box, CUcontext context)
{
	struct copy *c = (struct copy *)work->data;
	c->box = *box;
	work->context = context;
	if (!work->context)
		work->context = end_owner(&c->to);
	if (!work->context)
		work->context = end_owner(&c->from);
}

bool sim_box_of_work(const struct sim_work *work, CUDA_MEMCPY3D *box)
{
	const struct copy *c = (const struct copy *)work->data;
	if (work->run != copy_run || !c->box.Depth)
		return false;
	*box = c->box;
	return true;
}

CUresult sim_copy(struct sim_end to, struct sim_end from, const size_t size[3], CUstream stream,
		  unsigned how)
{
	struct sim_reach at, out;
	struct sim_stream *s;
	struct sim_work *work;
	CUresult result = sim_stream_of(stream, &s);
	if (result != CUDA_SUCCESS || !size[0] || !size[1] || !size[2])
		return result;
	result = sim_copy_work(to, from, size, how, &work, &at, &out);
	if (result != CUDA_SUCCESS)
		return result;
	work->context = sim_context_handle(s->ctx);
	bool async = how & SIM_COPY_ASYNC, capturing = s->capture;
	if (async && out.pageable && !capturing)
		copy_stage((struct copy *)work->data);
	result = sim_enqueue(s, work);
	/* The host waits for synchronous copies of its own memory, and for asynchronous copies to
	 * pageable memory, and large ones from it. */
	bool large = size[0] * size[1] * size[2] >= STAGED_AT_ONCE;
	bool waits = async ? at.pageable || (out.pageable && large) : at.host || out.host;
	return result == CUDA_SUCCESS && waits && !capturing ? sim_wait_stream(s) : result;
}
