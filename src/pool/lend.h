/* SPDX-License-Identifier: BSD-3-Clause */
/* Loans; pool.h has their interface for borrowers. */
#ifndef GM_POOL_LEND_H
#define GM_POOL_LEND_H

#include "pool/internal.h"

/* On a shortage, make all spare loans idle memory. False: no loan became idle. The pool's lock is
 * held; it is released around driver calls. */
bool gm_pool_recall(struct gm_pool *pool);

#endif
