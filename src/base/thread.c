/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <stdatomic.h>

GM_TLS unsigned gm_thread_given;

unsigned gm_thread_give(void)
{
	static atomic_uint given;
	gm_thread_given = atomic_fetch_add_explicit(&given, 1, memory_order_relaxed) + 1;
	return gm_thread_given;
}
