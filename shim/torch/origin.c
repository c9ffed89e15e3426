/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/origin.h"

#include <pthread.h>
#include <string.h>

#include "base/debug.h"
#include "stack/cfi.h"
#include "stack/unwind.h"

enum { MOST_FRAMES = 16 };

static bool has_unwinder;

static void unwinder_open(void)
{
	has_unwinder = gm_cfi_open();
}

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* Objects between the caller of cudaMalloc and the driver. */
static bool is_between(const char *name)
{
	return begins(name, "libcudart") || begins(name, "libcuda.") || begins(name, "libcupti") ||
	       begins(name, "libgpumem");
}

bool gm_origin_is_cache(struct gm_object *out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct gm_unwound frames = {0}; /* on the stack: a thread has little static memory */
	pthread_once(&once, unwinder_open);
	if (!has_unwinder)
		return false;
	gm_unwind(&frames, MOST_FRAMES, (struct gm_span){0}, (struct gm_span){0});
	for (uint32_t i = 0; i < frames.n; i++) {
		if (!gm_object_at((const void *)frames.addresses[i], out) || !out->path)
			return false;
		const char *slash = strrchr(out->path, '/');
		const char *name = slash ? slash + 1 : out->path;
		if (!is_between(name))
			return begins(name, "libc10_cuda.");
	}
	return false;
}
