/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle memory makes no other allocation fail. Two processes: one uses 80% of the device, frees it
 * and sleeps, the other allocates 80%. One process: a full device is freed, and allocated again by
 * each call that takes device memory. Without arguments it only starts itself once for each part,
 * with knobs that have no effect natively.
 */
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define GRANULE (2 * MIB)

static size_t free_now()
{
	size_t size, total;
	MUST(cudaMemGetInfo(&size, &total));
	return size;
}

static size_t share_of(size_t size, unsigned percent)
{
	return size / 100 * percent / GRANULE * GRANULE;
}

static void free_all(std::vector<void *> &blocks)
{
	for (void *at : blocks)
		MUST(cudaFree(at));
	blocks.clear();
}

/* Allocate and use `size` bytes of the device, and free them. */
static void use(size_t size)
{
	std::vector<void *> blocks;
	for (size_t left = size; left; left -= left < 4 * GIB ? left : 4 * GIB) {
		void *at;
		MUST(cudaMalloc(&at, left < 4 * GIB ? left : 4 * GIB));
		blocks.push_back(at);
	}
	free_all(blocks);
}

/* Use the whole device, down to the last 8 MiB, and free it. */
static void use_all()
{
	std::vector<void *> blocks;
	void *at;
	for (size_t step : {4 * GIB, 64 * MIB, 8 * MIB})
		while (cudaMalloc(&at, step) == cudaSuccess)
			blocks.push_back(at);
	cudaGetLastError();
	free_all(blocks);
}

/* --- two processes --- */

static int leave()
{
	char byte;
	size_t size, total;
	MUST(cudaMemGetInfo(&size, &total));
	use(share_of(total, 80));
	if (write(STDOUT_FILENO, "f", 1) != 1)
		return 1;
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

/* The time at which another process's memory is returned is unknown, so wait for it. */
static int take(const char *who)
{
	void *at;
	size_t have, total, size;
	MUST(cudaMemGetInfo(&have, &total));
	size = share_of(total, 80);
	for (int i = 0; i < 6000 && have < size + 64 * MIB; i++) {
		usleep(10000);
		have = free_now();
	}
	cudaError_t result = cudaMalloc(&at, size);
	printf("another process, %s, takes 80%%: %d\n", who, (int)result);
	if (result == cudaSuccess) {
		MUST(cudaMemset(at, 1, size));
		MUST(cudaFree(at));
	}
	return 0;
}

/* --- each call that takes device memory --- */

static CUmemAllocationProp device_prop(int device)
{
	CUmemAllocationProp prop = {};
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	return prop;
}

static void by_handle(size_t size)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = device_prop(0);
	use(share_of(size, 95));
	SHOW(cuMemCreate(&handle, share_of(size, 90), &prop, 0));
	SHOW(cuMemRelease(handle));
}

static void by_stream(size_t size)
{
	void *at;
	cudaMemPool_t pool;
	use(share_of(size, 95));
	SHOW(cudaMallocAsync(&at, share_of(size, 90), 0));
	SHOW(cudaFreeAsync(at, 0));
	SHOW(cudaDeviceSynchronize());
	MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
	MUST(cudaMemPoolTrimTo(pool, 0));
}

/* Rows of 256 KiB, planes of 256 MiB. */
static void by_array(size_t size)
{
	cudaArray_t array;
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
	cudaExtent extent = make_cudaExtent(16384, 1024, share_of(size, 85) / (256 * MIB));
	use(share_of(size, 95));
	SHOW(cudaMalloc3DArray(&array, &format, extent));
	SHOW(cudaFreeArray(array));
}

/* An allocation node's memory is allocated at the launch of its graph. */
static void by_graph(size_t size)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t allocate, release;
	cudaMemAllocNodeParams params = {};
	params.poolProps.allocType = cudaMemAllocationTypePinned;
	params.poolProps.location.type = cudaMemLocationTypeDevice;
	params.bytesize = share_of(size, 90);
	MUST(cudaGraphCreate(&graph, 0));
	use(share_of(size, 95));
	SHOW(cudaGraphAddMemAllocNode(&allocate, graph, NULL, 0, &params));
	SHOW(cudaGraphAddMemFreeNode(&release, graph, &allocate, 1, params.dptr));
	SHOW(cudaGraphInstantiate(&exec, graph, 0));
	SHOW(cudaGraphLaunch(exec, 0));
	SHOW(cudaDeviceSynchronize());
	MUST(cudaGraphExecDestroy(exec));
	MUST(cudaGraphDestroy(graph));
	MUST(cudaDeviceGraphMemTrim(0));
}

