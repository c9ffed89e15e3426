/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has the memory of a device, in a log with tensors of PyTorch: every byte in use has an owner.
 * Single-threaded. */
#ifndef GM_TOOLS_LOG_OWNERS_H
#define GM_TOOLS_LOG_OWNERS_H

#include "tools/log/alive.h"
#include "tools/log/figures.h"
#include "tools/output/emit.h"

/* GM_OWNER(name, text) */
#define GM_OWNERS(GM_OWNER)                                  \
	GM_OWNER(tensors, "tensors of PyTorch")              \
	GM_OWNER(cache, "PyTorch's cache, without a tensor") \
	GM_OWNER(blocks, "other blocks of the program")      \
	GM_OWNER(pool, "the pool, idle and rounding")        \
	GM_OWNER(heaps, "heaps of kernels")                  \
	GM_OWNER(others, "other processes, and contexts and libraries of this one")

enum gm_owner {
#define GM_OWNER(name, text) GM_OWNER_##name,
	GM_OWNERS(GM_OWNER)
#undef GM_OWNER
		GM_OWNER_COUNT
};

struct gm_owners {
	bool known;	   /* tensors lie in blocks of this log */
	bool others_known; /* the driver was asked for the device's use */
	uint64_t bytes[GM_OWNER_COUNT];
	uint64_t used;	      /* the sum */
	uint64_t time, asked; /* the moment; when the driver was asked; CLOCK_MONOTONIC */
};

/* What others have on the device at a refusal, beside the pool, heaps of kernels, and `driver`
 * bytes of this process's blocks that the driver serves. */
uint64_t gm_owners_others(const struct gm_sample *sample, uint64_t driver);

/*
 * The owners at the moments of gm_alive_moments, of each device. Others are those of the last query
 * of the driver, or, if the moment is that at which the cache gave up, those of its refusal.
 * Rewinds the log; ends the program when memory is short.
 */
void gm_owners_find(struct gm_owners owners[GM_COUNTER_DEVICES], const struct gm_figures *figures,
		    const struct gm_alive_moment moments[GM_COUNTER_DEVICES]);

/* A table of the owners of a device with bytes. JSON: the object "owners", or null if not known,
 * with null for others if the driver was not asked, and "others_ns". */
void gm_owners_show(struct gm_emit *emit, const struct gm_owners *owners,
		    const struct gm_figures *figures);

#endif
