/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_SHIM_LATE_H
#define GM_SHIM_LATE_H

/*
 * Before anything of libdl or libpthread (base/glibc.h) is called: look for what was not there when
 * the preload was loaded. NULL: all of it is there; else the name of a function that no object of
 * this process has. Any thread, at any time.
 */
const char *gm_late_missing(void);

#endif
