/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/entry/glibc_late.h"

#include <stddef.h>

#include "shim/entry/object.h"

#ifdef GM_GLIBC_LATE
const char *gm_glibc_late_missing(void)
{
	for (unsigned i = 0; i < gm_glibc_late_count; i++) {
		const struct gm_glibc_late *late = &gm_glibc_late_table[i];
		struct gm_object object;
		if (__atomic_load_n(late->address, __ATOMIC_RELAXED))
			continue;
		if (!gm_object_behind(gm_glibc_late_table, late->function, &object))
			return late->function;
		__atomic_store_n(late->address, gm_object_symbol(&object, late->function),
				 __ATOMIC_RELAXED);
	}
	return NULL;
}
#else
const char *gm_glibc_late_missing(void)
{
	return NULL;
}
#endif
