/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_SHIM_ENTRY_GLIBC_LATE_H
#define GM_SHIM_ENTRY_GLIBC_LATE_H

/*
 * Before the first call of libdl or libpthread (base/glibc.h): find the functions that were missing
 * when the preload was loaded. NULL: all are there; else the name of a function that no object of
 * this process has. Any thread, at any time.
 */
const char *gm_glibc_late_missing(void);

#endif
