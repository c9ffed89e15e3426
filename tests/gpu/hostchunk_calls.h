/* SPDX-License-Identifier: BSD-3-Clause */
/* For hostchunk.cu: the range, its other processes, and the cases that are calls of libraries. */
#ifndef GM_TESTS_GPU_HOSTCHUNK_CALLS_H
#define GM_TESTS_GPU_HOSTCHUNK_CALLS_H

#include <cerrno>
#include <cstring>
#include <cublasLt.h>
#include <spawn.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostchunk.h"

/* --- processes of this program --- */

/* Shared by its processes, through an inherited descriptor. */
struct State {
	int next;  /* case */
	int wrong; /* rows */
	int error; /* of a process that imports: a CUresult, */
	double us; /* and how long it took */
};
static volatile State *state;
static int state_fd;

static void attach_state(int fd)
{
	void *at = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(at == MAP_FAILED);
	state = (volatile State *)at;
	state_fd = fd;
}

static void create_state()
{
	int fd = memfd_create("hostchunk", 0);
	MUST(fd < 0 || ftruncate(fd, sizeof *state) != 0);
	attach_state(fd);
}

/* Runs this program with a role and its arguments; returns the status for wait(2). */
static int run_self(const std::vector<std::string> &words)
{
	std::string fd = std::to_string(state_fd);
	std::vector<char *> args = {(char *)"hostchunk", (char *)words[0].c_str(), fd.data()};
	pid_t pid;
	int status = 0;
	for (size_t i = 1; i < words.size(); i++)
		args.push_back((char *)words[i].c_str());
	args.push_back(NULL);
	fflush(stdout);
	MUST(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args.data(), environ));
	while (waitpid(pid, &status, 0) < 0)
		MUST(errno != EINTR);
	return status;
}

/* --- the range --- */

static CUmemLocation host_place; /* that cuMemCreate took */

static const char *set_access(CUdeviceptr at, size_t size, CUmemLocationType type, int id)
{
	CUmemAccessDesc access = {};
	access.location.type = type;
	access.location.id = id;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	TRY(cuMemSetAccess(at, size, &access, 1));
	return NULL;
}

static CUresult make_chunk(CUmemGenericAllocationHandle *handle, size_t size, bool host, bool sent)
{
	CUmemAllocationProp prop = {};
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	if (sent)
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (!host)
		return cuMemCreate(handle, size, &prop, 0);
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	CUresult made = cuMemCreate(handle, size, &prop, 0);
	if (made != CUDA_SUCCESS) {
		prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
		CUresult other = cuMemCreate(handle, size, &prop, 0);
		made = other == CUDA_SUCCESS ? other : made;
	}
	if (made == CUDA_SUCCESS && !sent)
		host_place = prop.location;
	return made;
}

static const char *make_range(Work &w)
{
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle;
	TRY(cuMemAddressReserve(&at, 3 * w.chunk, 0, 0, 0));
	for (int i = 0; i < 3; i++) {
		TRY(make_chunk(&handle, w.chunk, w.host && i == 1, false));
		TRY(cuMemMap(at + i * w.chunk, w.chunk, 0, handle, 0));
		if (const char *error =
			    set_access(at + i * w.chunk, w.chunk, CU_MEM_LOCATION_TYPE_DEVICE, 0))
			return error;
	}
	w.all = (char *)at;
	w.at = w.all + w.chunk;
	return NULL;
}

/* --- memset and copies --- */

static const char *memset_bytes(Work &w)
{
	BEGIN(w);
	TRY(cudaMemsetAsync(w.at, 0x5a, w.chunk, w.s));
	END(w, w.chunk);
	return NULL;
}

static const char *memset_halves(Work &w)
{
	BEGIN(w);
	TRY(cuMemsetD16Async((CUdeviceptr)w.at, 0x1234, w.chunk / 2, w.s));
	END(w, w.chunk);
	return NULL;
}

