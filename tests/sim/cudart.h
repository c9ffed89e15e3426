/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small CUDA runtime for programs on the simulated driver, which NVIDIA's runtime refuses by
 * design. It finds the driver in the same way: dlopen("libcuda.so.1"), one
 * dlsym("cuGetProcAddress_v2"), everything else through that; the primary context is retained at
 * its first use.
 */
#ifndef GM_TESTS_SIM_CUDART_H
#define GM_TESTS_SIM_CUDART_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

/* Requested as version 7000; its type exists only for the second version, which has the same
 * parameters. */
typedef PFN_cuDevicePrimaryCtxReset_v11000 PFN_cuDevicePrimaryCtxReset_v7000;

/* The types of the versions that cudart_calls.def requests. */
#define RT_CALL(name, version, twin) typedef PFN_##name##_v##version rt_##name;
#include "cudart_calls.def"
#undef RT_CALL

struct rt_calls {
#define RT_CALL(name, version, twin) rt_##name name;
#include "cudart_calls.def"
#undef RT_CALL
};

#define RT_EXPORT __attribute__((visibility("default")))

/* The calls for the legacy or the per-thread default stream; makes the device's primary context
 * current first if `context`. */
cudaError_t rt_enter(const struct rt_calls **calls, int per_thread, int context);

/* Remember an error for cudaGetLastError, and return it. */
cudaError_t rt_result(cudaError_t error);

/* The primary context of a device, retained. */
cudaError_t rt_context(int device, CUcontext *out);

/* The driver's and the runtime's codes agree. */
static inline cudaError_t rt_error(CUresult result)
{
	return (cudaError_t)result;
}

/* A function with a context: RT(cudaX, (parameters), expression that may use cu). */
#define RT(name, params, ...)                                            \
	RT_EXPORT cudaError_t CUDARTAPI name params                      \
	{                                                                \
		const struct rt_calls *cu;                               \
		cudaError_t error = rt_enter(&cu, 0, 1);                 \
		return rt_result(error ? error : rt_error(__VA_ARGS__)); \
	}

/* The same, and its twin, whose default stream is the thread's own. */
#define RT_BOTH(name, suffix, params, ...)                               \
	RT(name, params, __VA_ARGS__)                                    \
	extern __typeof__(name) name##suffix;                            \
	RT_EXPORT cudaError_t CUDARTAPI name##suffix params              \
	{                                                                \
		const struct rt_calls *cu;                               \
		cudaError_t error = rt_enter(&cu, 1, 1);                 \
		return rt_result(error ? error : rt_error(__VA_ARGS__)); \
	}

#endif
