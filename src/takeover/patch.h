/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A takeover in progress: calls of the helper's kernels, which read and write code, and the change
 * itself. One thread, with the context current and its capture mode RELAXED. All functions return
 * false after an error of the driver, which p->result keeps.
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
	struct gm_helper_answer answer; /* copy of the last fetch */
	struct {
		uint64_t at;
		struct gm_insn was, call;
	} change[GM_TAKEOVER_FUNCTIONS];
	unsigned changed; /* so many of `change` may have been written */
	CUresult result;  /* of the first call of the driver that failed */
};

/* The helper of the set of functions that is taken over. */
struct gm_patch_helper {
	const void *code, *ptx;
};
struct gm_patch_helper gm_patch_helper(const struct gm_patch *p);

/* Load the helper, find its kernels, pass the heap to it. */
bool gm_patch_load(struct gm_patch *p);

/* Launch a kernel of the helper, after earlier ones. gm_patch_fetch returns the kernel's errors. */
bool gm_patch_run(struct gm_patch *p, enum gm_patch_kernel kernel, unsigned blocks,
		  unsigned threads, void **args);

/* Wait for the kernels, and copy gm_helper_answer to p->answer. */
bool gm_patch_fetch(struct gm_patch *p);

/* Read: read GM_HELPER_CODE instructions at `at` into a place of the answer. Code: copy them from
 * p->answer, after gm_patch_fetch. */
bool gm_patch_read(struct gm_patch *p, uint64_t at, unsigned place);
void gm_patch_code(const struct gm_patch *p, unsigned place, struct gm_insn code[GM_HELPER_CODE]);

/* Write all calls, or the earlier instructions back; true if they read back. Afterwards
 * multiprocessors may still hold the old code: gm_patch_drop_lines. */
bool gm_patch_apply(struct gm_patch *p);
bool gm_patch_undo(struct gm_patch *p);

/* Make multiprocessors drop their cached lines of code. */
bool gm_patch_drop_lines(struct gm_patch *p);

#endif
