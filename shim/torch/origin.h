/* SPDX-License-Identifier: BSD-3-Clause */
/* Who called cudaMalloc: PyTorch's cache, or a library that merely uses PyTorch? Any thread, no
 * lock held. */
#ifndef GM_SHIM_TORCH_ORIGIN_H
#define GM_SHIM_TORCH_ORIGIN_H

#include <stdbool.h>

#include "shim/entry/object.h"

/* Did an object named libc10_cuda make the call of CUDA that this thread is in, by itself? Frames
 * of gpumem, of the runtime and of the driver are skipped. *out is then that object. Walks a few
 * frames of the stack, some 2 us. False also if there is no unwinder. */
bool gm_origin_is_cache(struct gm_object *out);

#endif
