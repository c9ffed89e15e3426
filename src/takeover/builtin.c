/* SPDX-License-Identifier: BSD-3-Clause */
/* The helpers of this build: images.S, which local.mk makes if configure found an nvcc. */
#include <stddef.h>

#include "takeover/takeover.h"

#ifdef GM_HELPERS

#define IMAGE(n) extern const char gm_helper_##n##_code[], gm_helper_##n##_code##_ptx[];
#define GM_POLICY(name, n, can) IMAGE(n)
#include "heap/device/policy.def"
#undef GM_POLICY
IMAGE(runtime)
IMAGE(empty)

/* Not a table: its pointers would have to be relocated in every process. */
struct gm_takeover_images gm_takeover_images(unsigned policy)
{
	struct gm_takeover_images images = {.runtime = gm_helper_runtime_code,
					    .runtime_ptx = gm_helper_runtime_code_ptx,
					    .empty = gm_helper_empty_code,
					    .empty_ptx = gm_helper_empty_code_ptx};
	unsigned row = 0;
#define GM_POLICY(name, n, can)                                 \
	if (row++ == policy) {                                  \
		images.helper = gm_helper_##n##_code;           \
		images.helper_ptx = gm_helper_##n##_code##_ptx; \
	}
#include "heap/device/policy.def"
#undef GM_POLICY
	return images;
}

#else

struct gm_takeover_images gm_takeover_images(unsigned policy)
{
	(void)policy;
	return (struct gm_takeover_images){0};
}

#endif
