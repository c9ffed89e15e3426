/* SPDX-License-Identifier: BSD-3-Clause */
#include "takeover/patch.h"

#include <stddef.h>

#include "takeover/load.h"

static const char *const names[GM_PATCH_KERNELS] = {
	[GM_PATCH_ADDRESSES] = "gm_helper_addresses", [GM_PATCH_READ] = "gm_helper_read",
	[GM_PATCH_WRITE] = "gm_helper_write",	      [GM_PATCH_USE] = "gm_helper_use",
	[GM_PATCH_TEST] = "gm_helper_test",	      [GM_PATCH_SEEN] = "gm_helper_seen",
};

/* Keep the first error of the driver. True: `result` is no error. */
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
						     0, p->stream, args, NULL));
}

bool gm_patch_fetch(struct gm_patch *p)
{
	return patch_ok(p, p->driver->cuMemcpyDtoHAsync_v2(&p->answer, p->variable,
							   sizeof p->answer, p->stream)) &&
	       patch_ok(p, p->driver->cuStreamSynchronize(p->stream));
}

struct gm_patch_helper gm_patch_helper(const struct gm_patch *p)
{
	const struct gm_takeover_images *images = &p->config->images;
	if (p->config->first)
		return (struct gm_patch_helper){images->runtime, images->runtime_ptx};
	return (struct gm_patch_helper){images->helper, images->helper_ptx};
}

bool gm_patch_load(struct gm_patch *p)
{
	const struct gm_driver *d = p->driver;
	struct gm_patch_helper helper = gm_patch_helper(p);
	CUdeviceptr heap = p->config->heap;
	size_t size = 0;
	if (!patch_ok(p, gm_takeover_load(d, helper.code, helper.ptx, &p->module)))
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

bool gm_patch_read(struct gm_patch *p, uint64_t at, unsigned place)
{
	return gm_patch_run(p, GM_PATCH_READ, 1, 2 * GM_HELPER_CODE, (void *[]){&at, &place});
}

void gm_patch_code(const struct gm_patch *p, unsigned place, struct gm_insn code[GM_HELPER_CODE])
{
	for (unsigned i = 0; i < GM_HELPER_CODE; i++) {
		code[i].low = p->answer.code[place][2 * i];
		code[i].high = p->answer.code[place][2 * i + 1];
	}
}

/* Write an instruction after `before` others. */
static bool patch_write(struct gm_patch *p, uint64_t at, struct gm_insn insn, unsigned before)
{
	return gm_patch_run(p, GM_PATCH_WRITE, 1, 1,
			    (void *[]){&at, &insn.low, &insn.high, &before});
}

bool gm_patch_apply(struct gm_patch *p)
{
	while (p->changed < GM_TAKEOVER_FUNCTIONS) {
		unsigned i = p->changed++;
		if (!patch_write(p, p->change[i].at, p->change[i].call, i))
			return false;
	}
	return gm_patch_fetch(p) && p->answer.written == p->changed;
}

/* Undo in reverse order: free must be ours as long as malloc is. */
bool gm_patch_undo(struct gm_patch *p)
{
	for (unsigned done = 0; done < p->changed; done++) {
		unsigned i = p->changed - 1 - done;
		if (!patch_write(p, p->change[i].at, p->change[i].was, done))
			return false;
	}
	return gm_patch_fetch(p) && p->answer.written == p->changed;
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
