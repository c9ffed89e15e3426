/* SPDX-License-Identifier: BSD-3-Clause */
/* Modules: an image in one context. A kernel is a host function, an image a gm_sim_image. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

/* Code and globals of a module are memory of its context. */
static CUresult module_take_memory(struct sim_module *module)
{
	struct sim_region *region;
	if (!module->ctx || !module->image->memory)
		return CUDA_SUCCESS;
	CUresult result = sim_memory_alloc(SIM_MODULE, module->ctx, module->image->memory, &region);
	if (result == CUDA_SUCCESS) {
		module->memory = region->base;
		module->memory_id = region->id;
	}
	return result;
}

static const struct gm_sim_image *_Atomic stand_in;

void gm_sim_stand_in(const struct gm_sim_image *image)
{
	stand_in = image;
}

CUresult sim_module_load(const void *data, struct sim_context *ctx, struct sim_module **out)
{
	const struct gm_sim_image *image = data;
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	/* Only an image of the simulator is known to be aligned. */
	if (memcmp(data, GM_SIM_IMAGE, sizeof image->magic) != 0)
		image = stand_in;
	if (!image)
		return CUDA_ERROR_INVALID_IMAGE;
	struct sim_module *module = calloc(1, sizeof *module);
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->image = image;
	module->ctx = ctx;
	CUresult result = module_take_memory(module);
	if (result != CUDA_SUCCESS) {
		free(module);
		return result;
	}
	sim_list_add(&sim.modules, &module->node);
	*out = module;
	return CUDA_SUCCESS;
}

/* Load an image from a file that this process wrote: its pointers are valid only here. */
CUresult sim_module_load_file(const char *path, struct sim_context *ctx, struct sim_module **out)
{
	struct gm_sim_image *image = calloc(1, sizeof *image);
	FILE *file = path ? fopen(path, "re") : NULL;
	CUresult result = path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	if (file && image) {
		result = CUDA_ERROR_INVALID_IMAGE;
		if (fread(image, sizeof *image, 1, file) == 1)
			result = sim_module_load(image, ctx, out);
	}
	if (file)
		fclose(file);
	if (result == CUDA_SUCCESS)
		(*out)->owned = image;
	else
		free(image);
	return result;
}

struct sim_module *sim_module_of(const void *handle, bool library)
{
	struct sim_module *module = (struct sim_module *)(uintptr_t)handle;
	if (!handle || !sim_list_has(&sim.modules, module) || library != !module->ctx)
		return NULL;
	return module;
}

void sim_module_unload(struct sim_module *module)
{
	struct sim_region *region = sim_region_find(module->memory);
	if (module->memory && region && region->id == module->memory_id)
		sim_memory_free(region);
	sim_list_remove(&module->node);
	free(module->owned);
	free(module);
}

void sim_modules_of_context_gone(struct sim_context *ctx)
{
	struct sim_node *next;
	for (struct sim_node *n = sim.modules.first; n; n = next) {
		next = n->next;
		if (((struct sim_module *)n)->ctx == ctx)
			sim_module_unload((struct sim_module *)n);
	}
}

CUresult sim_cuModuleLoad(CUmodule *out, const char *path)
{
	return out ? sim_module_load_file(path, sim_current(), (struct sim_module **)out)
		   : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuModuleLoadData(CUmodule *out, const void *image)
{
	return out ? sim_module_load(image, sim_current(), (struct sim_module **)out)
		   : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count,
				CUjit_option *options, void **values)
{
	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuModuleLoadData(out, image);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
	return sim_cuModuleLoadData(out, image);
}

CUresult sim_cuModuleUnload(CUmodule handle)
{
	struct sim_module *module = sim_module_of(handle, false);
	if (!module || module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult result = sim_wait_context(module->ctx);
	if (sim_module_of(handle, false))
		sim_module_unload(module);
	return result;
}

/* --- contents --- */

CUresult sim_module_kernel(const struct sim_module *module, const char *name,
			   const struct gm_sim_kernel **out)
{
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < module->image->count; i++) {
		const struct gm_sim_kernel *kernel = &module->image->kernels[i];
		if (strcmp(kernel->name, name) == 0)
			return *out = kernel, CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

/* Globals are packed from the beginning of the module's memory. */
CUresult sim_module_global(const struct sim_module *module, const char *name, CUdeviceptr *at,
			   size_t *size)
{
	CUdeviceptr next = module->memory, end = next + module->image->memory;
	for (size_t i = 0; i < module->image->n_globals; i++) {
		const struct gm_sim_global *global = &module->image->globals[i];
		if (next + global->size > end)
			break;
		if (strcmp(global->name, name) == 0) {
			if (at)
				*at = next;
			if (size)
				*size = global->size;
			return CUDA_SUCCESS;
		}
		next += gm_round_up(global->size, 256);
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUdeviceptr gm_sim_find_global(const char *name)
{
	CUdeviceptr at = 0;
	sim_lock_driver();
	for (struct sim_node *n = sim.modules.first; n && !at; n = n->next) {
		struct sim_module *module = (struct sim_module *)n;
		if (module->ctx && module->ctx == sim_current())
			sim_module_global(module, name, &at, NULL);
	}
	sim_unlock_driver();
	return at;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *size, CUmodule handle, const char *name)
{
	struct sim_module *module = sim_module_of(handle, false);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	return name ? sim_module_global(module, name, at, size) : CUDA_ERROR_INVALID_VALUE;
}

/* Write the first `n` rows; further elements of `out` are unchanged. */
static CUresult module_enumerate(void **out, unsigned n, const struct sim_module *module)
{
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && i < module->image->count; i++)
		out[i] = (void *)(uintptr_t)&module->image->kernels[i];
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleEnumerateFunctions(CUfunction *out, unsigned n, CUmodule handle)
{
	return module_enumerate((void **)out, n, sim_module_of(handle, false));
}

CUresult sim_cuLibraryEnumerateKernels(CUkernel *out, unsigned n, CUlibrary handle)
{
	return module_enumerate((void **)out, n, sim_module_of(handle, true));
}

CUresult sim_cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
	const struct gm_sim_kernel *kernel;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_module_kernel(sim_module_of(handle, false), name, &kernel);
	if (result == CUDA_SUCCESS)
		*out = (CUfunction)kernel;
	return result;
}

/* A function or kernel handle is the address of its row in the image. */
const struct gm_sim_kernel *sim_kernel_of(const void *handle)
{
	const struct gm_sim_kernel *kernel = handle;
	for (struct sim_node *n = sim.modules.first; n && handle; n = n->next) {
		const struct gm_sim_image *image = ((struct sim_module *)n)->image;
		if (kernel >= image->kernels && kernel < image->kernels + image->count)
			return kernel;
	}
	return NULL;
}
