/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of addresses, and memory that the driver places: cuMemAlloc and its relatives. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/internal.h"

/* --- pages --- */

/* The driver keeps its old addresses, so that a stale pointer is recognized. */
struct span {
	char *at;
	size_t size;
};
static GM_ARRAY(struct span) owned, spare;

bool sim_maybe_device(CUdeviceptr address)
{
	for (size_t i = 0; i < owned.n; i++)
		if (address - (CUdeviceptr)owned.at[i].at < owned.at[i].size)
			return true;
	return false;
}

/* Zero pages without access, aligned to `align`, a power of two; or NULL. */
void *sim_pages(size_t size, size_t align)
{
	for (size_t i = spare.n; i-- > 0;) { /* the latest first, so that addresses are reused */
		struct span span = spare.at[i];
		if (span.size != size || (uintptr_t)span.at & (align - 1))
			continue;
		spare.at[i] = spare.at[--spare.n];
		return span.at;
	}
	if (size + align < size || !gm_array_reserve(&owned, owned.n + 1))
		return NULL;
	char *at = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);
	if (at == MAP_FAILED)
		return NULL;
	char *good = (char *)gm_round_up((uintptr_t)at, align);
	if (good > at)
		munmap(at, (size_t)(good - at));
	if (good < at + align)
		munmap(good + size, (size_t)(at + align - good));
	(void)gm_array_push(&owned, (struct span){good, size});
	return good;
}

void sim_pages_drop(void *pages, size_t size)
{
	mmap(pages, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
	     0);
	(void)gm_array_push(&spare, (struct span){pages, size});
}

/* --- the table --- */

