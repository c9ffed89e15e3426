/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_TAKEOVER_LOAD_H
#define GM_TAKEOVER_LOAD_H

#include "driver/driver.h"

/*
 * Load a module into the current context: `code`, or, if it has none for the device, the container
 * `ptx` (may be NULL). The driver compiles and links `ptx`: without a link its functions would have
 * no addresses. The module remains until its context ends.
 */
CUresult gm_takeover_load(const struct gm_driver *driver, const void *code, const void *ptx,
			  CUmodule *out);

#endif
