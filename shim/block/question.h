/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions of the program about a pointer that only the driver can answer. They neither wake the
 * process nor count as its work: while contents may be away, the driver is asked about the pool's
 * stand-in (pool.h), memory with the same properties.
 *
 *     address                    the driver is asked about
 *     of no block of ours        the address
 *     in a freed block           GM_NOWHERE
 *     in a block, door open      the address
 *     in a block, else           the stand-in, which a sleep makes; without one the process wakes
 *     in memory of cuMemCreate   the address; a sleeping process wakes
 */
#ifndef GM_SHIM_QUESTION_H
#define GM_SHIM_QUESTION_H

#include <stdbool.h>

#include "driver/driver.h"
#include "pool/pool.h"

struct gm_question {
	CUdeviceptr address; /* the program's */
	CUdeviceptr at;	     /* what to ask the driver about */
	bool live;	     /* the address is in a live block, of ours or of an opened handle: */
	struct gm_block block;
	bool entered; /* the door (residency/door.h) */
};

/* Begin a question about `address`. Any result but CUDA_SUCCESS is the answer, and there is nothing
 * to end. Any thread, no lock held; needs no guard. */
CUresult gm_question_begin(struct gm_question *question, CUdeviceptr address);
void gm_question_end(const struct gm_question *question);

/* For pointer queries. True: `address` is in a live block, within its requested size, or in a block
 * of another process (shim/ipc). False with *ours: it is in the range of a pool, but in no block.
 * Any thread, no lock held. */
bool gm_question_find(CUdeviceptr address, struct gm_block *block, bool *ours);

#endif
