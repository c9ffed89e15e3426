/* SPDX-License-Identifier: BSD-3-Clause */
/* The accounting driver: addresses and sizes without memory. */
#include "driver/null.h"

#include "../tap.h"

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)

static struct gm_driver d;
static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				       .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static struct gm_null_totals totals(void)
{
	struct gm_null_totals t;
	gm_null_totals(&t);
	return t;
}

static void test_handles(void)
{
	CUmemGenericAllocationHandle a, b;
	CUdeviceptr at;
	size_t left;
	gm_null_load(&d, 10 * MIB);
	TAP_IS(d.cuMemAddressReserve(&at, (size_t)1 << 50, 0, 0, 0), CUDA_SUCCESS,
	       "a petabyte of addresses is reserved");
	TAP_IS(d.cuMemCreate(&a, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE, "1 MiB is no page");
	TAP_IS(d.cuMemCreate(&a, 2 * PAGE, &prop, 0), CUDA_SUCCESS, "4 MiB are made");
	TAP_IS(d.cuMemCreate(&b, 2 * PAGE, &prop, 0), CUDA_SUCCESS, "4 MiB more are made");
	TAP_IS(d.cuMemCreate(&b, 2 * PAGE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY,
	       "4 MiB more than 10 MiB are refused");
	TAP_IS(d.cuMemMap(at, PAGE, 0, a, 0), CUDA_ERROR_INVALID_VALUE,
	       "a part of a handle is not mapped");
	TAP_IS(d.cuMemMap(at, PAGE, PAGE, a, 0), CUDA_ERROR_NOT_SUPPORTED,
	       "an offset in a handle is not supported");
	TAP_IS(d.cuMemMap(at, 2 * PAGE, 0, a, 0), CUDA_SUCCESS, "a handle is mapped");
	TAP_IS(d.cuMemMap(at, 2 * PAGE, 0, b, 0), CUDA_ERROR_INVALID_VALUE,
	       "mapped addresses are not mapped again");
	TAP_IS(d.cuMemMap(at + 2 * PAGE, 2 * PAGE, 0, b, 0), CUDA_SUCCESS,
	       "a mapping beside another one succeeds");
	TAP_IS(d.cuMemSetAccess(at, 4 * PAGE, &access, 1), CUDA_SUCCESS,
	       "access to two mappings is set");
	TAP_IS(d.cuMemSetAccess(at, 5 * PAGE, &access, 1), CUDA_ERROR_INVALID_VALUE,
	       "access beyond the mappings is refused");
	TAP_IS(d.cuMemRelease(a), CUDA_SUCCESS, "a mapped handle is released");
	TAP_IS(d.cuMemRelease(a), CUDA_ERROR_INVALID_VALUE, "a handle is released once");
	d.cuMemGetInfo_v2(&left, NULL);
	TAP_IS(left, 2 * MIB, "the mapping holds a released handle");
	TAP_IS(d.cuMemUnmap(at, 4 * PAGE), CUDA_SUCCESS, "two mappings are unmapped at once");
	d.cuMemGetInfo_v2(&left, NULL);
	TAP_IS(left, 6 * MIB, "the released handle is free when unmapped");
	TAP_IS(totals().mapped, 0, "nothing is mapped after the unmap");
	TAP_IS(totals().mapped_peak, 4 * PAGE, "the peak is kept");
	TAP_IS(totals().created, 2 * PAGE, "one handle remains");
	TAP_IS(totals().created_peak, 4 * PAGE, "the peak is two handles");
	TAP_IS(totals().create_calls, 2, "two creations are counted");
	TAP_IS(totals().map_calls, 2, "two maps are counted");
	TAP_IS(totals().access_calls, 1, "one call for access is counted");
	TAP_IS(totals().unmap_calls, 1, "one unmap is counted");
	TAP_IS(totals().release_calls, 1, "one release is counted");
}

static void test_blocks(void)
{
	CUdeviceptr a, b, c;
	size_t left;
	gm_null_load(&d, 10 * MIB);
	TAP_IS(totals().create_calls, 0, "a driver that is loaded again counts anew");
	TAP_IS(d.cuMemAlloc_v2(&a, 0), CUDA_ERROR_INVALID_VALUE, "an empty block is refused");
	TAP_IS(d.cuMemAlloc_v2(&a, 1), CUDA_SUCCESS, "a block of one byte is allocated");
	TAP_IS(d.cuMemAlloc_v2(&b, 1000), CUDA_SUCCESS, "a block of 1000 bytes is allocated");
	TAP_IS(b - a, 512, "blocks are packed at 512 bytes");
	TAP_IS(d.cuMemAlloc_v2(&c, 10 * MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "more than the device has is refused");
	TAP_IS(d.cuMemFree_v2(a), CUDA_SUCCESS, "a block is freed");
	TAP_IS(d.cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE, "a block is freed once");
	TAP_IS(d.cuMemFree_v2(b), CUDA_SUCCESS, "the other block is freed");
	d.cuMemGetInfo_v2(&left, NULL);
	TAP_IS(left, 10 * MIB, "all memory is free again");
}

int main(void)
{
	test_handles();
	test_blocks();
	return tap_done();
}
