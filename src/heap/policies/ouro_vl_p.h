/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `ouro-vl-p`: Ouro-VL-P of Winter's thesis (2021). 5.4.2: slots on queue chunks, in one
 * list a size; 5.3.1: queues of pages.
 */
#ifndef GM_HEAP_POLICIES_OURO_VL_P_H
#define GM_HEAP_POLICIES_OURO_VL_P_H

#include "heap/policies/ouro_policy.h"

GM_OURO_POLICY(ouro_vl_p, page, GM_OURO_VL)

#endif
