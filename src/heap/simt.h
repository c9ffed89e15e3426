/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIMT emulation: runs device code (heap/device/) on the CPU, one thread a lane. For tests.
 */
#ifndef GM_SIMT_H
#define GM_SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Run `kernel` once for every thread of `warps` warps of 32 lanes, `resident` warps at a time, and
 * wait for all. `thread` counts from 0; warp w runs on multiprocessor w % 4. Aborts if no thread
 * can be made.
 */
void gm_simt_launch(unsigned warps, unsigned resident, void (*kernel)(void *arg, uint32_t thread),
		    void *arg);

/* Nanoseconds that device code sees; they stand still but for this. */
void gm_simt_advance(uint64_t nanoseconds);

/* What simt_cpu.h is made of: only for a thread inside gm_simt_launch. */
uint32_t gm_cpu_lane(void);
uint32_t gm_cpu_sm(void);
uint32_t gm_cpu_warp(void);
uint32_t gm_cpu_active(const char *file, int line);
uint32_t gm_cpu_match(uint32_t mask, uint64_t value);
uint64_t gm_cpu_shfl(uint32_t mask, uint64_t value, uint32_t lane);
uint32_t gm_cpu_union(uint32_t mask, uint32_t bits);
uint64_t gm_cpu_nanoseconds(void);

#endif
