/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live blocks of a device, of the pool and of the driver, grouped by the call stack of their
 * allocation; blocks without a stack, by size: the holders of the memory when a request is refused.
 * No call of the driver, no data from the device, and no look-up of symbols: that would take the
 * dynamic linker's lock, which a constructor of the program may hold.
 */
#ifndef GM_SHIM_BLOCK_HOLDERS_H
#define GM_SHIM_BLOCK_HOLDERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

struct gm_pool;

#define GM_HOLDERS_TEXT 320 /* bytes of the text of gm_holders_text */

struct gm_holder {
	uint64_t bytes, blocks, largest;
	uint32_t stack; /* 0: none; all blocks have the size `largest` */
};

struct gm_holders {
	GM_ARRAY(struct gm_holder) of; /* most bytes first */
	struct gm_holder rest;	       /* blocks without a group, for lack of host memory */
};

/* Fill in *out; the caller frees it. The pool's locks are held only while its blocks are walked.
 * pre: no lock is held. */
void gm_holders_find(unsigned device, const struct gm_pool *pool, struct gm_holders *out);
void gm_holders_free(struct gm_holders *holders);

/* Write HELD records, and their stacks. `failure`: number of the device's failure, from 1. */
void gm_holders_write(const struct gm_holders *holders, unsigned device, unsigned failure);

/* "; largest live: 20.0 MiB in 2 blocks by libone.so+0x16b, ...", three at most; "" if there are
 * none. Returns `text`. */
char *gm_holders_text(const struct gm_holders *holders, char text[GM_HOLDERS_TEXT]);

#endif
