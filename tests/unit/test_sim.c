/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated driver: start, symbols, versions, failing calls, leaks. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_setup.h"

static void test_start(void)
{
	CUdeviceptr p;
	size_t n;
	CUcontext ctx;
	gm_sim_reset();
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_ERROR_NOT_INITIALIZED, "nothing before cuInit");
	TAP_IS(drv(cuDeviceGetCount)((int *)&n), CUDA_ERROR_NOT_INITIALIZED, "nor a count");
	TAP_IS(drv(cuInit)(1), CUDA_ERROR_INVALID_VALUE, "cuInit takes no flags");
	TAP_IS(drv(cuInit)(0), CUDA_SUCCESS, "cuInit");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_ERROR_INVALID_CONTEXT, "no context yet");
	TAP_IS(drv(cuDevicePrimaryCtxRetain)(&ctx, 0), CUDA_SUCCESS, "retain");
	TAP_IS(drv(cuDevicePrimaryCtxRetain)(&ctx, 1), CUDA_ERROR_INVALID_DEVICE, "one device");
	TAP_IS(drv(cuCtxSetCurrent)(ctx), CUDA_SUCCESS, "current");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_SUCCESS, "allocate");
	TAP_IS(drv(cuMemFree_v2)(p), CUDA_SUCCESS, "free");
	TAP_IS(drv(cuDevicePrimaryCtxRelease_v2)(0), CUDA_SUCCESS, "last release");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_ERROR_CONTEXT_IS_DESTROYED, "current, but gone");
	setenv("SIM_DEVICES", "0", 1);
	gm_sim_reset();
	TAP_IS(drv(cuInit)(0), CUDA_ERROR_NO_DEVICE, "a machine without a device");
}

static void test_ids(void)
{
	unsigned long long first, second;
	CUcontext ctx = sim_start(NULL, NULL, NULL), again;
	TAP_IS(drv(cuCtxGetId)(ctx, &first), CUDA_SUCCESS, "the context's number");
	TAP_IS(drv(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS, "reset");
	TAP_IS(drv(cuDevicePrimaryCtxRetain)(&again, 0), CUDA_SUCCESS, "back again");
	TAP_OK(ctx == again, "as the same pointer");
	TAP_IS(drv(cuCtxGetId)(again, &second), CUDA_SUCCESS, "its number");
	TAP_OK(first != second, "has changed");
}

static void test_driver_struct(void)
{
	struct gm_driver driver;
	sim_start(NULL, NULL, NULL);
	TAP_OK(gm_driver_load(&driver, gm_sim_symbol, NULL) == NULL, "it has every call we make");
	TAP_IS(gm_driver_ask_version(&driver), CUDA_SUCCESS, "version");
	TAP_IS(driver.version, 13000, "13.0");
	TAP_STR(gm_driver_error(&driver, CUDA_ERROR_OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY",
		"the name of an error");
	sim_start(NULL, NULL, "11.4");
	TAP_OK(gm_driver_load(&driver, gm_sim_symbol, NULL) == NULL, "an 11.4 driver will do");
	TAP_OK(!driver.cuCtxRecordEvent && !driver.cuCtxGetId, "it lacks the newer calls");
}

int main(void)
{
	test_start();
	test_ids();
	test_driver_struct();
	return tap_done();
}
