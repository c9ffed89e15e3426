/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and expressions in call frame information: DWARF 5, sections 7.6 and 2.5. */
#ifndef GM_STACK_CFI_VALUE_H
#define GM_STACK_CFI_VALUE_H

#include <string.h>

#include "stack/cfi.h"

static inline uint64_t gm_cfi_bytes_take(const uint8_t **at, unsigned n)
{
	uint64_t value = 0;
	memcpy(&value, *at, n);
	*at += n;
	return value;
}

static inline int64_t gm_cfi_signed_take(const uint8_t **at, unsigned n)
{
	const unsigned rest = 64 - 8 * n;
	return (int64_t)(gm_cfi_bytes_take(at, n) << rest) >> rest;
}

static inline uint64_t gm_cfi_leb_take(const uint8_t **at, unsigned *bits)
{
	uint64_t value = 0;
	uint8_t byte;
	*bits = 0;
	do {
		byte = *(*at)++;
		value |= *bits < 64 ? (uint64_t)(byte & 0x7f) << *bits : 0;
		*bits += 7;
	} while (byte & 0x80);
	return value;
}

static inline uint64_t gm_cfi_uleb_take(const uint8_t **at)
{
	unsigned bits;
	return gm_cfi_leb_take(at, &bits);
}

static inline int64_t gm_cfi_sleb_take(const uint8_t **at)
{
	unsigned bits;
	const uint64_t value = gm_cfi_leb_take(at, &bits);
	return bits >= 64 ? (int64_t)value : (int64_t)(value << (64 - bits)) >> (64 - bits);
}

/* Read a word of memory. False: it cannot be read. */
bool gm_cfi_read(struct gm_cfi *cfi, uintptr_t place, uintptr_t *out);

/* Evaluate an expression, whose length precedes it, on a stack with `first`; NULL: on an empty
 * stack. False: an operation that is not known here, or unreadable memory. */
bool gm_cfi_evaluate(struct gm_cfi *cfi, const uint8_t *at, const uintptr_t *first, uintptr_t *out);

#endif
