/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_TAKEOVER_LOAD_H
#define GM_TAKEOVER_LOAD_H

#include "driver/driver.h"

/*
 * A module of the current context from `code`, or, where that has none for its device, from the
 * container `ptx` (may be NULL), which the driver compiles and links: without a link its functions
 * would have no addresses. On success it stays until its context ends.
 */
CUresult gm_takeover_load(const struct gm_driver *driver, const void *code, const void *ptx,
			  CUmodule *out);

#endif