size_t sim_region_place(CUdeviceptr address)
{
	size_t low = 0, high = sim.regions.n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct sim_region *r = sim.regions.at[middle];
		if (r->base + r->size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

struct sim_region *sim_region_find(CUdeviceptr address)
{
	size_t at = sim_region_place(address);
	if (at == sim.regions.n || sim.regions.at[at]->base > address)
		return NULL;
	return sim.regions.at[at];
}

CUresult sim_region_insert(struct sim_region *region)
{
	size_t at = sim_region_place(region->base);
	if (at < sim.regions.n && sim.regions.at[at]->base < region->base + region->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!gm_array_push(&sim.regions, region))
		return CUDA_ERROR_OUT_OF_MEMORY;
	memmove(sim.regions.at + at + 1, sim.regions.at + at,
		(sim.regions.n - 1 - at) * sizeof *sim.regions.at);
	sim.regions.at[at] = region;
	return CUDA_SUCCESS;
}

void sim_region_remove(struct sim_region *region)
{
	size_t at = sim_region_place(region->base);
	GM_ASSERT(sim.regions.at[at] == region);
	memmove(sim.regions.at + at, sim.regions.at + at + 1,
		(--sim.regions.n - at) * sizeof *sim.regions.at);
	free(region);
}

/* --- small allocations share 2 MiB, packed at 512 bytes --- */

#define SLAB_STEPS (SIM_PAGE / SIM_STEP)

struct sim_slab {
	struct sim_slab *next;
	char *pages;
	unsigned device;
	size_t in_use; /* steps */
	int file;      /* descriptor of the pages' file, plus 1; 0: no file */
	bool used[SLAB_STEPS];
};

/* The first run of `steps` free steps, or SLAB_STEPS. */
static size_t slab_fit(const struct sim_slab *slab, size_t steps)
{
	size_t run = 0;
	for (size_t i = 0; i < SLAB_STEPS; i++) {
		run = slab->used[i] ? 0 : run + 1;
		if (run == steps)
			return i + 1 - steps;
	}
	return SLAB_STEPS;
}

static struct sim_slab *slab_make(unsigned device)
{
	struct sim_slab *slab = calloc(1, sizeof *slab);
	if (!slab || sim_charge(device, SIM_PAGE) != CUDA_SUCCESS) {
		free(slab);
		return NULL;
	}
	slab->pages = sim_pages(SIM_PAGE, SIM_PAGE);
	if (!slab->pages || mprotect(slab->pages, SIM_PAGE, PROT_READ | PROT_WRITE)) {
		sim_uncharge(device, SIM_PAGE);
		free(slab);
		return NULL;
	}
	slab->device = device;
	slab->next = sim.slabs;
	return sim.slabs = slab;
}

static char *slab_alloc(unsigned device, size_t size, struct sim_slab **out)
{
	size_t steps = (size + SIM_STEP - 1) / SIM_STEP, at = SLAB_STEPS;
	struct sim_slab *slab = sim.slabs;
	for (; slab; slab = slab->next)
		if (slab->device == device && slab->in_use + steps <= SLAB_STEPS &&
		    (at = slab_fit(slab, steps)) < SLAB_STEPS)
			break;
	if (!slab) {
		slab = slab_make(device);
		at = 0;
	}
	if (!slab)
		return NULL;
	memset(slab->used + at, true, steps);
	slab->in_use += steps;
	*out = slab;
	return slab->pages + at * SIM_STEP;
}

static void file_close(int file)
{
	if (file)
		close(file - 1);
}

static void slab_free(struct sim_slab *slab, CUdeviceptr address, size_t size)
{
	size_t steps = (size + SIM_STEP - 1) / SIM_STEP;
	size_t at = (address - (CUdeviceptr)slab->pages) / SIM_STEP;
	memset(slab->used + at, false, steps);
	slab->in_use -= steps;
	if (slab->in_use)
		return;
	struct sim_slab **link = &sim.slabs;
	while (*link != slab)
		link = &(*link)->next;
	*link = slab->next;
	sim_pages_drop(slab->pages, SIM_PAGE);
	file_close(slab->file);
	sim_uncharge(slab->device, SIM_PAGE);
	free(slab);
}

/* --- allocations --- */

/* Blocks of 1 MiB and more have pages of their own, so they are zeroed, as on the device. */
static char *memory_place(unsigned device, size_t size, struct sim_slab **slab)
{
	if (size < GM_MIB)
		return slab_alloc(device, size, slab);
	size_t whole = gm_round_up(size, SIM_PAGE);
	if (whole < size || sim_charge(device, whole) != CUDA_SUCCESS)
		return NULL;
	char *at = sim_pages(whole, SIM_PAGE);
	if (at && mprotect(at, whole, PROT_READ | PROT_WRITE) == 0)
		return at;
	sim_uncharge(device, whole);
	return NULL;
}

CUresult sim_region_of_host(enum sim_kind kind, struct sim_context *ctx, void *address, size_t size,
			    struct sim_region **out)
{
	struct sim_region *region = calloc(1, sizeof *region);
	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (ctx->origin)
		ctx = ctx->origin;
	region->base = (CUdeviceptr)address;
	region->size = size;
	region->kind = kind;
	region->device = ctx->device;
	region->ctx = ctx;
	region->ctx_id = ctx->id;
	region->id = sim_new_id();
	CUresult result = sim_region_insert(region);
	if (result != CUDA_SUCCESS)
		free(region);
	else
		*out = region;
	return result;
}

CUresult sim_memory_alloc(enum sim_kind kind, struct sim_context *ctx, size_t size,
			  struct sim_region **out)
{
	struct sim_slab *slab = NULL;
	char *at = memory_place(ctx->device, size, &slab);
	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = sim_region_of_host(kind, ctx, at, size, out);
	if (result == CUDA_SUCCESS)
		(*out)->slab = slab;
	return result;
}

void sim_memory_free(struct sim_region *region)
{
	size_t whole = gm_round_up(region->size, SIM_PAGE);
	file_close(region->file);
	if (region->kind == SIM_IPC) {
		sim_ipc_drop(region);
	} else if (region->kind == SIM_HOST) {
		sim_pages_drop((void *)region->base, gm_round_up(region->size, 4096));
	} else if (region->slab) {
		slab_free(region->slab, region->base, region->size);
	} else if (region->kind == SIM_EXTERNAL) {
		sim_pages_drop((void *)region->base, whole);
	} else if (region->kind != SIM_REGISTERED) {
		sim_pages_drop((void *)region->base, whole);
		if (!region->on_host)
			sim_uncharge(region->device, whole);
	}
	if (region->pool)
		region->pool->used -= region->size;
	sim_region_remove(region);
}

int *sim_memory_pages(struct sim_region *region, char **pages, size_t *size)
{
	*pages = region->slab ? region->slab->pages : (char *)region->base;
	*size = region->slab ? SIM_PAGE : gm_round_up(region->size, SIM_PAGE);
	return region->slab ? &region->slab->file : &region->file;
}

void sim_memory_of_context_gone(struct sim_context *ctx)
{
	for (size_t i = sim.regions.n; i-- > 0;) {
		struct sim_region *r = sim.regions.at[i];
		/* a waiting free finishes by itself; stream-ordered memory belongs to its pool, and
		 * outlives contexts (measured on driver 580) */
		if (r->ctx != ctx || r->kind == SIM_MAPPING || r->freeing)
			continue;
		if (r->kind == SIM_ASYNC)
			r->ctx = NULL;
		else
			sim_memory_free(r);
	}
	sim_arrays_of_context_gone(ctx);
}

void sim_memory_reset(void)
{
	while (sim.regions.n) {
		struct sim_region *r = sim.regions.at[sim.regions.n - 1];
		if (r->kind == SIM_MAPPING)
			sim_unmap_region(r);
		else
			sim_memory_free(r);
	}
	for (size_t i = 0; i < sim.reservations.n; i++)
		sim_pages_drop((void *)sim.reservations.at[i].base, sim.reservations.at[i].size);
	sim.reservations.n = 0;
	while (sim.handles.first) {
		struct sim_handle *handle = (struct sim_handle *)sim.handles.first;
		handle->owners = 1;
		sim_handle_release(handle);
	}
}

/* --- cuMemAlloc and its relatives --- */

CUresult sim_cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
	struct sim_region *region;
	CUresult result = sim_capture_unsafe();
	if (result == CUDA_SUCCESS && (!out || !size))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = sim_memory_alloc(SIM_DEVICE, sim_current(), size, &region);
	if (result == CUDA_SUCCESS)
		*out = region->base;
	return result;
}

/* The size wraps around, and the pitch is written even on failure (measured on driver 580). */
CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
				unsigned element)
{
	size_t row = width <= SIZE_MAX - SIM_STEP ? gm_round_up(width, SIM_STEP) : 0;
	if (!out || !pitch || !row || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = row;
	return sim_cuMemAlloc_v2(out, row * height);
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned flags)
{
	struct sim_region *region;
	if (!out || !size || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = sim_memory_alloc(SIM_MANAGED, sim_current(), size, &region);
	if (result == CUDA_SUCCESS)
		*out = region->base;
	return result;
}

/* Works without a current context, but not with a destroyed one. */
CUresult sim_cuMemFree_v2(CUdeviceptr address)
{
	CUresult result = sim_check_current();
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_CONTEXT)
		return result;
	result = sim_capture_unsafe();
	if (result != CUDA_SUCCESS || !address)
		return result;
	struct sim_region *region = sim_region_find(address);
	if (!region || region->base != address || region->freeing || region->graph ||
	    (region->kind != SIM_DEVICE && region->kind != SIM_MANAGED &&
	     region->kind != SIM_ASYNC && region->kind != SIM_EXTERNAL))
		return CUDA_ERROR_INVALID_VALUE;
	region->freeing = true; /* a second free fails while this one waits */
	result = region->ctx ? sim_wait_context(region->ctx) : CUDA_SUCCESS;
	sim_memory_free(region);
	return result;
}

CUresult sim_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	const struct sim_device *d = &sim.devices[sim_current()->device];
	size_t used = sim_used(sim_current()->device);
	if (free_bytes)
		*free_bytes = used < d->memory ? d->memory - used : 0;
	if (total)
		*total = d->memory;
	return CUDA_SUCCESS;
}

/* The old 32-bit ABI, which cannot express addresses of a 64-bit process. */

CUresult sim_cuMemAlloc(CUdeviceptr_v1 *out, unsigned size)
{
	return !out || !size ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemFree(CUdeviceptr_v1 address)
{
	return address ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_cuMemGetInfo(unsigned *free_bytes, unsigned *total)
{
	size_t f, t;
	CUresult result = sim_cuMemGetInfo_v2(&f, &t);
	if (free_bytes)
		*free_bytes = f > UINT32_MAX ? UINT32_MAX : (unsigned)f;
	if (total)
		*total = t > UINT32_MAX ? UINT32_MAX : (unsigned)t;
	return result;
}

CUresult sim_cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned *size, CUdeviceptr_v1 address)
{
	(void)base;
	(void)size;
	(void)address;
	return CUDA_ERROR_NOT_FOUND;
}
