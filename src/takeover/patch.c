/* SPDX-License-Identifier: BSD-3-Clause */
#include "takeover/patch.h"

#include <stddef.h>

#include "takeover/load.h"

static const char *const names[GM_PATCH_KERNELS] = {
	[GM_PATCH_ADDRESSES] = "gm_helper_addresses", [GM_PATCH_READ] = "gm_helper_read",
	[GM_PATCH_WRITE] = "gm_helper_write",	      [GM_PATCH_USE] = "gm_helper_use",
	[GM_PATCH_TEST] = "gm_helper_test",	      [GM_PATCH_SEEN] = "gm_helper_seen",
};

/* Remember the first error of the driver. True: there was none here. */
static bool patch_ok(struct gm_patch *p, CUresult result)
{
	if (p->result == CUDA_SUCCESS)
		p->result = result;
	return result == CUDA_SUCCESS;
}

bool gm_patch_run(struct gm_patch *p, enum gm_patch_kernel kernel, unsigned blocks,
		  unsigned threads, void **args)
{
	return patch_ok(p, p->driver->cuLaunchKernel(p->kernel[kernel], blocks, 1, 1, threads, 1, 1,
						     0, p->stream, args, NULL)) &&
	       patch_ok(p, p->driver->cuStreamSynchronize(p->stream));
}

bool gm_patch_fetch(struct gm_patch *p)
{
	return patch_ok(p, p->driver->cuMemcpyDtoHAsync_v2(&p->answer, p->variable,
							   sizeof p->answer, p->stream)) &&
	       patch_ok(p, p->driver->cuStreamSynchronize(p->stream));
}

bool gm_patch_load(struct gm_patch *p)
{
	const struct gm_driver *d = p->driver;
	CUdeviceptr heap = p->config->heap;
	size_t size = 0;
	if (!patch_ok(p, gm_takeover_load(d, p->config->images.helper, p->config->images.helper_ptx,
					  &p->module)))
		return false;
	for (unsigned i = 0; i < GM_PATCH_KERNELS; i++)
		if (!patch_ok(p, d->cuModuleGetFunction(&p->kernel[i], p->module, names[i])))
			return false;
	if (!patch_ok(p,
		      d->cuModuleGetGlobal_v2(&p->variable, &size, p->module, "gm_helper_answer")))
		return false;
	if (size != sizeof p->answer)
		return patch_ok(p, CUDA_ERROR_INVALID_IMAGE);
	return gm_patch_run(p, GM_PATCH_USE, 1, 1, (void *[]){&heap});
}

bool gm_patch_read(struct gm_patch *p, uint64_t at, struct gm_insn *out, unsigned n)
{
	if (!gm_patch_run(p, GM_PATCH_READ, 1, 1, (void *[]){&at, &n}) || !gm_patch_fetch(p))
		return false;
	for (unsigned i = 0; i < n; i++) {
		out[i].low = p->answer.code[2 * i];
		out[i].high = p->answer.code[2 * i + 1];
	}
	return true;
}

static bool patch_write(struct gm_patch *p, uint64_t at, struct gm_insn insn)
{
	struct gm_insn read;
	return gm_patch_run(p, GM_PATCH_WRITE, 1, 1, (void *[]){&at, &insn.low, &insn.high}) &&
	       gm_patch_read(p, at, &read, 1) && gm_insn_same(read, insn);
}

bool gm_patch_apply(struct gm_patch *p)
{
	while (p->changed < GM_TAKEOVER_FUNCTIONS) {
		unsigned i = p->changed++;
		if (!patch_write(p, p->change[i].at, p->change[i].call))
			return false;
	}
	return true;
}

/* In reverse order: while malloc is still ours, so must free be. */
bool gm_patch_undo(struct gm_patch *p)
{
	while (p->changed > 0) {
		unsigned i = p->changed - 1;
		if (!patch_write(p, p->change[i].at, p->change[i].was))
			return false;
		p->changed = i;
	}
	return true;
}

bool gm_patch_drop_lines(struct gm_patch *p)
{
	const struct gm_driver *d = p->driver;
	CUmodule module;
	CUfunction kernel;
	return patch_ok(p, gm_takeover_load(d, p->config->images.empty, p->config->images.empty_ptx,
					    &module)) &&
	       patch_ok(p, d->cuModuleGetFunction(&kernel, module, "gm_empty")) &&
	       patch_ok(p, d->cuLaunchKernel(kernel, p->config->blocks, 1, 1, 32, 1, 1, 0,
					     p->stream, NULL, NULL)) &&
	       patch_ok(p, d->cuStreamSynchronize(p->stream));
}
