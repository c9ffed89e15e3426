/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `ouro-s-p`: Ouro-S-P of Winter's thesis (2021). 5.3: one ring of slots a size, made with
 * the heap; 5.3.1: queues of pages.
 */
#ifndef GM_HEAP_POLICIES_OURO_S_P_H
#define GM_HEAP_POLICIES_OURO_S_P_H

#include "heap/policies/ouro_policy.h"

GM_OURO_POLICY(ouro_s_p, page, GM_OURO_S)

#endif
