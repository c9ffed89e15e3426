/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of lending on a device (lend.h), and its fences: which frees lie behind all work of the
 * GPU? A fence covers all streams of all contexts, and has the number of the last free before it.
 *
 *     frees     ... 96 97 98 | 99 100 101 | 102 ...
 *     fences               98 passed    101 pending
 *
 * No work uses the units that have been unused since free 98 or before.
 *
 * Any thread; no lock is held.
 */
#ifndef GM_SHIM_TORCH_BORDER_H
#define GM_SHIM_TORCH_BORDER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "context/everywhere.h"
#include "shim/torch/segments.h"

enum { GM_BORDER_FENCES = 8 }; /* pending ones */

struct gm_border_fence {
	uint64_t number; /* of the last free before it */
	struct gm_everywhere all;
};

struct gm_border {
	struct gm_lock lock;  /* a leaf; for all that follows */
	pthread_cond_t moved; /* a unit has left or come */
	struct gm_segments set;
	struct gm_border_fence fences[GM_BORDER_FENCES]; /* the first was recorded first */
	unsigned n_fences;
	bool looking;		   /* a thread looks at the first fence */
	atomic_bool lends;	   /* memory was lent; read without the lock */
	atomic_bool off;	   /* nothing is lent any more; likewise */
	uint64_t fenced;	   /* the number of the last fence */
	_Atomic(void *) allocator; /* PyTorch's pointer to its allocator */
};

/* Not while a capture is open, which an event or a query may invalidate. */
bool gm_border_fences_are_possible(void);

/* Drop the fences that have passed; set.passed is then the number of the last one. */
void gm_border_poll(struct gm_border *border);

/* Record a fence behind all frees so far, unless the last one is. *number: of the last free. False:
 * none is possible now. */
bool gm_border_fence(struct gm_border *border, uint64_t *number);

/* Wait for the work that may use what was freed before the call, at most `most` ns. Has it ended?
 */
bool gm_border_wait(struct gm_border *border, uint64_t most);

#endif
