/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver leaves the outputs of refused calls unwritten. A library between must neither read nor
 * write them: the outputs here are in memory without access. `failed CALL` makes the simulated
 * driver refuse CALL. An H100's driver writes NULL where it refuses device memory
 * (tests/gpu/odd.c).
 */
#include <sys/mman.h>

#include "program.h"

static void *nowhere; /* memory that can be neither read nor written */
static CUdeviceptr block;
static CUpointer_attribute one = CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;

static CUresult get_attributes(void)
{
	void *data[] = {nowhere};
	return cuPointerGetAttributes(1, &one, data, block);
}

static CUresult create(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	return cuMemCreate(nowhere, 2 * MIB, &prop, 0);
}

/* The old signature: the header replaces it by the new one. */
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **entry, int version, cuuint64_t flags);

static CUresult resolve_of_old(void)
{
	CUresult result = cuGetProcAddress("cuMemAlloc", NULL, 11030, 0);
	return result == CUDA_ERROR_UNKNOWN ? cuGetProcAddress("cuMemAlloc", nowhere, 11030, 0)
					    : result;
}

static CUresult resolve(void)
{
	CUresult result = cuGetProcAddress_v2("cuMemAlloc", NULL, 12000, 0, NULL);
	return result == CUDA_ERROR_UNKNOWN
		       ? cuGetProcAddress_v2("cuMemAlloc", nowhere, 12000, 0, NULL)
		       : result;
}

#define CALL(symbol, call)           \
	static CUresult symbol(void) \
	{                            \
		return call;         \
	}
CALL(retain, cuDevicePrimaryCtxRetain(nowhere, 0))
CALL(allocate_host, cuMemHostAlloc(nowhere, MIB, 0))
CALL(get_attribute, cuPointerGetAttribute(nowhere, one, block))
CALL(get_info, cuMemGetInfo(nowhere, nowhere))

static const struct {
	const char *symbol;
	CUresult (*call)(void);
} calls[] = {
	{"cuDevicePrimaryCtxRetain", retain},
	{"cuMemHostAlloc", allocate_host},
	{"cuPointerGetAttribute", get_attribute},
	{"cuPointerGetAttributes", get_attributes},
	{"cuMemGetInfo_v2", get_info},
	{"cuMemCreate", create},
	{"cuGetProcAddress", resolve_of_old},
	{"cuGetProcAddress_v2", resolve},
};

/* Rules for forty calls in a row by any caller. Each rule is for the next call that no earlier rule
 * matched. */
static void refuse(const char *symbol)
{
	char text[4096];
	size_t at = 0;
	for (unsigned i = 0; i < 40; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s:1:999", i > 0 ? "," : "",
				       symbol);
	setenv("SIM_FAIL", text, 1);
}

int main(int count, char **arguments)
{
	const char *symbol = count > 1 ? arguments[1] : "";
	nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	refuse(symbol);
	MUST(cuInit(0));
	if (strcmp(symbol, "cuDevicePrimaryCtxRetain")) {
		use_device(0);
		if (strcmp(symbol, "cuMemAlloc_v2"))
			MUST(cuMemAlloc(&block, MIB));
	}
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (!strcmp(calls[i].symbol, symbol))
			say(symbol, calls[i].call());
	return 0;
}
