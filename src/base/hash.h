/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uthash, configured never to exit: the preload must survive a lack of host memory. After HASH_ADD*
 * the caller tests `gm_hash_failed(element)`: true means that the element was not added, and the
 * caller still owns it.
 */
#ifndef GM_BASE_HASH_H
#define GM_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->hh.tbl = NULL)
#include <uthash.h>

#define gm_hash_failed(element) ((element)->hh.tbl == NULL)

#endif
