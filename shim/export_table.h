/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of functions that the driver returns from cuGetExportTable. A library may launch work
 * by them past gpumem's hooks, so a process with an unknown table is not put to sleep, and
 * GPUMEM_FREE=ordered acts as defer. Any thread, no lock held; also before cuInit.
 */
#ifndef GM_SHIM_EXPORT_TABLE_H
#define GM_SHIM_EXPORT_TABLE_H

#include <stdbool.h>

#define GM_EXPORT_TABLE_NAME 80 /* room for a name */

/* The first unknown table that was returned to a caller: its identifier and the caller's file. The
 * text is never freed; NULL: no such table. */
const char *gm_export_table_unknown(void);

#endif
