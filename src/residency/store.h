/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host memory for what has left a device: pages of its own for each piece, which no core dump and
 * no forked child has. Pieces that are given back are kept, with their pages, as far as `warm`
 * allows: new pages cost more than the copy. One user at a time.
 */
#ifndef GM_RESIDENCY_STORE_H
#define GM_RESIDENCY_STORE_H

#include <stdbool.h>
#include <stdint.h>

#define GM_STORE_KEPT 1024 /* pieces */

/* Begins zeroed, but for `warm`. */
struct gm_store {
	uint64_t warm;	/* most bytes of kept pieces; the user's */
	uint64_t kept;	/* bytes of kept pieces */
	uint64_t taken; /* bytes of pieces that the user has */
	unsigned n;
	struct {
		void *at;
		uint64_t size;
	} piece[GM_STORE_KEPT];
};

/* A piece of `size` bytes, a kept one of that size if there is any. NULL: no memory. */
void *gm_store_take(struct gm_store *store, uint64_t size);
void gm_store_give(struct gm_store *store, void *at, uint64_t size);

/* Bytes of host memory that can be had without swapping (/proc/meminfo, and the process's cgroup);
 * kept pieces included. UINT64_MAX: unknown. */
uint64_t gm_store_room(const struct gm_store *store);

/* Kept pieces go back to the system. */
void gm_store_trim(struct gm_store *store);

/* In a forked child, which has none of the pieces. */
void gm_store_forget(struct gm_store *store);

#endif
