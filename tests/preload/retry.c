/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every row of hooks.def that is to be retried when memory ran out, on a simulated device whose
 * memory is 96% idle in a pool. `retry list` prints the rows, and fails if one has no case here.
 * `retry take SYMBOL` takes 90% through the call, `retry fail SYMBOL` asks for more than the device
 * has, `retry capture` makes both kinds of call during a capture.
 */
#include "../../shim/entry/hooks.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"
#include "sim/sim.h"
#include "steer.h"

#define BLOCK (81 * MIB) /* three of these are 95% of 256 MiB */
#define BLOCKS 3
#define LARGE (230 * MIB)
#define TOO_LARGE (300 * MIB)

/* The entries, by name. */
static struct {
#define GM_HOOK(symbol, type, flags, help) type symbol;
#include "driver/hooks.def"
#undef GM_HOOK
} entry;

/* The outputs of a call. A failing call writes the same as natively: nothing, or 0. */
static union {
	unsigned char bytes[256];
	void *handle;
	CUdeviceptr address;
	struct {
		CUdeviceptr address;
		size_t size;
	} both;
} out;

static size_t wanted; /* device memory */

/* --- arguments of calls --- */

static void nothing(void **args)
{
	(void)args;
}

static struct gm_sim_kernel kernels[] = {{.name = "k", .run = nothing}};
static const struct gm_sim_global globals[] = {{"g", 4096}};
static struct gm_sim_image small = {.magic = GM_SIM_IMAGE, .count = 1, .kernels = kernels};
static struct gm_sim_image filled = {.memory = 4096,
				     .magic = GM_SIM_IMAGE,
				     .count = 1,
				     .kernels = kernels,
				     .n_globals = 1,
				     .globals = globals};
static struct gm_sim_image large = {
	.magic = GM_SIM_IMAGE, .count = 1, .kernels = kernels, .n_globals = 1, .globals = globals};

static struct {
	CUdevice device;
	char path[64]; /* a file with the large image */
	CUmodule module, globals;
	CUfunction function;
	CUlibrary library; /* loaded from the large image */
	CUkernel kernel;
	CUgraph graph;
	CUgraphExec exec;
	CUmemoryPool pool;
	CUexternalMemory external;
	CUdevResourceDesc description;
	CUgreenCtx green;
	CUdeviceptr reserved; /* addresses; a mapping begins 2 MiB behind */
	CUmemGenericAllocationHandle physical;
	int shared; /* descriptor of physical memory */
	void *pages;
} on;

static int new_file(void)
{
	int fd = memfd_create("retry", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 1 << 20) != 0)
		exit(1);
	return fd;
}

static void write_image(void)
{
	snprintf(on.path, sizeof on.path, "/proc/self/fd/%d", new_file());
	FILE *file = fopen(on.path, "w");
	if (!file || fwrite(&large, sizeof large, 1, file) != 1 || fclose(file) != 0)
		exit(1);
}

static const CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
};

static const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *import_desc(void)
{
	static CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 1 << 20};
	desc.handle.fd = new_file();
	return &desc;
}

/* An old driver may lack the call, and then also calls that need its result. */
#define MAY(call)                                 \
	do {                                      \
		CUresult may_ = (call);           \
		if (may_ != CUDA_ERROR_NOT_FOUND) \
			MUST(may_);               \
	} while (0)

