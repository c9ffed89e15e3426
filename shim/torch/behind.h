/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The definition that a function of PyTorch would be without the preload, which defines the
 * function, too. Any thread.
 *
 * The loader places a library before those that it needs, unless these were there already. Python
 * loads extension modules into no global scope, where RTLD_NEXT finds nothing; and dlsym would take
 * the loader's lock, under the mutex of c10. So the definition is found behind the library that
 * calls, or else behind the preload.
 */
#ifndef GM_SHIM_TORCH_BEHIND_H
#define GM_SHIM_TORCH_BEHIND_H

#include <stdatomic.h>

struct gm_behind {
	const char *symbol;
	const void *own; /* an address in the preload: its definition, if it has one */
	_Atomic(void *) found;
};

/* The definition for a call from `caller`; NULL: there is none, and a later call searches again.
 * One definition is kept: a process has one PyTorch. */
void *gm_behind_find(struct gm_behind *behind, const void *caller);

#endif
