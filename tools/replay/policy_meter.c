/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/replay/policy_meter.h"

#include <string.h>

#include "base/clock.h"
#include "driver/null.h"

static struct gm_driver plain;
static struct gm_meter meter;

static void meter_record_use(void)
{
	size_t available = 0, total = 0;
	plain.cuMemGetInfo_v2(&available, &total);
	if (total - available > meter.peak)
		meter.peak = total - available;
}

#define METERED(name, symbol, params, args)                \
	static CUresult metered_##name params              \
	{                                                  \
		const uint64_t start = gm_clock_ns();      \
		const CUresult result = plain.symbol args; \
		meter.calls[GM_METER_##name]++;            \
		meter_record_use();                        \
		meter.ns += gm_clock_ns() - start;         \
		return result;                             \
	}

METERED(create, cuMemCreate,
	(CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop,
	 unsigned long long flags),
	(handle, size, prop, flags))
METERED(map, cuMemMap,
	(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	 unsigned long long flags),
	(address, size, offset, handle, flags))
METERED(access, cuMemSetAccess,
	(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count),
	(address, size, desc, count))
METERED(unmap, cuMemUnmap, (CUdeviceptr address, size_t size), (address, size))
METERED(release, cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))
METERED(alloc, cuMemAlloc_v2, (CUdeviceptr * address, size_t size), (address, size))
METERED(free, cuMemFree_v2, (CUdeviceptr address), (address))

void gm_meter_open(struct gm_driver *driver, uint64_t memory)
{
	gm_null_load(&plain, memory);
	memset(&meter, 0, sizeof meter);
	*driver = plain;
	driver->cuMemCreate = metered_create;
	driver->cuMemMap = metered_map;
	driver->cuMemSetAccess = metered_access;
	driver->cuMemUnmap = metered_unmap;
	driver->cuMemRelease = metered_release;
	driver->cuMemAlloc_v2 = metered_alloc;
	driver->cuMemFree_v2 = metered_free;
}

void gm_meter_read(struct gm_meter *out)
{
	*out = meter;
}

void gm_meter_close(void)
{
	gm_null_load(&plain, 0);
}
