/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory outside the pool, of each kind: `foreign KIND` allocates 3 MiB and 5 MiB, has one
 * allocation refused, frees the first, has one free refused, allocates 1 MiB, frees the 5 MiB, and
 * ends with 1 MiB alive: 3 calls, 9 MiB, 2 frees, 8 MiB freed, 1 MiB alive, 8 MiB at the peak. Also
 * built with CUDA_API_PER_THREAD_DEFAULT_STREAM, which calls the _ptsz variants.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"
#include "steer.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define TWIN "_ptsz"
#else
#define TWIN ""
#endif
#define TURNS 500

static CUmemoryPool pool;
static CUgraph graph;
static CUgraphNode node;

static CUresult take_driver(uint64_t *out, size_t size)
{
	CUdeviceptr p = 0;
	CUresult result = cuMemAlloc(&p, size);
	*out = p;
	return result;
}

static CUresult give_device(uint64_t it)
{
	return cuMemFree(it);
}

static CUresult take_async(uint64_t *out, size_t size)
{
	CUdeviceptr p = 0;
	CUresult result = cuMemAllocAsync(&p, size, NULL);
	*out = p;
	return result;
}

static CUresult give_async(uint64_t it)
{
	return cuMemFreeAsync(it, NULL);
}

static CUresult take_pool(uint64_t *out, size_t size)
{
	CUdeviceptr p = 0;
	CUresult result = cuMemAllocFromPoolAsync(&p, size, pool, NULL);
	*out = p;
	return result;
}

static CUresult take_managed(uint64_t *out, size_t size)
{
	CUdeviceptr p = 0;
	CUresult result = cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL);
	*out = p;
	return result;
}

static CUresult take_pinned(uint64_t *out, size_t size)
{
	void *p = NULL;
	CUresult result = cuMemHostAlloc(&p, size, 0);
	*out = (uint64_t)p;
	return result;
}

static CUresult take_host(uint64_t *out, size_t size)
{
	void *p = NULL;
	CUresult result = cuMemAllocHost(&p, size);
	*out = (uint64_t)p;
	return result;
}

static CUresult give_host(uint64_t it)
{
	return cuMemFreeHost((void *)it);
}

/* The pages stay mapped: the memory is unregistered, not freed. */
static CUresult take_registered(uint64_t *out, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*out = (uint64_t)p;
	return cuMemHostRegister(p, size, 0);
}

static CUresult give_registered(uint64_t it)
{
	return cuMemHostUnregister((void *)it);
}

static CUresult create(uint64_t *out, size_t size, CUmemLocationType where)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = where}};
	/* cuMemCreate takes only multiples of 2 MiB. */
	CUresult result = cuMemCreate(&handle, 2 * size, &prop, 0);
	*out = handle;
	return result;
}

static CUresult take_created(uint64_t *out, size_t size)
{
	return create(out, size, CU_MEM_LOCATION_TYPE_DEVICE);
}

static CUresult take_created_host(uint64_t *out, size_t size)
{
	return create(out, size, CU_MEM_LOCATION_TYPE_HOST);
}

static CUresult give_created(uint64_t it)
{
	return cuMemRelease(it);
}

static CUDA_ARRAY3D_DESCRIPTOR describe(size_t size)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){.Width = 1024,
					 .Height = size / 1024 / 8,
					 .Format = CU_AD_FORMAT_FLOAT,
					 .NumChannels = 2};
}

static CUresult take_array(uint64_t *out, size_t size)
{
	CUarray array = NULL;
	CUDA_ARRAY_DESCRIPTOR d = {.Width = 1024,
				   .Height = size / 1024,
				   .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				   .NumChannels = 1};
	CUresult result = cuArrayCreate(&array, &d);
	*out = (uint64_t)array;
	return result;
}

static CUresult take_array3d(uint64_t *out, size_t size)
{
	CUarray array = NULL;
	CUDA_ARRAY3D_DESCRIPTOR d = describe(size / 2);
	d.Depth = 2;
	CUresult result = cuArray3DCreate(&array, &d);
	*out = (uint64_t)array;
	return result;
}

static CUresult give_array(uint64_t it)
{
	return cuArrayDestroy((CUarray)it);
}

static CUresult take_mipmap(uint64_t *out, size_t size)
{
	CUmipmappedArray array = NULL;
	CUDA_ARRAY3D_DESCRIPTOR d = describe(size);
	CUresult result = cuMipmappedArrayCreate(&array, &d, 1);
	*out = (uint64_t)array;
	return result;
}