static void prepare(void)
{
	CUdevResource resource;
	large.memory = wanted;
	write_image();
	MUST(cuModuleLoadData(&on.module, &small));
	MUST(cuModuleLoadData(&on.globals, &filled));
	MUST(cuModuleGetFunction(&on.function, on.module, "k"));
	MUST(cuFuncSetBlockShape(on.function, 1, 1, 1));
	MAY(cuLibraryLoadData(&on.library, &large, NULL, NULL, 0, NULL, NULL, 0));
	MAY(cuLibraryGetKernel(&on.kernel, on.library, "k"));
	MUST(cuGraphCreate(&on.graph, 0));
	MUST(cuGraphInstantiateWithFlags(&on.exec, on.graph, 0));
	MUST(cuMemPoolCreate(&on.pool, &pool_props));
	MUST(cuImportExternalMemory(&on.external, import_desc()));
	MAY(cuDeviceGetDevResource(on.device, &resource, CU_DEV_RESOURCE_TYPE_SM));
	MAY(cuDevResourceGenerateDesc(&on.description, &resource, 1));
	MAY(cuGreenCtxCreate(&on.green, on.description, on.device, CU_GREEN_CTX_DEFAULT_STREAM));
	MUST(cuMemCreate(&on.physical, 2 * MIB, &prop, 0));
	MUST(cuMemAddressReserve(&on.reserved, 4 * MIB, 0, 0, 0));
	MUST(cuMemMap(on.reserved + 2 * MIB, 2 * MIB, 0, on.physical, 0));
	MUST(cuMemExportToShareableHandle(&on.shared, on.physical,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	on.pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* --- descriptions of the wanted memory --- */

static const CUDA_ARRAY_DESCRIPTOR *flat(void)
{
	static CUDA_ARRAY_DESCRIPTOR d = {
		.Width = MIB, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	d.Height = wanted / MIB;
	return &d;
}

static const CUDA_ARRAY3D_DESCRIPTOR *solid(void)
{
	static CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = MIB, .Depth = 2, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	d.Height = wanted / MIB / 2;
	return &d;
}

static const CUmemAccessDesc reach = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static CUDA_MEM_ALLOC_NODE_PARAMS *alloc_node(void)
{
	static CUDA_MEM_ALLOC_NODE_PARAMS params;
	params = (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = pool_props, .bytesize = wanted};
	return &params;
}

static CUgraphNodeParams *any_node(void)
{
	static CUgraphNodeParams params;
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	params.alloc.poolProps = pool_props;
	params.alloc.bytesize = wanted;
	return &params;
}

static CUDA_GRAPH_INSTANTIATE_PARAMS *instantiate_params(void)
{
	static CUDA_GRAPH_INSTANTIATE_PARAMS params;
	return &params;
}

static const CUlaunchConfig *config(void)
{
	static const CUlaunchConfig c = {.gridDimX = 1,
					 .gridDimY = 1,
					 .gridDimZ = 1,
					 .blockDimX = 1,
					 .blockDimY = 1,
					 .blockDimZ = 1};
	return &c;
}

static CUDA_LAUNCH_PARAMS *launches(void)
{
	static CUDA_LAUNCH_PARAMS p = {.gridDimX = 1,
				       .gridDimY = 1,
				       .gridDimZ = 1,
				       .blockDimX = 1,
				       .blockDimY = 1,
				       .blockDimZ = 1,
				       .hStream = CU_STREAM_PER_THREAD};
	p.function = on.function;
	return &p;
}

static const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer(void)
{
	static const CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = {.size = 1 << 20};
	return &desc;
}

static const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapped(void)
{
	static const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc = {
		.arrayDesc = {.Width = 64,
			      .Height = 64,
			      .Format = CU_AD_FORMAT_UNSIGNED_INT8,
			      .NumChannels = 1},
		.numLevels = 1};
	return &desc;
}

/* --- a case for each row --- */

#define OUT (void *)&out
#define SHAPE 1, 1, 1, 1, 1, 1

/* TAKES: takes the wanted memory itself. NEEDS: the simulated call needs it (gm_sim_need). STACK: a
 * kernel's stack needs it. POOL: the pool serves the call with its own memory. */
#define CASES                                                                                     \
	X(cuArray3DCreate_v2, TAKES, (OUT, solid()))                                              \
	X(cuArrayCreate_v2, TAKES, (OUT, flat()))                                                 \
	X(cuCtxCreate_v2, NEEDS, (OUT, 0, on.device))                                             \
	X(cuCtxCreate_v3, NEEDS, (OUT, NULL, 0, 0, on.device))                                    \
	X(cuCtxCreate_v4, NEEDS, (OUT, NULL, 0, on.device))                                       \
	X(cuCtxSetLimit, NEEDS, (CU_LIMIT_STACK_SIZE, 4096))                                      \
	X(cuDevicePrimaryCtxRetain, NEEDS, (OUT, on.device))                                      \
	X(cuEventCreate, NEEDS, (OUT, 0))                                                         \
	X(cuExternalMemoryGetMappedBuffer, NEEDS, (OUT, on.external, buffer()))                   \
	X(cuExternalMemoryGetMappedMipmappedArray, NEEDS, (OUT, on.external, mipmapped()))        \
	X(cuFuncLoad, NEEDS, (on.function))                                                       \
	X(cuGraphAddMemAllocNode, TAKES, (OUT, on.graph, NULL, 0, alloc_node()))                  \
	X(cuGraphAddNode, TAKES, (OUT, on.graph, NULL, 0, any_node()))                            \
	X(cuGraphAddNode_v2, TAKES, (OUT, on.graph, NULL, NULL, 0, any_node()))                   \
	X(cuGraphAddNode_v3, TAKES, (OUT, on.graph, NULL, NULL, 0, any_node()))                   \
	X(cuGraphInstantiate, NEEDS, (OUT, on.graph, NULL, NULL, 0))                              \
	X(cuGraphInstantiateWithFlags, NEEDS, (OUT, on.graph, 0))                                 \
	X(cuGraphInstantiateWithParams, NEEDS, (OUT, on.graph, instantiate_params()))             \
	X(cuGraphInstantiateWithParams_ptsz, NEEDS, (OUT, on.graph, instantiate_params()))        \
	X(cuGraphInstantiate_v2, NEEDS, (OUT, on.graph, NULL, NULL, 0))                           \
	X(cuGraphLaunch, NEEDS, (on.exec, NULL))                                                  \
	X(cuGraphLaunch_ptsz, NEEDS, (on.exec, NULL))                                             \
	X(cuGraphUpload, NEEDS, (on.exec, NULL))                                                  \
	X(cuGraphUpload_ptsz, NEEDS, (on.exec, NULL))                                             \
	X(cuGreenCtxCreate, NEEDS, (OUT, on.description, on.device, CU_GREEN_CTX_DEFAULT_STREAM)) \
	X(cuGreenCtxStreamCreate, NEEDS, (OUT, on.green, CU_STREAM_NON_BLOCKING, 0))              \
	X(cuImportExternalMemory, NEEDS, (OUT, import_desc()))                                    \
	X(cuKernelGetFunction, TAKES, (OUT, on.kernel))                                           \
	X(cuLaunch, STACK, (on.function))                                                         \
	X(cuLaunchCooperativeKernel, STACK, (on.function, SHAPE, 0, NULL, NULL))                  \
	X(cuLaunchCooperativeKernelMultiDevice, STACK, (launches(), 1, 0))                        \
	X(cuLaunchCooperativeKernel_ptsz, STACK, (on.function, SHAPE, 0, NULL, NULL))             \
	X(cuLaunchGrid, STACK, (on.function, 1, 1))                                               \
	X(cuLaunchGridAsync, STACK, (on.function, 1, 1, NULL))                                    \
	X(cuLaunchKernel, STACK, (on.function, SHAPE, 0, NULL, NULL, NULL))                       \
	X(cuLaunchKernelEx, STACK, (config(), on.function, NULL, NULL))                           \
	X(cuLaunchKernelEx_ptsz, STACK, (config(), on.function, NULL, NULL))                      \
	X(cuLaunchKernel_ptsz, STACK, (on.function, SHAPE, 0, NULL, NULL, NULL))                  \
	X(cuLibraryGetGlobal, TAKES, (&out.both.address, &out.both.size, on.library, "g"))        \
	X(cuLibraryGetModule, TAKES, (OUT, on.library))                                           \
	X(cuLibraryLoadData, NEEDS, (OUT, &large, NULL, NULL, 0, NULL, NULL, 0))                  \
	X(cuLibraryLoadFromFile, NEEDS, (OUT, on.path, NULL, NULL, 0, NULL, NULL, 0))             \
	X(cuMemAllocAsync, TAKES, (OUT, wanted, NULL))                                            \
	X(cuMemAllocAsync_ptsz, TAKES, (OUT, wanted, NULL))                                       \
	X(cuMemAllocFromPoolAsync, TAKES, (OUT, wanted, on.pool, NULL))                           \
	X(cuMemAllocFromPoolAsync_ptsz, TAKES, (OUT, wanted, on.pool, NULL))                      \
	X(cuMemAllocHost_v2, NEEDS, (OUT, MIB))                                                   \
	X(cuMemAllocManaged, TAKES, (OUT, wanted, CU_MEM_ATTACH_GLOBAL))                          \
	X(cuMemAllocPitch_v2, POOL, (&out.both.address, &out.both.size, MIB, wanted / MIB, 4))    \
	X(cuMemAlloc_v2, POOL, (OUT, wanted))                                                     \
	X(cuMemCreate, TAKES, (OUT, wanted, &prop, 0))                                            \
	X(cuMemHostAlloc, NEEDS, (OUT, MIB, 0))                                                   \
	X(cuMemHostRegister_v2, NEEDS, (on.pages, 1 << 20, 0))                                    \
	X(cuMemImportFromShareableHandle, NEEDS,                                                  \
	  (OUT, (void *)(uintptr_t)on.shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))          \
	X(cuMemMap, NEEDS, (on.reserved, 2 * MIB, 0, on.physical, 0))                             \
	X(cuMemPoolCreate, NEEDS, (OUT, &pool_props))                                             \
	X(cuMemSetAccess, NEEDS, (on.reserved + 2 * MIB, 2 * MIB, &reach, 1))                     \
	X(cuMipmappedArrayCreate, TAKES, (OUT, solid(), 1))                                       \
	X(cuModuleGetFunction, NEEDS, (OUT, on.module, "k"))                                      \
	X(cuModuleGetGlobal_v2, NEEDS, (&out.both.address, &out.both.size, on.globals, "g"))      \
	X(cuModuleLoad, TAKES, (OUT, on.path))                                                    \
	X(cuModuleLoadData, TAKES, (OUT, &large))                                                 \
	X(cuModuleLoadDataEx, TAKES, (OUT, &large, 0, NULL, NULL))                                \
	X(cuModuleLoadFatBinary, TAKES, (OUT, &large))                                            \
	X(cuStreamCreate, NEEDS, (OUT, 0))                                                        \
	X(cuStreamCreateWithPriority, NEEDS, (OUT, 0, 0))

#define X(symbol, how, arguments)              \
	static CUresult take_##symbol(void)    \
	{                                      \
		return entry.symbol arguments; \
	}
CASES
#undef X

enum how { TAKES, NEEDS, STACK, POOL };
static const struct {
	const char *symbol;
	enum how how;
	CUresult (*take)(void);
} cases[] = {
#define X(symbol, how, arguments) {#symbol, how, take_##symbol},
	CASES
#undef X
};
#define N_CASES (sizeof cases / sizeof *cases)

static size_t case_of(const char *symbol)
{
	size_t i = 0;
	while (i < N_CASES && strcmp(cases[i].symbol, symbol) != 0)
		i++;
	return i;
}

/* --- */

static int list(void)
{
	static const struct {
		const char *symbol;
		unsigned flags;
	} rows[] = {
#define GM_HOOK(symbol, type, flags, help) {#symbol, flags},
#include "driver/hooks.def"
#undef GM_HOOK
	};
	size_t n = 0;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t found = case_of(rows[i].symbol);
		if (!(rows[i].flags & RETRY))
			continue;
		n++;
		if (found == N_CASES)
			return printf("no case for %s\n", rows[i].symbol), 1;
		printf("%s %s\n", rows[i].symbol, cases[found].how == POOL ? "pool" : "driver");
	}
	return n == N_CASES ? 0 : (puts("a case without a row"), 1);
}

static void start(void)
{
	MUST(cuInit(0));
#define GM_HOOK(symbol, type, flags, help) entry.symbol = (type)dlsym(RTLD_DEFAULT, #symbol);
#include "driver/hooks.def"
#undef GM_HOOK
	use_device(0);
}

/* Uses 95% of the device, and frees it. */
static void fill_and_free(void)
{
	CUdeviceptr blocks[BLOCKS];
	for (unsigned i = 0; i < BLOCKS; i++)
		MUST(entry.cuMemAlloc_v2(&blocks[i], BLOCK));
	for (unsigned i = 0; i < BLOCKS; i++)
		MUST(entry.cuMemFree_v2(blocks[i]));
}

static int take(const char *symbol, size_t size)
{
	size_t i = case_of(symbol);
	if (i == N_CASES)
		return puts("no such case"), 2;
	wanted = size;
	start();
	prepare();
	fill_and_free();
	if (cases[i].how == NEEDS)
		gm_sim_need(symbol, wanted);
	if (cases[i].how == STACK)
		kernels[0].local = wanted;
	memset(&out, 0x5a, sizeof out);
	unsigned before = gm_sim_calls(symbol), touched = 0;
	bool failed = say(symbol, cases[i].take()) != CUDA_SUCCESS;
	for (size_t b = 0; failed && b < sizeof out.bytes; b++)
		touched += out.bytes[b] != 0x5a;
	if (failed)
		printf("%u bytes were written\n", touched);
	fprintf(stderr, "%u calls reached the driver\n", gm_sim_calls(symbol) - before);
	return 0;
}

/* A call that a capture forbids is not retried, whatever the free memory. An allowed call is. */
static int capture(void)
{
	CUstream stream;
	CUgraph graph;
	wanted = LARGE;
	start();
	MUST(entry.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	fill_and_free();
	SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	SAY(take_cuMemCreate());
	SAY(cuStreamEndCapture(stream, &graph));
	MUST(cuMemRelease((CUmemGenericAllocationHandle)out.address));
	fill_and_free();
	SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	unsigned before = gm_sim_calls("cuMemAllocManaged");
	SAY(take_cuMemAllocManaged());
	printf("%u call reached the driver\n", gm_sim_calls("cuMemAllocManaged") - before);
	SAY(cuStreamEndCapture(stream, &graph));
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "list") == 0)
		return list();
	if (strcmp(what, "capture") == 0)
		return capture();
	if (argc > 2 && strcmp(what, "take") == 0)
		return take(argv[2], LARGE);
	if (argc > 2 && strcmp(what, "fail") == 0)
		return take(argv[2], TOO_LARGE);
	return puts("usage: retry list | capture | take SYMBOL | fail SYMBOL"), 2;
}
