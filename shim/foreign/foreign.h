/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the program outside the pool: the bytes of each kind (gpumem-log(5), FOREIGN MEMORY),
 * and a table of the pieces, so that a free is counted with the size of the allocation. A piece for
 * which the table lacks host memory is not counted. Any thread, no lock held.
 */
#ifndef GM_SHIM_FOREIGN_FOREIGN_H
#define GM_SHIM_FOREIGN_FOREIGN_H

#include "pool/pool.h"
#include "shim/call.h"

enum gm_foreign_kind {
	GM_FOREIGN_DRIVER, /* cuMemAlloc, served by the driver */
	GM_FOREIGN_ASYNC,
	GM_FOREIGN_CREATED,
	GM_FOREIGN_ARRAY,
	GM_FOREIGN_MANAGED,
	GM_FOREIGN_GRAPH,
	GM_FOREIGN_EXTERNAL,
	GM_FOREIGN_HOST,
	GM_FOREIGN_REGISTERED,
	GM_FOREIGN_CREATED_HOST,
	GM_FOREIGN_VIEW, /* another name for memory that is counted elsewhere, or of unknown size */
	GM_FOREIGN_KINDS
};

/* The name space of a key: an address and a handle may be the same number. */
enum gm_foreign_space {
	GM_SPACE_DEVICE,   /* addresses that cuMemFree takes */
	GM_SPACE_HOST,	   /* cuMemFreeHost */
	GM_SPACE_REGISTER, /* cuMemHostUnregister */
	GM_SPACE_ARRAY,
	GM_SPACE_MIPMAP,
	GM_SPACE_EXTERNAL, /* cuDestroyExternalMemory */
};

struct gm_foreign {
	uint64_t key; /* address or handle */
	uint64_t space;
	enum gm_foreign_kind kind;
	unsigned ordinal; /* of the device; ignored for memory of the host */
	size_t size;	  /* bytes */
	uint64_t context; /* key of the context that ends it; 0: none */
	uint64_t group;	  /* of a graph's memory: graph.c */
	uint64_t id;	  /* of GM_FOREIGN_DRIVER, in the log */
	unsigned element; /* bytes, of an array; 0: unknown */
};

/* An id for memory of GM_FOREIGN_DRIVER; no block ever has the same id. */
uint64_t gm_foreign_next_id(void);

/* A piece as a block. */
static inline struct gm_block gm_foreign_block(const struct gm_foreign *f)
{
	return (struct gm_block){.base = f->key,
				 .size = f->size,
				 .held = f->size,
				 .id = f->id,
				 .context = f->context,
				 .ordinal = f->ordinal};
}

/* Store and count a new piece of the driver. */
void gm_foreign_add(const struct gm_foreign *piece);

/* Store and count a piece on the current context's device, which ends with that context. */
void gm_foreign_add_here(struct gm_foreign piece);

/*
 * Before and after the driver's call that frees a piece. `take` removes it from the table before
 * the driver can reuse its name; true: *piece is the removed piece. `took` counts it as freed, or
 * puts it back if the call failed, and counts a free of an unknown piece; returns `result`.
 */
bool gm_foreign_take(enum gm_foreign_space space, uint64_t key, struct gm_foreign *piece);
CUresult gm_foreign_took(const struct gm_foreign *piece, bool known, CUresult result);

/* Copy a piece of the table to *piece; false: not found. */
bool gm_foreign_find(enum gm_foreign_space space, uint64_t key, struct gm_foreign *piece);

/* Remove the pieces of a context or of a graph's group, which are gone; then call `each` (may be
 * NULL) for each of them. */
void gm_foreign_context_gone(uint64_t key, void (*each)(const struct gm_foreign *gone));
void gm_foreign_group_gone(uint64_t group);

/* Call `each` for each live piece of a kind, under a lock: it calls nothing of this module. */
void gm_foreign_each(enum gm_foreign_kind kind,
		     void (*each)(void *arg, const struct gm_foreign *piece), void *arg);

/* modules.h */
void gm_foreign_forget_all(void);

/* A handler of a call that frees a piece. */
#define GM_GIVES_UP(symbol, parameters, arguments, space, key)                               \
	GM_HANDLER(symbol, parameters, arguments, ({                                         \
			   struct gm_foreign piece_;                                         \
			   bool known_ = gm_foreign_take(space, (uint64_t)(key), &piece_);   \
			   gm_foreign_took(&piece_, known_, GM_PASS(real.symbol arguments)); \
		   }))

#endif