static CUresult give_mipmap(uint64_t it)
{
	return cuMipmappedArrayDestroy((CUmipmappedArray)it);
}

static CUresult take_external(uint64_t *out, size_t size)
{
	CUexternalMemory memory = NULL;
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
					      .size = size};
	d.handle.fd = memfd_create("external", MFD_CLOEXEC);
	CUresult result = cuImportExternalMemory(&memory, &d);
	*out = (uint64_t)memory;
	return result;
}

static CUresult give_external(uint64_t it)
{
	return cuDestroyExternalMemory((CUexternalMemory)it);
}

static CUresult take_graph(uint64_t *out, size_t size)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = size};
	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	CUresult result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
	*out = params.dptr;
	return result;
}

static CUresult give_graph(uint64_t it)
{
	return cuGraphAddMemFreeNode(&node, graph, NULL, 0, it);
}

static const struct kind {
	const char *name;
	CUresult (*take)(uint64_t *out, size_t size);
	CUresult (*give)(uint64_t it);
	const char *takes, *gives; /* the driver's symbols */
} kinds[] = {
	{"driver", take_driver, give_device, "cuMemAlloc_v2", "cuMemFree_v2"},
	{"async", take_async, give_async, "cuMemAllocAsync" TWIN, "cuMemFreeAsync" TWIN},
	{"async_by_free", take_async, give_device, "cuMemAllocAsync" TWIN, "cuMemFree_v2"},
	{"pool", take_pool, give_async, "cuMemAllocFromPoolAsync" TWIN, "cuMemFreeAsync" TWIN},
	{"managed", take_managed, give_device, "cuMemAllocManaged", "cuMemFree_v2"},
	{"pinned", take_pinned, give_host, "cuMemHostAlloc", "cuMemFreeHost"},
	{"host", take_host, give_host, "cuMemAllocHost_v2", "cuMemFreeHost"},
	{"registered", take_registered, give_registered, "cuMemHostRegister_v2",
	 "cuMemHostUnregister"},
	{"created", take_created, give_created, "cuMemCreate", "cuMemRelease"},
	{"created_host", take_created_host, give_created, "cuMemCreate", "cuMemRelease"},
	{"array", take_array, give_array, "cuArrayCreate_v2", "cuArrayDestroy"},
	{"array3d", take_array3d, give_array, "cuArray3DCreate_v2", "cuArrayDestroy"},
	{"mipmap", take_mipmap, give_mipmap, "cuMipmappedArrayCreate", "cuMipmappedArrayDestroy"},
	{"external", take_external, give_external, "cuImportExternalMemory",
	 "cuDestroyExternalMemory"},
	{"graph", take_graph, give_graph, "cuGraphAddMemAllocNode", "cuGraphAddMemFreeNode"},
};

static void turn(const struct kind *k)
{
	uint64_t a, b, c;
	SAY(k->take(&a, 3 * MIB));
	SAY(k->take(&b, 5 * MIB));
	gm_sim_fail(k->takes, 1, CUDA_ERROR_INVALID_VALUE);
	SAY(k->take(&c, 7 * MIB));
	SAY(k->give(a));
	gm_sim_fail(k->gives, 1, CUDA_ERROR_INVALID_VALUE);
	SAY(k->give(b));
	SAY(k->take(&c, MIB));
	SAY(k->give(b));
}

struct thread {
	pthread_t id;
	CUcontext context;
	const struct kind *kind;
};

static void *many(void *arg)
{
	const struct thread *t = arg;
	uint64_t it;
	MUST(cuCtxSetCurrent(t->context));
	for (int i = 0; i < TURNS; i++) {
		MUST(t->kind->take(&it, 2 * MIB));
		MUST(t->kind->give(it));
	}
	return NULL;
}

static void threads(const struct kind *k, CUcontext context)
{
	struct thread all[8];
	for (int i = 0; i < 8; i++) {
		all[i] = (struct thread){.context = context, .kind = k};
		pthread_create(&all[i].id, NULL, many, &all[i]);
	}
	for (int i = 0; i < 8; i++)
		pthread_join(all[i].id, NULL);
}

int main(int argc, char **argv)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	MUST(cuInit(0));
	CUcontext context = use_device(0);
	MUST(cuMemPoolCreate(&pool, &props));
	MUST(cuGraphCreate(&graph, 0));
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds && argc > 1; i++) {
		if (strcmp(kinds[i].name, argv[1]) != 0)
			continue;
		if (argc > 2)
			threads(&kinds[i], context);
		else
			turn(&kinds[i]);
		printf("done\n");
		return 0;
	}
	return 2;
}
