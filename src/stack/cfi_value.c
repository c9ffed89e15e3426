/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/cfi_value.h"

enum { EXPRESSION_DEPTH = 16 };

/* DWARF 5, section 7.7.1. */
enum {
	DW_OP_deref = 0x06,
	DW_OP_const1u = 0x08,
	DW_OP_constu = 0x10,
	DW_OP_consts = 0x11,
	DW_OP_dup = 0x12,
	DW_OP_drop = 0x13,
	DW_OP_over = 0x14,
	DW_OP_and = 0x1a,
	DW_OP_minus = 0x1c,
	DW_OP_mul = 0x1e,
	DW_OP_neg = 0x1f,
	DW_OP_not = 0x20,
	DW_OP_or = 0x21,
	DW_OP_plus = 0x22,
	DW_OP_plus_uconst = 0x23,
	DW_OP_shl = 0x24,
	DW_OP_shr = 0x25,
	DW_OP_shra = 0x26,
	DW_OP_xor = 0x27,
	DW_OP_eq = 0x29,
	DW_OP_ge = 0x2a,
	DW_OP_gt = 0x2b,
	DW_OP_le = 0x2c,
	DW_OP_lt = 0x2d,
	DW_OP_ne = 0x2e,
	DW_OP_lit0 = 0x30,
	DW_OP_reg0 = 0x50,
	DW_OP_breg0 = 0x70,
	DW_OP_bregx = 0x90,
	DW_OP_nop = 0x96,
};

struct operands {
	uintptr_t at[EXPRESSION_DEPTH];
	unsigned n;
};

static bool push(struct operands *s, uintptr_t value)
{
	if (s->n == EXPRESSION_DEPTH)
		return false;
	s->at[s->n++] = value;
	return true;
}

/* Operations of two operands; false: another operation, or too few operands. */
static bool operation_of_two(struct operands *s, uint8_t operation)
{
	if (s->n < 2)
		return false;
	const uintptr_t b = s->at[s->n - 1];
	uintptr_t *a = &s->at[s->n - 2];
	switch (operation) {
	case DW_OP_and:
		*a &= b;
		break;
	case DW_OP_minus:
		*a -= b;
		break;
	case DW_OP_mul:
		*a *= b;
		break;
	case DW_OP_or:
		*a |= b;
		break;
	case DW_OP_plus:
		*a += b;
		break;
	case DW_OP_shl:
		*a <<= b & 63;
		break;
	case DW_OP_shr:
		*a >>= b & 63;
		break;
	case DW_OP_shra:
		*a = (uintptr_t)((intptr_t)*a >> (b & 63));
		break;
	case DW_OP_xor:
		*a ^= b;
		break;
	case DW_OP_eq:
		*a = *a == b;
		break;
	case DW_OP_ge:
		*a = (intptr_t)*a >= (intptr_t)b;
		break;
	case DW_OP_gt:
		*a = (intptr_t)*a > (intptr_t)b;
		break;
	case DW_OP_le:
		*a = (intptr_t)*a <= (intptr_t)b;
		break;
	case DW_OP_lt:
		*a = (intptr_t)*a < (intptr_t)b;
		break;
	case DW_OP_ne:
		*a = *a != b;
		break;
	default:
		return false;
	}
	s->n--;
	return true;
}

/* Constants and registers; false: another operation. */
static bool operation_of_none(const struct gm_cfi *cfi, struct operands *s, uint8_t operation,
			      const uint8_t **at)
{
	const uint8_t which = (uint8_t)(operation - DW_OP_lit0) % 32;
	if (operation >= DW_OP_lit0 && operation < DW_OP_reg0)
		return push(s, which);
	if (operation >= DW_OP_reg0 && operation < DW_OP_bregx) {
		const int64_t offset = operation >= DW_OP_breg0 ? gm_cfi_sleb_take(at) : 0;
		return which < GM_CFI_REGISTERS && (cfi->known >> which & 1) &&
		       push(s, cfi->registers[which] + (uintptr_t)offset);
	}
	if (operation >= DW_OP_const1u && operation < DW_OP_constu) { /* const1s, const2u, ... */
		const unsigned n = 1u << (operation - DW_OP_const1u) / 2;
		return push(s, operation & 1 ? (uintptr_t)gm_cfi_signed_take(at, n)
					     : gm_cfi_bytes_take(at, n));
	}
	switch (operation) {
	case DW_OP_constu:
		return push(s, gm_cfi_uleb_take(at));
	case DW_OP_consts:
		return push(s, (uintptr_t)gm_cfi_sleb_take(at));
	case DW_OP_dup:
		return s->n && push(s, s->at[s->n - 1]);
	case DW_OP_over:
		return s->n > 1 && push(s, s->at[s->n - 2]);
	default:
		return false;
	}
}

static bool operation_of_one(struct gm_cfi *cfi, struct operands *s, uint8_t operation,
			     const uint8_t **at)
{
	if (!s->n)
		return false;
	uintptr_t *top = &s->at[s->n - 1];
	switch (operation) {
	case DW_OP_deref:
		return gm_cfi_read(cfi, *top, top);
	case DW_OP_drop:
		s->n--;
		return true;
	case DW_OP_neg:
		*top = -*top;
		return true;
	case DW_OP_not:
		*top = ~*top;
		return true;
	case DW_OP_plus_uconst:
		*top += gm_cfi_uleb_take(at);
		return true;
	case DW_OP_nop:
		return true;
	default:
		return false;
	}
}

bool gm_cfi_evaluate(struct gm_cfi *cfi, const uint8_t *at, const uintptr_t *first, uintptr_t *out)
{
	struct operands s = {.n = 0};
	const uint64_t length = gm_cfi_uleb_take(&at);
	const uint8_t *end = at + length;
	if (first)
		push(&s, *first);
	while (at < end) {
		const uint8_t operation = *at++;
		if (!operation_of_none(cfi, &s, operation, &at) &&
		    !operation_of_two(&s, operation) && !operation_of_one(cfi, &s, operation, &at))
			return false;
	}
	*out = s.n ? s.at[s.n - 1] : 0;
	return s.n > 0;
}
