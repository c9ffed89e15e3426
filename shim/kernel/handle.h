/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modules, libraries and their kernels, by the driver's handles: may they call malloc? Any thread.
 * A look-up is lock-free, but for the image of an unread handle.
 */
#ifndef GM_SHIM_KERNEL_HANDLE_H
#define GM_SHIM_KERNEL_HANDLE_H

enum gm_handle_kind {
	GM_HANDLE_UNKNOWN,   /* a call that is not hooked gave it */
	GM_HANDLE_HARMLESS,  /* it never calls malloc */
	GM_HANDLE_ALLOCATES, /* it may */
	GM_HANDLE_UNREAD     /* its image, which stays where it is, has not been read */
};

/* The kind of a CUmodule, CUlibrary, CUfunction or CUkernel: no two live handles are equal. */
enum gm_handle_kind gm_handle_kind(const void *handle);

/* Remember a handle that the driver has just given. For lack of host memory it stays unknown. */
void gm_handle_remember(const void *handle, enum gm_handle_kind kind);

/* Likewise an unread one: its image is read at the first look-up of something in it. */
void gm_handle_remember_unread(const void *handle, const void *image);

/* The image of an unread handle; NULL: it is not unread, or no longer. */
const void *gm_handle_unread(const void *handle);

/* The image of an unread handle was read. No effect if the handle has another image by now. */
void gm_handle_read(const void *handle, const void *image, enum gm_handle_kind kind);

/* modules.h */
void gm_handle_forget_all(void);

#endif
