/* SPDX-License-Identifier: BSD-3-Clause */
/* For hostchunk.cu: what a case is given, and the cases that kernels make. */
#ifndef GM_TESTS_GPU_HOSTCHUNK_H
#define GM_TESTS_GPU_HOSTCHUNK_H

#include <chrono>
#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu.h"

#define MIB ((size_t)1 << 20)
enum { FILLED = 9, OUT_FILLED = 10, FLAT = 512, THREADS = 256 };

static double now_us()
{
	using namespace std::chrono;
	return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

/* The name of an error; NULL: none. The numbers of the runtime's errors are the driver's. */
static const char *error_name(CUresult error)
{
	const char *name = NULL;
	if (error == CUDA_SUCCESS)
		return NULL;
	return cuGetErrorName(error, &name) == CUDA_SUCCESS && name ? name : "unknown error";
}

static const char *error_name(cudaError_t error)
{
	const char *name = NULL;
	if (error == cudaSuccess)
		return NULL;
	cudaGetLastError();
	return cuGetErrorName((CUresult)error, &name) == CUDA_SUCCESS && name
		       ? name
		       : cudaGetErrorName(error);
}

static const char *error_name(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS ? NULL : cublasGetStatusName(status);
}

/* In a case: an error ends it, and is its row. */
#define TRY(call)                                            \
	do {                                                 \
		if (const char *error_ = error_name((call))) \
			return error_;                       \
	} while (0)
#define LAUNCHED() TRY(cudaGetLastError())

/*
 * What a case works on: a chunk between two chunks of device memory. Every case runs twice, first
 * with a chunk of device memory; `all` and `out` must then be equal.
 */
struct Work {
	size_t chunk;
	bool host; /* the chunk is host memory */
	char *all, *at;
	char *out; /* a chunk of device memory apart, for results */
	cudaStream_t s;
	double us = -1;
	size_t moved = 0;
	char note[160] = "";

	uint32_t *word(size_t offset = 0) const
	{
		return (uint32_t *)(at + offset);
	}
	const char *begin()
	{
		TRY(cudaDeviceSynchronize());
		us = now_us();
		return NULL;
	}
	const char *end(size_t bytes)
	{
		const char *error = error_name(cudaDeviceSynchronize());
		us = now_us() - us;
		moved = bytes;
		return error;
	}
};

/* Begins and ends the time of a case. */
#define BEGIN(w)                                  \
	do {                                      \
		if (const char *e_ = (w).begin()) \
			return e_;                \
	} while (0)
#define END(w, bytes)                                  \
	do {                                           \
		if (const char *e_ = (w).end((bytes))) \
			return e_;                     \
	} while (0)

/* --- atomics: each element is hit four times; but for _block, by four blocks --- */

enum { BLOCK, DEVICE, SYSTEM };

#define SCOPED(name)                                    \
	template <int scope, class T, class... More>    \
	static __device__ T name##_at(T *at, More... v) \
	{                                               \
		if constexpr (scope == BLOCK)           \
			return name##_block(at, v...);  \
		else if constexpr (scope == DEVICE)     \
			return name(at, v...);          \
		else                                    \
			return name##_system(at, v...); \
	}
SCOPED(atomicAdd)
SCOPED(atomicCAS)
SCOPED(atomicExch)
SCOPED(atomicMin)
SCOPED(atomicMax)

typedef unsigned long long Wide;

template <class T> struct Add {
	typedef T Type;
	template <int scope> static __device__ void once(T *at, T *, unsigned i, unsigned k)
	{
		atomicAdd_at<scope>(at, (T)pattern(k + 1, i));
	}
};

/* As Add, and what it returns is used. The sum of that depends on no order. */
template <class T> struct Fetch {
	typedef T Type;
	template <int scope> static __device__ void once(T *at, T *out, unsigned i, unsigned)
	{
		atomicAdd(out, atomicAdd_at<scope>(at, (T)pattern(3, i)));
	}
};

template <class T> struct Cas {
	typedef T Type;
	template <int scope> static __device__ void once(T *at, T *, unsigned i, unsigned k)
	{
		T old = *(volatile T *)at, seen;
		while ((seen = atomicCAS_at<scope>(at, old, (T)(old + pattern(k, i)))) != old)
			old = seen;
	}
};

template <class T> struct Exchange {
	typedef T Type;
	template <int scope> static __device__ void once(T *at, T *out, unsigned i, unsigned)
	{
		atomicAdd(out, atomicExch_at<scope>(at, (T)pattern(4, i)));
	}
};

template <class T> struct Least {
	typedef T Type;
	template <int scope> static __device__ void once(T *at, T *, unsigned i, unsigned k)
	{
		atomicMin_at<scope>(at, (T)pattern(k + 5, i));
	}
};

template <class T> struct Most {
	typedef T Type;
	template <int scope> static __device__ void once(T *at, T *, unsigned i, unsigned k)
	{
		/* more than most begin with, at both widths */
		atomicMax_at<scope>(at, (T)(~(T)0 - (T)pattern(k + 5, i)));
	}
};

/* Sums of small whole numbers are exact, in any order. These begin with zeros. */
template <class T> struct Real {
	typedef T Type;
	typedef void Zeroed;
	template <int scope> static __device__ void once(T *at, T *, unsigned i, unsigned k)
	{
		atomicAdd_at<scope>(at, (T)(i % 7 + k));
	}
};

/* The headers have the scope of a device only. */
#define RED_PAIR(scope, type, at, bits)                                \
	asm volatile("red.relaxed." scope ".global.add.noftz." type    \
		     " [%0], %1;" ::"l"(__cvta_generic_to_global(at)), \
		     "r"(bits)                                         \
		     : "memory")

struct Half2 {
	typedef __half2 Type;
	typedef void Zeroed;
	template <int scope>
	static __device__ void once(__half2 *at, __half2 *, unsigned i, unsigned k)
	{
		__half2 v = __floats2half2_rn(i % 7 + k, i % 5 + k);
		if constexpr (scope == BLOCK)
			RED_PAIR("cta", "f16x2", at, *(unsigned *)&v);
		else if constexpr (scope == DEVICE)
			atomicAdd(at, v);
		else
			RED_PAIR("sys", "f16x2", at, *(unsigned *)&v);
	}
};

struct Bf162 {
	typedef __nv_bfloat162 Type;
	typedef void Zeroed;
	template <int scope>
	static __device__ void once(__nv_bfloat162 *at, __nv_bfloat162 *, unsigned i, unsigned k)
	{
		__nv_bfloat162 v = __floats2bfloat162_rn(i % 7 + k, i % 5 + k);
		if constexpr (scope == BLOCK)
			RED_PAIR("cta", "bf16x2", at, *(unsigned *)&v);
		else if constexpr (scope == DEVICE)
			atomicAdd(at, v);
		else
			RED_PAIR("sys", "bf16x2", at, *(unsigned *)&v);
	}
};

#define RED_FOUR(scope, at, x)                                                                \
	asm volatile("red.relaxed." scope ".global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"( \
			     __cvta_generic_to_global(at)),                                   \
		     "f"(x), "f"(x + 1), "f"(x + 2), "f"(x + 3)                               \
		     : "memory")

struct Four {
	typedef float4 Type;
	typedef void Zeroed;
	template <int scope>
	static __device__ void once(float4 *at, float4 *, unsigned i, unsigned k)
	{
		float x = i % 7 + k;
		if constexpr (scope == BLOCK)
			RED_FOUR("cta", at, x);
		else if constexpr (scope == DEVICE)
			RED_FOUR("gpu", at, x);
		else
			RED_FOUR("sys", at, x);
	}
};

template <class Op, int scope>
static __global__ void hit(typename Op::Type *at, typename Op::Type *out)
{
	for (unsigned k = 0; k < 4; k++) {
		unsigned block = scope == BLOCK ? blockIdx.x : (blockIdx.x + k) % gridDim.x;
		unsigned i = block * blockDim.x + (threadIdx.x + 37 * k) % blockDim.x;
		Op::template once<scope>(at + i, out + i, i, k);
	}
}

template <class Op, class = void> struct is_zeroed {
	static constexpr bool value = false;
};
template <class Op> struct is_zeroed<Op, typename Op::Zeroed> {
	static constexpr bool value = true;
};

template <class Op, int scope> static const char *atomics(Work &w)
{
	typedef typename Op::Type T;
	size_t bytes = (size_t)FLAT * THREADS * sizeof(T);
	if (is_zeroed<Op>::value)
		TRY(cudaMemset(w.at, 0, bytes));
	BEGIN(w);
	hit<Op, scope><<<FLAT, THREADS, 0, w.s>>>((T *)w.at, (T *)w.out);
	LAUNCHED();
	END(w, 4 * bytes);
	return NULL;
}

/* --- copies of kernels through shared memory --- */

enum { TILE = 16384 };

static __device__ unsigned shared_at(const void *p)
{
	return (unsigned)__cvta_generic_to_shared(p);
}

static __global__ void copy_async(const char *from, char *to, size_t bytes)
{
	__shared__ alignas(128) uint4 tile[THREADS];
	size_t step = (size_t)gridDim.x * blockDim.x * 16;
	for (size_t o = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 16; o < bytes;
	     o += step) {
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n\t"
			     "cp.async.commit_group;\n\t"
			     "cp.async.wait_group 0;" ::"r"(shared_at(&tile[threadIdx.x])),
			     "l"(__cvta_generic_to_global(from + o))
			     : "memory");
		*(uint4 *)(to + o) = tile[threadIdx.x];
	}
}

