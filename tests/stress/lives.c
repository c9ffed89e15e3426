/* SPDX-License-Identifier: BSD-3-Clause */
#include "stress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../preload/steer.h"

/* cuda.h hides it; every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

/* A context of this thread alone; half of its blocks end with it. */
void stress_context(struct worker *w)
{
	CUdeviceptr p[8];
	uint64_t tag[8];
	size_t size[8];
	CUcontext context;
	CUdevice device;
	stress_use(w, 0);
	if (!TRY(w, cuDeviceGet(&device, (int)stress_random(w, DEVICES))) ||
	    !TRY(w, cuCtxCreate_v2(&context, 0, device)))
		return;
	for (unsigned i = 0; i < 8; i++) {
		size[i] = stress_size(w);
		tag[i] = stress_random(w, UINT64_MAX);
		if (!TRY(w, cuMemAlloc(&p[i], size[i])))
			p[i] = 0;
		else
			stress_fill(w, p[i], size[i], tag[i]);
	}
	for (unsigned i = 0; i < 8; i++)
		if (p[i])
			stress_check(w, p[i], size[i], tag[i]);
	for (unsigned i = 0; i < 8; i += 2)
		if (p[i])
			stress_free(w, p[i]);
	TRY(w, cuCtxDestroy(context));
}

/* All blocks of the device's primary context end. */
void stress_reset(struct worker *w)
{
	unsigned ordinal = (unsigned)stress_random(w, DEVICES);
	CUdevice device;
	if (!TRY(w, cuDeviceGet(&device, (int)ordinal)))
		return;
	stress_forget(ordinal);
	TRY(w, cuDevicePrimaryCtxRelease(device));
	TRY(w, cuDevicePrimaryCtxReset(device));
	for (unsigned tries = 0;
	     !TRY(w, cuDevicePrimaryCtxRetain(&stress_primary[ordinal], device));)
		if (++tries == 100) {
			stress_fault(w, "no context after a reset");
			return;
		}
}

void stress_wait(struct worker *w, int pid)
{
	int status = 0;
	if (pid < 0)
		stress_fault(w, "fork: %s", strerror(errno));
	if (pid <= 0)
		return;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		stress_fault(w, "a child ended with status 0x%x", status);
}

/* A child with this thread only; it may make no call of CUDA. */
void stress_fork(struct worker *w)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	stress_wait(w, pid);
}

/* A child that is this program again, for a while. */
void stress_exec(struct worker *w)
{
	char seed[32];
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)stress_random(w, UINT64_MAX));
	pid_t pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "stress", "child", seed, (char *)NULL);
		_exit(127);
	}
	stress_wait(w, pid);
}

/* Make one of the pool's driver calls fail soon with out of memory. */
void stress_inject(struct worker *w)
{
	static const char *const calls[] = {"cuMemCreate",   "cuMemMap",      "cuMemSetAccess",
					    "cuEventCreate", "cuEventRecord", "cuMemAddressReserve",
					    "cuMemAlloc_v2", "cuStreamCreate"};
	const char *call = calls[stress_random(w, sizeof calls / sizeof *calls)];
	if (stress_injects)
		gm_sim_fail(call, 1 + (unsigned)stress_random(w, 5), CUDA_ERROR_OUT_OF_MEMORY);
}