static const char *memset_words(Work &w)
{
	BEGIN(w);
	TRY(cuMemsetD32Async((CUdeviceptr)w.all, 0x12345678, 3 * w.chunk / 4, w.s));
	END(w, 3 * w.chunk);
	return NULL;
}

static const char *memset_rows(Work &w)
{
	BEGIN(w);
	TRY(cudaMemset2DAsync(w.at, 4096, 0x17, 1024, w.chunk / 4096, w.s));
	END(w, w.chunk / 4);
	return NULL;
}

/* From [1/2, 5/4) of the range, in chunks, to [3/2, 9/4). */
static const char *copy_over_borders(Work &w)
{
	size_t part = w.chunk / 4;
	BEGIN(w);
	TRY(cudaMemcpyAsync(w.all + 6 * part, w.all + 2 * part, 3 * part, cudaMemcpyDeviceToDevice,
			    w.s));
	END(w, 3 * part);
	return NULL;
}

static const char *copy_over_borders_back(Work &w)
{
	size_t part = w.chunk / 4;
	BEGIN(w);
	TRY(cudaMemcpyAsync(w.all + 2 * part, w.all + 6 * part, 3 * part, cudaMemcpyDeviceToDevice,
			    w.s));
	END(w, 3 * part);
	return NULL;
}

static const char *copy_inside(Work &w)
{
	BEGIN(w);
	TRY(cudaMemcpyAsync(w.at + w.chunk / 2, w.at, w.chunk / 2, cudaMemcpyDeviceToDevice, w.s));
	END(w, w.chunk / 2);
	return NULL;
}

static const char *copy_rows(Work &w)
{
	BEGIN(w);
	TRY(cudaMemcpy2DAsync(w.at, 4096, w.out, 2048, 2048, w.chunk / 4096,
			      cudaMemcpyDeviceToDevice, w.s));
	END(w, w.chunk / 2);
	return NULL;
}

enum { PAGEABLE, PINNED, MANAGED };

/* A buffer of the size of a chunk, made once; the process has one size. */
template <int kind> static const char *buffer(const Work &w, char **at)
{
	static char *made;
	if (!made && kind == PAGEABLE)
		made = (char *)malloc(w.chunk);
	else if (!made && kind == PINNED)
		TRY(cudaMallocHost((void **)&made, w.chunk));
	else if (!made)
		TRY(cudaMallocManaged((void **)&made, w.chunk));
	*at = made;
	return NULL;
}

/* By the CPU: so pages of managed memory are the host's. */
static void write_words(char *at, size_t bytes, uint32_t tag)
{
	for (size_t i = 0; i < bytes / 4; i++)
		((uint32_t *)at)[i] = pattern(tag, i);
}

#define BUFFER(kind, w, at)                                    \
	do {                                                   \
		if (const char *e_ = buffer<kind>((w), &(at))) \
			return e_;                             \
	} while (0)

template <int kind> static const char *copy_to(Work &w)
{
	char *to;
	BUFFER(kind, w, to);
	memset(to, 0, w.chunk);
	mix<<<FLAT, THREADS>>>(w.word(), w.word(), w.chunk / 4, 20 + kind);
	BEGIN(w);
	TRY(cudaMemcpyAsync(to, w.at, w.chunk, cudaMemcpyDefault, w.s));
	END(w, w.chunk);
	TRY(cudaMemcpy(w.out, to, w.chunk, cudaMemcpyDefault));
	return NULL;
}

template <int kind> static const char *copy_from(Work &w)
{
	char *from;
	BUFFER(kind, w, from);
	write_words(from, w.chunk, 30 + kind);
	BEGIN(w);
	TRY(cudaMemcpyAsync(w.at, from, w.chunk, cudaMemcpyDefault, w.s));
	END(w, w.chunk);
	return NULL;
}

static const char *managed_to_chunk(Work &w)
{
	char *from;
	BUFFER(MANAGED, w, from);
	write_words(from, w.chunk, 40);
	BEGIN(w);
	mix<<<FLAT, THREADS, 0, w.s>>>((uint32_t *)from, w.word(), w.chunk / 4, 41);
	LAUNCHED();
	END(w, 2 * w.chunk);
	return NULL;
}

