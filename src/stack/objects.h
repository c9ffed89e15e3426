/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program and its shared objects, for frames that name an object and an address in it: such a
 * frame has a meaning after the process. Each object has an OBJECT record. Any thread.
 */
#ifndef GM_STACK_OBJECTS_H
#define GM_STACK_OBJECTS_H

#include <stdint.h>

#include "log/record.h"

/* Read the list of loaded objects again if one was loaded or unloaded. pre: no lock is held, for
 * the dynamic linker takes its own. */
void gm_objects_refresh(void);

/* Changes whenever an object is loaded or unloaded; of the last refresh. */
uint64_t gm_objects_generation(void);

/* Fill in object and place of a frame for each address. Takes GM_LOCK_RANK_STACK. */
void gm_objects_place(const uintptr_t *addresses, uint32_t n, struct gm_frame *out);

/* The addresses [*low, *high) of the object that holds `address`; both 0: none does. Takes
 * GM_LOCK_RANK_STACK. */
void gm_objects_range(const void *address, uintptr_t *low, uintptr_t *high);

/* The number of the string that names the object of this number; 0: there is none. Takes
 * GM_LOCK_RANK_STACK. */
uint32_t gm_objects_path(uint32_t number);

/* Write the OBJECT records that these frames refer to, unless segment `sequence` has them. */
void gm_objects_write(const struct gm_frame *frames, uint32_t n, uint64_t sequence);

/* In a forked child: start empty. */
void gm_objects_forget(void);

#endif
