/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUMEM_FILL: the first contents of a block of the pool. The program may use the block at once
 * from any stream, so the handler waits for the fill. Each context has a stream of ours for fills,
 * without any other work.
 */
#include "shim/block/fill.h"

#include <stdlib.h>

#include "base/msg.h"
#include "base/size.h"
#include "knob/knob.h"
#include "shim/call.h"

bool gm_fill_on;

void gm_fill_start(void)
{
	const struct gm_knobs *knobs = gm_knob_get();
	gm_fill_on = knobs->mode.choice == GM_MODE_POOL && knobs->fill.choice != GM_FILL_OFF;
}

#define ZEROED_FROM GM_MIB /* natively, smaller blocks are not zeroed either */

/* A list that only grows, at its head. Keys are not reused, so the stream of an ended context is
 * never found again. */
struct filler {
	uint64_t key; /* of the context */
	CUstream stream;
	struct filler *next;
};
static _Atomic(struct filler *) fillers;

static struct filler *filler_find(uint64_t key)
{
	struct filler *f = atomic_load_explicit(&fillers, memory_order_acquire);
	while (f && f->key != key)
		f = f->next;
	return f;
}

/* Two threads may each make one for the same context; both are usable. */
static CUresult filler_get(uint64_t key, struct filler **out)
{
	*out = filler_find(key);
	if (*out)
		return CUDA_SUCCESS;
	struct filler *f = calloc(1, sizeof *f);
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = gm_shim_driver.cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING);
	if (result != CUDA_SUCCESS) {
		free(f);
		return result;
	}
	f->key = key;
	f->next = atomic_load_explicit(&fillers, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&fillers, &f->next, f, memory_order_release,
						      memory_order_relaxed))
		;
	*out = f;
	return CUDA_SUCCESS;
}

static CUresult filler_write(uint64_t key, const struct gm_block *b, unsigned char value)
{
	struct filler *f;
	CUresult result = filler_get(key, &f);
	if (result == CUDA_SUCCESS)
		result = gm_shim_driver.cuMemsetD8Async(b->base, value, b->size, f->stream);
	if (result == CUDA_SUCCESS)
		result = gm_shim_driver.cuStreamSynchronize(f->stream);
	return result;
}

void gm_fill_block(const struct gm_context *context, const struct gm_block *b)
{
	unsigned choice = gm_knob_get()->fill.choice;
	if (choice == GM_FILL_OFF || (choice == GM_FILL_ZERO && b->size < ZEROED_FROM))
		return;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result =
		filler_write(context->key, b, choice == GM_FILL_ZERO ? 0 : (unsigned char)choice);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	gm_fence_suspect(result);
	if (result != CUDA_SUCCESS)
		GM_MSG_ONCE(GM_MSG_WARN,
			    "GPUMEM_FILL: %s: a block of %zu bytes is handed out as it was",
			    gm_driver_error(&gm_shim_driver, result), b->size);
}

void gm_fill_forget(void)
{
	atomic_store(&fillers, NULL);
}
