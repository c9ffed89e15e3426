/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of modules, libraries, and the kernels in them: may they call malloc? Any thread;
 * looking up is lock-free.
 */
#ifndef GM_SHIM_HANDLE_H
#define GM_SHIM_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>

enum gm_handle_kind {
	GM_HANDLE_UNKNOWN,  /* it came by a way that is not hooked */
	GM_HANDLE_HARMLESS, /* it never calls malloc */
	GM_HANDLE_ALLOCATES /* it may */
};

/* CUmodule, CUlibrary, CUfunction, CUkernel: no two that live are equal, of whatever type. */
enum gm_handle_kind gm_handle_kind(const void *handle);

/* One that the driver has just handed out. Nothing is remembered for lack of host memory: it is
 * unknown then. */
void gm_handle_note(const void *handle, enum gm_handle_kind kind);

/* Was any noted that allocates? */
extern atomic_bool gm_handle_any;

/* In a forked child. */
void gm_handle_forget_all(void);

#endif
