/* SPDX-License-Identifier: BSD-3-Clause */
/* A name of a call stack for a message, from its known frames. Any thread. */
#ifndef GM_STACK_NAME_H
#define GM_STACK_NAME_H

#include <stddef.h>
#include <stdint.h>

/*
 * The innermost Python frame, "train (train.py:7)"; else the innermost C frame outside CUDA's own
 * libraries, if there is one, "libone.so+0x16b". gpumemstat finds its function later: dladdr takes
 * the dynamic linker's lock, which is held while constructors run. Takes GM_LOCK_RANK_STACK and
 * GM_LOCK_RANK_STRING. Returns `buf`; "" for a number without a stack.
 */
char *gm_stack_name(uint32_t number, char *buf, size_t n);

#endif
