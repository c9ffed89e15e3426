/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the unit tests of the pool: the accounting driver, with a hook before each call that
 * maps or releases memory. A test can make any call fail, count calls, and see each mapping.
 */
#ifndef GM_TESTS_POOL_FAKE_H
#define GM_TESTS_POOL_FAKE_H

#include <pthread.h>

#include "base/debug.h"
#include "base/lock.h"
#include "base/size.h"
#include "driver/null.h"
#include "pool/pool.h"

#include "../tap.h"

enum fake_call {
	FAKE_RESERVE,
	FAKE_CREATE,
	FAKE_MAP,
	FAKE_ACCESS,
	FAKE_UNMAP,
	FAKE_RELEASE,
	FAKE_N
};

static const char *const fake_names[FAKE_N] = {"reserve",    "create", "map",
					       "set access", "unmap",  "release"};

/* A free of a block that no work uses. */
static const struct gm_free fake_done = {.after = GM_FREE_AFTER_NOTHING};

static struct gm_driver fake_real, fake_driver;
static struct {
	unsigned calls[FAKE_N];
	unsigned fail[FAKE_N]; /* countdown: the call that brings it to 0 fails once; 0: none */
	unsigned fail_any;     /* the same for calls of any kind */
	unsigned fail_more;    /* number of further mapping calls that fail after it */
	enum fake_call failed; /* the kind of the first failed call */
	unsigned unreleased;   /* releases that failed */
	CUresult with;
	uint64_t largest; /* longest handle allowed */
	bool refuse_exportable;
	CUmemAllocationProp prop; /* of the last handle asked for */
	CUmemAccessDesc access[8];
	size_t n_access; /* of the last cuMemSetAccess */
	struct {
		CUdeviceptr at;
		uint64_t size;
	} maps[256]; /* current mappings */
	unsigned n_maps;
	void (*visit)(enum fake_call call); /* at the beginning of each call */
} fake;
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult fake_enter(enum fake_call call)
{
	GM_ASSERT(gm_lock_none_held(GM_LOCK_RANK_CAPTURE, GM_LOCK_RANK_COUNT));
	pthread_mutex_lock(&fake_lock);
	fake.calls[call]++;
	bool fails = fake.fail[call] && --fake.fail[call] == 0;
	if (fake.fail_any && --fake.fail_any == 0) {
		fake.failed = call;
		fails = true;
	} else if (!fake.fail_any && fake.fail_more && call == FAKE_MAP) {
		fake.fail_more--;
		fails = true;
	}
	fake.unreleased += fails && call == FAKE_RELEASE;
	pthread_mutex_unlock(&fake_lock);
	if (fake.visit)
		fake.visit(call);
	if (!fails)
		return CUDA_SUCCESS;
	return fake.with ? fake.with : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult fake_reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
			     unsigned long long flags)
{
	CUresult result = fake_enter(FAKE_RESERVE);
	return result ? result
		      : fake_real.cuMemAddressReserve(address, size, alignment, wish, flags);
}

static CUresult fake_create(CUmemGenericAllocationHandle *handle, size_t size,
			    const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult result = fake_enter(FAKE_CREATE);
	pthread_mutex_lock(&fake_lock);
	fake.prop = *prop;
	pthread_mutex_unlock(&fake_lock);
	if (!result && fake.largest && size > fake.largest)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!result && fake.refuse_exportable && prop->requestedHandleTypes)
		result = CUDA_ERROR_NOT_PERMITTED;
	return result ? result : fake_real.cuMemCreate(handle, size, prop, flags);
}

static CUresult fake_map(CUdeviceptr address, size_t size, size_t offset,
			 CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult result = fake_enter(FAKE_MAP);
	result = result ? result : fake_real.cuMemMap(address, size, offset, handle, flags);
	pthread_mutex_lock(&fake_lock);
	if (!result && fake.n_maps < 256) {
		fake.maps[fake.n_maps].at = address;
		fake.maps[fake.n_maps++].size = size;
	}
	pthread_mutex_unlock(&fake_lock);
	return result;
}

