/* SPDX-License-Identifier: BSD-3-Clause */
/* The small runtime: look-up of the driver's calls, errors, devices. */
#include "cudart.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MOST_DEVICES 16

static struct {
	struct rt_calls calls[2]; /* legacy, per-thread */
	cudaError_t error;
	pthread_mutex_t lock;
	CUcontext primary[MOST_DEVICES]; /* retained */
} rt = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread int device;
static __thread cudaError_t last;

/* --- look-up --- */

static void *ask(PFN_cuGetProcAddress_v12000 get, const char *name, int version, cuuint64_t flags)
{
	void *found = NULL;
	CUdriverProcAddressQueryResult status;
	return get(name, &found, version, flags, &status) == CUDA_SUCCESS ? found : NULL;
}

static void load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	PFN_cuGetProcAddress_v12000 get;
	*(void **)&get = lib ? dlsym(lib, "cuGetProcAddress_v2") : NULL;
	rt.error = cudaErrorInsufficientDriver;
	if (!get)
		return;
#define RT_CALL(name, version, twin)                                                              \
	*(void **)&rt.calls[0].name = ask(get, #name, version, CU_GET_PROC_ADDRESS_DEFAULT);      \
	*(void **)&rt.calls[1].name = (twin) ? ask(get, #name, (twin) ? (twin) : 1,               \
						   CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) \
					     : *(void **)&rt.calls[0].name;                       \
	if (!rt.calls[0].name || !rt.calls[1].name)                                               \
		return;
#include "cudart_calls.def"
#undef RT_CALL
	rt.error = rt_error(rt.calls[0].cuInit(0));
}

static cudaError_t ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load);
	return rt.error;
}

/* --- contexts --- */

cudaError_t rt_context(int ordinal, CUcontext *out)
{
	CUdevice handle;
	if (ordinal < 0 || ordinal >= MOST_DEVICES)
		return cudaErrorInvalidDevice;
	pthread_mutex_lock(&rt.lock);
	cudaError_t error = rt_error(rt.calls[0].cuDeviceGet(&handle, ordinal));
	if (!error && !rt.primary[ordinal])
		error = rt_error(
			rt.calls[0].cuDevicePrimaryCtxRetain(&rt.primary[ordinal], handle));
	*out = rt.primary[ordinal];
	pthread_mutex_unlock(&rt.lock);
	return error;
}

cudaError_t rt_enter(const struct rt_calls **calls, int per_thread, int context)
{
	CUcontext current = NULL, primary = NULL;
	cudaError_t error = ready();
	*calls = &rt.calls[per_thread];
	if (error || !context)
		return error;
	(*calls)->cuCtxGetCurrent(&current);
	if (current) { /* a context of the program, or the runtime's unless it was reset
			* meanwhile */
		CUdevice unused;
		if ((*calls)->cuCtxGetDevice(&unused) != CUDA_ERROR_CONTEXT_IS_DESTROYED)
			return cudaSuccess;
	}
	error = rt_context(device, &primary);
	return error ? error : rt_error((*calls)->cuCtxSetCurrent(primary));
}

cudaError_t rt_result(cudaError_t error)
{
	if (error && error != cudaErrorNotReady)
		last = error;
	return error;
}

/* --- errors and versions --- */

RT_EXPORT cudaError_t CUDARTAPI cudaGetLastError(void)
{
	cudaError_t error = last;
	last = cudaSuccess;
	return error;
}

RT_EXPORT cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
	return last;
}

RT_EXPORT const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
	switch (error) {
#define NAME(name) \
	case name: \
		return #name
		NAME(cudaSuccess);
		NAME(cudaErrorInvalidValue);
		NAME(cudaErrorMemoryAllocation);
		NAME(cudaErrorInitializationError);
		NAME(cudaErrorInvalidPitchValue);
		NAME(cudaErrorInvalidMemcpyDirection);
		NAME(cudaErrorInsufficientDriver);
		NAME(cudaErrorNoDevice);
		NAME(cudaErrorInvalidDevice);
		NAME(cudaErrorDeviceUninitialized);
		NAME(cudaErrorPeerAccessAlreadyEnabled);
		NAME(cudaErrorPeerAccessNotEnabled);
		NAME(cudaErrorInvalidResourceHandle);
		NAME(cudaErrorIllegalState);
		NAME(cudaErrorSymbolNotFound);
		NAME(cudaErrorNotReady);
		NAME(cudaErrorIllegalAddress);
		NAME(cudaErrorContextIsDestroyed);
		NAME(cudaErrorNotSupported);
		NAME(cudaErrorStreamCaptureUnsupported);
		NAME(cudaErrorStreamCaptureInvalidated);
		NAME(cudaErrorStreamCaptureImplicit);
		NAME(cudaErrorCapturedEvent);
#undef NAME
	default:
		return "unrecognized error code";
	}
}

RT_EXPORT const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
	const char *text = NULL;
	if (error == cudaErrorInsufficientDriver)
		return "CUDA driver version is insufficient for CUDA runtime version";
	if (ready() != cudaErrorInsufficientDriver)
		rt.calls[0].cuGetErrorString((CUresult)error, &text);
	return text ? text : "unrecognized error code";
}

