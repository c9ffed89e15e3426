/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that the driver is found, complete and new enough, and that its devices' memory can be
 * mapped. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "driver/driver.h"
#include "tools/doctor/doctor.h"

enum { DRIVER_LEAST = 11040, DRIVER_GOOD = 12050, TRIAL = 2 << 20, ANSWER = 96 };

/* "CUDA_ERROR_NO_DEVICE (100)": the number also identifies a result without a name. */
static const char *result_name(const struct gm_driver *driver, CUresult result, char buf[ANSWER])
{
	snprintf(buf, ANSWER, "%s (%d)", gm_driver_error(driver, result), (int)result);
	return buf;
}

static void *symbol_find(void *handle, const char *symbol)
{
	return dlsym(handle, symbol);
}

/* The remedy for a result of cuInit. */
static const char *result_remedy(CUresult result)
{
	static const struct {
		CUresult result;
		const char *remedy;
	} known[] = {
		{CUDA_ERROR_NO_DEVICE,
		 "Is there a GPU (nvidia-smi)? Is CUDA_VISIBLE_DEVICES empty? Does the container "
		 "have it (docker run --gpus all)?"},
		{CUDA_ERROR_STUB_LIBRARY,
		 "This is the stub for linking: take its folder out of LD_LIBRARY_PATH."},
		{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
		 "Kernel module and libcuda differ: load the new module, or restart the machine."},
		{CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
		 "The forward compatibility package does not go with this GPU: take its folder "
		 "out of LD_LIBRARY_PATH."},
		{CUDA_ERROR_SYSTEM_NOT_READY, "Start the service it needs (nvidia-fabricmanager)."},
		{CUDA_ERROR_OPERATING_SYSTEM, "Are the files /dev/nvidia* there, and open to you?"},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].result == result)
			return known[i].remedy;
	return "nvidia-smi and dmesg may say more.";
}

static const char *library_path(void *handle, char *buf, size_t n)
{
	struct link_map *map;
	char *whole =
		dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? realpath(map->l_name, NULL) : NULL;
	snprintf(buf, n, "%s", whole ? whole : "libcuda.so.1");
	free(whole);
	return buf;
}

/* Open the driver and call cuInit. False: a failed check was added. */
static bool driver_open(struct gm_doctor *doctor, struct gm_driver *driver)
{
	char path[400], answer[ANSWER];
	const char *name = "driver";
	gm_doctor_step(doctor, "dlopen");
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      "Install NVIDIA's driver; in a container, give it the GPU (docker "
			      "run --gpus all).",
			      "libcuda.so.1 cannot be loaded: %s", dlerror());
		return false;
	}
	library_path(handle, path, sizeof path);
	CUresult(CUDAAPI * init)(unsigned);
	*(void **)&init = dlsym(handle, "cuInit");
	const char *missing = gm_driver_load(driver, symbol_find, handle);
	if (!init || missing) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      "gpumem needs a driver from CUDA 11.4 on (470).", "%s has no %s",
			      path, init ? missing : "cuInit");
		return false;
	}
	gm_doctor_step(doctor, "cuInit");
	CUresult result = init(0);
	if (result == CUDA_SUCCESS) {
		gm_doctor_step(doctor, "cuDriverGetVersion");
		result = gm_driver_query_version(driver);
	}
	if (result != CUDA_SUCCESS) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, result_remedy(result),
			      "%s: cuInit answers %s", path, result_name(driver, result, answer));
		return false;
	}
	const int version = driver->version;
	const bool old = version < DRIVER_LEAST, good = version >= DRIVER_GOOD;
	gm_doctor_say(doctor, name,
		      old    ? GM_DOCTOR_FAIL
		      : good ? GM_DOCTOR_OK
			     : GM_DOCTOR_WARN,
		      old    ? "gpumem needs a driver from CUDA 11.4 on (470)."
		      : good ? ""
			     : "Before 12.5 a stream capture that begins while another thread's "
			       "cudaFree waits in its context waits too.",
		      "%s, CUDA %d.%d", path, version / 1000, version % 1000 / 10);
	if (!old)
		gm_doctor_lending(doctor, version);
	if (!old)
		gm_doctor_tables(doctor, handle, version);
	return !old;
}

/* A trial: the first call that failed, and its result. */
struct trial {
	const char *failed; /* NULL: none yet */
	CUresult result;
};

/* Record the result of a call. True: no call has failed so far. */
static bool trial_continue(struct trial *trial, const char *call, CUresult result)
{
	if (!trial->failed && result != CUDA_SUCCESS)
		*trial = (struct trial){call, result};
	return !trial->failed;
}
#define TRIAL_CALL(trial, call, ...) trial_continue(trial, #call, driver->call(__VA_ARGS__))

