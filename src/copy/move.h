/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies to a destination that is not read soon. Stores that pass the caches save the read of each
 * line before it is written: on a Xeon of 2023 one thread moved 14 GB/s where memcpy moved 8, four
 * threads 55 and 26 (slots in a cache, destination in memory). Towards the slots memcpy is as fast:
 * there the reads of the source are the limit.
 *
 * `to` and `from` do not overlap. All stores are visible to a thread that sees a later release of
 * the caller. On processors other than x86-64 this is memcpy.
 */
#ifndef GM_COPY_MOVE_H
#define GM_COPY_MOVE_H

#include <stddef.h>

void gm_move_past_caches(void *to, const void *from, size_t size);

#endif
