/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `ouro-va-c`: Ouro-VA-C of Winter's thesis (2021). 5.4.1: slots on queue chunks, an array
 * of pointers to them a size; 5.3.2: queues of chunks with free pages.
 */
#ifndef GM_HEAP_POLICIES_OURO_VA_C_H
#define GM_HEAP_POLICIES_OURO_VA_C_H

#include "heap/policies/ouro_policy.h"

GM_OURO_POLICY(ouro_va_c, chunk, GM_OURO_VA)

#endif
