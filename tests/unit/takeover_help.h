/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of a context's code that a takeover reads and writes, in memory of the test: functions
 * of the driver and of the helper, 1 KiB each, and the cached lines that multiprocessors keep until
 * another module is launched. The driver's functions (with the instruction words of driver 580
 * where a takeover reads them) switch to a stack of their own and call the worker function.
 */
#ifndef GM_TESTS_TAKEOVER_HELP_H
#define GM_TESTS_TAKEOVER_HELP_H

#include <stdlib.h>
#include <string.h>

#include "takeover/decode.h"
#include "takeover/helper.h"
#include "takeover/takeover.h"

#define FAKE_CALL 0x7943u
#define FAKE_RETURN 0x7950u

/* Groups of functions, each indexed by gm_takeover_function, and one more function. */
enum fake_function {
	FAKE_DRIVER,
	FAKE_WORK = FAKE_DRIVER + GM_TAKEOVER_FUNCTIONS,
	FAKE_OURS = FAKE_WORK + GM_TAKEOVER_FUNCTIONS,
	FAKE_SITED = FAKE_OURS + GM_TAKEOVER_FUNCTIONS,
	FAKE_SECOND = FAKE_SITED + GM_TAKEOVER_FUNCTIONS,
	FAKE_CALLS = FAKE_SECOND + GM_TAKEOVER_FUNCTIONS,
	FAKE_CALLS_OURS = FAKE_CALLS + GM_TAKEOVER_FUNCTIONS,
	FAKE_FUNCTIONS
};
/* Positions of the relevant instructions in the driver's functions. */
enum { FAKE_SAVES = 18, FAKE_SWITCHES = 19, FAKE_WORKS = 26, FAKE_RETURNS = 51, FAKE_CALLS_AT = 5 };

struct fake_code {
	_Alignas(1024) struct gm_insn f[FAKE_FUNCTIONS][GM_HELPER_CODE];
	struct gm_insn line[GM_TAKEOVER_FUNCTIONS], original[GM_TAKEOVER_FUNCTIONS];
	const struct fake_code *ours; /* NULL: our functions are here; else there */
	enum gm_call_form form;
	int deaf; /* number of the store without effect, from 1; 0: none */
	int stores;
};

static inline uint64_t fake_at(const struct fake_code *c, unsigned function)
{
	return (uintptr_t)c->f[function];
}

static inline struct gm_insn fake_call(const struct fake_code *c, uint64_t word, unsigned function)
{
	return gm_insn_aim(c->form, (struct gm_insn){FAKE_CALL, word}, fake_at(c, function));
}

static inline void fake_calls(struct fake_code *c, unsigned function, unsigned target)
{
	c->f[function][0] = (struct gm_insn){0x147802, 0};
	c->f[function][FAKE_CALLS_AT] = fake_call(c, 0x000fea0003c00000, target);
	c->f[function][9] = (struct gm_insn){FAKE_RETURN, 0};
}

/* The code before a takeover. */
static inline void fake_reset(struct fake_code *c, enum gm_call_form form)
{
	memset(c, 0, sizeof *c);
	c->form = form;
	fake_calls(c, FAKE_CALLS_OURS, FAKE_OURS + GM_TAKEOVER_MALLOC);
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++) {
		struct gm_insn *f = c->f[FAKE_DRIVER + i];
		fake_calls(c, FAKE_CALLS + i, FAKE_DRIVER + i);
		f[0] = (struct gm_insn){0xfffdc401ff007387, 0x0009e20000100800};
		f[FAKE_SAVES] = (struct gm_insn){0xfffdc814ff007387, 0x0009e20000100a00};
		f[FAKE_SWITCHES] = (struct gm_insn){0x00fffdc000017802, 0x000fe20000000f00};
		f[FAKE_WORKS] = fake_call(c, 0x002fea0003c00000, FAKE_WORK + i);
		f[FAKE_RETURNS] = (struct gm_insn){FAKE_RETURN, 0};
		c->line[i] = c->original[i] = f[FAKE_WORKS];
	}
}

static inline bool fake_is_native(const struct fake_code *c)
{
	bool native = true;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		native = native &&
			 gm_insn_same(c->f[FAKE_DRIVER + i][FAKE_WORKS], c->original[i]) &&
			 gm_insn_same(c->line[i], c->original[i]);
	return native;
}

/* Does the instruction at the place of the worker's call lead to our function of the group, of
 * which each has three? */
static inline bool fake_is_taken_by(const struct fake_code *c, struct gm_insn insn, unsigned i,
				    enum fake_function group)
{
	return (insn.low & 0xffff) == FAKE_CALL &&
	       gm_insn_target(c->form, insn) == fake_at(c->ours ? c->ours : c, group + i);
}

