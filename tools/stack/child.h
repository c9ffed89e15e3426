/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs programs of binutils as children: their input is a file without a name, their output a pipe.
 * Single-threaded. */
#ifndef GM_TOOLS_STACK_CHILD_H
#define GM_TOOLS_STACK_CHILD_H

#include <stddef.h>

#define GM_CHILD_WORDS 8

/*
 * Run the first installed tool of n, with `words` as its arguments and `input` on its standard
 * input. Its standard error is discarded. Returns its output, ended by a 0; the caller frees. A
 * tool that takes more than `seconds`, or writes more than `most` bytes, is killed. NULL: no tool
 * is installed, or the tool was killed. Ends the program when memory is short.
 */
char *gm_child_ask(const char *const *tools, size_t n, const char *const words[GM_CHILD_WORDS],
		   const char *input, size_t most, unsigned seconds);

/*
 * Demangle names of C++ by c++filt or llvm-cxxfilt: each mangled names[i] is replaced. The new
 * names point into *text; the caller frees it. Without either tool no name changes.
 */
void gm_child_demangle(const char **names, size_t n, char **text);

#endif
