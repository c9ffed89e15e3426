/* SPDX-License-Identifier: BSD-3-Clause */
#include "takeover/patch.h"

#include <stddef.h>
#include <string.h>

#include "takeover/load.h"

/* Keep the first error of the driver. True: `result` is no error. */
static bool patch_ok(struct gm_patch *p, CUresult result)
{
	if (p->result == CUDA_SUCCESS)
		p->result = result;
	return result == CUDA_SUCCESS;
}

bool gm_patch_run(struct gm_patch *p, struct gm_helper_order order)
{
	const struct {
		unsigned blocks, threads;
	} of[] = {
		[GM_HELPER_START] = {1, 2 * GM_HELPER_CODE},
		[GM_HELPER_READ] = {1, 2 * GM_HELPER_CODE},
		[GM_HELPER_WRITE] = {1, 1},
		[GM_HELPER_TEST] = {p->config->blocks, GM_HELPER_THREADS},
		[GM_HELPER_SEE] = {1, 1},
	};
	return patch_ok(p, p->driver->cuLaunchKernel(p->kernel, of[order.op].blocks, 1, 1,
						     of[order.op].threads, 1, 1, 0, p->stream,
						     (void *[]){&order}, NULL));
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
	size_t size = 0;
	if (!patch_ok(p, gm_takeover_load(d, helper.code, helper.ptx, &p->module)))
		return false;
	if (!patch_ok(p, d->cuModuleGetFunction(&p->kernel, p->module, "gm_helper_run")))
		return false;
	if (!patch_ok(p,
		      d->cuModuleGetGlobal_v2(&p->variable, &size, p->module, "gm_helper_answer")))
		return false;
	if (size != sizeof p->answer)
		return patch_ok(p, CUDA_ERROR_INVALID_IMAGE);
	return gm_patch_run(
		p, (struct gm_helper_order){.op = GM_HELPER_START, .heap = p->config->heap});
}

bool gm_patch_read(struct gm_patch *p, const uint64_t *at, unsigned n)
{
	struct gm_helper_order order = {.op = GM_HELPER_READ};
	for (unsigned i = 0; i < n; i++)
		order.at[i] = at[i];
	return gm_patch_run(p, order);
}

void gm_patch_code(const struct gm_patch *p, unsigned place, struct gm_insn code[GM_HELPER_CODE])
{
	for (unsigned i = 0; i < GM_HELPER_CODE; i++) {
		code[i].low = p->answer.code[place][2 * i];
		code[i].high = p->answer.code[place][2 * i + 1];
	}
}

static void order_add(struct gm_helper_order *order, uint64_t at, struct gm_insn insn)
{
	order->at[order->n] = at;
	order->insn[order->n].low = insn.low;
	order->insn[order->n++].high = insn.high;
}

static bool patch_write(struct gm_patch *p, const struct gm_helper_order *order)
{
	return gm_patch_run(p, *order) && gm_patch_fetch(p) && p->answer.written == order->n;
}

bool gm_patch_apply(struct gm_patch *p)
{
	struct gm_helper_order order = {.op = GM_HELPER_WRITE};
	memcpy(order.saved, p->saved, sizeof order.saved);
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		order_add(&order, p->change[i].at, p->change[i].call);
	p->changed = true;
	return patch_write(p, &order);
}

/* Undo in reverse order: free must be ours as long as malloc is. */
bool gm_patch_undo(struct gm_patch *p)
{
	struct gm_helper_order order = {.op = GM_HELPER_WRITE};
	memcpy(order.saved, p->saved, sizeof order.saved);
	for (unsigned i = GM_TAKEOVER_FUNCTIONS; i-- > 0;)
		order_add(&order, p->change[i].at, p->change[i].was);
	return patch_write(p, &order);
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
					     p->stream, NULL, NULL));
}
