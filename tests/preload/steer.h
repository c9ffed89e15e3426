/* SPDX-License-Identifier: BSD-3-Clause */
/* Steers the simulated driver from a program, by the names that it exports (sim/sim.h). */
#ifndef GM_TESTS_PRELOAD_STEER_H
#define GM_TESTS_PRELOAD_STEER_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *steer(const char *name)
{
	void *f = dlsym(RTLD_DEFAULT, name);
	if (!f) {
		printf("%s: not the simulated driver\n", name);
		exit(1);
	}
	return f;
}

#define STEER(name, result, parameters) ((result(*) parameters)steer(#name))
#define gm_sim_launch STEER(gm_sim_launch, CUresult, (CUstream, void (*)(void *), void *))
#define gm_sim_launch_from_kernel \
	STEER(gm_sim_launch_from_kernel, CUresult, (CUgraphExec, enum gm_sim_from_kernel))
#define gm_sim_hold STEER(gm_sim_hold, void, (CUstream))
#define gm_sim_release STEER(gm_sim_release, unsigned, (CUstream, unsigned))
#define gm_sim_unfence STEER(gm_sim_unfence, void, (CUstream))
#define gm_sim_waiters STEER(gm_sim_waiters, unsigned, (void))
#define gm_sim_fail STEER(gm_sim_fail, void, (const char *, unsigned, CUresult))
#define gm_sim_break STEER(gm_sim_break, void, (CUcontext, CUresult))
/* The driver's own entry, past the preload. */
#define gm_sim_symbol STEER(gm_sim_symbol, void *, (void *, const char *))
#define gm_sim_need STEER(gm_sim_need, void, (const char *, size_t))
#define gm_sim_stand_in STEER(gm_sim_stand_in, void, (const void *))
#define gm_sim_find_global STEER(gm_sim_find_global, CUdeviceptr, (const char *))
#define gm_sim_before STEER(gm_sim_before, void, (const char *, void (*)(void)))
#define gm_sim_calls STEER(gm_sim_calls, unsigned, (const char *))

#endif
