/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUMEM_LIMIT, on every road by which the process takes memory of a device:
 *
 *     limit >= pool: mapped + lent + being mapped
 *            + outside: cuMemAlloc of the driver, cuMemCreate, arrays   as foreign/account.h has it
 *                       async pools, graphs: what the driver reserves   as last measured
 *                       what calls in progress may take                 from begin to end
 *
 * `outside` of a device is one variable, which the pool reads under its lock (config.outside), and
 * to which gm_limit_begin adds under that lock: so the pool and a call cannot both get the last
 * bytes. It never has less than what is taken. It may have more while calls are in progress, so a
 * call is refused only when no other one is. A graph takes memory when it is launched; that is
 * counted, and not refused. Any thread.
 */
#ifndef GM_SHIM_MEMORY_LIMIT_H
#define GM_SHIM_MEMORY_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/foreign/foreign.h"

/* Has the process a limit? Without one no call needs begin and end. */
bool gm_limit_is_set(void);

/*
 * Around a call of the driver that takes `bytes` of a device (an ordinal, or a GM_LACK_*). begin,
 * true: the bytes are reserved for what the call takes. False: they are beyond the limit, though
 * all idle memory of the process was returned; the call is not made. end: the call is over, and
 * what it took is counted; also after a refusal. Inside of gm_shim_enter, no lock held; begin may
 * wait for the GPU, and for calls of other threads that are in progress.
 */
bool gm_limit_begin(int where, uint64_t bytes);
void gm_limit_end(void);

/* The same of a call that takes `bytes` of an async pool (NULL: the device's current one), which
 * may have them already: `slack` says how many of a pool no allocation has, as far as it is known.
 */
bool gm_limit_begin_async(int where, CUmemoryPool pool, uint64_t bytes,
			  uint64_t (*slack)(unsigned ordinal, CUmemoryPool pool));

/* Bytes of the device that a block of `bytes` takes, if the driver's cuMemAlloc serves it: from
 * 1 MiB on whole granules. Smaller blocks share granules, and count as they are. */
uint64_t gm_limit_of_driver(uint64_t bytes);
/* The same of all such blocks alive. */
uint64_t gm_limit_driver(unsigned ordinal);

/* account.h: memory of a kind was taken or given up. */
void gm_limit_taken(enum gm_foreign_kind kind, unsigned ordinal, uint64_t bytes);
void gm_limit_given(enum gm_foreign_kind kind, unsigned ordinal, uint64_t bytes);

/* Ask the driver what async pools and graphs reserve. Returns all of `outside`. No lock held. */
uint64_t gm_limit_measure(unsigned ordinal);

/* With a limit: call `trim`, which returns memory of `outside` to the driver. Returns the bytes by
 * which it fell; 0: there is no limit, and no call. */
uint64_t gm_limit_drop(unsigned ordinal, void (*trim)(unsigned ordinal));

/* modules.h: bytes of `outside` that ended since the last measurement. */
uint64_t gm_limit_reclaim(unsigned ordinal, uint64_t bytes);
void gm_limit_pool_config(unsigned ordinal, struct gm_pool_config *config);
void gm_limit_forget(void);

#endif
