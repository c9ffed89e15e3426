/* SPDX-License-Identifier: BSD-3-Clause */
/* What dlsym.c and resolve.c share; gm_resolve_ready and gm_resolve_symbol are in shim.h. */
#ifndef GM_SHIM_RESOLVE_H
#define GM_SHIM_RESOLVE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim.h"

/* Real once `real` is filled; the entries look at it. */
extern atomic_bool gm_resolve_done;

/*
 * What to hand out for `address`, which somebody's resolver answered: our entry if it is the
 * driver's own entry of a hooked symbol, else `address`. The first libcuda that is seen here
 * becomes the driver; another one's pointers stay as they are.
 */
void *gm_resolve_replace(void *address);

/* The hook of a symbol by its exact name, or GM_HOOK_NONE. */
enum gm_hook_id gm_resolve_hook(const char *symbol);

#endif
