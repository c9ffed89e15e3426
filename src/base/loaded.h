/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared objects of the process. */
#ifndef GM_BASE_LOADED_H
#define GM_BASE_LOADED_H

#include <stddef.h>

/* The file name, without its folder, of an object whose file name begins with one of `n` texts;
 * NULL: none is loaded. The name lives as long as the object. Any thread; takes the loader's lock.
 */
const char *gm_loaded_find(const char *const *beginnings, size_t n);

/* How often an object was loaded or unloaded so far. Any thread; takes the loader's lock. */
unsigned long long gm_loaded_changes(void);

#endif
