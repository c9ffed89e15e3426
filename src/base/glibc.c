/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/debug.h"

#ifdef GM_GLIBC_LATE

#define GM_WEAK __attribute__((weak, visibility("default")))

/* The dynamic linker's result at load is the first value of gm_glibc_late_<function>. */
#define GM_GLIBC_LATE_ROW(function, version)                             \
	extern __typeof__(function) at_load_##function GM_WEAK;          \
	__asm__(".symver at_load_" #function "," #function "@" version); \
	__typeof__(function) *gm_glibc_late_##function = at_load_##function;
#include "base/glibc.def"
#undef GM_GLIBC_LATE_ROW

const struct gm_glibc_late gm_glibc_late_table[] = {
#define GM_GLIBC_LATE_ROW(function, version) \
	{#function, (void **)(void *)&gm_glibc_late_##function},
#include "base/glibc.def"
#undef GM_GLIBC_LATE_ROW
};
const unsigned gm_glibc_late_count = sizeof gm_glibc_late_table / sizeof *gm_glibc_late_table;

#endif
