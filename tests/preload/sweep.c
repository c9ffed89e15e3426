/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every request of a file of lines "symbol,version,flags", through the preload and through the
 * driver's own resolver: the answer is ours if the driver's is its export of a hooked symbol, and
 * the driver's pointer otherwise. Requests with different answers for per-thread streams must have
 * different answers from us. With "first", by the first form of the resolver, the only one before
 * 12.0.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

typedef CUresult resolver(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult first_resolver(const char *, void **, int, cuuint64_t);
typedef void *dlsym_fn(void *, const char *);

static const char *const hooked[] = {
#define GM_HOOK(symbol, type, flags, help) #symbol,
#include "driver/hooks.def"
#undef GM_HOOK
};

static dlsym_fn *libc_dlsym(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
	void *found = NULL;
	for (size_t i = 0; i < sizeof versions / sizeof *versions && !found; i++)
		found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return (dlsym_fn *)found;
}

static bool is_ours(const void *entry)
{
	Dl_info info;
	return dladdr(entry, &info) && strstr(info.dli_fname, "libgpumem.so");
}

/* The hook of this entry of the driver, or NULL. */
static const char *hook_of(dlsym_fn *native, void *handle, const void *entry)
{
	static void *entries[sizeof hooked / sizeof *hooked];
	static bool known;
	for (size_t i = 0; !known && i < sizeof hooked / sizeof *hooked; i++)
		entries[i] = native(handle, hooked[i]);
	known = true;
	for (size_t i = 0; i < sizeof hooked / sizeof *hooked; i++)
		if (entries[i] == entry)
			return hooked[i];
	return NULL;
}

static bool first; /* use the first form of the resolver, which has no status */

static CUresult ask(void *resolve, const char *symbol, void **entry, int version, cuuint64_t flags,
		    CUdriverProcAddressQueryResult *status)
{
	return first ? ((first_resolver *)resolve)(symbol, entry, version, flags)
		     : ((resolver *)resolve)(symbol, entry, version, flags, status);
}

int main(int count, char **arguments)
{
	FILE *file = count > 1 ? fopen(arguments[1], "r") : NULL;
	bool expect = count > 2 && strcmp(arguments[2], "native") != 0;
	first = count > 3 && strcmp(arguments[3], "first") == 0;
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	dlsym_fn *native = libc_dlsym();
	char line[256], last[256] = "";
	void *last_theirs = NULL, *last_ours = NULL;
	unsigned requests = 0, ours = 0, apart = 0, wrong = 0;
	if (!file || !handle || !native)
		return puts("usage: sweep FILE native|preloaded [first]"), 2;
	const char *form = first ? "cuGetProcAddress" : "cuGetProcAddress_v2";
	void *raw = native(handle, form), *resolve = dlsym(handle, form);
	if (!raw || expect != is_ours(resolve))
		return puts("the resolver is somebody else's"), 1;
	while (fgets(line, sizeof line, file)) {
		char *comma = strchr(line, ',');
		char *flags = comma ? strchr(comma + 1, ',') : NULL;
		if (*line == '#' || !flags || strncmp(comma, ",cudaVersion", 12) == 0)
			continue;
		*comma = '\0';
		const char *symbol = strcmp(line, "\"\"") == 0 ? "" : line;
		int version = atoi(comma + 1);
		cuuint64_t flag = strtoull(flags + 1, NULL, 0);
		CUdriverProcAddressQueryResult status[2];
		memset(status, 7, sizeof status);
		void *entry[2] = {NULL, NULL};
		/* cudart passes no status; here every second request passes one */
		CUresult result[2] = {ask(raw, symbol, &entry[0], version, flag,
					  requests & 1 ? &status[0] : NULL),
				      ask(resolve, symbol, &entry[1], version, flag,
					  requests & 1 ? &status[1] : NULL)};
		const char *hook = entry[0] ? hook_of(native, handle, entry[0]) : NULL;
		bool right = result[0] == result[1] && status[0] == status[1];
		if (expect && hook)
			right = right && is_ours(entry[1]) && entry[1] == dlsym(handle, hook);
		else
			right = right && entry[1] == entry[0];
		if (strcmp(symbol, last) == 0 && last_theirs != entry[0] && entry[0]) {
			right = right && last_ours != entry[1];
			apart += hook != NULL;
		}
		if (!right)
			printf("%s,%d,%llu: %p became %p, %d became %d\n", symbol, version,
			       (unsigned long long)flag, entry[0], entry[1], result[0], result[1]);
		wrong += !right;
		ours += expect && hook;
		requests++;
		snprintf(last, sizeof last, "%s", symbol);
		last_theirs = entry[0];
		last_ours = entry[1];
	}
	fclose(file);
	printf("%u requests, %u ours, %u of them beside another of that name, %u wrong\n", requests,
	       ours, apart, wrong);
	return wrong != 0;
}
