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
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_ERROR_NOT_INITIALIZED,
	       "no call succeeds before cuInit");
	TAP_IS(drv(cuDeviceGetCount)((int *)&n), CUDA_ERROR_NOT_INITIALIZED,
	       "there is no device count before cuInit");
	TAP_IS(drv(cuInit)(1), CUDA_ERROR_INVALID_VALUE, "cuInit with flags is refused");
	TAP_IS(drv(cuInit)(0), CUDA_SUCCESS, "cuInit without flags succeeds");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_ERROR_INVALID_CONTEXT,
	       "no allocation succeeds without a context");
	TAP_IS(drv(cuDevicePrimaryCtxRetain)(&ctx, 0), CUDA_SUCCESS,
	       "the primary context is retained");
	TAP_IS(drv(cuDevicePrimaryCtxRetain)(&ctx, 1), CUDA_ERROR_INVALID_DEVICE,
	       "a second device is unknown");
	TAP_IS(drv(cuCtxSetCurrent)(ctx), CUDA_SUCCESS, "a context is made current");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_SUCCESS,
	       "a block is allocated in the current context");
	TAP_IS(drv(cuMemFree_v2)(p), CUDA_SUCCESS, "a block is freed in the current context");
	TAP_IS(drv(cuDevicePrimaryCtxRelease_v2)(0), CUDA_SUCCESS,
	       "the primary context is released");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_ERROR_CONTEXT_IS_DESTROYED,
	       "no allocation succeeds in a destroyed context");
	setenv("SIM_DEVICES", "0", 1);
	gm_sim_reset();
	TAP_IS(drv(cuInit)(0), CUDA_ERROR_NO_DEVICE, "a machine without a device is refused");
}

