/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls in the machine code of each generation of GPUs. The words are from cubins of nvcc 13.0.
 * Words of calls with a target are those that NVIDIA's disassembler shows with the given target;
 * those of sm_90 were also in the memory of an H200 (driver 580).
 */
#include "takeover/decode.h"

#include <string.h>

#include "../tap.h"

#define TARGET UINT64_C(0x7f93177a2340)

static const struct {
	const char *name;
	enum gm_call_form form;
	struct gm_insn call;  /* a call of TARGET */
	struct gm_insn blank; /* the call as nvcc writes it, before linking */
} generations[] = {
	{"sm_75",
	 GM_CALL_WHOLE,
	 {0x177a234000007943, 0x000fea0003c07f93},
	 {0x7943, 0x000fea0003c00000}},
	{"sm_80",
	 GM_CALL_WHOLE,
	 {0x177a234000007943, 0x000fea0003c07f93},
	 {0x7943, 0x000fea0003c00000}},
	{"sm_89",
	 GM_CALL_WHOLE,
	 {0x177a234000007943, 0x000fea0003c07f93},
	 {0x7943, 0x000fea0003c00000}},
	{"sm_90",
	 GM_CALL_SPLIT,
	 {0x93177a2000d07943, 0x000fea0003c0007f},
	 {0x7943, 0x000fea0003c00000}},
	{"sm_100",
	 GM_CALL_SPLIT,
	 {0x93177a2000d07943, 0x000fea0003c0007f},
	 {0x7943, 0x000fea0003c00000}},
	{"sm_120",
	 GM_CALL_SPLIT,
	 {0x93177a2000d07943, 0x000fea0003c0007f},
	 {0x7943, 0x000fea0003c00000}},
};

enum { GENERATIONS = sizeof generations / sizeof *generations };

static void test_each(void)
{
	for (unsigned i = 0; i < GENERATIONS; i++) {
		enum gm_call_form form = generations[i].form;
		struct gm_insn call = generations[i].call, blank = generations[i].blank;
		TAP_IS(gm_insn_form(call, TARGET), form, "%s: the form follows from a known target",
		       generations[i].name);
		TAP_IS(gm_insn_target(form, call), TARGET, "%s: the target is read",
		       generations[i].name);
		TAP_OK(gm_insn_same(gm_insn_aim(form, blank, TARGET), call),
		       "%s: the target is written", generations[i].name);
		TAP_OK(gm_insn_same(gm_insn_aim(form, call, 0), blank),
		       "%s: no other bit is changed", generations[i].name);
	}
}

static void test_any_target(void)
{
	bool all = true;
	for (unsigned bit = 4; bit < 49; bit++)
		for (unsigned i = 0; i < GENERATIONS; i++) {
			uint64_t target = UINT64_C(1) << bit | 0x40;
			struct gm_insn call =
				gm_insn_aim(generations[i].form, generations[i].call, target);
			all = all && gm_insn_target(generations[i].form, call) == target &&
			      gm_insn_form(call, target) == generations[i].form;
		}
	TAP_OK(all, "every bit of a target is kept");
}

static void test_unknown(void)
{
	struct gm_insn call = generations[0].call;
	TAP_IS(gm_insn_form(call, TARGET + 16), GM_CALL_UNKNOWN,
	       "a call of another target is unknown");
	call.low ^= UINT64_C(1) << 16;
	TAP_OK(gm_insn_form(call, TARGET) == GM_CALL_WHOLE &&
		       gm_insn_form(call, TARGET ^ 4) == GM_CALL_UNKNOWN,
	       "bits outside of the field are not looked at");
	TAP_IS(gm_insn_form((struct gm_insn){0, 0}, TARGET), GM_CALL_UNKNOWN,
	       "a function without a call has an unknown form");
}

/* gm_helper_calls_malloc as read on an H200. */
static const struct gm_insn function[] = {
	{0xfffffff801017810, 0x000fca0007ffe0ff}, {0x0000041501007387, 0x000fe80000100800},
	{0x0000001401007387, 0x0001e40000100800}, {0x177a7a6000147802, 0x001fe40000000f00},
	{0x00007f9300157802, 0x000fce0000000f00}, {0x93170c0c00c07943, 0x000fea0003c0007f},
	{0x0000000001147983, 0x000ea80000100800}, {0x0000040001157983, 0x0000a40000100800},
	{0x0000000801017810, 0x001fe20007ffe0ff}, {0x0000000014007950, 0x004fec0003e00000},
	{0xfffffffc00fc7947, 0x000fc0000383ffff}, {0x0000000000007918, 0x000fc00000000000},
};

static void test_find(void)
{
	struct gm_insn code[12];
	TAP_PTR(gm_insn_call(function, 12), &function[5], "the call in a function is found");
	TAP_IS(gm_insn_target(GM_CALL_SPLIT, function[5]), 0x7f93170c0f00,
	       "the call in a function is of the driver's malloc");
	TAP_OK(!gm_insn_call(function, 5), "no call beyond the end of the code");
	for (unsigned i = 0; i < 12; i++)
		code[i] = function[i];
	code[5] = function[9];
	code[9] = function[5];
	TAP_OK(!gm_insn_call(code, 12), "a call behind a return is not found");
	code[5] = function[5];
	code[5].low ^= 0x7000;
	code[9] = function[9];
	TAP_OK(!gm_insn_call(code, 12), "a conditional call is not found");
}

/* The beginning of the driver's malloc (driver 580): it stores R1, R2 and R20:R21, and switches to
 * a stack of its own. */
static const struct gm_insn saves[] = {
	{0xfffdc401ff007387, 0x0009e20000100800}, {0xfffdd002ff007387, 0x0003e40000100800},
	{0xfffdc814ff007387, 0x0001e20000100a00}, {0x00fffdc000017802, 0x010fe40000000f00},
	{0x798b01e000007943, 0x000fc00003c0007f}, {0x0000000014007950, 0x001fc00003e00000},
};

static void test_saved(void)
{
	enum { N = sizeof saves / sizeof *saves, STORE = 2, CALL = 4 };
	static const struct {
		const char *what;
		uint64_t low, high; /* bits that are changed */
	} others[] = {
		{"another register", UINT64_C(1) << 34, 0},
		{"a register as the base", UINT64_C(1) << 24, 0},
		{"under a condition", UINT64_C(1) << 12, 0},
		{"another operation", 1, 0},
		{"half of the address", 0, 0x200},
		{"twice the bytes", 0, 0x400},
	};
	struct gm_insn code[N];
	TAP_IS(gm_insn_saved_return(saves, &saves[CALL]), 0xfffdc8,
	       "the place of the return address is found");
	TAP_IS(gm_insn_saved_return(saves, &saves[STORE]), 0, "a store behind the call is not");
	for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
		memcpy(code, saves, sizeof code);
		code[STORE].low ^= others[i].low;
		code[STORE].high ^= others[i].high;
		TAP_IS(gm_insn_saved_return(code, &code[CALL]), 0, "%s: the place is unknown",
		       others[i].what);
	}
	memcpy(code, saves, sizeof code);
	code[STORE].low ^= UINT64_C(0x5a) << 40;
	TAP_IS(gm_insn_saved_return(code, &code[CALL]), 0xfffdc8 ^ 0x5a,
	       "the place of the return address may be elsewhere");
}

int main(void)
{
	test_each();
	test_any_target();
	test_unknown();
	test_find();
	test_saved();
	return tap_done();
}
