/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the host can access, too: managed, pinned, registered. It ends with its context. */
#include "shim/foreign/foreign.h"
#include "shim/foreign/managed.h"
#include "shim/memory/device.h"
#include "shim/memory/retry.h"

/* 0 bytes of pinned memory are NULL, and no error. */
static void host_given(enum gm_foreign_kind kind, enum gm_foreign_space space, uint64_t key,
		       size_t size)
{
	if (!key)
		return;
	gm_foreign_add_here(
		(struct gm_foreign){.key = key, .space = space, .kind = kind, .size = size});
	if (kind == GM_FOREIGN_MANAGED)
		gm_managed_changed();
}

GM_TAKES(cuMemAllocManaged, GM_LACK_HERE, size, (CUdeviceptr * out, size_t size, unsigned flags),
	 (out, size, flags), host_given(GM_FOREIGN_MANAGED, GM_SPACE_DEVICE, *out, size))
GM_TAKES(cuMemAllocHost_v2, GM_LACK_HOST, size, (void **out, size_t size), (out, size),
	 host_given(GM_FOREIGN_HOST, GM_SPACE_HOST, (uint64_t)*out, size))
GM_TAKES(cuMemHostAlloc, GM_LACK_HOST, size, (void **out, size_t size, unsigned flags),
	 (out, size, flags), host_given(GM_FOREIGN_HOST, GM_SPACE_HOST, (uint64_t)*out, size))

/* Natively a freed block is no memory; here its addresses may still be mapped. */
static CUresult host_register(void *at, size_t size, unsigned flags)
{
	struct gm_block b;
	if (gm_shim_find((CUdeviceptr)at, &b) && !b.live)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = GM_PASS_RETRY(cuMemHostRegister_v2, GM_LACK_HOST, size,
					real.cuMemHostRegister_v2(at, size, flags));
	if (result == CUDA_SUCCESS)
		host_given(GM_FOREIGN_REGISTERED, GM_SPACE_REGISTER, (uint64_t)at, size);
	return result;
}
GM_HANDLER(cuMemHostRegister_v2, (void *at, size_t size, unsigned flags), (at, size, flags),
	   host_register(at, size, flags))
GM_GIVES_UP(cuMemFreeHost, (void *at), (at), GM_SPACE_HOST, at)

static CUresult host_unregister(void *at)
{
	struct gm_foreign piece;
	struct gm_block b;
	bool known = gm_foreign_take(GM_SPACE_REGISTER, (uint64_t)at, &piece);
	bool freed = gm_shim_find((CUdeviceptr)at, &b) && !b.live;
	void *asked = freed ? (void *)GM_NOWHERE : at;
	return gm_foreign_took(&piece, known, GM_PASS(real.cuMemHostUnregister(asked)));
}
GM_HANDLER(cuMemHostUnregister, (void *at), (at), host_unregister(at))

/* The driver accepts mapped memory here, but natively refuses memory of cuMemAlloc. */
static CUdeviceptr host_address(const void *at)
{
	CUdeviceptr address = (CUdeviceptr)at;
	return gm_shim_active() && gm_shim_pool_at(address) ? GM_NOWHERE : address;
}

CUresult on_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int flags)
{
	return real.cuMemHostGetDevicePointer_v2(pdptr, (void *)host_address(p), flags);
}

CUresult on_cuMemHostGetFlags(unsigned int *flags, void *p)
{
	return real.cuMemHostGetFlags(flags, (void *)host_address(p));
}
