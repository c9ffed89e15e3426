/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program and its shared objects. A frame names an object and an address in it, so that it has
 * a meaning after the process. Each object has an OBJECT record. Any thread.
 */
#ifndef GM_STACK_OBJECTS_H
#define GM_STACK_OBJECTS_H

#include <stdint.h>

#include "log/record.h"

/* Read the list of loaded objects again after a load or unload. pre: no lock is held, for the
 * dynamic linker takes its own. */
void gm_objects_refresh(void);

/* A number that changes with each load or unload of an object; as of the last refresh. */
uint64_t gm_objects_generation(void);

/* Fill in the object and place of a frame for each address. Takes GM_LOCK_RANK_STACK. */
void gm_objects_place(const uintptr_t *addresses, uint32_t n, struct gm_frame *out);

/* The addresses [*low, *high) of the object that holds `address`; both 0: no such object. Takes
 * GM_LOCK_RANK_STACK. */
void gm_objects_range(const void *address, uintptr_t *low, uintptr_t *high);

/* The string number of the object's path; 0: no such object. Takes GM_LOCK_RANK_STACK. */
uint32_t gm_objects_path(uint32_t number);

/* Write the OBJECT records of these frames, except those that segment `sequence` has. */
void gm_objects_write(const struct gm_frame *frames, uint32_t n, uint64_t sequence);

/* In a forked child: start empty. */
void gm_objects_forget(void);

#endif
