/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A takeover in progress: launches of the helper, which reads and writes code, and the change
 * itself. One thread, with the context current and its capture mode RELAXED. All functions return
 * false after an error of the driver, which p->result keeps.
 */
#ifndef GM_TAKEOVER_PATCH_H
#define GM_TAKEOVER_PATCH_H

#include "takeover/decode.h"
#include "takeover/helper.h"
#include "takeover/takeover.h"

struct gm_patch {
	const struct gm_takeover_config *config;
	const struct gm_driver *driver;
	CUstream stream;
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr variable;		/* gm_helper_answer */
	struct gm_helper_answer answer; /* copy of the last fetch */
	struct {
		uint64_t at;
		struct gm_insn was, call;
	} change[GM_TAKEOVER_FUNCTIONS];
	uint64_t saved[GM_TAKEOVER_FUNCTIONS]; /* gm_insn_saved_return of each function */
	bool changed;			       /* some of `change` may have been written */
	CUresult result;		       /* of the first call of the driver that failed */
};

/* The helper of the set of functions that is taken over. */
struct gm_patch_helper {
	const void *code, *ptx;
};
struct gm_patch_helper gm_patch_helper(const struct gm_patch *p);

/* Load the helper, and launch GM_HELPER_START. */
bool gm_patch_load(struct gm_patch *p);

/* Launch the helper's kernel, after earlier launches. gm_patch_fetch returns its errors. */
bool gm_patch_run(struct gm_patch *p, struct gm_helper_order order);

/* Wait for the launches, and copy gm_helper_answer to p->answer. */
bool gm_patch_fetch(struct gm_patch *p);

/* Read: read GM_HELPER_CODE instructions at each of `n` addresses into places 0 to n - 1 of the
 * answer. Code: copy them from p->answer, after gm_patch_fetch. */
bool gm_patch_read(struct gm_patch *p, const uint64_t *at, unsigned n);
void gm_patch_code(const struct gm_patch *p, unsigned place, struct gm_insn code[GM_HELPER_CODE]);

/* Write all calls, or the earlier instructions back; true if they read back. Afterwards
 * multiprocessors may still hold the old code: gm_patch_drop_lines. */
bool gm_patch_apply(struct gm_patch *p);
bool gm_patch_undo(struct gm_patch *p);

/* Make multiprocessors drop their cached lines of code: before later launches on the stream, or
 * after gm_patch_fetch. */
bool gm_patch_drop_lines(struct gm_patch *p);

#endif
