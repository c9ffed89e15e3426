/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of functions that the driver returns from cuGetExportTable. A library may launch work
 * by them past gpumem's hooks. tables.def has those that are known. Under GPUMEM_FREE=ordered or
 * GPUMEM_SLEEP=1 an unknown table is handed out as a copy that counts calls as submissions
 * (wrap.h); if that cannot be, or does not suffice, both modes are off for the process. Any thread,
 * no lock held; also before cuInit.
 */
#ifndef GM_SHIM_EXPORT_TABLE_TABLES_H
#define GM_SHIM_EXPORT_TABLE_TABLES_H

#include <stdbool.h>

#define GM_TABLES_NAME 80 /* room for a name */

/* The table that switched the modes off: its identifier and the file that asked for it. The text is
 * never freed; NULL: none did. */
const char *gm_tables_refuses(void);

/* modules.h. start: names the tables that were asked for before, in the log. report: puts the
 * number of calls of each function into the log. */
void gm_tables_start(void);
void gm_tables_report(void);
void gm_tables_forget(void);

#endif
