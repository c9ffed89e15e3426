/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequences of numbers in little text, for the scripts of tools/report/: LEB128 (seven bits a byte,
 * the lowest first), as base64. Single-threaded; functions end the program when memory is short.
 */
#ifndef GM_TOOLS_OUTPUT_PACK_H
#define GM_TOOLS_OUTPUT_PACK_H

#include <stdint.h>

#include "base/array.h"

/* Begins zeroed. */
struct gm_pack {
	GM_ARRAY(uint8_t) bytes;
};

void gm_pack_number(struct gm_pack *pack, uint64_t n);

/* In zigzag order: 0, -1, 1, -2 ... are 0, 1, 2, 3 ... */
void gm_pack_difference(struct gm_pack *pack, int64_t n);

/* The text, ended by a 0, which the caller frees. Frees the numbers. */
char *gm_pack_end(struct gm_pack *pack);

#endif
