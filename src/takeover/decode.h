/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine code of GPUs, as far as a takeover reads and writes it: one instruction, the absolute
 * call, which contains its target. From sm_75 on an instruction has 16 bytes.
 *
 * There is no table of architectures: the target's position is found from a call with a known
 * target. An architecture with another form is recognised as unknown.
 *
 * Pure functions; any thread.
 */
#ifndef GM_TAKEOVER_DECODE_H
#define GM_TAKEOVER_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_insn {
	uint64_t low, high;
};

/* The bits of a call with its target, which is a multiple of 4: without its lowest two bits. */
enum gm_call_form {
	GM_CALL_UNKNOWN,
	GM_CALL_WHOLE, /* sm_75 to sm_89: 47 bits from bit 34 on */
	GM_CALL_SPLIT, /* from sm_90 on: 8 bits from bit 16 on, and 47 from bit 34 on */
};

/* The first unconditional call in a function, before its first return and within `n` instructions;
 * or NULL. */
const struct gm_insn *gm_insn_call(const struct gm_insn *code, size_t n);

/* Does the function set the stack pointer to a constant before its instruction `call`? */
bool gm_insn_switches_stack(const struct gm_insn *code, const struct gm_insn *call);

/* Where a function stores its return address before its instruction `call`: an address of local
 * memory that is the same in all threads. 0: it does not, or the code is not understood. */
uint64_t gm_insn_saved_return(const struct gm_insn *code, const struct gm_insn *call);

/* The form of a call with the known target `target`. */
enum gm_call_form gm_insn_form(struct gm_insn call, uint64_t target);

uint64_t gm_insn_target(enum gm_call_form form, struct gm_insn call);

/* `call` with another target, a multiple of 4 below 2^49. */
struct gm_insn gm_insn_aim(enum gm_call_form form, struct gm_insn call, uint64_t target);

static inline bool gm_insn_same(struct gm_insn a, struct gm_insn b)
{
	return a.low == b.low && a.high == b.high;
}

#endif
