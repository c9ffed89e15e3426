/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of each kind of foreign memory. Sizes in bytes; any thread, under any lock. */
#ifndef GM_SHIM_FOREIGN_ACCOUNT_H
#define GM_SHIM_FOREIGN_ACCOUNT_H

#include "shim/foreign/foreign.h"

/* The driver gave a piece. */
void gm_account_given(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
/* A piece is not alive while the driver is asked to free it, and alive again if it refuses. */
void gm_account_out(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
void gm_account_back(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
/* A piece that was `out` is freed. */
void gm_account_freed(enum gm_foreign_kind kind, unsigned ordinal, size_t size);

#endif
