/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules of the preload describe themselves: each is a row of modules.def that names what it
 * does at the events of the process. call, life, memory/device and idle/trim raise the events and
 * name no module.
 *
 *     life.c      cuInit    start                     memory/device.c  pool_config, _made, _ready
 *                 fork      forget                    context/         context_gone
 *                 exit      exits, report              block/, memory/ reclaim
 *     modules.c   the end of a handler: due, leave    memory/          reserved
 *                                                     idle/trim.c      trim_next, trim
 *
 * Any thread, no lock held, unless said otherwise.
 */
#ifndef GM_SHIM_MODULES_H
#define GM_SHIM_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "context/context.h"
#include "log/sample.h"
#include "pool/pool.h"

/* A member is NULL where the event does not concern the module. */
struct gm_module {
	/* cuInit: the knobs, the driver, the devices and the log are there. One thread, with the
	 * guard up. No pool, no thread of ours. */
	void (*start)(void);

	/* A pool is about to be made on this device: set the module's members of its configuration,
	 * which has those of the device and of the knobs. */
	void (*pool_config)(unsigned ordinal, struct gm_pool_config *config);
	/* The device has a pool, without memory. Other threads may use it from now on. */
	void (*pool_made)(unsigned ordinal);
	/* It has the memory of GPUMEM_PREWARM, and serves the program. */
	void (*pool_ready)(unsigned ordinal);

	/* At the end of each handler: is there work for `leave`? A load or two. */
	bool (*due)(void);
	/* At the end of a handler, if a module has work or a sample is due; with the guard up.
	 * `now`, of the clock, is the time of samples; 0: no sample can be due. */
	void (*leave)(uint64_t now);

	/* By the trim thread: when is memory of the module due to be returned? UINT64_MAX: not
	 * before the module calls a function of idle/trim.h. */
	uint64_t (*trim_next)(void);
	/* Return memory that is due at `now`; needs trim_next. Returns bytes; may wait for the GPU.
	 */
	uint64_t (*trim)(uint64_t now);

	/* A call lacks memory: return unused memory of a device's pool to that pool. `bytes`: of
	 * the allocation that lacks memory; UINT64_MAX: unknown; 0: only what nobody needs. Returns
	 * bytes; may wait for the GPU. */
	uint64_t (*reclaim)(unsigned ordinal, uint64_t bytes);

	/* Set the module's members of `sample`: bytes of the device that the driver reserves for it
	 * beside what is counted. Calls the driver; no wait. */
	void (*reserved)(unsigned ordinal, struct gm_sample *sample);

	/* The context was destroyed or reset, and its work is over: its memory returns to the
	 * pools. */
	void (*context_gone)(struct gm_context *context);

	/* In a forked child: the parent's pools, log and contexts are not the child's. Only resets
	 * memory: another thread of the parent may hold any lock. */
	void (*forget)(void);

	/* exit begins: threads of ours make no more calls of the driver. */
	void (*exits)(void);
	/* The last thing of the process: figures for the log, without a call of the driver. */
	void (*report)(void);
};

/* Raise an event. */
void gm_modules_start(void);
void gm_modules_pool_config(unsigned ordinal, struct gm_pool_config *config);
void gm_modules_pool_made(unsigned ordinal);
void gm_modules_pool_ready(unsigned ordinal);
uint64_t gm_modules_trim_next(void);	/* the earliest of all modules */
uint64_t gm_modules_trim(uint64_t now); /* stops after the first module that returned some */
void gm_modules_reserved(unsigned ordinal, struct gm_sample *sample);
void gm_modules_context_gone(uint64_t key); /* of the context */
void gm_modules_forget(void);
void gm_modules_exit(void);
void gm_modules_report(void);

/* `next` begins at module *row, at first 0, and stops after the first module that returned some, so
 * that the caller can retry before it asks the others. Returns bytes; 0: no module had any. */
uint64_t gm_modules_reclaim_next(unsigned ordinal, uint64_t bytes, unsigned *row);
void gm_modules_reclaim(unsigned ordinal, uint64_t bytes);

#endif
