/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses of a pool: reserved once, then handed out in runs. The lowest run that is long
 * enough is taken first, so that chunks lie side by side and their idle ends are joined.
 *
 * The pool's lock guards everything here; the caller holds it, except for open and close.
 */
#ifndef GM_POOL_RANGE_H
#define GM_POOL_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

struct gm_epoch;

/* Either free, in the list of its range, or taken, and owned by the caller. */
struct gm_run {
	CUdeviceptr base;
	uint64_t size;
	struct gm_run *next;
	/* Of an alias (alias.h): it ends once a fence of the epoch covers the stamp. */
	struct gm_epoch *epoch;
	uint64_t stamp;
};

struct gm_range {
	CUdeviceptr base;
	uint64_t size;
	uint64_t taken;	     /* bytes of taken runs */
	struct gm_run *free; /* by address; no two touch */
};

/* Reserve `want` bytes of addresses, else half as many, and so on down to `least`, all multiples of
 * 2 MiB. On failure the result is the driver's last one. Calls the driver. */
CUresult gm_range_open(struct gm_range *range, const struct gm_driver *driver, uint64_t want,
		       uint64_t least);
void gm_range_close(struct gm_range *range, const struct gm_driver *driver);

/* Take `size` bytes. NULL: no run is that long, or no host memory. */
struct gm_run *gm_range_take(struct gm_range *range, uint64_t size);

/* Take the first `size` bytes of the free run that begins at `base`. NULL: as above. */
struct gm_run *gm_range_take_at(struct gm_range *range, CUdeviceptr base, uint64_t size);

/* Cut a taken run in two: `run` keeps its first `size` bytes, the rest is the result. NULL: no host
 * memory; `run` is unchanged. */
struct gm_run *gm_range_cut(struct gm_run *run, uint64_t size);

/* Free a taken run. Never fails: the run itself becomes the list's element. */
void gm_range_put(struct gm_range *range, struct gm_run *run);

/* NULL, or the broken invariant. */
const char *gm_range_check(const struct gm_range *range);

#endif
