/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A takeover under way: the helper's kernels by which code is read and written, and the change
 * itself. One thread, the context current, its capture mode RELAXED.
 */
#ifndef GM_TAKEOVER_PATCH_H
#define GM_TAKEOVER_PATCH_H

#include "takeover/decode.h"
#include "takeover/helper.h"
#include "takeover/takeover.h"

enum gm_patch_kernel {
	GM_PATCH_ADDRESSES,
	GM_PATCH_READ,
	GM_PATCH_WRITE,
	GM_PATCH_USE,
	GM_PATCH_TEST,
	GM_PATCH_SEEN,
	GM_PATCH_KERNELS
};

struct gm_patch {
	const struct gm_takeover_config *config;
	const struct gm_driver *driver;
	CUstream stream;
	CUmodule module;
	CUfunction kernel[GM_PATCH_KERNELS];
	CUdeviceptr variable;		/* gm_helper_answer */
	struct gm_helper_answer answer; /* as last fetched */
	struct {
		uint64_t at;
		struct gm_insn was, call;
	} change[GM_TAKEOVER_FUNCTIONS];
	unsigned changed; /* so many may have been written */
	CUresult result;  /* of the first call of the driver that failed */
};

/* Load the helper, find its kernels, tell it the heap. */
bool gm_patch_load(struct gm_patch *p);

/* Run a kernel of the helper and wait for it. */
bool gm_patch_run(struct gm_patch *p, enum gm_patch_kernel kernel, unsigned blocks,
		  unsigned threads, void **args);

/* p->answer = what the helper's kernels have written. */
bool gm_patch_fetch(struct gm_patch *p);

/* `n` instructions at `at`, at most GM_HELPER_CODE. */
bool gm_patch_read(struct gm_patch *p, uint64_t at, struct gm_insn *out, unsigned n);

/* Write all calls, or what was there before; true if that reads back. After gm_patch_undo the
 * multiprocessors may still hold the calls: gm_patch_drop_lines. */
bool gm_patch_apply(struct gm_patch *p);
bool gm_patch_undo(struct gm_patch *p);

/* Make multiprocessors forget lines of code. */
bool gm_patch_drop_lines(struct gm_patch *p);

#endif
