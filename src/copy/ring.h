/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between pageable host memory and a device through a ring of pinned slots: a crew of
 * threads copies into slots, or out of them, while DMA moves the others. The user submits DMA, and
 * copies while there is none to submit. One ring a process.
 *
 *     to the device     pages --threads--> slots --DMA of one stream--> device
 *     from the device   pages <--threads-- slots <--DMA of another one-- device
 *
 * Users. A ring has one user at a time, from gm_ring_take to gm_ring_leave. It is no lock: a thread
 * that finds it taken makes the driver's own call. So no thread waits for another thread's copy,
 * and no lock is held across the user's calls of the driver. The user makes all calls of the
 * driver, on its own thread, in its current context; the crew makes none.
 *
 * Contexts. The slots are memory of ours, which the first context registers for all (PORTABLE).
 * They stay mapped when that context ends, and the next user registers them anew. A user has
 * entered (gm_context_enter) its own context and the registering one, so neither ends during a
 * copy.
 *
 * A fork leaves the slots to the parent; they are not dumped.
 */
#ifndef GM_COPY_RING_H
#define GM_COPY_RING_H

#include "context/context.h"
#include "copy/crew.h"
#include "copy/job.h"

#define GM_RING_SITES 16 /* contexts with streams and events of the ring */

/* The streams and events of the ring in a context. */
struct gm_ring_site {
	struct gm_context *context; /* NULL: none */
	CUstream stream[2];	    /* from the device, to the device; non-blocking */
	CUevent behind, event[GM_JOB_SLOTS];
};

/* Begins zeroed. All but `taken` belongs to the user. */
struct gm_ring {
	atomic_bool taken;
	atomic_bool useless;	    /* not used again: this kernel or driver cannot, or DMA may be
				     * in flight for ever */
	_Atomic uint64_t last_used; /* ns; 0: no slots */
	const struct gm_driver *driver;
	unsigned threads;
	size_t slot; /* bytes of each */
	uint32_t n_slots;
	char *slots;		      /* NULL: none */
	struct gm_context *registrar; /* of the slots; NULL: none yet */
	unsigned refusals;
	struct gm_ring_site site[GM_RING_SITES];
	struct gm_crew crew;
};

/* A copy of rows; one row: a line. */
struct gm_ring_copy {
	bool to_device;
	char *host;
	CUdeviceptr device;
	bool own; /* the host memory is ours */
	size_t width, rows, host_pitch, device_pitch;
	CUstream behind; /* of the current context: the copy follows all its earlier work; NULL: it
			  * follows no work */
};

/* Set the bounds of the ring: `threads` threads, at most GM_CREW_MOST, and `room` bytes of slots.
 * No call of the driver. False: the room is too small for the threads. Before the first use,
 * once. */
bool gm_ring_init(struct gm_ring *ring, const struct gm_driver *driver, unsigned threads,
		  uint64_t room);

/* Bytes that the slots take, or will take. */
uint64_t gm_ring_room(const struct gm_ring *ring);

/* Become the user. False: another thread is, or the ring is useless. */
bool gm_ring_take(struct gm_ring *ring);
void gm_ring_leave(struct gm_ring *ring);

/*
 * Wait for the earlier work of copy->behind, copy, and wait for the copy. True: done. False:
 * nothing of the ring's is in flight, and the caller makes the driver's own call, which does the
 * same or has an error to report. On false host memory is as it was, unless the device failed or a
 * page became inaccessible in the middle: the call then accesses it on the program's thread, where
 * the program's handlers run.
 *
 * pre: the user; `context` is the thread's current one and entered; no lock is held; the thread's
 * capture mode is RELAXED and no capture is open; all device memory of the copy is valid for the
 * current context; rows are not 0; a pitch is at least the width. Host memory may be of any kind:
 * if its pages cannot be populated, or rows do not fit, the result is false.
 */
bool gm_ring_copy(struct gm_ring *ring, struct gm_context *context,
		  const struct gm_ring_copy *copy);

/* Release the slots, streams and events. pre: the user; capture mode RELAXED; calls the driver in
 * other contexts than the current one. Returns the slots' bytes. */
uint64_t gm_ring_release(struct gm_ring *ring);

/* In a forked child: the ring begins anew, without threads and slots. */
void gm_ring_forget(struct gm_ring *ring);

#endif