static void test_ids(void)
{
	unsigned long long first, second;
	CUcontext ctx = sim_start(NULL, NULL, NULL), again;
	TAP_IS(drv(cuCtxGetId)(ctx, &first), CUDA_SUCCESS, "a context has a number");
	TAP_IS(drv(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS, "the primary context is reset");
	TAP_IS(drv(cuDevicePrimaryCtxRetain)(&again, 0), CUDA_SUCCESS,
	       "the primary context is retained after a reset");
	TAP_PTR(ctx, again, "the handle of a reset context comes back");
	TAP_IS(drv(cuCtxGetId)(again, &second), CUDA_SUCCESS,
	       "a context has a number after a reset");
	TAP_OK(first != second, "the number of a context has changed after a reset");
}

static void test_driver_struct(void)
{
	struct gm_driver driver;
	sim_start(NULL, NULL, NULL);
	TAP_STR(gm_driver_load(&driver, gm_sim_symbol, NULL), NULL,
		"the simulated driver has every call we make");
	TAP_IS(gm_driver_query_version(&driver), CUDA_SUCCESS, "the driver's version is asked for");
	TAP_IS(driver.version, 13040, "the driver's version is 13.4");
	TAP_STR(gm_driver_error(&driver, CUDA_ERROR_OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY",
		"an error has its name");
	sim_start(NULL, NULL, "11.4");
	TAP_STR(gm_driver_load(&driver, gm_sim_symbol, NULL), NULL, "an 11.4 driver will do");
	TAP_OK(!driver.cuCtxRecordEvent && !driver.cuCtxGetId,
	       "an 11.4 driver lacks the newer calls");
}

/* --- names and versions --- */

static void *ask(const char *name, int version, cuuint64_t flags,
		 CUdriverProcAddressQueryResult *status)
{
	void *found = &found;
	CUresult result = drv(cuGetProcAddress_v2)(name, &found, version, flags, status);
	return result == CUDA_SUCCESS ? found : (void *)ask;
}

static void test_lookup(void)
{
	static const struct {
		const char *name;
		int version;
		cuuint64_t flags;
		const char *symbol; /* NULL: not sufficient */
	} cases[] = {
		{"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
		{"cuMemAlloc", 13000, 0, "cuMemAlloc_v2"},
		{"cuMemAlloc", 2000, 0, "cuMemAlloc"},
		{"cuMemAlloc", 1000, 0, NULL},
		{"cuMemcpyHtoD", 3020, 0, "cuMemcpyHtoD_v2"},
		{"cuMemcpyHtoD", 7000, 0, "cuMemcpyHtoD_v2"},
		{"cuMemcpyHtoD", 7000, 1, "cuMemcpyHtoD_v2"},
		{"cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"},
		{"cuMemAlloc", 3020, 2, "cuMemAlloc_v2"},
		{"cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"},
		{"cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture"},
		{"cuStreamBeginCapture", 10010, 2, "cuStreamBeginCapture_v2_ptsz"},
		{"cuCtxGetDevice", 2000, 0, "cuCtxGetDevice"},
		{"cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2"},
		{"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
		{"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
	};
	CUdriverProcAddressQueryResult status;
	void *found;
	sim_start(NULL, NULL, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		void *want = cases[i].symbol ? gm_sim_symbol(NULL, cases[i].symbol) : NULL;
		found = ask(cases[i].name, cases[i].version, cases[i].flags, &status);
		TAP_OK(found == want &&
			       status == (want ? CU_GET_PROC_ADDRESS_SUCCESS
					       : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
		       "%s at %d, flags %d: %s", cases[i].name, cases[i].version,
		       (int)cases[i].flags, cases[i].symbol ? cases[i].symbol : "none");
	}
	TAP_OK(!ask("cuNoSuchThing", 13000, 0, &status), "an unknown name is no error");
	TAP_IS(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, "an unknown name is not found");
	TAP_OK(!ask("", 0, 0, NULL), "an empty name is no error");
	TAP_IS(drv(cuGetProcAddress)("cuNoSuchThing", &found, 12000, 0), CUDA_ERROR_NOT_FOUND,
	       "the first version of cuGetProcAddress finds no unknown name");
	TAP_IS(drv(cuGetProcAddress_v2)(NULL, &found, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a missing name is refused");
	TAP_IS(drv(cuGetProcAddress_v2)("cuInit", &found, 14000, 0, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a version newer than the driver is refused");
}

static void test_hiding(void)
{
	CUdriverProcAddressQueryResult status;
	sim_start(NULL, NULL, NULL);
	CUresult (*entry)(CUcontext, CUevent) = gm_sim_symbol(NULL, "cuCtxRecordEvent");
	CUcontext ctx = sim_start(NULL, NULL, "12.4");
	void *found = &found;
	TAP_OK(!gm_sim_symbol(NULL, "cuCtxRecordEvent"), "12.4 has no cuCtxRecordEvent");
	TAP_IS(drv(cuGetProcAddress_v2)("cuCtxRecordEvent", &found, 12040, 0, &status),
	       CUDA_SUCCESS, "a look-up of a newer call is no error");
	TAP_OK(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "a newer call is not found");
	TAP_IS(entry(ctx, NULL), CUDA_ERROR_NOT_FOUND, "the entry of a missing call does not work");
	size_t count, newer = 0;
	const struct gm_sim_export *e = gm_sim_exports(&count);
	for (size_t i = 0; i < count; i++)
		newer += e[i].since > 12040 && gm_sim_symbol(NULL, e[i].symbol);
	TAP_IS(newer, 0, "nothing newer is found by any name");
}

/* --- steering --- */

static void test_failing(void)
{
	CUdeviceptr p;
	setenv("SIM_FAIL", "cuMemAlloc_v2:2,cuMemFree_v2:1:719", 1);
	sim_start(NULL, NULL, NULL);
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_SUCCESS, "the first call works");
	TAP_IS(drv(cuMemFree_v2)(p), CUDA_ERROR_LAUNCH_FAILED, "SIM_FAIL with a code");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_ERROR_OUT_OF_MEMORY,
	       "SIM_FAIL without a code fails a call");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_SUCCESS, "SIM_FAIL fails one call");
	TAP_IS(gm_sim_calls("cuMemAlloc_v2"), 3, "calls that fail are counted");
	unsetenv("SIM_FAIL");
	gm_sim_fail("cuMemAlloc_v2", 2, CUDA_ERROR_UNKNOWN);
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_SUCCESS, "calls are counted from gm_sim_fail on");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_ERROR_UNKNOWN, "the second call fails");
	gm_sim_fail("cuMemAlloc_v2", 1, CUDA_ERROR_UNKNOWN);
	gm_sim_fail("cuMemAlloc_v2", 0, CUDA_SUCCESS);
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_SUCCESS, "a rule that was removed");
}

static void test_trace(void)
{
	char path[] = "/tmp/sim-trace-XXXXXX", text[256];
	CUdeviceptr p;
	int fd = mkstemp(path);
	setenv("SIM_TRACE", path, 1);
	sim_start(NULL, NULL, NULL);
	drv(cuMemAlloc_v2)(&p, 0);
	ssize_t n = read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	TAP_STR(text, "cuInit 0\ncuDevicePrimaryCtxRetain 0\ncuCtxSetCurrent 0\ncuMemAlloc_v2 1\n",
		"SIM_TRACE: a line a call");
	unsetenv("SIM_TRACE");
	close(fd);
	unlink(path);
}

static void test_leaks(void)
{
	CUstream s;
	CUevent e;
	CUdeviceptr p;
	sim_start(NULL, NULL, NULL);
	TAP_IS(gm_sim_leaks(false), 0, "nothing at the start");
	drv(cuStreamCreate)(&s, 0);
	drv(cuEventCreate)(&e, 0);
	drv(cuMemAlloc_v2)(&p, 1);
	TAP_IS(gm_sim_leaks(false), 3, "a stream, an event, an allocation");
	drv(cuMemFree_v2)(p);
	drv(cuEventDestroy_v2)(e);
	drv(cuStreamDestroy_v2)(s);
	TAP_IS(gm_sim_leaks(false), 0, "no object remains in the simulator");
}

static void test_fork(void)
{
	int status;
	CUdeviceptr p;
	sim_start(NULL, NULL, NULL);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(drv(cuMemAlloc_v2)(&p, 1) == CUDA_ERROR_NOT_INITIALIZED &&
				      drv(cuInit)(0) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	TAP_OK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "a forked child has no driver");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_SUCCESS, "the parent still has its driver");
}

int main(void)
{
	test_start();
	test_ids();
	test_driver_struct();
	test_lookup();
	test_hiding();
	test_failing();
	test_trace();
	test_leaks();
	test_fork();
	return tap_done();
}
