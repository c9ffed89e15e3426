/* SPDX-License-Identifier: BSD-3-Clause */
/* Included before every file of a coverage build: counts are written at exit, and by this header at
 * _exit. */
#ifndef GM_TESTS_COVERAGE_H
#define GM_TESTS_COVERAGE_H
#ifndef __ASSEMBLER__

#include <gcov.h>

extern void _exit(int status) __attribute__((noreturn));

__attribute__((noreturn)) static inline void gm_coverage_exit(int status)
{
	__gcov_dump();
	_exit(status);
}
#define _exit gm_coverage_exit

#endif
#endif
