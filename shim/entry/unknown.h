/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the driver that src/driver/exports.txt does not have, and that the program asked
 * for, by dlsym or cuGetProcAddress. They may submit work past the door. A driver that is merely
 * newer has such functions, too, but nobody asks for them.
 */
#ifndef GM_SHIM_ENTRY_UNKNOWN_H
#define GM_SHIM_ENTRY_UNKNOWN_H

#include <stdbool.h>
#include <stddef.h>

/* The program asks for `symbol`, which has no hook. `given`: the driver gave it a function that is
 * no export, so perhaps another one than the list has. Any thread; allocates nothing. */
void gm_unknown_add(const char *symbol, bool given);

/* Has the program asked for an unknown function that the driver has? Then its name is in `name`, of
 * `size` bytes, cut if it is longer. */
bool gm_unknown_find(char *name, size_t size);

#endif