/* Modules with a global variable of 1 GiB each. */
static void by_modules(size_t size)
{
	static const char image[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
				    ".visible .global .align 4 .b8 big[1073741824];\n";
	size_t n = share_of(size, 90) / GIB, loaded = 0;
	std::vector<CUmodule> modules(n);
	CUdeviceptr at;
	size_t bytes;
	CUresult result = CUDA_SUCCESS;
	use(share_of(size, 95));
	for (; loaded < n && result == CUDA_SUCCESS; loaded += result == CUDA_SUCCESS) {
		result = cuModuleLoadData(&modules[loaded], image);
		if (result == CUDA_SUCCESS) /* forces a lazy load */
			result = cuModuleGetGlobal(&at, &bytes, modules[loaded], "big");
	}
	printf("modules of 1 GiB: all %d, then %d\n", loaded == n, (int)result);
	while (loaded)
		MUST(cuModuleUnload(modules[--loaded]));
}

static void by_context()
{
	CUcontext context;
	use_all();
#if CUDA_VERSION >= 13000
	SHOW(cuCtxCreate(&context, NULL, 0, 0));
#else
	SHOW(cuCtxCreate(&context, 0, 0));
#endif
	SHOW(cuCtxDestroy(context));
}

/* A stack of 32 KiB for each thread that can be resident: gigabytes. */
static __global__ void deep(int *out, int n)
{
	volatile int stack[8192];
	for (int i = 0; i < n; i++)
		stack[i] = i;
	if (out)
		*out = stack[n / 2];
}

static void by_launch()
{
	use_all();
	deep<<<1, 1>>>(NULL, 8192);
	SHOW(cudaGetLastError());
	SHOW(cudaDeviceSynchronize());
}

static int entries()
{
	MUST(cudaFree(0));
	size_t size = free_now();
	by_handle(size);
	by_stream(size);
	by_array(size);
	by_graph(size);
	by_modules(size);
	by_context();
	by_launch();
	use(share_of(free_now(), 90));
	printf("cudaMalloc has it again\n");
	return 0;
}

/* An allocation of managed memory never fails: without room, memory is moved away. So it asks for
 * half of the memory that is returned at once. */
static __global__ void touch(char *at, size_t size)
{
	for (size_t i = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) * 65536; i < size;
	     i += (size_t)gridDim.x * blockDim.x * 65536)
		at[i] = 1;
}

static int managed()
{
	char *at;
	MUST(cudaFree(0));
	size_t size = free_now();
	use(share_of(size, 95));
	SHOW(cudaMallocManaged(&at, share_of(size, 50)));
	touch<<<256, 256>>>(at, share_of(size, 50));
	SHOW(cudaDeviceSynchronize());
	SHOW(cudaFree(at));
	return 0;
}

/* --- the parts --- */

/* Start a part of this program with GPUMEM_TRIM_AFTER. `in` and `out` become its standard input and
 * output; -1: inherited. */
static pid_t start(const char *part, const char *trim_after, const char *preload, int in, int out)
{
	pid_t pid;
	posix_spawn_file_actions_t actions;
	std::string program = "/proc/self/exe", first = part;
	char *argv[] = {&program[0], &first[0], NULL};
	posix_spawn_file_actions_init(&actions);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	setenv("GPUMEM_TRIM_AFTER", trim_after, 1);
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	else
		unsetenv("LD_PRELOAD");
	fflush(stdout);
	MUST(posix_spawn(&pid, argv[0], &actions, NULL, argv, environ));
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static int end_of(pid_t pid)
{
	int status = -1;
	MUST(waitpid(pid, &status, 0) != pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void two_processes(const char *preload)
{
	int in[2], out[2];
	char byte = 0;
	MUST(pipe2(in, O_CLOEXEC));
	MUST(pipe2(out, O_CLOEXEC));
	pid_t sleeper = start("leave", "500ms", preload, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	if (read(out[0], &byte, 1) != 1)
		printf("the first process did not get through\n");
	printf("likewise: %d\n", end_of(start("take likewise", "off", preload, -1, -1)));
	printf("natively: %d\n", end_of(start("take natively", "off", NULL, -1, -1)));
	close(in[1]);
	printf("the first process ends: %d\n", end_of(sleeper));
	close(out[0]);
}

static int probe()
{
	int n = 0;
	return cudaGetDeviceCount(&n) == cudaSuccess && n ? 0 : 77;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)();
	} parts[] = {
		{"probe", probe}, {"leave", leave}, {"entries", entries}, {"managed", managed}};
	for (const auto &part : parts)
		if (argc > 1 && strcmp(argv[1], part.name) == 0)
			return part.run();
	if (argc > 1)
		return take(argv[1] + strlen("take "));
	const char *given = getenv("LD_PRELOAD");
	std::string preload = given ? given : "";
	const char *with = given ? preload.c_str() : NULL;
	if (end_of(start("probe", "off", NULL, -1, -1)) != 0) {
		printf("no GPU\n");
		return 77;
	}
	two_processes(with);
	printf("entries: %d\n", end_of(start("entries", "off", with, -1, -1)));
	printf("managed: %d\n", end_of(start("managed", "0", with, -1, -1)));
	return 0;
}
