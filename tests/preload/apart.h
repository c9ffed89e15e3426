/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of sleeps.c beside its blocks: managed, and on a second device. */
#ifndef GM_TESTS_PRELOAD_APART_H
#define GM_TESTS_PRELOAD_APART_H

#include "program.h"

/* Memory apart from the blocks, and the byte that fills it. */
struct apart {
	CUdeviceptr at;
	size_t size;
	CUcontext context;
};
enum { APART_BYTE = 171 };
static struct apart managed, second;

/* In a current context of its own. The host reads managed memory directly. */
static bool apart_is(const struct apart *a)
{
	static unsigned char host[MIB];
	CUcontext popped;
	bool right = true;
	MUST(cuCtxPushCurrent_v2(a->context));
	for (size_t i = 0; i < a->size && right; i += MIB) {
		if (a == &managed)
			memcpy(host, (const char *)(uintptr_t)(a->at + i), MIB);
		else
			MUST(cuMemcpyDtoH_v2(host, a->at + i, MIB));
		right = host[0] == APART_BYTE && memcmp(host, host + 1, MIB - 1) == 0;
	}
	MUST(cuCtxPopCurrent_v2(&popped));
	return right;
}

static void apart_fill(struct apart *a, size_t size)
{
	a->size = size;
	MUST(cuMemsetD8_v2(a->at, APART_BYTE, size));
	MUST(cuCtxSynchronize());
	puts("made");
}

static void managed_make(unsigned mib)
{
	MUST(cuCtxGetCurrent(&managed.context));
	MUST(cuMemAllocManaged(&managed.at, mib * MIB, CU_MEM_ATTACH_GLOBAL));
	apart_fill(&managed, mib * MIB);
}

static void second_make(unsigned mib)
{
	CUcontext popped;
	MUST(cuDevicePrimaryCtxRetain(&second.context, 1));
	MUST(cuCtxPushCurrent_v2(second.context));
	MUST(cuMemAlloc_v2(&second.at, mib * MIB));
	apart_fill(&second, mib * MIB);
	MUST(cuCtxPopCurrent_v2(&popped));
}

#endif
