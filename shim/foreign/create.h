/* SPDX-License-Identifier: BSD-3-Clause */
/* Physical memory that the program creates and maps itself: cuMemCreate. */
#ifndef GM_SHIM_FOREIGN_CREATE_H
#define GM_SHIM_FOREIGN_CREATE_H

/* modules.h */
void gm_create_forget_all(void);

#endif
