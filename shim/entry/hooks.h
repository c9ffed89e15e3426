/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of hooked calls, made from driver/hooks.def, and the driver's own function of each. */
#ifndef GM_SHIM_ENTRY_HOOKS_H
#define GM_SHIM_ENTRY_HOOKS_H

#include "base/debug.h"
#include "shim/entry/cuda_types.h"

/*
 * The driver's own function of every hooked symbol, never NULL. Until the driver is found each
 * returns CUDA_ERROR_NO_DEVICE; afterwards a function that this driver lacks returns
 * CUDA_ERROR_NOT_FOUND. resolve.c fills it once, before it returns any entry of ours; constant from
 * then on.
 */
struct gm_real {
#define GM_HOOK(symbol, type, flags, help) type symbol;
#include "driver/hooks.def"
#undef GM_HOOK
};
extern GM_HIDDEN struct gm_real real;

enum gm_hook_id {
	GM_HOOK_NONE, /* record.hook counts from 1 */
#define GM_HOOK(symbol, type, flags, help) GM_HOOK_##symbol,
#include "driver/hooks.def"
#undef GM_HOOK
	GM_HOOK_END
};

enum gm_hook_flag { RETRY = 1, WAITS = 2, SUBMITS = 4 };

/* The flags of each hook, for handlers: GM_FLAGS_cuMemcpy. */
enum gm_hook_flags {
#define GM_HOOK(symbol, type, flags, help) GM_FLAGS_##symbol = (flags),
#include "driver/hooks.def"
#undef GM_HOOK
};

struct gm_hook {
	const char *symbol, *help;
	unsigned flags;
	void *handler;	 /* the exported entry, which jumps to on_<symbol> */
	void **original; /* &real.<symbol> */
};
extern GM_HIDDEN const struct gm_hook gm_hooks[GM_HOOK_END]; /* row 0 is empty */

/* Every on_<symbol>, with the type of cudaTypedefs.h: the compiler compares. */
#define GM_HOOK(symbol, type, flags, help) extern __typeof__(*(type)NULL) on_##symbol;
#include "driver/hooks.def"
#undef GM_HOOK

#endif
