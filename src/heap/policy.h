/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of policies; `policy` is a row of it (gm_heap_policy). Constant: any thread. */
#ifndef GM_HEAP_POLICY_H
#define GM_HEAP_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the policy's memory for `capacity` granules. */
size_t gm_heap_policy_bytes(unsigned policy, uint32_t capacity);

/* Can a heap be read while kernels allocate from it? */
bool gm_heap_policy_is_steady(unsigned policy);

/* The policy's name in the name of its kernel: gm_heap_run_<symbol>. */
const char *gm_heap_policy_symbol(unsigned policy);

#endif
