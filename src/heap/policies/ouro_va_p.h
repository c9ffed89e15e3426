/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `ouro-va-p`: Ouro-VA-P of Winter's thesis (2021). 5.4.1: slots on queue chunks, an array
 * of pointers to them a size; 5.3.1: queues of pages.
 */
#ifndef GM_HEAP_POLICIES_OURO_VA_P_H
#define GM_HEAP_POLICIES_OURO_VA_P_H

#include "heap/policies/ouro_policy.h"

GM_OURO_POLICY(ouro_va_p, page, GM_OURO_VA)

#endif
