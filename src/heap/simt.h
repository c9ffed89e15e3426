/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIMT emulation: runs device code (heap/device/) on the CPU. For tests, from one thread at a time.
 *
 * Every lane is a fiber of the calling thread, and a seeded scheduler decides at each atomic access
 * which lane goes on: a run repeats exactly, a deadlock is seen at once, and a livelock after a
 * number of steps. ThreadSanitizer takes lanes for threads that nothing orders but the acquires
 * and releases of the device code, and gm_syncwarp.
 */
#ifndef GM_SIMT_H
#define GM_SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gm_simt_mode {
	/* Any lane may be next: what independent thread scheduling promises, at its worst. */
	GM_SIMT_FAIR,
	/*
	 * A lane goes on until it waits in a *_sync call; then the lanes of its warp are preferred
	 * in an order that stays. Warps are fair to each other. No promise of the hardware is this
	 * weak, but one that reconverges late comes close: a lane that spins for another one of its
	 * own warp spins for ever.
	 */
	GM_SIMT_UNFAIR,
};

struct gm_simt {
	unsigned warps;	   /* of 32 lanes, in all */
	unsigned resident; /* of them at a time */
	uint32_t seed;
	enum gm_simt_mode mode;
};

/*
 * Run `kernel` once for every thread of `shape`; `thread` counts from 0, and warp w runs on
 * multiprocessor w % 4. False: no lane made progress for GM_SIMT_PATIENCE steps; the others were
 * dropped where they were. Aborts, with a line that says why, when lanes wait in *_sync calls for
 * lanes that cannot come, when a lane uses a mask that it is not in, and without memory.
 */
bool gm_simt_launch(const struct gm_simt *shape, void (*kernel)(void *arg, uint32_t thread),
		    void *arg);

/* Steps, i.e. atomic accesses and pauses, without any progress before a launch counts as stuck. */
enum { GM_SIMT_PATIENCE = 10000000 };

/* A lane got somewhere; its end is progress by itself. */
void gm_simt_progress(void);

/* Let the clock that device code reads go on; by itself it does so with each step and pause. */
void gm_simt_advance(uint64_t nanoseconds);

/* What simt_cpu.h is made of. Outside of a launch the caller is lane 0 of a warp of its own. */
enum gm_simt_op { GM_SIMT_MATCH, GM_SIMT_SHFL, GM_SIMT_UNION, GM_SIMT_SYNC };
uint32_t gm_cpu_lane(void);
uint32_t gm_cpu_sm(void);
uint32_t gm_cpu_warp(void);
uint32_t gm_cpu_active(const char *file, int line);
uint64_t gm_cpu_meet(enum gm_simt_op op, uint32_t mask, uint64_t value, uint32_t lane);
void gm_cpu_step(void);
void gm_cpu_pause(uint32_t nanoseconds);
uint64_t gm_cpu_nanoseconds(void);

#endif