RT_EXPORT cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

RT_EXPORT cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
	*version = 0; /* no driver is no error here */
	if (ready() != cudaErrorInsufficientDriver)
		rt.calls[0].cuDriverGetVersion(version);
	return cudaSuccess;
}

/* --- devices --- */

RT_EXPORT cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
	const struct rt_calls *cu;
	cudaError_t error = rt_enter(&cu, 0, 0);
	*count = 0;
	return rt_result(error ? error : rt_error(cu->cuDeviceGetCount(count)));
}

RT_EXPORT cudaError_t CUDARTAPI cudaGetDevice(int *out)
{
	const struct rt_calls *cu;
	*out = device;
	return rt_result(rt_enter(&cu, 0, 0));
}

RT_EXPORT cudaError_t CUDARTAPI cudaSetDevice(int ordinal)
{
	const struct rt_calls *cu;
	CUcontext ctx;
	cudaError_t error = rt_enter(&cu, 0, 0);
	if (!error)
		error = rt_context(ordinal, &ctx);
	if (!error)
		error = rt_error(cu->cuCtxSetCurrent(ctx));
	if (!error)
		device = ordinal;
	return rt_result(error);
}

RT_EXPORT cudaError_t CUDARTAPI cudaDeviceReset(void)
{
	const struct rt_calls *cu;
	CUdevice handle;
	cudaError_t error = rt_enter(&cu, 0, 0);
	if (!error)
		error = rt_error(cu->cuDeviceGet(&handle, device));
	if (!error)
		error = rt_error(cu->cuDevicePrimaryCtxReset(handle));
	pthread_mutex_lock(&rt.lock);
	rt.primary[device] = NULL;
	pthread_mutex_unlock(&rt.lock);
	return rt_result(error);
}

static cudaError_t properties(const struct rt_calls *cu, struct cudaDeviceProp *p, int ordinal)
{
	static const struct {
		CUdevice_attribute attribute;
		size_t at;
	} fields[] = {
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
		 offsetof(struct cudaDeviceProp, major)},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
		 offsetof(struct cudaDeviceProp, minor)},
		{CU_DEVICE_ATTRIBUTE_WARP_SIZE, offsetof(struct cudaDeviceProp, warpSize)},
		{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
		 offsetof(struct cudaDeviceProp, multiProcessorCount)},
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
		 offsetof(struct cudaDeviceProp, maxThreadsPerBlock)},
		{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
		 offsetof(struct cudaDeviceProp, unifiedAddressing)},
	};
	CUdevice handle;
	CUuuid uuid;
	memset(p, 0, sizeof *p);
	CUresult result = cu->cuDeviceGet(&handle, ordinal);
	if (result == CUDA_SUCCESS)
		result = cu->cuDeviceGetName(p->name, sizeof p->name, handle);
	if (result == CUDA_SUCCESS)
		result = cu->cuDeviceTotalMem(&p->totalGlobalMem, handle);
	if (result == CUDA_SUCCESS)
		result = cu->cuDeviceGetUuid(&uuid, handle);
	if (result == CUDA_SUCCESS)
		memcpy(&p->uuid, &uuid, sizeof uuid);
	for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof fields / sizeof *fields; i++)
		result = cu->cuDeviceGetAttribute((int *)((char *)p + fields[i].at),
						  fields[i].attribute, handle);
	return rt_error(result);
}

RT_EXPORT cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *out, int ordinal)
{
	const struct rt_calls *cu;
	cudaError_t error = rt_enter(&cu, 0, 0);
	return rt_result(error ? error : properties(cu, out, ordinal));
}

/* The runtime numbers attributes as the driver does. */
RT(cudaDeviceGetAttribute, (int *out, enum cudaDeviceAttr attribute, int ordinal),
   cu->cuDeviceGetAttribute(out, (CUdevice_attribute)attribute, ordinal))
RT(cudaDeviceSynchronize, (void), cu->cuCtxSynchronize())
RT(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value),
   cu->cuCtxSetLimit((CUlimit)limit, value))
RT(cudaDeviceGetLimit, (size_t * value, enum cudaLimit limit),
   cu->cuCtxGetLimit(value, (CUlimit)limit))
RT(cudaDeviceCanAccessPeer, (int *can, int ordinal, int peer),
   cu->cuDeviceCanAccessPeer(can, ordinal, peer))

static CUresult peer(const struct rt_calls *cu, int ordinal, int enable)
{
	CUcontext ctx;
	cudaError_t error = rt_context(ordinal, &ctx);
	if (error)
		return (CUresult)error;
	return enable ? cu->cuCtxEnablePeerAccess(ctx, 0) : cu->cuCtxDisablePeerAccess(ctx);
}

RT(cudaDeviceEnablePeerAccess, (int ordinal, unsigned flags),
   flags ? CUDA_ERROR_INVALID_VALUE : peer(cu, ordinal, 1))
RT(cudaDeviceDisablePeerAccess, (int ordinal), peer(cu, ordinal, 0))