static __global__ void bulk_in(const char *from, char *to, size_t bytes)
{
	__shared__ alignas(128) uint4 tile[TILE / 16];
	__shared__ alignas(8) uint64_t barrier;
	unsigned phase = 0;
	if (threadIdx.x == 0)
		asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\t"
			     "fence.mbarrier_init.release.cluster;" ::"r"(shared_at(&barrier))
			     : "memory");
	__syncthreads();
	for (size_t o = (size_t)blockIdx.x * TILE; o < bytes; o += (size_t)gridDim.x * TILE) {
		if (threadIdx.x == 0) {
			asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
					     shared_at(&barrier)),
				     "r"(TILE)
				     : "memory");
			asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
				     "bytes [%0], [%1], %2, [%3];" ::"r"(shared_at(tile)),
				     "l"(__cvta_generic_to_global(from + o)), "r"(TILE),
				     "r"(shared_at(&barrier))
				     : "memory");
		}
		unsigned done = 0;
		while (!done)
			asm volatile("{\n\t.reg .pred p;\n\t"
				     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
				     "selp.u32 %0, 1, 0, p;\n\t}"
				     : "=r"(done)
				     : "r"(shared_at(&barrier)), "r"(phase)
				     : "memory");
		phase ^= 1;
		for (unsigned i = threadIdx.x; i < TILE / 16; i += blockDim.x)
			((uint4 *)(to + o))[i] = tile[i];
		__syncthreads();
	}
}

