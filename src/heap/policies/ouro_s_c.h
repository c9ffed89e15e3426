/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `ouro-s-c`: Ouro-S-C of Winter's thesis (2021). 5.3: one ring of slots a size, made with
 * the heap; 5.3.2: queues of chunks with free pages.
 */
#ifndef GM_HEAP_POLICIES_OURO_S_C_H
#define GM_HEAP_POLICIES_OURO_S_C_H

#include "heap/policies/ouro_policy.h"

GM_OURO_POLICY(ouro_s_c, chunk, GM_OURO_S)

#endif
