/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modules, libraries and their kernels, by the driver's handles: may they call malloc? Any thread.
 * A look-up is lock-free, except for the image of an unread handle.
 */
#ifndef GM_SHIM_KERNEL_HANDLE_H
#define GM_SHIM_KERNEL_HANDLE_H

enum gm_handle_kind {
	GM_HANDLE_UNKNOWN,   /* from a call that is not hooked */
	GM_HANDLE_HARMLESS,  /* it never calls malloc */
	GM_HANDLE_ALLOCATES, /* it may call malloc */
	GM_HANDLE_UNREAD     /* its image, which stays in place, has not been read */
};

/* The kind of a CUmodule, CUlibrary, CUfunction or CUkernel: no two live handles are equal. */
enum gm_handle_kind gm_handle_kind(const void *handle);

/* Store a new handle of the driver. Without host memory it stays unknown. */
void gm_handle_remember(const void *handle, enum gm_handle_kind kind);

/* Put: store the name of a kernel with a stored handle. gm_handle_name returns this name, valid
 * until the process ends; NULL: unknown. */
void gm_handle_put_name(const void *handle, const char *name);
const char *gm_handle_name(const void *handle);

/* Store an unread handle: its image is read at the first look-up in it. */
void gm_handle_remember_unread(const void *handle, const void *image);

/* The image of an unread handle; NULL: the handle is not unread. */
const void *gm_handle_unread(const void *handle);

/* Store the kind of an unread handle, read from `image`. No effect if it has another image by
 * now. */
void gm_handle_read(const void *handle, const void *image, enum gm_handle_kind kind);

/* modules.h */
void gm_handle_forget_all(void);

#endif
