/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/cfi_value.h"

enum { EXPRESSION_DEPTH = 16 };

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
	case 0x1a:
		*a &= b;
		break;
	case 0x1c:
		*a -= b;
		break;
	case 0x1e:
		*a *= b;
		break;
	case 0x21:
		*a |= b;
		break;
	case 0x22:
		*a += b;
		break;
	case 0x24:
		*a <<= b & 63;
		break;
	case 0x25:
		*a >>= b & 63;
		break;
	case 0x26:
		*a = (uintptr_t)((intptr_t)*a >> (b & 63));
		break;
	case 0x27:
		*a ^= b;
		break;
	case 0x29:
		*a = *a == b;
		break;
	case 0x2a:
		*a = (intptr_t)*a >= (intptr_t)b;
		break;
	case 0x2b:
		*a = (intptr_t)*a > (intptr_t)b;
		break;
	case 0x2c:
		*a = (intptr_t)*a <= (intptr_t)b;
		break;
	case 0x2d:
		*a = (intptr_t)*a < (intptr_t)b;
		break;
	case 0x2e:
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
	const uint8_t which = (uint8_t)(operation - 0x10) & 0x1f;
	if (operation >= 0x30 && operation < 0x50) /* DW_OP_lit0 */
		return push(s, which);
	if (operation >= 0x50 && operation < 0x90) { /* DW_OP_reg0, DW_OP_breg0 */
		const int64_t offset = operation >= 0x70 ? gm_cfi_sleb_take(at) : 0;
		return which < GM_CFI_REGISTERS && (cfi->known >> which & 1) &&
		       push(s, cfi->registers[which] + (uintptr_t)offset);
	}
	if (operation >= 0x08 && operation < 0x10) { /* DW_OP_const1u, const1s, const2u, ... */
		const unsigned n = 1u << (operation - 0x08) / 2;
		return push(s, operation & 1 ? (uintptr_t)gm_cfi_signed_take(at, n)
					     : gm_cfi_bytes_take(at, n));
	}
	switch (operation) {
	case 0x10:
		return push(s, gm_cfi_uleb_take(at));
	case 0x11:
		return push(s, (uintptr_t)gm_cfi_sleb_take(at));
	case 0x12:
		return s->n && push(s, s->at[s->n - 1]);
	case 0x14:
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
	case 0x06:
		return gm_cfi_read(cfi, *top, top);
	case 0x13:
		s->n--;
		return true;
	case 0x1f:
		*top = -*top;
		return true;
	case 0x20:
		*top = ~*top;
		return true;
	case 0x23:
		*top += gm_cfi_uleb_take(at);
		return true;
	case 0x96:
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
