/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of kernels, by all calls in all versions. */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

struct launch {
	const struct gm_sim_kernel *kernel;
	void *args[GM_SIM_ARGS];
	_Alignas(16) char values[];
};

static void launch_run(void *data)
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
	struct sim_work *work = sim_work_make(launch_run, NULL, sizeof(struct launch) + room);
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

/* Stacks of all threads that can run at once. A context takes their memory at the first launch of a
 * kernel that needs more than any kernel before, and keeps it. */
static CUresult stacks_take(struct sim_context *ctx, size_t local)
{
	if (local <= ctx->local)
		return CUDA_SUCCESS;
	CUresult result = sim_charge(ctx->device, local - ctx->local);
	if (result != CUDA_SUCCESS)
		return result;
	ctx->taken += local - ctx->local;
	ctx->local = local;
	return CUDA_SUCCESS;
}

static CUresult kernel_launch(CUfunction function, const unsigned dim[6], CUstream stream,
			      void **params, void **extra, bool programmatic)
{
	const struct gm_sim_kernel *kernel = sim_kernel_of(function);
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
	if (result == CUDA_SUCCESS)
		result = stacks_take(s->ctx, kernel->local);
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_work *work = launch_make(kernel, params);
	if (work)
		work->programmatic = programmatic;
	return work ? sim_enqueue(s, work) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			    unsigned by, unsigned bz, unsigned shared, CUstream stream,
			    void **params, void **extra)
{
	const unsigned dim[6] = {gx, gy, gz, bx, by, bz};
	(void)shared;
	return kernel_launch(function, dim, stream, params, extra, false);
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
	const unsigned dim[6] = {c->gridDimX,  c->gridDimY,  c->gridDimZ,
				 c->blockDimX, c->blockDimY, c->blockDimZ};
	bool programmatic = false;
	for (unsigned i = 0; i < c->numAttrs; i++)
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
			programmatic = c->attrs[i].value.programmaticStreamSerializationAllowed;
	return kernel_launch(function, dim, c->hStream, params, extra, programmatic);
}

CUresult sim_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count,
						  unsigned flags)
{
	CUresult result = list && count && flags <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
		const CUDA_LAUNCH_PARAMS *p = &list[i];
		result = p->hStream ? sim_cuLaunchKernel(p->function, p->gridDimX, p->gridDimY,
							 p->gridDimZ, p->blockDimX, p->blockDimY,
							 p->blockDimZ, p->sharedMemBytes,
							 p->hStream, p->kernelParams, NULL)
				    : CUDA_ERROR_INVALID_VALUE;
	}
	return result;
}

/* --- as in CUDA 3: the shape of a block is a property of the function --- */

static struct {
	const struct gm_sim_kernel *kernel;
	unsigned block[3];
} shapes[16];

/* All code of a module is loaded with it. */
CUresult sim_cuFuncLoad(CUfunction function)
{
	return sim_kernel_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
	const struct gm_sim_kernel *kernel = sim_kernel_of(function);
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	if (x <= 0 || y <= 0 || z <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		if (shapes[i].kernel && shapes[i].kernel != kernel)
			continue;
		shapes[i].kernel = kernel;
		memcpy(shapes[i].block, (unsigned[]){(unsigned)x, (unsigned)y, (unsigned)z},
		       sizeof shapes[i].block);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Without arguments: cuParamSet* is not simulated. */
CUresult sim_cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
	const struct gm_sim_kernel *kernel = sim_kernel_of(function);
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (kernel->args[0])
		return CUDA_ERROR_NOT_SUPPORTED;
	for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (shapes[i].kernel == kernel)
			return sim_cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1,
						  shapes[i].block[0], shapes[i].block[1],
						  shapes[i].block[2], 0, stream, NULL, NULL);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuLaunchGrid(CUfunction function, int width, int height)
{
	return sim_cuLaunchGridAsync(function, width, height, NULL);
}

CUresult sim_cuLaunch(CUfunction function)
{
	return sim_cuLaunchGridAsync(function, 1, 1, NULL);
}
