/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of modules, libraries, and the kernels in them: may they call malloc? Any thread;
 * looking up is lock-free, but for the image of what is unread.
 */
#ifndef GM_SHIM_HANDLE_H
#define GM_SHIM_HANDLE_H

enum gm_handle_kind {
	GM_HANDLE_UNKNOWN,   /* it came by a way that is not hooked */
	GM_HANDLE_HARMLESS,  /* it never calls malloc */
	GM_HANDLE_ALLOCATES, /* it may */
	GM_HANDLE_UNREAD     /* nobody has looked at its image so far, which stays where it is */
};

/* CUmodule, CUlibrary, CUfunction, CUkernel: no two that live are equal, of whatever type. */
enum gm_handle_kind gm_handle_kind(const void *handle);

/* One that the driver has just handed out. Nothing is remembered for lack of host memory: it is
 * unknown then. */
void gm_handle_note(const void *handle, enum gm_handle_kind kind);

/* The same of one whose image is to be looked at when somebody asks for what is in it. */
void gm_handle_note_unread(const void *handle, const void *image);

/* That image; NULL: it is not unread, or no longer. */
const void *gm_handle_unread(const void *handle);

/* The image of an unread one was looked at. No effect if the handle has become something else. */
void gm_handle_read(const void *handle, const void *image, enum gm_handle_kind kind);

/* In a forked child. */
void gm_handle_forget_all(void);

#endif
