/* SPDX-License-Identifier: BSD-3-Clause */
#include "takeover/load.h"

#include <stdint.h>
#include <string.h>

/* The registers of every kernel that calls malloc. */
#define REGISTERS 24

/* The head of a container, with the size of the head and of the content behind it. */
struct container {
	uint32_t magic;
	uint16_t version, header;
	uint64_t size;
};

static CUresult ptx_link(const struct gm_driver *d, CUlinkState state, const void *ptx,
			 CUmodule *out)
{
	struct container head;
	void *cubin;
	size_t size;
	memcpy(&head, ptx, sizeof head);
	CUresult result = d->cuLinkAddData_v2(state, CU_JIT_INPUT_FATBINARY, (void *)(uintptr_t)ptx,
					      head.header + head.size, "gpumem", 0, NULL, NULL);
	if (result == CUDA_SUCCESS)
		result = d->cuLinkComplete(state, &cubin, &size);
	return result == CUDA_SUCCESS ? d->cuModuleLoadData(out, cubin) : result;
}

CUresult gm_takeover_load(const struct gm_driver *d, const void *code, const void *ptx,
			  CUmodule *out)
{
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)(uintptr_t)REGISTERS;
	CUlinkState state;
	CUresult result = d->cuModuleLoadData(out, code);
	if (result != CUDA_ERROR_NO_BINARY_FOR_GPU || !ptx || !d->cuLinkCreate_v2 ||
	    !d->cuLinkAddData_v2 || !d->cuLinkComplete || !d->cuLinkDestroy)
		return result;
	result = d->cuLinkCreate_v2(1, &option, &value, &state);
	if (result != CUDA_SUCCESS)
		return result;
	result = ptx_link(d, state, ptx, out);
	d->cuLinkDestroy(state);
	return result;
}
