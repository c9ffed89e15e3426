/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions and lines of C and C++ frames, found after the run in the files that were loaded. A
 * file counts only if its build-id is the one in the log. addr2line of binutils reads its debug
 * information, also that of /usr/lib/debug by build-id, and its symbols; llvm-addr2line and
 * eu-addr2line take the same arguments. They run as children, one for each file. libdw would do
 * the same within gpumemstat, but then gpumemstat would need it. Single-threaded.
 */
#ifndef GM_TOOLS_STACK_SYMBOLS_H
#define GM_TOOLS_STACK_SYMBOLS_H

#include "base/array.h"
#include "log/read.h"

struct gm_symbol {
	const char *function, *file; /* NULL: not known */
	unsigned line;		     /* 0: not known */
};

struct gm_symbols_place {
	uint32_t object;
	uint64_t place;
	size_t first, n; /* in `found`: inlined functions first; n 0: nothing is known */
};

struct gm_symbols_object {
	uint32_t number;
	const char *why; /* no symbols: "is not here"; NULL: it was read */
};

struct gm_symbols {
	const struct gm_log_file *file;
	GM_ARRAY(struct gm_symbols_place) places; /* sorted, once resolved */
	GM_ARRAY(struct gm_symbol) found;
	GM_ARRAY(struct gm_symbols_object) objects;
	GM_ARRAY(char *) texts; /* what the symbols point into */
};

/* Ask for the symbols of a frame; then find those of all that were asked for. Both end the program
 * when memory is short. */
void gm_symbols_want(struct gm_symbols *symbols, const struct gm_frame *frame);
void gm_symbols_resolve(struct gm_symbols *symbols);

/* The functions at a frame, the innermost first, *n of them. pre: it was asked for. */
const struct gm_symbol *gm_symbols_at(const struct gm_symbols *symbols,
				      const struct gm_frame *frame, size_t *n);

void gm_symbols_free(struct gm_symbols *symbols);

/* In build_id.c: the build-id of an ELF file, at most `room` bytes of it. Returns its length; 0: it
 * has none, or is no ELF file of 64 bits. */
size_t gm_build_id_read(const char *path, uint8_t *id, size_t room);

#endif
