/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uthash, set up never to exit: an allocator preloaded into somebody's program must survive the
 * lack of host memory. After HASH_ADD* the caller tests `gm_hash_failed(element)`: the element was
 * then not added and is the caller's to release.
 */
#ifndef GM_BASE_HASH_H
#define GM_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->hh.tbl = NULL)
#include <uthash.h>

#define gm_hash_failed(element) ((element)->hh.tbl == NULL)

#endif
