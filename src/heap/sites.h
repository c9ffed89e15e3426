/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of counts by site (device/sites.h): memory for the numbers of blocks, and what
 * the log gets at each reading. All functions have no effect on a heap without sites.
 */
#ifndef GM_HEAP_SITES_H
#define GM_HEAP_SITES_H

#include "heap/host.h"

/* By gm_heap_create, before anything else: does the heap get sites? */
void gm_heap_sites_open(struct gm_heap_host *heap);

/* Bytes of addresses for the numbers, behind the granules. */
uint64_t gm_heap_sites_addresses(const struct gm_heap_host *heap);

/* The device's initial value of the heap is in shared->job: add the sites, whose counts lie at
 * `counts`. */
void gm_heap_sites_set_up(struct gm_heap_host *heap, CUdeviceptr counts);

/*
 * Map memory for the numbers of `count` granules from `first` on. It stays until
 * gm_heap_sites_drop, and is not cleared: device/sites.h reads only what it wrote. By the service
 * thread, and before there is one by gm_heap_create. No lock is held. The error is the pool's.
 */
CUresult gm_heap_sites_cover(struct gm_heap_host *heap, uint32_t first, uint32_t count);
void gm_heap_sites_drop(struct gm_heap_host *heap);

/* Code of the program is about to be unloaded, and there may be calls in it that were not read: the
 * next `readings` do not look at the code of new calls, which have an address alone. Any lock. */
void gm_heap_sites_blind(struct gm_heap_host *heap, unsigned readings);

/* A reading has arrived: write what changed to the log. `last`: the heap ends, write everything
 * that was read before. The heap's lock is held. */
void gm_heap_sites_record(struct gm_heap_host *heap);
void gm_heap_sites_record_last(struct gm_heap_host *heap);

#endif
