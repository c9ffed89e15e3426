/* SPDX-License-Identifier: BSD-3-Clause */
/* A part of taken.c: the limit of a heap, one call that launches several kernels, and a context
 * that ends with its kernels. */
static size_t limit(void)
{
	size_t value = 0;
	MUST(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
	return value;
}

/* Each context has a limit of its own. */
static void limits(void)
{
	CUcontext first = use_device(0), second = create(0);
	MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
	load();
	MUST(cuCtxSetCurrent(first));
	MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB));
	load();
	MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB));
	printf("limits: %zu", limit() / MIB);
	MUST(cuCtxSetCurrent(second));
	printf(" %zu\n", limit() / MIB);
}

/* A heap has at least the limit that the program set, which stays when a kernel was launched that
 * may call malloc. */
static void fixed(void)
{
	use_device(0);
	SAY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 300 * MIB));
	load_and_use();
	SAY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB));
	printf("limit: %zu\n", limit() / MIB);
}

/* One call launches two kernels, and the heap grows for one. When both have ended, an allocation
 * gets the memory that this kernel freed. */
static void together(void)
{
	size_t size = USED;
	void *none = NULL, *args[2][1] = {{&size}, {&none}};
	static const char *const names[2] = {"churn", "drop"};
	CUDA_LAUNCH_PARAMS list[2];
	CUdeviceptr block;
	CUresult (*launch_all)(CUDA_LAUNCH_PARAMS *, unsigned, unsigned) =
		(CUresult(*)(CUDA_LAUNCH_PARAMS *, unsigned, unsigned))dlsym(
			RTLD_DEFAULT, "cuLaunchCooperativeKernelMultiDevice");
	use_device(0);
	CUmodule module = load_and_use();
	size_t seen = free_now(false);
	for (int i = 0; i < 2; i++) {
		list[i] = (CUDA_LAUNCH_PARAMS){NULL, 1, 1, 1, 1, 1, 1, 0, NULL, args[i]};
		MUST(cuModuleGetFunction(&list[i].function, module, names[i]));
		MUST(cuStreamCreate(&list[i].hStream, CU_STREAM_NON_BLOCKING));
	}
	say("launched", launch_all(list, 2, 0));
	MUST(cuCtxSynchronize());
	printf("grown: %d\n", free_now(false) + USED <= seen);
	SAY(cuMemAlloc_v2(&block, seen - USED / 2));
}

/* A context ends with kernels for which the program has not waited. */
static void unread(void)
{
	static void *address, **out = &address;
	size_t size = 100;
	CUstream stream;
	CUcontext context = create(0);
	CUmodule module = load();
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gm_sim_hold(stream);
	launch_on(stream, module, "get", (void *[]){&out, &size});
	gm_sim_release(stream, (unsigned)-1);
	SAY(cuCtxDestroy(context));
}
