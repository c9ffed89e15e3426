/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the driver among the loaded objects, and chooses the answer to each look-up of a symbol:
 * our entry or the driver's. Any thread.
 */
#ifndef GM_SHIM_ENTRY_RESOLVE_H
#define GM_SHIM_ENTRY_RESOLVE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/debug.h"
#include "shim/entry/hooks.h"

/* `real` is filled; the entries (entry-*.S) read it. */
extern GM_HIDDEN atomic_bool gm_resolve_done;

/* Fill `real` on first need; false while no driver is mapped. Makes no CUDA call. */
bool gm_resolve_ready(void);

/* False in a set-user-id program and with GPUMEM_ENABLE=0: nothing is hooked. */
bool gm_resolve_on(void);

/* The driver's own entry of any symbol, or NULL: the `lookup` of gm_driver_load. */
void *gm_resolve_symbol(void *unused, const char *symbol);

/*
 * The answer for `address`, the result of a resolver for `symbol`: our entry if it is the driver's
 * own entry of a hooked symbol, else `address`. The first libcuda seen here becomes the driver;
 * pointers into another libcuda stay unchanged.
 */
void *gm_resolve_replace(const char *symbol, void *address);

/* Is `symbol` an export of the driver? False if no driver was found yet. */
bool gm_resolve_exports(const char *symbol);

/* A driver call that was returned without a hook, and that `known` does not know by any of its
 * names; NULL: there is none. The name is the driver's. */
const char *gm_resolve_find_asked(bool (*known)(const char *symbol));

/* The hook of a symbol by its exact name, or GM_HOOK_NONE. */
enum gm_hook_id gm_resolve_hook(const char *symbol);

/* Log at GM_MSG_DEBUG each driver call that was returned without a hook, once. */
void gm_resolve_report(void);

#endif
