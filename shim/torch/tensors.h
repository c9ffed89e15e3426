/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors behind PyTorch's cache. The allocator of c10 calls c10::reportMemoryUsageToProfiler for
 * each tensor that it hands out of a segment or takes back, under its mutex; the function does
 * nothing unless a profiler runs. The preload defines it, notes the tensor, and calls the
 * definition that the caller's library would have got. Its mangled name has the types of its
 * parameters: a release with another form never calls this one, and blocks are segments as before.
 *
 *     c10: malloc, free -> gm_tensors_report -> counters, table, log -> c10's own definition
 *
 * Segments are blocks of the pool; tensors lie in them. The log has both.
 */
#ifndef GM_SHIM_TORCH_TENSORS_H
#define GM_SHIM_TORCH_TENSORS_H

#include "log/record.h"

/* Call each(arg, record) with a TENSOR_LIVE record of each tensor alive. Any thread; takes the lock
 * of the tensors, under which `each` must not allocate tensors. */
void gm_tensors_walk(void (*each)(void *arg, const struct gm_record *live), void *arg);

/* No tensor is known from now on. Takes the lock of the tensors. */
void gm_tensors_clear(void);

/* A recording has begun: walks have a record for all tensors that live and are not known
 * (GM_TENSORS_BEFORE). Takes the lock of the tensors. */
void gm_tensors_add_before(void);

/* In a forked child: no tensor is known. */
void gm_tensors_forget(void);

#endif
