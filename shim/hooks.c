/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim.h"

#include <stddef.h>

/* The exports (entry-*.S) under names that nobody else's definition can take over. */
#define GM_HOOK(symbol, type, flags, help) extern char gm_entry_##symbol[];
#include "driver/hooks.def"
#undef GM_HOOK

const struct gm_hook gm_hooks[GM_HOOK_END] = {
#define GM_HOOK(symbol, type, flags, help) \
	[GM_HOOK_##symbol] = {#symbol, help, flags, gm_entry_##symbol, (void **)&real.symbol},
#include "driver/hooks.def"
#undef GM_HOOK
};