enum { COPY, ADD_U32, ADD_U64, MIN_U32, ADD_F32, ADD_BF16 };

#define BULK_OUT(op, to, tile)                                                  \
	asm volatile(op " [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)), \
		     "r"(shared_at(tile)), "r"(TILE)                            \
		     : "memory")
#define BULK_REDUCE(op, to, tile) \
	BULK_OUT("cp.reduce.async.bulk.global.shared::cta.bulk_group." op, to, tile)

template <int how> static __global__ void bulk_out(char *to, size_t bytes)
{
	__shared__ alignas(128) uint32_t tile[TILE / 4];
	for (size_t o = (size_t)blockIdx.x * TILE; o < bytes; o += (size_t)gridDim.x * TILE) {
		for (unsigned i = threadIdx.x; i < TILE / 4; i += blockDim.x) {
			tile[i] = pattern(12, o / 4 + i);
			if (how == ADD_F32)
				tile[i] = __float_as_uint(i % 7 + 1);
			if (how == ADD_BF16)
				*(__nv_bfloat162 *)&tile[i] =
					__floats2bfloat162_rn(i % 7 + 1, i % 5 + 1);
		}
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		__syncthreads();
		if (threadIdx.x == 0) {
			if (how == COPY)
				BULK_OUT("cp.async.bulk.global.shared::cta.bulk_group", to + o,
					 tile);
			if (how == ADD_U32)
				BULK_REDUCE("add.u32", to + o, tile);
			if (how == ADD_U64)
				BULK_REDUCE("add.u64", to + o, tile);
			if (how == MIN_U32)
				BULK_REDUCE("min.u32", to + o, tile);
			if (how == ADD_F32)
				BULK_REDUCE("add.f32", to + o, tile);
			if (how == ADD_BF16)
				BULK_REDUCE("add.noftz.bf16", to + o, tile);
			asm volatile("cp.async.bulk.commit_group;\n\t"
				     "cp.async.bulk.wait_group 0;" ::
					     : "memory");
		}
		__syncthreads();
	}
}

static const char *shared_copy(Work &w)
{
	BEGIN(w);
	copy_async<<<FLAT, THREADS, 0, w.s>>>(w.at, w.out, w.chunk);
	LAUNCHED();
	END(w, w.chunk);
	return NULL;
}

static const char *bulk_copy_in(Work &w)
{
	BEGIN(w);
	bulk_in<<<FLAT, THREADS, 0, w.s>>>(w.at, w.out, w.chunk);
	LAUNCHED();
	END(w, w.chunk);
	return NULL;
}

static const char *bulk_copy_out(Work &w)
{
	BEGIN(w);
	bulk_out<COPY><<<FLAT, THREADS, 0, w.s>>>(w.at, w.chunk);
	LAUNCHED();
	END(w, w.chunk);
	return NULL;
}

/* Two kernels that reduce into the same bytes. */
template <int how> static const char *bulk_reduce(Work &w)
{
	size_t bytes = w.chunk < 16 * MIB ? w.chunk : 16 * MIB;
	if (how == ADD_F32 || how == ADD_BF16)
		TRY(cudaMemset(w.at, 0, bytes));
	BEGIN(w);
	for (int again = 0; again < 2; again++)
		bulk_out<how><<<FLAT, THREADS, 0, w.s>>>(w.at, bytes);
	LAUNCHED();
	END(w, 2 * bytes);
	return NULL;
}

/* --- textures and cooperative kernels --- */

static __global__ void read_texture(cudaTextureObject_t texture, uint4 *to, unsigned n)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		to[i] = tex1Dfetch<uint4>(texture, (int)i);
}