static const char *chunk_to_managed(Work &w)
{
	char *to;
	BUFFER(MANAGED, w, to);
	memset(to, 0, w.chunk);
	BEGIN(w);
	mix<<<FLAT, THREADS, 0, w.s>>>(w.word(), (uint32_t *)to, w.chunk / 4, 42);
	LAUNCHED();
	END(w, 2 * w.chunk);
	TRY(cudaMemcpy(w.out, to, w.chunk, cudaMemcpyDefault));
	return NULL;
}

/* --- cuBLAS: n x n matrices of small whole numbers, whose products are exact --- */

template <class T> static __global__ void digits(T *at, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		at[i] = (T)(float)((int)(pattern(7, i) >> 13 & 3) - 1);
}

static int side(const Work &w)
{
	return w.chunk < 32 * MIB ? 256 : w.chunk < 512 * MIB ? 1024 : 4096;
}

static cublasStatus_t multiply(cublasHandle_t blas, int n, const float *a, const float *b, float *c)
{
	const float one = 1, zero = 0;
	return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, n, b, n, &zero, c, n);
}

static cublasStatus_t multiply(cublasHandle_t blas, int n, const double *a, const double *b,
			       double *c)
{
	const double one = 1, zero = 0;
	return cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, n, b, n, &zero, c, n);
}

static cublasStatus_t multiply(cublasHandle_t blas, int n, const __nv_bfloat16 *a,
			       const __nv_bfloat16 *b, __nv_bfloat16 *c)
{
	const float one = 1, zero = 0;
	return cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, CUDA_R_16BF, n, b,
			    CUDA_R_16BF, n, &zero, c, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
			    CUBLAS_GEMM_DEFAULT);
}

/* The second product is timed. */
template <class T> static const char *gemm(Work &w)
{
	static cublasHandle_t blas;
	size_t n = side(w), part = n * n;
	T *a = (T *)w.at, *b = a + part, *c = b + part;
	if (!blas)
		TRY(cublasCreate(&blas));
	TRY(cublasSetStream(blas, w.s));
	digits<<<FLAT, THREADS>>>(a, 2 * part);
	TRY(cudaDeviceSynchronize());
	TRY(multiply(blas, n, a, b, c));
	BEGIN(w);
	TRY(multiply(blas, n, a, b, c));
	END(w, 0);
	return NULL;
}

static const char *lt_matmul(Work &w)
{
	static cublasLtHandle_t lt;
	static char *space;
	const size_t space_size = 32 * MIB;
	size_t n = side(w), part = n * n;
	__nv_bfloat16 *a = (__nv_bfloat16 *)w.at, *b = a + part, *bias = b + part, *c = bias + n;
	cublasLtMatmulDesc_t product;
	cublasLtMatrixLayout_t layout;
	cublasLtMatmulPreference_t wish;
	cublasLtMatmulHeuristicResult_t found;
	cublasLtEpilogue_t end = CUBLASLT_EPILOGUE_BIAS;
	const float one = 1, zero = 0;
	int n_found = 0;
	if (!lt)
		TRY(cublasLtCreate(&lt));
	if (!space)
		TRY(cudaMalloc((void **)&space, space_size));
	digits<<<FLAT, THREADS>>>(a, 2 * part + n);
	TRY(cudaDeviceSynchronize());
	TRY(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	TRY(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &end,
					   sizeof end));
	TRY(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
					   sizeof bias));
	TRY(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, n, n, n));
	TRY(cublasLtMatmulPreferenceCreate(&wish));
	TRY(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
						 &space_size, sizeof space_size));
	TRY(cublasLtMatmulAlgoGetHeuristic(lt, product, layout, layout, layout, layout, wish, 1,
					   &found, &n_found));
	for (int again = 0; again < 2; again++) {
		BEGIN(w);
		TRY(cublasLtMatmul(lt, product, &one, a, layout, b, layout, &zero, c, layout, c,
				   layout, &found.algo, space, space_size, w.s));
		END(w, 0);
	}
	cublasLtMatmulPreferenceDestroy(wish);
	cublasLtMatrixLayoutDestroy(layout);
	cublasLtMatmulDescDestroy(product);
	return NULL;
}

