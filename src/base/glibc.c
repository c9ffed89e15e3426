/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/debug.h"

#ifdef GM_GLIBC_LATE

#define GM_WEAK __attribute__((weak, visibility("default")))

/* What the dynamic linker finds at load; after that gm_late_<function> is the one to ask. */
#define GM_LATE(function, version)                                       \
	extern __typeof__(function) at_load_##function GM_WEAK;          \
	__asm__(".symver at_load_" #function "," #function "@" version); \
	__typeof__(function) *gm_late_##function = at_load_##function;
#include "base/glibc.def"
#undef GM_LATE

const struct gm_late gm_late_table[] = {
#define GM_LATE(function, version) {#function, (void **)(void *)&gm_late_##function},
#include "base/glibc.def"
#undef GM_LATE
};
const unsigned gm_late_count = sizeof gm_late_table / sizeof *gm_late_table;

#endif
