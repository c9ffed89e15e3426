/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIMT emulation: runs device code (heap/device/) on the CPU, for tests; one thread at a time.
 * Every lane is a fiber of the calling thread. At each atomic access a seeded scheduler chooses the
 * next lane: a run repeats exactly, a deadlock is detected at once, a livelock after a number of
 * steps. ThreadSanitizer sees lanes as threads that are ordered only by acquires and releases of
 * the device code, and by gm_syncwarp.
 *
 * Lanes in *_sync calls are paired only by their mask, as in the hardware. If their calls differ,
 * the device code violates rule 1 of heap/device/simt.h.
 */
#ifndef GM_SIM_SIMT_H
#define GM_SIM_SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gm_simt_mode {
	/* Any lane may be next: the guarantee of independent thread scheduling, at its worst. */
	GM_SIMT_FAIR,
	/* The same, also after each atomic access: most lanes reach a place before one leaves it,
	 * as on the hardware, where an access takes long. */
	GM_SIMT_CROWD,
	/*
	 * A lane runs until it waits in a *_sync call; then the lanes of its warp are preferred, in
	 * a fixed order. Warps are fair to each other. The hardware guarantees more, but is close
	 * to this when it reconverges late: a lane that spins for another lane of its warp spins
	 * for ever.
	 */
	GM_SIMT_UNFAIR,
};

struct gm_simt {
	unsigned warps;	   /* total, of 32 lanes each */
	unsigned resident; /* most warps at a time */
	uint32_t seed;
	enum gm_simt_mode mode;
};

/*
 * Run `kernel` once for every thread of `shape`. `thread` counts from 0; warp w runs on
 * multiprocessor w % 4. False: no lane made progress for GM_SIMT_PATIENCE steps; the unfinished
 * lanes were dropped. Aborts, with a line of explanation, when lanes wait in *_sync calls for lanes
 * that cannot arrive, when a lane uses a mask without itself, when lanes of one mask are at
 * different *_sync calls, and without memory. Launches of several threads run one after the other.
 */
bool gm_simt_launch(const struct gm_simt *shape, void (*kernel)(void *arg, uint32_t thread),
		    void *arg);

/* Steps (atomic accesses and pauses) without progress after which a launch is stuck. */
enum { GM_SIMT_PATIENCE = 10000000 };

/* Report progress of a lane; the end of a lane is progress, too. */
void gm_simt_progress(void);

/* Advance the clock of device code; each step and pause advances it, too. */
void gm_simt_advance(uint64_t nanoseconds);

/* The primitives of simt_cpu.h. Outside a launch the caller is lane 0 of a warp of its own. */
enum gm_simt_op { GM_SIMT_MATCH, GM_SIMT_SHFL, GM_SIMT_UNION, GM_SIMT_SYNC };
uint32_t gm_cpu_lane(void);
uint32_t gm_cpu_sm(void);
uint32_t gm_cpu_warp(void);
uint32_t gm_cpu_seat(void);
uint32_t gm_cpu_active(const char *file, int line);
uint64_t gm_cpu_meet(enum gm_simt_op op, uint32_t mask, uint64_t value, uint32_t lane,
		     const char *file, int line);
void gm_cpu_step(void);
void gm_cpu_pause(uint32_t nanoseconds);
uint64_t gm_cpu_nanoseconds(void);

#endif
