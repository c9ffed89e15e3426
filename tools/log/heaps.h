/* SPDX-License-Identifier: BSD-3-Clause */
/* The chunks of device heaps at a moment, by the kernel of each growth; only growths with events in
 * the log. Single-threaded. */
#ifndef GM_TOOLS_LOG_HEAPS_H
#define GM_TOOLS_LOG_HEAPS_H

#include "base/array.h"
#include "tools/log/alive.h"

struct gm_heaps_kernel {
	const char *name; /* text of the log; "": unknown */
	uint64_t bytes, chunks;
	uint32_t string;
	uint8_t device;
};

struct gm_heaps {
	GM_ARRAY(struct gm_heaps_kernel) kernels; /* by device, those with most bytes first */
};

/* Rewinds the log. Ends the program when memory is short. The caller frees. */
void gm_heaps_find(struct gm_heaps *heaps, struct gm_log_file *file,
		   const struct gm_alive_moment moments[GM_COUNTER_DEVICES]);
/* For each device without a known moment: the first moment of its heaps' peak, from the growths in
 * the log. Rewinds the log. */
void gm_heaps_peak(struct gm_log_file *file, struct gm_alive_moment moments[GM_COUNTER_DEVICES]);
void gm_heaps_free(struct gm_heaps *heaps);

#endif
