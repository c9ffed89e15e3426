/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions and lines of C and C++ frames, found after the run in the files of the program. A file
 * counts only if its build-id equals that in the log. addr2line of binutils reads its symbols and
 * its debug information, also from /usr/lib/debug by build-id. llvm-addr2line and eu-addr2line take
 * the same arguments. One child runs for each file. libdw could do this within gpumemstat, but
 * would be a dependency. Single-threaded.
 */
#ifndef GM_TOOLS_STACK_SYMBOLS_H
#define GM_TOOLS_STACK_SYMBOLS_H

#include "base/array.h"
#include "log/read.h"

struct gm_symbol {
	const char *function, *file; /* NULL: unknown */
	unsigned line;		     /* 0: unknown */
};

struct gm_symbols_place {
	uint32_t object;
	uint64_t place;
	size_t first, n; /* in `found`: inlined functions first; n 0: unknown */
	bool covered;	 /* lies within a symbol of the file */
};

struct gm_symbols_object {
	uint32_t number;
	const char *why; /* reason for missing symbols: "is not here"; NULL: read */
};

struct gm_symbols {
	const struct gm_log_file *file;
	GM_ARRAY(struct gm_symbols_place) places; /* sorted after gm_symbols_resolve */
	GM_ARRAY(struct gm_symbol) found;
	GM_ARRAY(struct gm_symbols_object) objects;
	GM_ARRAY(char *) texts; /* memory of the symbols' strings */
};

/* _want: request the symbols of a frame. _resolve: find all requested symbols. Both end the program
 * when memory is short. */
void gm_symbols_want(struct gm_symbols *symbols, const struct gm_frame *frame);
void gm_symbols_resolve(struct gm_symbols *symbols);

/* The *n functions at a frame, the innermost first. pre: they were requested. */
const struct gm_symbol *gm_symbols_at(const struct gm_symbols *symbols,
				      const struct gm_frame *frame, size_t *n);

void gm_symbols_free(struct gm_symbols *symbols);

/* covered.c: mark those of n sorted places that lie within a symbol of an ELF file. */
void gm_symbols_cover(const char *path, struct gm_symbols_place *places, size_t n);

/* build_id.c: read at most `room` bytes of an ELF file's build-id. Returns its length; 0: no
 * build-id, or no 64-bit ELF file. */
size_t gm_build_id_read(const char *path, uint8_t *id, size_t room);

#endif
