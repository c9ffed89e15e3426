/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live blocks of a device, of the pool and of the driver, by the call stack that allocated
 * them; those without a stack, by their size: what holds the memory when a request is refused. No
 * call of the driver, nothing from the device, and no look-up of symbols: that would take the
 * dynamic linker's lock, which a constructor of the program may hold.
 */
#ifndef GM_SHIM_BLOCK_HOLDERS_H
#define GM_SHIM_BLOCK_HOLDERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

struct gm_pool;

#define GM_HOLDERS_TEXT 320 /* bytes of what gm_holders_text says */

struct gm_holder {
	uint64_t bytes, blocks, largest;
	uint32_t stack; /* 0: none; all blocks have the size `largest` */
};

struct gm_holders {
	GM_ARRAY(struct gm_holder) of; /* those with most bytes first */
	struct gm_holder rest;	       /* blocks for which host memory was short */
};

/* Fill in *out; the caller frees. The pool's locks are held only while its blocks are walked. pre:
 * no lock is held. */
void gm_holders_find(unsigned device, const struct gm_pool *pool, struct gm_holders *out);
void gm_holders_free(struct gm_holders *holders);

/* Write HELD records, and the stacks that they refer to. `failure`: of the device, from 1. */
void gm_holders_write(const struct gm_holders *holders, unsigned device, unsigned failure);

/* "; largest live: 20.0 MiB in 2 blocks by libone.so+0x16b, ...", of three at most; "" if there are
 * none. Returns `text`. */
char *gm_holders_text(const struct gm_holders *holders, char text[GM_HOLDERS_TEXT]);

#endif