static inline bool fake_is_taken(const struct fake_code *c, struct gm_insn insn, unsigned i)
{
	return fake_is_taken_by(c, insn, i, FAKE_OURS) ||
	       fake_is_taken_by(c, insn, i, FAKE_SITED) ||
	       fake_is_taken_by(c, insn, i, FAKE_SECOND);
}

static inline bool fake_is_ours(const struct fake_code *c)
{
	bool ours = true;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		ours = ours && fake_is_taken(c, c->f[FAKE_DRIVER + i][FAKE_WORKS], i) &&
		       fake_is_taken(c, c->line[i], i);
	return ours;
}

/* --- the helper's kernel --- */

static inline void fake_read(const struct fake_code *c, struct gm_helper_answer *answer,
			     const uint64_t at[GM_HELPER_PLACES])
{
	size_t size = GM_HELPER_CODE * sizeof(struct gm_insn);
	for (unsigned i = 0; i < GM_HELPER_PLACES; i++) {
		if (!at[i])
			continue;
		if (at[i] < fake_at(c, 0) || at[i] + size > fake_at(c, FAKE_FUNCTIONS))
			abort();
		memcpy(answer->code[i], (void *)(uintptr_t)at[i], size);
	}
}

static inline void fake_start(const struct fake_code *c, struct gm_helper_answer *answer,
			      const struct gm_helper_order *order)
{
	static const unsigned told[GM_HELPER_FUNCTIONS] = {
		[GM_HELPER_MALLOC] = FAKE_OURS + GM_TAKEOVER_MALLOC,
		[GM_HELPER_FREE] = FAKE_OURS + GM_TAKEOVER_FREE,
		[GM_HELPER_ALIGNED] = FAKE_OURS + GM_TAKEOVER_ALIGNED,
		[GM_HELPER_MALLOC_SITED] = FAKE_SITED + GM_TAKEOVER_MALLOC,
		[GM_HELPER_FREE_SITED] = FAKE_SITED + GM_TAKEOVER_FREE,
		[GM_HELPER_ALIGNED_SITED] = FAKE_SITED + GM_TAKEOVER_ALIGNED,
		[GM_HELPER_MALLOC_SECOND] = FAKE_SECOND + GM_TAKEOVER_MALLOC,
		[GM_HELPER_FREE_SECOND] = FAKE_SECOND + GM_TAKEOVER_FREE,
		[GM_HELPER_ALIGNED_SECOND] = FAKE_SECOND + GM_TAKEOVER_ALIGNED,
		[GM_HELPER_CALLS_OURS] = FAKE_CALLS_OURS,
		[GM_HELPER_CALLS_MALLOC] = FAKE_CALLS + GM_TAKEOVER_MALLOC,
		[GM_HELPER_CALLS_FREE] = FAKE_CALLS + GM_TAKEOVER_FREE,
		[GM_HELPER_CALLS_ALIGNED] = FAKE_CALLS + GM_TAKEOVER_ALIGNED,
	};
	if (order->n)
		abort();
	for (unsigned i = 0; i < GM_HELPER_FUNCTIONS; i++)
		answer->address[i] = fake_at(c, told[i]);
	fake_read(c, answer, &answer->address[GM_HELPER_CALLS_OURS]);
}

/* Memory of our heap must never reach the driver's free. */
static inline void fake_write_one(struct fake_code *c, struct gm_insn *to, struct gm_insn insn)
{
	bool found = false, gives = false;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		found = found || to == &c->f[FAKE_DRIVER + i][FAKE_WORKS];
	if (!found)
		abort();
	if (++c->stores != c->deaf)
		*to = insn;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		if (fake_is_taken(c, c->f[FAKE_DRIVER + i][FAKE_WORKS], i))
			gives = gives || i != GM_TAKEOVER_FREE;
	if (gives &&
	    !fake_is_taken(c, c->f[FAKE_DRIVER + GM_TAKEOVER_FREE][FAKE_WORKS], GM_TAKEOVER_FREE))
		abort();
}

static inline void fake_write(struct fake_code *c, struct gm_helper_answer *answer,
			      const struct gm_helper_order *order)
{
	answer->written = 0;
	for (unsigned i = 0; i < order->n && answer->written == i; i++) {
		struct gm_insn *to = (struct gm_insn *)(uintptr_t)order->at[i];
		struct gm_insn insn = {order->insn[i].low, order->insn[i].high};
		fake_write_one(c, to, insn);
		answer->written += gm_insn_same(*to, insn);
	}
}

/* Checks only the test's own fields of the answer. */
static inline bool fake_went_well(const struct gm_helper_answer *answer)
{
	return !answer->refused && !answer->elsewhere && !answer->damaged;
}

/* Another module is launched: the cached lines are loaded anew. */
static inline void fake_drop_lines(struct fake_code *c)
{
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		c->line[i] = c->f[FAKE_DRIVER + i][FAKE_WORKS];
}

#endif
