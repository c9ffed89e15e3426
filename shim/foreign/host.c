/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the host can use too: managed, pinned, registered. It ends with its context. */
#include "shim/device.h"
#include "shim/foreign/foreign.h"
#include "shim/retry.h"

static void host_given(enum gm_foreign_kind kind, enum gm_foreign_space space, uint64_t key,
		       size_t size)
{
	gm_foreign_add_here(
		(struct gm_foreign){.key = key, .space = space, .kind = kind, .size = size});
}

GM_TAKES(cuMemAllocManaged, (CUdeviceptr * out, size_t size, unsigned flags), (out, size, flags),
	 host_given(GM_FOREIGN_MANAGED, GM_SPACE_DEVICE, *out, size))
GM_TAKES(cuMemAllocHost_v2, (void **out, size_t size), (out, size),
	 host_given(GM_FOREIGN_HOST, GM_SPACE_HOST, (uint64_t)*out, size))
GM_TAKES(cuMemHostAlloc, (void **out, size_t size, unsigned flags), (out, size, flags),
	 host_given(GM_FOREIGN_HOST, GM_SPACE_HOST, (uint64_t)*out, size))

/* A freed block is no memory natively; here its addresses are still mapped. */
static CUresult host_register(void *at, size_t size, unsigned flags)
{
	struct gm_block b;
	if (gm_shim_find((CUdeviceptr)at, &b) && !b.live)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = GM_PASS_RETRY(real.cuMemHostRegister_v2(at, size, flags));
	if (result == CUDA_SUCCESS)
		host_given(GM_FOREIGN_REGISTERED, GM_SPACE_REGISTER, (uint64_t)at, size);
	return result;
}
GM_HANDLER(cuMemHostRegister_v2, (void *at, size_t size, unsigned flags), (at, size, flags),
	   host_register(at, size, flags))
GM_GIVES_UP(cuMemFreeHost, (void *at), (at), GM_SPACE_HOST, at)
GM_GIVES_UP(cuMemHostUnregister, (void *at), (at), GM_SPACE_REGISTER, at)
