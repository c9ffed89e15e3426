/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/entry/hooks.h"

#include <stddef.h>

static CUresult no_driver(void)
{
	return CUDA_ERROR_NO_DEVICE;
}

struct gm_real real = {
#define GM_HOOK(symbol, type, flags, help) .symbol = (type)(void *)no_driver,
#include "driver/hooks.def"
#undef GM_HOOK
};

/* The exports (entry-*.S) under hidden names, which no other object's definition replaces. */
#define GM_HOOK(symbol, type, flags, help) extern char gm_entry_##symbol[];
#include "driver/hooks.def"
#undef GM_HOOK

const struct gm_hook gm_hooks[GM_HOOK_END] = {
#define GM_HOOK(symbol, type, flags, help) \
	[GM_HOOK_##symbol] = {#symbol, help, flags, gm_entry_##symbol, (void **)&real.symbol},
#include "driver/hooks.def"
#undef GM_HOOK
};
