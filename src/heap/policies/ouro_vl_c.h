/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `ouro-vl-c`: Ouro-VL-C of Winter's thesis (2021). 5.4.2: slots on queue chunks, in one
 * list a size; 5.3.2: queues of chunks with free pages.
 */
#ifndef GM_HEAP_POLICIES_OURO_VL_C_H
#define GM_HEAP_POLICIES_OURO_VL_C_H

#include "heap/policies/ouro_policy.h"

GM_OURO_POLICY(ouro_vl_c, chunk, GM_OURO_VL)

#endif
