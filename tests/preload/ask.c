/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks up the driver's symbols in every way, and prints the owner of the address: "gpumem",
 * "driver" or the name of a file; or the text of dlerror. The arguments are the steps:
 *   open FILE, global FILE, apart FILE (a namespace of its own), self   set the handle
 *   library FILE         later look-ups are made by this library (libasker.c), not the program
 *   deep FILE            the same, opened with RTLD_DEEPBIND
 *   close                dlclose the handle, and print whether a libcuda is still mapped
 *   sym NAME, default NAME, next NAME    dlsym with the handle, RTLD_DEFAULT, RTLD_NEXT
 *   proc NAME VERSION FLAGS, proc1 ...   cuGetProcAddress_v2 of the handle, cuGetProcAddress
 *   odd                                  invalid requests that some programs make
 *   use                                  initialise, allocate and free through the handle
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

typedef void *asker(void *handle, const char *name);
typedef CUresult resolver(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult resolver1(const char *, void **, int, cuuint64_t);

static void *ask(void *handle, const char *name)
{
	return dlsym(handle, name);
}

static void say(const char *how, const char *name, void *address)
{
	const char *error = dlerror();
	const char *file = "nobody", *slash;
	Dl_info info;
	printf("%s %s: ", how, name);
	if (!address) {
		puts(error ? strrchr(error, '/') ? strrchr(error, '/') + 1 : error : "none");
		return;
	}
	if (dladdr(address, &info)) {
		slash = strrchr(info.dli_fname, '/');
		file = slash ? slash + 1 : info.dli_fname;
	}
	if (strcmp(file, "libgpumem.so") == 0)
		file = "gpumem";
	else if (strncmp(file, "libcuda.so", 10) == 0)
		file = "driver";
	printf("%s%s\n", file, error ? ", and an error" : "");
}

static void ask_resolver(void *handle, bool first, char **arguments)
{
	void *entry = NULL;
	int version = atoi(arguments[1]);
	cuuint64_t flags = strtoull(arguments[2], NULL, 0);
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult result;
	if (first) {
		resolver1 *resolve = (resolver1 *)dlsym(handle, "cuGetProcAddress");
		result = resolve(arguments[0], &entry, version, flags);
	} else {
		resolver *resolve = (resolver *)dlsym(handle, "cuGetProcAddress_v2");
		result = resolve(arguments[0], &entry, version, flags, &status);
	}
	printf("%d/%d ", result, status);
	dlerror(); /* clears the error of the driver's own look-ups */
	say("proc", arguments[0], entry);
}

/* None of these requests may crash unless it crashes the driver alone. */
static void ask_oddly(void *handle)
{
	resolver *resolve = (resolver *)dlsym(handle, "cuGetProcAddress_v2");
	void *entry = (void *)1;
	int status = 7;
	printf("empty: %d\n", resolve("", &entry, 0, 0, NULL));
	printf("empty, no entry: %d\n", resolve("", NULL, 0, 0, NULL));
	printf("no symbol: %d\n", resolve(NULL, &entry, 0, 0, NULL));
	printf("no entry: %d\n", resolve("cuInit", NULL, 2000, 0, NULL));
	printf("unknown: %d\n", resolve("cuNoSuchCall", &entry, 13000, 0, (void *)&status));
	printf("unknown status: %d, entry: %p\n", status, entry);
	printf("too old: %d\n", resolve("cuMemAlloc", &entry, 1000, 0, (void *)&status));
	printf("bad flags: %d\n", resolve("cuMemAlloc", &entry, 3020, 64, NULL));
}

static void close_and_look(void *handle)
{
	char line[512];
	bool mapped = false;
	FILE *maps = fopen("/proc/self/maps", "r");
	int result = dlclose(handle);
	while (maps && fgets(line, sizeof line, maps))
		mapped = mapped || strstr(line, "/libcuda.so");
	if (maps)
		fclose(maps);
	printf("closed: %d, mapped: %d\n", result, mapped);
}

static void use(void *handle)
{
	CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(handle, "cuInit");
	CUresult (*retain)(CUcontext *, CUdevice) =
		(CUresult(*)(CUcontext *, CUdevice))dlsym(handle, "cuDevicePrimaryCtxRetain");
	CUresult (*current)(CUcontext) = (CUresult(*)(CUcontext))dlsym(handle, "cuCtxSetCurrent");
	CUresult (*alloc)(CUdeviceptr *, size_t) =
		(CUresult(*)(CUdeviceptr *, size_t))dlsym(handle, "cuMemAlloc_v2");
	CUresult (*release)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))dlsym(handle, "cuMemFree_v2");
	CUcontext context = NULL;
	CUdeviceptr address = 0;
	printf("init %d", init(0));
	printf(" retain %d", retain(&context, 0));
	printf(" current %d", current(context));
	printf(" alloc %d", alloc(&address, 1 << 20));
	printf(" free %d\n", release(address));
}

int main(int count, char **arguments)
{
	void *handle = NULL;
	asker *asking = ask;
	for (char **next = arguments + 1; next < arguments + count; next++) {
		const char *verb = *next;
		if (!strcmp(verb, "open"))
			handle = dlopen(*++next, RTLD_NOW | RTLD_LOCAL);
		else if (!strcmp(verb, "global"))
			handle = dlopen(*++next, RTLD_NOW | RTLD_GLOBAL);
		else if (!strcmp(verb, "apart"))
			handle = dlmopen(LM_ID_NEWLM, *++next, RTLD_NOW);
		else if (!strcmp(verb, "self"))
			handle = dlopen(NULL, RTLD_NOW);
		else if (!strcmp(verb, "library"))
			*(void **)&asking = dlsym(dlopen(*++next, RTLD_NOW | RTLD_LOCAL), "ask");
		else if (!strcmp(verb, "deep"))
			*(void **)&asking = dlsym(dlopen(*++next, RTLD_NOW | RTLD_DEEPBIND), "ask");
		else if (!strcmp(verb, "close"))
			close_and_look(handle);
		else if (!strcmp(verb, "sym"))
			++next, say(verb, *next, asking(handle, *next));
		else if (!strcmp(verb, "default"))
			++next, say(verb, *next, asking(RTLD_DEFAULT, *next));
		else if (!strcmp(verb, "next"))
			++next, say(verb, *next, asking(RTLD_NEXT, *next));
		else if (!strncmp(verb, "proc", 4))
			ask_resolver(handle, verb[4] == '1', next + 1), next += 3;
		else if (!strcmp(verb, "odd"))
			ask_oddly(handle);
		else if (!strcmp(verb, "use"))
			use(handle);
		if (!strcmp(verb, "open") || !strcmp(verb, "global") || !strcmp(verb, "apart"))
			if (!handle)
				return printf("%s\n", dlerror()), 1;
	}
	return 0;
}
