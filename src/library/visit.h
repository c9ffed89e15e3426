/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call of gpumem.h, for the preload and for the library without it: it enters its context, uses
 * the streams and the pool of that device, and leaves. Any thread, no lock held.
 */
#ifndef GM_LIBRARY_VISIT_H
#define GM_LIBRARY_VISIT_H

#include "context/place.h"
#include "library/stream.h"

struct gm_visits {
	const struct gm_driver *driver;
	/* The streams of the device of `context`, which is current, made on first use. */
	CUresult (*streams)(const struct gm_context *context, struct gm_streams **out);
	/* An allocation, which began at `start` of gm_tick, failed with `result`. May be NULL. */
	void (*refused)(struct gm_context *context, size_t size, uint64_t start, CUresult result);
};

struct gm_visit {
	struct gm_place place;
	struct gm_streams *streams;
};

/* gm_place_enter, with the streams of that place. On an error there is nothing to leave. */
CUresult gm_visit_enter(struct gm_visit *visit, const struct gm_visits *visits, int ordinal,
			CUstream stream);
void gm_visit_leave(const struct gm_visit *visit);

/* gm_streams_alloc and gm_streams_free on a device. `known`: the block is for `stream`, else for
 * any stream. *out is 0 after an error. */
CUresult gm_visit_alloc(const struct gm_visits *visits, size_t size, int ordinal, CUstream stream,
			bool known, CUdeviceptr *out);
CUresult gm_visit_free(const struct gm_visits *visits, CUdeviceptr address, int ordinal,
		       CUstream stream, bool known);

/* Return the idle memory of a device to the driver, kept blocks included; returns bytes. Either may
 * be NULL. Waits for the GPU. */
uint64_t gm_visit_trim(struct gm_streams *streams, struct gm_pool *pool);

#endif
