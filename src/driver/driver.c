/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/driver.h"

#include <stddef.h>

#include "base/thread.h"

enum presence { OPTIONAL, NEEDED };

const char *gm_driver_load(struct gm_driver *driver, void *(*lookup)(void *arg, const char *symbol),
			   void *arg)
{
	static const struct {
		const char *symbol;
		size_t offset;
		enum presence presence;
	} calls[] = {
#define GM_CALL(presence, since, symbol, proto) \
	{#symbol, offsetof(struct gm_driver, symbol), presence},
#include "driver/calls.def"
#undef GM_CALL
	};
	driver->version = 0;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		void *entry = lookup(arg, calls[i].symbol);
		if (!entry && calls[i].presence == NEEDED)
			return calls[i].symbol;
		*(void **)((char *)driver + calls[i].offset) = entry;
	}
	return NULL;
}

CUresult gm_driver_query_version(struct gm_driver *driver)
{
	CUresult result = driver->cuDriverGetVersion(&driver->version);
	if (result != CUDA_SUCCESS)
		return result;
		/* An export newer than the driver's version is a stub. */
#define GM_CALL(presence, since, symbol, proto)                \
	if (presence == OPTIONAL && (since) > driver->version) \
		driver->symbol = NULL;
#include "driver/calls.def"
#undef GM_CALL
	return CUDA_SUCCESS;
}

const char *gm_driver_error(const struct gm_driver *driver, CUresult result)
{
	const char *name = NULL;
	if (driver->cuGetErrorName && driver->cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
		return name;
	return "an unknown CUDA error";
}

CUstreamCaptureMode gm_driver_quiet_begin(const struct gm_driver *driver)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	gm_thread_hold_cancel();
	driver->cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

void gm_driver_quiet_end(const struct gm_driver *driver, CUstreamCaptureMode before)
{
	driver->cuThreadExchangeStreamCaptureMode(&before);
	gm_thread_let_cancel();
}
