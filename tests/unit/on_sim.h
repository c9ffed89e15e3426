/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests on the simulated driver: the struct, and calls that gpumem itself does not make. */
#ifndef GM_TESTS_UNIT_ON_SIM_H
#define GM_TESTS_UNIT_ON_SIM_H

#include "driver/driver.h"
#include "sim/sim.h"
/* after driver.h: the types of each ABI version */
#include <cudaTypedefs.h>

#include "../tap.h"

static struct gm_driver sim;

#define SIM(symbol, type) ((type)gm_sim_symbol(NULL, #symbol))

static inline CUcontext sim_context(CUdevice device)
{
	CUcontext c = NULL;
	SIM(cuCtxCreate_v2, PFN_cuCtxCreate_v3020)(&c, 0, device);
	return c;
}

static inline CUcontext sim_primary(CUdevice device)
{
	CUcontext c = NULL;
	SIM(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000)(&c, device);
	return c;
}

static inline CUresult sim_set_current(CUcontext c)
{
	return SIM(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)(c);
}

/* A fresh simulated driver of `version` ("12.0") with `devices`. */
static inline void sim_start(const char *version, const char *devices)
{
	setenv("SIM_DRIVER", version, 1);
	setenv("SIM_DEVICES", devices, 1);
	gm_sim_reset();
	SIM(cuInit, PFN_cuInit_v2000)(0);
	const char *missing = gm_driver_load(&sim, gm_sim_symbol, NULL);
	if (missing) {
		printf("Bail out! the simulated driver has no %s\n", missing);
		exit(1);
	}
	gm_driver_query_version(&sim);
}

#endif
