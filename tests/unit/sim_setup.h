/* SPDX-License-Identifier: BSD-3-Clause */
/* A fresh simulated driver for a unit test: every entry point as a typed pointer, drv(cuX)(...). */
#ifndef GM_TESTS_SIM_SETUP_H
#define GM_TESTS_SIM_SETUP_H

#include <pthread.h>
#include <stdlib.h>

#include "sim/sim.h"

#include "../tap.h"

#undef cuGetProcAddress_v2

#if CUDA_VERSION < 12050 /* the headers of Toolkit 12.0 do not declare it */
CUresult cuCtxRecordEvent(CUcontext context, CUevent event);
#endif

/* The driver's symbol with cuda.h's type; bails out if SIM_DRIVER hides it. */
#define drv(symbol) ((__typeof__(&symbol))sim_entry(#symbol))

static inline void *sim_entry(const char *symbol)
{
	void *entry = gm_sim_symbol(NULL, symbol);
	if (!entry) {
		printf("Bail out! the simulated driver lacks %s\n", symbol);
		exit(1);
	}
	return entry;
}

/* Start a new driver with these settings (NULL: the default), call cuInit, and make the primary
 * context of device 0 current. */
__attribute__((unused)) static CUcontext sim_start(const char *memory, const char *devices,
						   const char *version)
{
	CUcontext ctx = NULL;
	gm_sim_reset();
	memory ? setenv("SIM_MEMORY", memory, 1) : unsetenv("SIM_MEMORY");
	devices ? setenv("SIM_DEVICES", devices, 1) : unsetenv("SIM_DEVICES");
	version ? setenv("SIM_DRIVER", version, 1) : unsetenv("SIM_DRIVER");
	if (drv(cuInit)(0) != CUDA_SUCCESS ||
	    drv(cuDevicePrimaryCtxRetain)(&ctx, 0) != CUDA_SUCCESS ||
	    drv(cuCtxSetCurrent)(ctx) != CUDA_SUCCESS) {
		printf("Bail out! the simulated driver does not start\n");
		exit(1);
	}
	return ctx;
}

/* Run `body(arg)` on another thread and wait for it. */
__attribute__((unused)) static void sim_on_thread(void *(*body)(void *), void *arg)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, body, arg) == 0)
		pthread_join(thread, NULL);
}

#endif