static const char *linear_texture(Work &w)
{
	cudaTextureObject_t texture;
	cudaResourceDesc what = {};
	cudaTextureDesc how = {};
	what.resType = cudaResourceTypeLinear;
	what.res.linear.devPtr = w.at;
	what.res.linear.desc = cudaCreateChannelDesc<uint4>();
	what.res.linear.sizeInBytes = w.chunk;
	how.readMode = cudaReadModeElementType;
	TRY(cudaCreateTextureObject(&texture, &what, &how, NULL));
	BEGIN(w);
	read_texture<<<FLAT, THREADS, 0, w.s>>>(texture, (uint4 *)w.out, w.chunk / 16);
	LAUNCHED();
	END(w, w.chunk);
	TRY(cudaDestroyTextureObject(texture));
	return NULL;
}

/* Rows of 4 KiB, read as a matrix. */
static __global__ void read_matrix(cudaTextureObject_t texture, uint32_t *to, unsigned rows)
{
	for (unsigned y = blockIdx.x; y < rows; y += gridDim.x)
		for (unsigned x = threadIdx.x; x < 1024; x += blockDim.x)
			to[(size_t)y * 1024 + x] = tex2D<uint32_t>(texture, x + .5f, y + .5f);
}

static const char *pitched_texture(Work &w)
{
	cudaTextureObject_t texture;
	cudaResourceDesc what = {};
	cudaTextureDesc how = {};
	size_t rows = w.chunk / 4096 < 65000 ? w.chunk / 4096 : 65000;
	what.resType = cudaResourceTypePitch2D;
	what.res.pitch2D.devPtr = w.at;
	what.res.pitch2D.desc = cudaCreateChannelDesc<uint32_t>();
	what.res.pitch2D.width = 1024;
	what.res.pitch2D.height = rows;
	what.res.pitch2D.pitchInBytes = 4096;
	how.readMode = cudaReadModeElementType;
	TRY(cudaCreateTextureObject(&texture, &what, &how, NULL));
	BEGIN(w);
	read_matrix<<<FLAT, THREADS, 0, w.s>>>(texture, (uint32_t *)w.out, rows);
	LAUNCHED();
	END(w, rows * 4096);
	TRY(cudaDestroyTextureObject(texture));
	return NULL;
}

/* After the grid's barrier, every thread reads words that other blocks wrote. */
static __global__ void write_then_read(uint32_t *at, uint32_t *out, uint64_t words)
{
	uint64_t first = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;
	for (uint64_t i = first; i < words; i += step)
		at[i] = pattern(11, i);
	cooperative_groups::this_grid().sync();
	for (uint64_t i = first; i < words; i += step)
		out[i] = at[words - 1 - i];
}

static const char *cooperative(Work &w)
{
	uint32_t *at = w.word(), *out = (uint32_t *)w.out;
	uint64_t words = w.chunk / 4;
	void *args[] = {&at, &out, &words};
	BEGIN(w);
	TRY(cudaLaunchCooperativeKernel((const void *)write_then_read, dim3(128), dim3(THREADS),
					args, 0, w.s));
	END(w, 2 * w.chunk);
	return NULL;
}

static __global__ void mix(const uint32_t *from, uint32_t *to, uint64_t words, uint32_t tag)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x)
		to[i] = from[i] ^ pattern(tag, i);
}

#endif
