/* SPDX-License-Identifier: BSD-3-Clause */
/* Modules, libraries and launches. A kernel is a host function, an image a gm_sim_image. */
#include <stdlib.h>
#include <string.h>

#include "driver/sim_internal.h"

/* A module of one context, or a library of all. */
struct sim_module {
	struct sim_node node;
	const struct gm_sim_image *image;
	struct sim_context *ctx; /* NULL: a library */
};

static CUresult load(const void *data, struct sim_context *ctx, struct sim_module **out)
{
	const struct gm_sim_image *image = data;
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	/* Anything may come: only an image of ours is known to be aligned. */
	if (memcmp(data, GM_SIM_IMAGE, sizeof image->magic) != 0)
		return CUDA_ERROR_INVALID_IMAGE;
	struct sim_module *module = calloc(1, sizeof *module);
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->image = image;
	module->ctx = ctx;
	sim_list_add(&sim.modules, &module->node);
	*out = module;
	return CUDA_SUCCESS;
}

static struct sim_module *module_of(const void *handle, bool library)
{
	struct sim_module *module = (struct sim_module *)(uintptr_t)handle;
	if (!handle || !sim_list_has(&sim.modules, module) || library != !module->ctx)
		return NULL;
	return module;
}

static void unload(struct sim_module *module)
{
	sim_list_remove(&module->node);
	free(module);
}

void sim_modules_of_context_gone(struct sim_context *ctx)
{
	struct sim_node *next;
	for (struct sim_node *n = sim.modules.first; n; n = next) {
		next = n->next;
		if (((struct sim_module *)n)->ctx == ctx)
			unload((struct sim_module *)n);
	}
}

CUresult sim_cuModuleLoadData(CUmodule *out, const void *image)
{
	return out ? load(image, sim_current(), (struct sim_module **)out)
		   : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count,
				CUjit_option *options, void **values)
{
	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuModuleLoadData(out, image);
}

CUresult sim_cuModuleUnload(CUmodule handle)
{
	struct sim_module *module = module_of(handle, false);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult result = sim_wait_context(module->ctx);
	if (module_of(handle, false))
		unload(module);
	return result;
}

CUresult sim_cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *options,
			       void **values, unsigned count, CUlibraryOption *library_options,
			       void **library_values, unsigned library_count)
{
	if (!out || (count && (!options || !values)) ||
	    (library_count && (!library_options || !library_values)))
		return CUDA_ERROR_INVALID_VALUE;
	return load(image, NULL, (struct sim_module **)out);
}

CUresult sim_cuLibraryUnload(CUlibrary handle)
{
	struct sim_module *module = module_of(handle, true);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	unload(module);
	return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
	struct sim_module *library = module_of(handle, true);
	if (!out || !library)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_check_current();
	return result == CUDA_SUCCESS
		       ? load(library->image, sim_current(), (struct sim_module **)out)
		       : result;
}

/* A function, or kernel, is its row of the image. */
static CUresult find(const struct sim_module *module, const char *name, const void **out)
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

CUresult sim_cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
	return out ? find(module_of(handle, false), name, (const void **)out)
		   : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
	return out ? find(module_of(handle, true), name, (const void **)out)
		   : CUDA_ERROR_INVALID_VALUE;
}

static const struct gm_sim_kernel *kernel_of(const void *handle)
{
	const struct gm_sim_kernel *kernel = handle;
	for (struct sim_node *n = sim.modules.first; n && handle; n = n->next) {
		const struct gm_sim_image *image = ((struct sim_module *)n)->image;
		if (kernel >= image->kernels && kernel < image->kernels + image->count)
			return kernel;
	}
	return NULL;
}

CUresult sim_cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel_of(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = (CUfunction)handle;
	return CUDA_SUCCESS;
}

/* --- launches --- */

struct launch {
	const struct gm_sim_kernel *kernel;
	void *args[GM_SIM_ARGS];
	_Alignas(16) char values[];
};

static void run_launch(void *data)
{
	struct launch *launch = data;
	launch->kernel->run(launch->args);
}

/* The arguments are copied at the call, as the driver does. */
static struct sim_work *launch_make(const struct gm_sim_kernel *kernel, void **params)
{
	size_t room = 0;
	for (unsigned i = 0; i < GM_SIM_ARGS && kernel->args[i]; i++)
		room += gm_round_up(kernel->args[i], 16);
	struct sim_work *work = sim_work_make(run_launch, NULL, sizeof(struct launch) + room);
	if (!work)
		return NULL;
	struct launch *launch = (struct launch *)work->data;
	char *at = launch->values;
	work->unlocked = true;
	launch->kernel = kernel;
	for (unsigned i = 0; i < GM_SIM_ARGS && kernel->args[i]; i++) {
		launch->args[i] = memcpy(at, params[i], kernel->args[i]);
		at += gm_round_up(kernel->args[i], 16);
	}
	return work;
}

static CUresult launch(CUfunction function, const unsigned dim[6], CUstream stream, void **params,
		       void **extra)
{
	const struct gm_sim_kernel *kernel = kernel_of(function);
	struct sim_stream *s;
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned i = 0; i < 6; i++)
		if (!dim[i])
			return CUDA_ERROR_INVALID_VALUE;
	if ((uint64_t)dim[3] * dim[4] * dim[5] > 1024 || (kernel->args[0] && !params))
		return CUDA_ERROR_INVALID_VALUE;
	if (extra)
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult result = sim_stream_of(stream, &s);
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_work *work = launch_make(kernel, params);
	return work ? sim_enqueue(s, work) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			    unsigned by, unsigned bz, unsigned shared, CUstream stream,
			    void **params, void **extra)
{
	const unsigned dim[6] = {gx, gy, gz, bx, by, bz};
	(void)shared;
	return launch(function, dim, stream, params, extra);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
				       unsigned bx, unsigned by, unsigned bz, unsigned shared,
				       CUstream stream, void **params)
{
	return sim_cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params,
			      void **extra)
{
	if (!c || (c->numAttrs && !c->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuLaunchKernel(function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
				  c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream, params,
				  extra);
}

CUresult sim_cuLaunchHostFunc(CUstream stream, CUhostFn run, void *arg)
{
	struct sim_stream *s;
	if (!run)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_stream_of(stream, &s);
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_work *work = sim_foreign_work(run, arg);
	return work ? sim_enqueue(s, work) : CUDA_ERROR_OUT_OF_MEMORY;
}
