/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of functions that the driver hands out by cuGetExportTable. A library may launch work
 * by them past gpumem's hooks, so a process that has got an unknown one is not put to sleep, and
 * GPUMEM_FREE=ordered acts as defer. Any thread, no lock held; also before cuInit.
 */
#ifndef GM_SHIM_TABLE_H
#define GM_SHIM_TABLE_H

#include <stdbool.h>

#define GM_TABLE_NAME 80 /* room for a name */

/* Was an unknown table handed out? The first such: its identifier and the file that asked. The
 * text lives for ever; NULL: none. */
const char *gm_table_unknown(void);

#endif