static CUresult fake_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	CUresult result = fake_enter(FAKE_ACCESS);
	if (result)
		return result;
	pthread_mutex_lock(&fake_lock);
	fake.n_access = n < 8 ? n : 8;
	memcpy(fake.access, desc, fake.n_access * sizeof *desc);
	pthread_mutex_unlock(&fake_lock);
	return fake_real.cuMemSetAccess(address, size, desc, n);
}

static CUresult fake_unmap(CUdeviceptr address, size_t size)
{
	CUresult result = fake_enter(FAKE_UNMAP);
	pthread_mutex_lock(&fake_lock);
	for (unsigned i = 0; !result && i < fake.n_maps; i++)
		if (fake.maps[i].at == address)
			fake.maps[i] = fake.maps[--fake.n_maps];
	pthread_mutex_unlock(&fake_lock);
	return result ? result : fake_real.cuMemUnmap(address, size);
}

/* A release that fails leaves the handle allocated; the pool reports it once and forgets the
 * handle. */
static CUresult fake_release(CUmemGenericAllocationHandle handle)
{
	CUresult result = fake_enter(FAKE_RELEASE);
	return result ? result : fake_real.cuMemRelease(handle);
}

static CUresult fake_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ||
	    attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) {
		*value = 1;
		return CUDA_SUCCESS;
	}
	return fake_real.cuDeviceGetAttribute(value, attribute, device);
}

static CUresult fake_exchange(CUstreamCaptureMode *mode)
{
	GM_ASSERT(gm_lock_none_held(GM_LOCK_RANK_CAPTURE, GM_LOCK_RANK_COUNT));
	return fake_real.cuThreadExchangeStreamCaptureMode(mode);
}

static inline void fake_open(uint64_t memory)
{
	gm_null_load(&fake_real, memory);
	memset(&fake, 0, sizeof fake);
	fake_driver = fake_real;
	fake_driver.cuMemAddressReserve = fake_reserve;
	fake_driver.cuMemCreate = fake_create;
	fake_driver.cuMemMap = fake_map;
	fake_driver.cuMemSetAccess = fake_access;
	fake_driver.cuMemUnmap = fake_unmap;
	fake_driver.cuMemRelease = fake_release;
	fake_driver.cuThreadExchangeStreamCaptureMode = fake_exchange;
	fake_driver.cuDeviceGetAttribute = fake_attribute;
}

/* Does the driver map the address? */
static inline bool fake_is_mapped(CUdeviceptr address)
{
	for (unsigned i = 0; i < fake.n_maps; i++)
		if (address - fake.maps[i].at < fake.maps[i].size)
			return true;
	return false;
}

/* A pool on a fresh device of `memory` bytes. */
static inline struct gm_pool *fake_pool(uint64_t memory, uint64_t limit)
{
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {.driver = &fake_driver, .limit = limit};
	fake_open(memory);
	if (gm_pool_create(&config, &pool) != CUDA_SUCCESS)
		return NULL;
	return pool;
}

/* End the pool; all memory it took from the driver must be released. */
static inline void fake_end(struct gm_pool *pool, const char *name)
{
	struct gm_null_totals totals;
	gm_pool_destroy(pool);
	gm_null_totals(&totals);
	TAP_OK(totals.created == 0 && totals.mapped == 0, "%s: nothing is left behind", name);
}

static inline bool fake_valid(const struct gm_pool *pool)
{
	const char *why = NULL;
	bool valid = gm_pool_is_valid(pool, &why);
	if (!valid)
		printf("# invalid: %s\n", why);
	return valid;
}

static inline struct gm_pool_stats fake_stats(const struct gm_pool *pool)
{
	struct gm_pool_stats stats;
	gm_pool_stats(pool, &stats);
	return stats;
}

/* A block of `size` bytes in context 1; base 0 if refused. */
static inline struct gm_block fake_alloc(struct gm_pool *pool, uint64_t size)
{
	struct gm_block block = {0};
	if (gm_pool_alloc(pool, size, 1, &block) != CUDA_SUCCESS)
		block.base = 0;
	return block;
}

#endif
