/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of each kind of foreign memory. Sizes in bytes; any thread, under any lock. */
#ifndef GM_SHIM_FOREIGN_ACCOUNT_H
#define GM_SHIM_FOREIGN_ACCOUNT_H

#include "shim/foreign/foreign.h"

/* The driver returned a new piece. */
void gm_account_given(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
/* A piece is not live during the driver's call that frees it, and live again if the call fails. */
void gm_account_out(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
void gm_account_back(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
/* A piece that was `out` is freed. */
void gm_account_freed(enum gm_foreign_kind kind, unsigned ordinal, size_t size);

#endif
