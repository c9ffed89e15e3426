/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Libraries: images without a context. The first query in a context makes the library's module
 * there, and takes its memory.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

static bool options_good(CUjit_option *options, void **values, unsigned count,
			 CUlibraryOption *library_options, void **library_values,
			 unsigned library_count)
{
	return (!count || (options && values)) &&
	       (!library_count || (library_options && library_values));
}

CUresult sim_cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *options,
			       void **values, unsigned count, CUlibraryOption *library_options,
			       void **library_values, unsigned library_count)
{
	if (!out ||
	    !options_good(options, values, count, library_options, library_values, library_count))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_module_load(image, NULL, (struct sim_module **)out);
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options,
				   void **values, unsigned count, CUlibraryOption *library_options,
				   void **library_values, unsigned library_count)
{
	if (!out ||
	    !options_good(options, values, count, library_options, library_values, library_count))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_module_load_file(path, NULL, (struct sim_module **)out);
}

CUresult sim_cuLibraryUnload(CUlibrary handle)
{
	struct sim_module *library = sim_module_of(handle, true);
	struct sim_node *next;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	for (struct sim_node *n = sim.modules.first; n; n = next) {
		next = n->next;
		if (((struct sim_module *)n)->library == library)
			sim_module_unload((struct sim_module *)n);
	}
	sim_module_unload(library);
	return CUDA_SUCCESS;
}

/* The library's module in the current context. */
static CUresult library_module(struct sim_module *library, struct sim_module **out)
{
	struct sim_context *ctx = sim_current();
	CUresult result = sim_check_current();
	if (result != CUDA_SUCCESS)
		return result;
	for (struct sim_node *n = sim.modules.first; n; n = n->next) {
		*out = (struct sim_module *)n;
		if ((*out)->library == library && (*out)->ctx == ctx)
			return CUDA_SUCCESS;
	}
	result = sim_module_load(library->image, ctx, out);
	if (result == CUDA_SUCCESS)
		(*out)->library = library;
	return result;
}

CUresult sim_cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
	struct sim_module *library = sim_module_of(handle, true), *module;
	if (!out || !library)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = library_module(library, &module);
	if (result == CUDA_SUCCESS)
		*out = (CUmodule)module;
	return result;
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *at, size_t *size, CUlibrary handle, const char *name)
{
	struct sim_module *library = sim_module_of(handle, true), *module;
	if (!library || !name)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = library_module(library, &module);
	return result == CUDA_SUCCESS ? sim_module_global(module, name, at, size) : result;
}

CUresult sim_cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
	const struct gm_sim_kernel *kernel;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_module_kernel(sim_module_of(handle, true), name, &kernel);
	if (result == CUDA_SUCCESS)
		*out = (CUkernel)kernel;
	return result;
}

CUresult sim_cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
	const struct gm_sim_kernel *kernel = (const struct gm_sim_kernel *)handle;
	struct sim_module *module;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_kernel_of(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	for (struct sim_node *n = sim.modules.first; n; n = n->next) {
		struct sim_module *library = (struct sim_module *)n;
		size_t row = (size_t)(kernel - library->image->kernels);
		if (library->ctx || row >= library->image->count)
			continue;
		CUresult result = library_module(library, &module);
		if (result != CUDA_SUCCESS)
			return result;
		break;
	}
	*out = (CUfunction)handle;
	return CUDA_SUCCESS;
}
