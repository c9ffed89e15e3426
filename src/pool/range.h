/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses of a pool: reserved once, then handed out in runs. The lowest run that is long
 * enough is taken first, so that chunks lie side by side and their idle ends coalesce. Everything
 * but open and close is called under the pool's lock.
 */
#ifndef GM_POOL_RANGE_H
#define GM_POOL_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

/* Either free (in the list of its range) or taken (in the hands of whoever took it). */
struct gm_run {
	CUdeviceptr base;
	uint64_t size;
	struct gm_run *next;
};

struct gm_range {
	CUdeviceptr base;
	uint64_t size;
	uint64_t taken;	     /* bytes in runs that were taken */
	struct gm_run *free; /* by address; no two touch */
};

/* Reserve `want` bytes of addresses, or half of that, and so on down to `least`, all multiples of
 * 2 MiB. OUT_OF_MEMORY: neither. Calls the driver. */
CUresult gm_range_open(struct gm_range *range, const struct gm_driver *driver, uint64_t want,
		       uint64_t least);
void gm_range_close(struct gm_range *range, const struct gm_driver *driver);

/* Take `size` bytes; NULL: no run is that long, or no host memory. */
struct gm_run *gm_range_take(struct gm_range *range, uint64_t size);

/* Likewise, from the beginning of the free run at `base`. */
struct gm_run *gm_range_take_at(struct gm_range *range, CUdeviceptr base, uint64_t size);

/* Cut a taken run in two: `run` keeps its first `size` bytes, the rest is returned. NULL: no host
 * memory, `run` is as before. */
struct gm_run *gm_range_cut(struct gm_run *run, uint64_t size);

/* Give a taken run back; never fails, because the run itself becomes the list's element. */
void gm_range_put(struct gm_range *range, struct gm_run *run);

/* NULL, or the invariant that is broken. */
const char *gm_range_check(const struct gm_range *range);

#endif
