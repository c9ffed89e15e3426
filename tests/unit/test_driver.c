/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading struct gm_driver from a lookup. */
#include "driver/driver.h"

#include <string.h>

#include "../tap.h"

static CUresult version(int *out)
{
	*out = 12050;
	return CUDA_SUCCESS;
}

static CUresult no_name(CUresult error, const char **name)
{
	(void)error;
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

static CUstreamCaptureMode mode;

static CUresult exchange(CUstreamCaptureMode *in_out)
{
	CUstreamCaptureMode before = mode;
	mode = *in_out;
	*in_out = before;
	return CUDA_SUCCESS;
}

/* Every symbol but the one named by arg. */
static void *lookup(void *arg, const char *symbol)
{
	if (arg && strcmp(arg, symbol) == 0)
		return NULL;
	if (strcmp(symbol, "cuGetErrorName") == 0)
		return (void *)no_name;
	if (strcmp(symbol, "cuThreadExchangeStreamCaptureMode") == 0)
		return (void *)exchange;
	return (void *)version;
}

int main(void)
{
	static const struct {
		const char *symbol;
		bool needed;
	} calls[] = {
#define OPTIONAL false
#define NEEDED true
#define GM_CALL(presence, since, symbol, proto) {#symbol, presence},
#include "driver/calls.def"
#undef GM_CALL
	};
	struct gm_driver d;
	TAP_STR(gm_driver_load(&d, lookup, NULL), NULL, "all calls are loaded");
	TAP_IS(d.version, 0, "no call was made");
	TAP_IS(gm_driver_query_version(&d), CUDA_SUCCESS, "the driver's version is asked for");
	TAP_IS(d.version, 12050, "the driver's version is stored");
	TAP_STR(gm_driver_error(&d, CUDA_ERROR_UNKNOWN), "an unknown CUDA error",
		"an error without a name has a text");
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		const char *missing =
			gm_driver_load(&d, lookup, (void *)(uintptr_t)calls[i].symbol);
		if (calls[i].needed)
			TAP_STR(missing, calls[i].symbol, "%s is needed to load the driver",
				calls[i].symbol);
		else
			TAP_OK(!missing, "%s is not needed to load the driver", calls[i].symbol);
	}
	gm_driver_load(&d, lookup, NULL);
	CUstreamCaptureMode outer = gm_driver_quiet_begin(&d);
	TAP_IS(mode, CU_STREAM_CAPTURE_MODE_RELAXED, "a quiet mode is a relaxed capture mode");
	CUstreamCaptureMode inner = gm_driver_quiet_begin(&d);
	gm_driver_quiet_end(&d, inner);
	TAP_IS(mode, CU_STREAM_CAPTURE_MODE_RELAXED, "quiet modes of a thread nest");
	gm_driver_quiet_end(&d, outer);
	TAP_IS(mode, CU_STREAM_CAPTURE_MODE_GLOBAL, "the outer end restores the mode");
	return tap_done();
}