/* Create, map and release 2 MiB, as the pool does for a chunk. */
static struct trial memory_try(const struct gm_driver *driver, const CUmemAllocationProp *prop)
{
	const CUmemAccessDesc access = {prop->location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at = 0;
	struct trial trial = {NULL, CUDA_SUCCESS}, *t = &trial;
	if (!TRIAL_CALL(t, cuMemAddressReserve, &at, TRIAL, 0, 0, 0))
		return trial;
	if (TRIAL_CALL(t, cuMemCreate, &handle, TRIAL, prop, 0)) {
		if (TRIAL_CALL(t, cuMemMap, at, TRIAL, 0, handle, 0)) {
			TRIAL_CALL(t, cuMemSetAccess, at, TRIAL, &access, 1);
			TRIAL_CALL(t, cuMemUnmap, at, TRIAL);
		}
		TRIAL_CALL(t, cuMemRelease, handle);
	}
	TRIAL_CALL(t, cuMemAddressFree, at, TRIAL);
	return trial;
}

static int device_attribute(const struct gm_driver *driver, CUdevice device,
			    CUdevice_attribute which)
{
	int value = 0;
	return driver->cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

/* Check virtual memory management. False: the pool cannot serve the device. */
static bool mapping_check(struct gm_doctor *doctor, const struct gm_driver *driver,
			  const char *name, CUmemAllocationProp *prop)
{
	size_t granularity = 0;
	CUresult result = CUDA_SUCCESS;
	char size[32], answer[ANSWER];
	if (!device_attribute(driver, prop->location.id,
			      CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL,
			      "A virtual GPU may have to be given it by its host.",
			      "no virtual memory management: the driver serves this device");
		return false;
	}
	gm_doctor_step(doctor, "cuMemGetAllocationGranularity");
	result = driver->cuMemGetAllocationGranularity(&granularity, prop,
						       CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (result == CUDA_SUCCESS && (granularity == 0 || TRIAL % granularity != 0)) {
		gm_doctor_say(doctor, name, GM_DOCTOR_FAIL, "", "maps in steps of %s, not of 2 MiB",
			      gm_size_format(granularity, size, sizeof size));
		return false;
	}
	gm_doctor_step(doctor, "mapping 2 MiB");
	struct trial trial = {"cuMemGetAllocationGranularity", result};
	if (result == CUDA_SUCCESS)
		trial = memory_try(driver, prop);
	const bool full = trial.failed && trial.result == CUDA_ERROR_OUT_OF_MEMORY;
	if (trial.failed)
		gm_doctor_say(doctor, name, full ? GM_DOCTOR_WARN : GM_DOCTOR_FAIL,
			      full ? "The device is full: look for others with nvidia-smi." : "",
			      "a trial of 2 MiB: %s answers %s", trial.failed,
			      result_name(driver, trial.result, answer));
	else
		gm_doctor_say(doctor, name, GM_DOCTOR_OK, "",
			      "2 MiB were created, mapped and released; granularity %s",
			      gm_size_format(granularity, size, sizeof size));
	return !trial.failed;
}

/* Check the handle types of chunks, as far as the device supports them. */
static void handles_check(struct gm_doctor *doctor, const struct gm_driver *driver,
			  const char *name, CUmemAllocationProp *prop)
{
	char answer[ANSWER];
	const CUdevice device = prop->location.id;
	const bool posix = device_attribute(
		driver, device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
	const bool rdma = device_attribute(
		driver, device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
	prop->requestedHandleTypes = posix ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
	prop->allocFlags.gpuDirectRDMACapable = rdma;
	const struct trial trial = memory_try(driver, prop);
	if (trial.failed)
		gm_doctor_say(doctor, name, GM_DOCTOR_WARN,
			      "The container may forbid it; gpumem goes on with plain handles.",
			      "the device allows sharing, but %s answers %s", trial.failed,
			      result_name(driver, trial.result, answer));
	else
		gm_doctor_say(doctor, name, posix && rdma ? GM_DOCTOR_OK : GM_DOCTOR_WARN,
			      posix && rdma ? ""
					    : "Memory of the pool cannot be shared in that way.",
			      "%s file descriptors, %s GPUDirect RDMA",
			      posix ? "POSIX" : "no POSIX", rdma ? "with" : "no");
}

static void device_check(struct gm_doctor *doctor, const struct gm_driver *driver, int ordinal)
{
	CUdevice device;
	char name[96] = "", size[32], check[24], answer[ANSWER];
	size_t total = 0;
	gm_doctor_step(doctor, "cuDeviceGet");
	CUresult result = driver->cuDeviceGet(&device, ordinal);
	if (result == CUDA_SUCCESS)
		result = driver->cuDeviceGetName(name, sizeof name, device);
	if (result == CUDA_SUCCESS)
		result = driver->cuDeviceTotalMem_v2(&total, device);
	snprintf(check, sizeof check, "device %d", ordinal);
	if (result != CUDA_SUCCESS) {
		gm_doctor_say(doctor, check, GM_DOCTOR_FAIL, "nvidia-smi and dmesg may say more.",
			      "cannot be asked: %s", result_name(driver, result, answer));
		return;
	}
	gm_doctor_say(doctor, check, GM_DOCTOR_OK, "", "%s, %s", name,
		      gm_size_format(total, size, sizeof size));
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	snprintf(check, sizeof check, "mapping %d", ordinal);
	if (!mapping_check(doctor, driver, check, &prop))
		return;
	snprintf(check, sizeof check, "sharing %d", ordinal);
	handles_check(doctor, driver, check, &prop);
}

void gm_doctor_driver(struct gm_doctor *doctor)
{
	struct gm_driver driver;
	int n = 0;
	/* A gpumemstat under the preload must leave no log. */
	setenv("GPUMEM_ENABLE", "0", 1);
	if (!driver_open(doctor, &driver))
		return;
	gm_doctor_step(doctor, "cuDeviceGetCount");
	CUresult result = driver.cuDeviceGetCount(&n);
	if (result != CUDA_SUCCESS || n == 0)
		gm_doctor_say(doctor, "devices", GM_DOCTOR_FAIL,
			      result_remedy(CUDA_ERROR_NO_DEVICE), "the driver has no device");
	for (int i = 0; result == CUDA_SUCCESS && i < n; i++)
		device_check(doctor, &driver, i);
}
