/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of the shim.
 *
 *                    cuInit succeeds, and gpumem is wanted
 *     DORMANT -------------------------------------------------> ACTIVE
 *        |  ^                                                      |
 *        |  '--------------------- fork, in the child -------------'
 *        '---> OFF: GPUMEM_ENABLE=0, another GPUMEM_PROGRAM, a driver that
 *              lacks a call
 *
 * While DORMANT and OFF handlers only forward. While DORMANT the shim has no thread, file, output,
 * allocation or driver call. A process that sleeps (GPUMEM_SLEEP) is ACTIVE.
 */
#ifndef GM_SHIM_LIFE_H
#define GM_SHIM_LIFE_H

#include <stdatomic.h>

#include "base/debug.h"

enum gm_shim_state { GM_SHIM_DORMANT, GM_SHIM_ACTIVE, GM_SHIM_OFF };
extern GM_HIDDEN _Atomic(enum gm_shim_state) gm_shim_state;

#endif