/* --- a graph: pinned memory to the chunk, a memset, a kernel, the chunk to device memory --- */

static const char *graph_nodes(Work &w)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t in, set, kernel, back;
	cudaMemsetParams zeros = {};
	cudaKernelNodeParams mixes = {};
	char *from;
	uint32_t *at = w.word();
	uint64_t words = w.chunk / 4;
	uint32_t tag = 50;
	void *args[] = {&at, &at, &words, &tag};
	BUFFER(PINNED, w, from);
	write_words(from, w.chunk, 51);
	zeros.dst = w.at + w.chunk / 2;
	zeros.value = 0x01020304;
	zeros.elementSize = 4;
	zeros.width = w.chunk / 16;
	zeros.height = 1;
	mixes.func = (void *)mix;
	mixes.gridDim = dim3(FLAT);
	mixes.blockDim = dim3(THREADS);
	mixes.kernelParams = args;
	TRY(cudaGraphCreate(&graph, 0));
	TRY(cudaGraphAddMemcpyNode1D(&in, graph, NULL, 0, w.at, from, w.chunk, cudaMemcpyDefault));
	TRY(cudaGraphAddMemsetNode(&set, graph, &in, 1, &zeros));
	TRY(cudaGraphAddKernelNode(&kernel, graph, &set, 1, &mixes));
	TRY(cudaGraphAddMemcpyNode1D(&back, graph, &kernel, 1, w.out, w.at, w.chunk,
				     cudaMemcpyDefault));
	TRY(cudaGraphInstantiate(&exec, graph, 0));
	TRY(cudaGraphLaunch(exec, w.s));
	BEGIN(w);
	TRY(cudaGraphLaunch(exec, w.s));
	END(w, 4 * w.chunk + w.chunk / 4);
	TRY(cudaGraphExecDestroy(exec));
	TRY(cudaGraphDestroy(graph));
	return NULL;
}

/* --- what the driver says of the address --- */

static const char *attributes(Work &w)
{
	static const char *const types[] = {"unregistered", "host", "device", "managed"};
	cudaPointerAttributes got;
	unsigned type = 0;
	TRY(cudaPointerGetAttributes(&got, w.at));
	TRY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)w.at));
	snprintf(w.note, sizeof w.note, "type %s of device %d, host pointer: %s, driver's type %u",
		 types[got.type & 3], got.device,
		 !got.hostPointer	   ? "none"
		 : got.hostPointer == w.at ? "the same"
					   : "another",
		 type);
	return NULL;
}

template <CUmemLocationType to> static const char *prefetch(Work &w)
{
	CUmemLocation where = {};
	where.type = to;
	BEGIN(w);
	TRY(cuMemPrefetchAsync((CUdeviceptr)w.at, w.chunk, where, 0, w.s));
	END(w, 0);
	return NULL;
}

template <CUmem_advise what> static const char *advise(Work &w)
{
	CUmemLocation where = {};
	where.type = CU_MEM_LOCATION_TYPE_DEVICE;
	BEGIN(w);
	TRY(cuMemAdvise((CUdeviceptr)w.at, w.chunk, what, where));
	END(w, 0);
	return NULL;
}

static const char *host_register(Work &w)
{
	BEGIN(w);
	TRY(cudaHostRegister(w.at, w.chunk, cudaHostRegisterDefault));
	END(w, 0);
	TRY(cudaHostUnregister(w.at));
	return NULL;
}

static const char *legacy_ipc(Work &w)
{
	CUipcMemHandle handle;
	TRY(cuIpcGetMemHandle(&handle, (CUdeviceptr)w.at));
	return NULL;
}

#endif
