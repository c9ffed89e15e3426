/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that stream.c keeps or cuts, and the parts that they are cut into.
 *
 *     root   |----------------------- a block of the pool -----------------------|
 *     parts  |### in use ###|.......... kept ..........|## in use ##|... kept ...|
 *
 * A part in use is listed here only if it was cut, or if streams other than its own use it. Kept
 * parts are in a list by age, and in bins by size, eight to a doubling. No part outlives its root.
 * The caller has the lock; nothing here calls the driver or waits.
 */
#ifndef GM_LIBRARY_CUT_H
#define GM_LIBRARY_CUT_H

#include "base/hash.h"
#include "context/context.h"
#include "library/mark.h"
#include "pool/pool.h"

#define GM_CUT_STEP 512u /* sizes are multiples of it */
#define GM_CUT_BINS 320u

struct gm_root {
	struct gm_block block;
	struct gm_context *context;
	unsigned parts, kept; /* number of parts; of kept ones */
};

struct gm_cut {
	struct gm_root *root;
	CUdeviceptr at;
	uint64_t size, held; /* usable bytes; bytes counted, as in gm_block */
	bool kept;
	uint64_t number;      /* kept: of the stream that may use it at once; 0: of none */
	struct gm_mark *mark; /* kept: may be NULL */
	struct gm_cut *before, *behind; /* in the root */
	struct gm_cut *older, *newer;	/* kept */
	struct gm_cut *prev, *next;	/* kept: in its bin */
	UT_hash_handle hh;
};

struct gm_cuts {
	struct gm_cut *table; /* all, by address */
	struct gm_cut *newest, *oldest;
	struct gm_cut *bin[GM_CUT_BINS];
	struct gm_mark *dead; /* marks without users, for the caller to drop without the lock */
	uint64_t bytes;	      /* kept, as held */
	unsigned count;	      /* kept */
};

/* The bin of parts of `size` bytes; larger sizes are in the same bin or in later ones. */
unsigned gm_cut_bin(uint64_t size);

/* A block as one part in use. NULL: no host memory. */
struct gm_cut *gm_cuts_add(struct gm_cuts *parts, const struct gm_block *block,
			   struct gm_context *context);

struct gm_cut *gm_cuts_find(struct gm_cuts *parts, CUdeviceptr at);

/* keep makes a part in use, without users, the newest kept one; unkeep reverses that. Its mark
 * stays. */
void gm_cuts_keep(struct gm_cuts *parts, struct gm_cut *part);
void gm_cuts_unkeep(struct gm_cuts *parts, struct gm_cut *part);

/* The first `size` bytes of a kept part become a part in use; the rest is kept. False: no host
 * memory, and nothing has changed. */
bool gm_cuts_split(struct gm_cuts *parts, struct gm_cut *part, uint64_t size);

/* Join a kept part with kept neighbours that are free for the same streams. */
void gm_cuts_join(struct gm_cuts *parts, struct gm_cut *part);

/* Join all parts of a root, all kept, into one. It keeps a mark if all parts have passed, or share
 * one. */
struct gm_cut *gm_cuts_unite(struct gm_cuts *parts, struct gm_root *root);

/* hide gives the caller a kept part that is its whole root, and gm_cuts_find finds it no more. show
 * keeps it again (false: no host memory); end frees it with its root. */
void gm_cuts_hide(struct gm_cuts *parts, struct gm_cut *part);
bool gm_cuts_show(struct gm_cuts *parts, struct gm_cut *part);
void gm_cuts_end(struct gm_cuts *parts, struct gm_cut *part);

/* Forget the root and all its parts, kept ones and those in use. */
void gm_cuts_forget(struct gm_cuts *parts, struct gm_root *root);

/* Remove one user of a mark, which may be NULL. A mark without users is dead. */
void gm_cuts_leave(struct gm_cuts *parts, struct gm_mark *mark);

/* The first part of a root; the next ones follow through `behind`. */
struct gm_cut *gm_cuts_first(struct gm_cuts *parts, const struct gm_root *root);

#endif
