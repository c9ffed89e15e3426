/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the program that is not the pool's: what each kind of it comes to (gpumem-log(5),
 * FOREIGN MEMORY), and a table of the pieces, so that each is given up with the size that it was
 * given with. What cannot be remembered for lack of host memory is not counted either.
 */
#ifndef GM_SHIM_FOREIGN_H
#define GM_SHIM_FOREIGN_H

#include "handlers.h"

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

/* Whose names the keys are: an address is no handle, and the same number may be both. */
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
	size_t size;
	uint64_t context; /* key of the context with which it goes; 0: with none */
	uint64_t group;	  /* a graph's memory: shim/graph.c */
	uint64_t id;	  /* GM_FOREIGN_DRIVER: in the log */
	unsigned element; /* an array's, in bytes; 0: unknown */
};

/* --- account.c: the counters of each kind --- */

void gm_account_given(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
/* Out while the driver is asked to take it, and back in if it refuses. */
void gm_account_out(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
void gm_account_back(enum gm_foreign_kind kind, unsigned ordinal, size_t size);
/* It is gone. */
void gm_account_freed(enum gm_foreign_kind kind, unsigned ordinal, size_t size);

/* --- foreign.c: the table --- */

/* An id for memory of GM_FOREIGN_DRIVER that never meets one of a block. */
uint64_t gm_foreign_next_id(void);

/* Remember and count a piece that the driver gave. */
void gm_foreign_add(const struct gm_foreign *what);

/* Likewise, of the current context and its device, with which it goes. */
void gm_foreign_add_here(struct gm_foreign what);

/*
 * Around the call that gives a piece up: it leaves the table before the driver can hand its name
 * out again, and comes back if the call fails. True: `what` says which it was. gm_foreign_took
 * counts what became of it, and a call that gave up what we never saw given; returns `result`.
 */
bool gm_foreign_take(enum gm_foreign_space space, uint64_t key, struct gm_foreign *what);
CUresult gm_foreign_took(const struct gm_foreign *what, bool known, CUresult result);

/* What is known of a piece, which stays. */
bool gm_foreign_look(enum gm_foreign_space space, uint64_t key, struct gm_foreign *what);

/* Call `each` (may be NULL) for what goes with a context or with a graph, then forget it. */
void gm_foreign_context_gone(uint64_t key, void (*each)(const struct gm_foreign *gone));
void gm_foreign_group_gone(uint64_t group);

/* Bytes of GM_FOREIGN_DRIVER alive on a device. */
uint64_t gm_foreign_bytes(unsigned ordinal);

/* A call of the program that gives a piece up: `call` is the driver's. */
#define GM_FOREIGN_GIVE_UP(space, key, call)                                    \
	({                                                                      \
		struct gm_foreign taken_;                                       \
		bool known_ = gm_foreign_take(space, (uint64_t)(key), &taken_); \
		gm_foreign_took(&taken_, known_, GM_PASS(call));                \
	})

/* A handler of a call that takes memory: made once more if idle memory was in its way, and `noted`
 * when it has succeeded. */
#define GM_TAKES(symbol, parameters, arguments, noted)            \
	CUresult on_##symbol parameters                           \
	{                                                         \
		if (!gm_shim_enter())                             \
			return real.symbol arguments;             \
		CUresult result = GM_PASS(real.symbol arguments); \
		if (gm_retry(result))                             \
			result = GM_PASS(real.symbol arguments);  \
		if (result == CUDA_SUCCESS)                       \
			noted;                                    \
		gm_shim_leave();                                  \
		return result;                                    \
	}

/* One whose result is that of `answer`, an expression. */
#define GM_ANSWERS(symbol, parameters, arguments, answer) \
	CUresult on_##symbol parameters                   \
	{                                                 \
		if (!gm_shim_enter())                     \
			return real.symbol arguments;     \
		CUresult result = (answer);               \
		gm_shim_leave();                          \
		return result;                            \
	}

/* One of which only the successes are counted. */
#define GM_COUNTS(symbol, parameters, arguments, counter)                   \
	GM_ANSWERS(symbol, parameters, arguments, ({                        \
			   CUresult done_ = GM_PASS(real.symbol arguments); \
			   if (done_ == CUDA_SUCCESS)                       \
				   gm_counter_add(0, counter, 1);           \
			   done_;                                           \
		   }))

/* One that gives a piece up. */
#define GM_GIVES_UP(symbol, parameters, arguments, space, key) \
	GM_ANSWERS(symbol, parameters, arguments,              \
		   GM_FOREIGN_GIVE_UP(space, key, real.symbol arguments))

#endif
