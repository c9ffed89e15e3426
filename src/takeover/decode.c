/* SPDX-License-Identifier: BSD-3-Clause */
#include "takeover/decode.h"

/* The low 16 bits of an instruction: operation and predicate, here "always". */
#define CALL_ABSOLUTE 0x7943u
#define RETURN 0x7950u

/* The low 24 bits: move a constant to R1, the stack pointer. */
#define MOVE_TO_STACK 0x017802u

/* The low 40 bits: store R20, which has the return address, to a constant place in local memory. */
#define STORE_RETURN UINT64_C(0x14ff007387)

/* In `high`: the bytes that are stored. */
#define WIDTH 0xe00u
#define WIDTH_64 0xa00u

#define FIELD 47 /* bits from bit 34 on: 30 of `low`, 17 of `high` */
#define FIELD_LOW 30
#define FIELD_HIGH (FIELD - FIELD_LOW)

static uint64_t bits_ones(unsigned bits)
{
	return (UINT64_C(1) << bits) - 1;
}

const struct gm_insn *gm_insn_call(const struct gm_insn *code, size_t n)
{
	for (size_t i = 0; i < n && (code[i].low & 0xffff) != RETURN; i++)
		if ((code[i].low & 0xffff) == CALL_ABSOLUTE)
			return &code[i];
	return NULL;
}

bool gm_insn_switches_stack(const struct gm_insn *code, const struct gm_insn *call)
{
	while (code < call && (code->low & 0xffffff) != MOVE_TO_STACK)
		code++;
	return code < call;
}

uint64_t gm_insn_saved_return(const struct gm_insn *code, const struct gm_insn *call)
{
	uint64_t at = 0;
	for (; code < call; code++) {
		bool stores = (code->low & 0xffffffffff) == STORE_RETURN &&
			      (code->high & WIDTH) == WIDTH_64;
		if (stores)
			at = code->low >> 40;
	}
	return at;
}

uint64_t gm_insn_target(enum gm_call_form form, struct gm_insn call)
{
	uint64_t low = call.low >> (64 - FIELD_LOW), high = call.high & bits_ones(FIELD_HIGH);
	uint64_t field = low | high << FIELD_LOW;
	if (form == GM_CALL_SPLIT)
		field = field << 8 | (call.low >> 16 & 0xff);
	return field << 2;
}

struct gm_insn gm_insn_aim(enum gm_call_form form, struct gm_insn call, uint64_t target)
{
	uint64_t field = target >> 2;
	if (form == GM_CALL_SPLIT) {
		call.low = (call.low & ~(UINT64_C(0xff) << 16)) | (field & 0xff) << 16;
		field >>= 8;
	}
	call.low = (call.low & bits_ones(64 - FIELD_LOW)) | field << (64 - FIELD_LOW);
	call.high &= ~bits_ones(FIELD_HIGH);
	call.high |= field >> FIELD_LOW & bits_ones(FIELD_HIGH);
	return call;
}

enum gm_call_form gm_insn_form(struct gm_insn call, uint64_t target)
{
	for (enum gm_call_form form = GM_CALL_WHOLE; form <= GM_CALL_SPLIT; form++)
		if (gm_insn_target(form, call) == target &&
		    gm_insn_same(gm_insn_aim(form, call, target), call))
			return form;
	return GM_CALL_UNKNOWN;
}
