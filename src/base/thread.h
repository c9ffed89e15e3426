/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads by numbers, so that each has places of its own in small tables. */
#ifndef GM_BASE_THREAD_H
#define GM_BASE_THREAD_H

#include "base/debug.h"

/* The calling thread's number, from 1 on; 0: it has none yet. */
extern GM_TLS unsigned gm_thread_given;
unsigned gm_thread_give(void);

/* How many threads asked before the calling one did: it stays the same for its life. */
static inline unsigned gm_thread_index(void)
{
	return (GM_LIKELY(gm_thread_given) ? gm_thread_given : gm_thread_give()) - 1;
}

#endif
