/* SPDX-License-Identifier: BSD-3-Clause */
#include "takeover/takeover.h"

#include <string.h>

#include "base/clock.h"
#include "takeover/patch.h"

const char *gm_takeover_text(enum gm_takeover_end end)
{
	static const char *const texts[] = {
#define GM_TAKEOVER(name, text) text,
#include "takeover/takeover.def"
#undef GM_TAKEOVER
	};
	return end < GM_TAKEOVER_ENDS ? texts[end] : "unknown";
}

/* --- the steps: each returns the end of the takeover, or GM_TAKEOVER_TAKEN to continue --- */

/* The driver sets a context up for malloc at the first launch of a kernel that may call it. This
 * must not happen after the change of the code, and the launch of GM_HELPER_START is the first. */
static enum gm_takeover_end takeover_load(struct gm_patch *p, struct gm_takeover_report *r)
{
	(void)r;
	return gm_patch_load(p) ? GM_TAKEOVER_TAKEN : GM_TAKEOVER_NO_LOAD;
}

struct call {
	uint64_t at; /* 0: no call */
	struct gm_insn insn;
	bool own_stack; /* the function has switched to a stack of its own */
	uint64_t saved; /* gm_insn_saved_return */
};

/* Find the call in the function at `at`, whose code is in a place of the answer. */
static struct call call_find(const struct gm_patch *p, uint64_t at, unsigned place)
{
	struct gm_insn code[GM_HELPER_CODE];
	struct call call = {0};
	gm_patch_code(p, place, code);
	const struct gm_insn *found = gm_insn_call(code, GM_HELPER_CODE);
	if (!found)
		return call;
	call.at = at + (uint64_t)(found - code) * sizeof *found;
	call.insn = *found;
	call.own_stack = gm_insn_switches_stack(code, found);
	call.saved = gm_insn_saved_return(code, found);
	return call;
}

/* Find the call in a caller of the helper's, whose code GM_HELPER_START has read. */
static struct call caller_find(const struct gm_patch *p, enum gm_helper_function caller)
{
	return call_find(p, p->answer.address[caller], caller - GM_HELPER_CALLS_OURS);
}

/* Indices into the answer's addresses: our functions, and a caller of the driver's function. */
static const struct {
	enum gm_helper_function ours, sited, second, calls;
} functions[GM_TAKEOVER_FUNCTIONS] = {
	[GM_TAKEOVER_FREE] = {GM_HELPER_FREE, GM_HELPER_FREE_SITED, GM_HELPER_FREE_SECOND,
			      GM_HELPER_CALLS_FREE},
	[GM_TAKEOVER_MALLOC] = {GM_HELPER_MALLOC, GM_HELPER_MALLOC_SITED, GM_HELPER_MALLOC_SECOND,
				GM_HELPER_CALLS_MALLOC},
	[GM_TAKEOVER_ALIGNED] = {GM_HELPER_ALIGNED, GM_HELPER_ALIGNED_SITED,
				 GM_HELPER_ALIGNED_SECOND, GM_HELPER_CALLS_ALIGNED},
};

_Static_assert((int)GM_HELPER_SAVED == (int)GM_TAKEOVER_FUNCTIONS &&
		       (int)GM_HELPER_SAVED_FREE == (int)GM_TAKEOVER_FREE &&
		       (int)GM_HELPER_SAVED_MALLOC == (int)GM_TAKEOVER_MALLOC,
	       "the helper numbers the driver's functions likewise");

/* Our functions, and the form of a call: of the helper, or of the first takeover. */
static void ours_find(const struct gm_patch *p, struct gm_takeover_report *r)
{
	const struct gm_takeover_report *first = p->config->first;
	const uint64_t *address = p->answer.address;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		r->to[i] = !first	  ? address[functions[i].ours]
			   : first->sited ? first->second[i]
					  : first->to[i];
	r->form = first ? first->form
			: gm_insn_form(caller_find(p, GM_HELPER_CALLS_OURS).insn,
				       address[GM_HELPER_MALLOC]);
}

static enum gm_takeover_end takeover_decode(struct gm_patch *p, struct gm_takeover_report *r)
{
	if (!gm_patch_fetch(p))
		return GM_TAKEOVER_DRIVER;
	ours_find(p, r);
	for (unsigned i = 0; r->form && i < GM_TAKEOVER_FUNCTIONS; i++) {
		struct call call = caller_find(p, functions[i].calls);
		if (!call.at)
			return GM_TAKEOVER_UNKNOWN_CODE;
		r->at[i] = gm_insn_target(r->form, call.insn);
	}
	return r->form ? GM_TAKEOVER_TAKEN : GM_TAKEOVER_UNKNOWN_CODE;
}

/* Has the driver one set of functions only, which the first takeover has changed? */
static bool set_is_first(const struct gm_patch *p, const struct gm_takeover_report *r)
{
	const struct gm_takeover_report *first = p->config->first;
	return first && memcmp(r->at, first->at, sizeof r->at) == 0;
}

/* Can this be the address of exactly one function of the driver? */
static bool address_is_plausible(const struct gm_takeover_report *r, uint64_t at)
{
	unsigned seen = 0;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		seen += (at == r->at[i]) + 2 * (at == r->to[i]);
	return at && at % 16 == 0 && seen < 2;
}

/* Does `call` lead to the function that does the work? Before it the first set switches to a stack
 * of its own. The second set may stay on its caller's, and then calls the same function. */
static bool call_is_work(const struct gm_patch *p, const struct gm_takeover_report *r,
			 struct call call, unsigned i)
{
	const struct gm_takeover_report *first = p->config->first;
	uint64_t target = call.at ? gm_insn_target(r->form, call.insn) : 0;
	return call.at && (call.own_stack || (first && target == first->work[i])) &&
	       address_is_plausible(r, target);
}

/* Call the functions that count by site, if the helper has them and each return address is found.
 */
static void plan_sites(struct gm_patch *p, struct gm_takeover_report *r)
{
	const uint64_t *address = p->answer.address;
	r->sited = p->config->sites && !p->config->first;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		r->sited = r->sited && p->saved[i] && address[functions[i].sited];
	for (unsigned i = 0; r->sited && i < GM_TAKEOVER_FUNCTIONS; i++) {
		r->to[i] = address[functions[i].sited];
		r->second[i] = address[functions[i].second];
	}
}

/* The driver's malloc and free save the caller's registers, and call the function that does the
 * work. That call is changed, to call ours. */
static enum gm_takeover_end takeover_plan(struct gm_patch *p, struct gm_takeover_report *r)
{
	if (set_is_first(p, r))
		return GM_TAKEOVER_TAKEN;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		if (!address_is_plausible(r, r->at[i]))
			return GM_TAKEOVER_STRANGE_MALLOC;
	if (!gm_patch_read(p, r->at, GM_TAKEOVER_FUNCTIONS) || !gm_patch_fetch(p))
		return GM_TAKEOVER_DRIVER;
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++) {
		struct call call = call_find(p, r->at[i], i);
		if (!call_is_work(p, r, call, i))
			return GM_TAKEOVER_STRANGE_MALLOC;
		r->work[i] = gm_insn_target(r->form, call.insn);
		p->change[i].at = call.at;
		p->change[i].was = call.insn;
		p->saved[i] = call.saved;
	}
	plan_sites(p, r);
	for (unsigned i = 0; i < GM_TAKEOVER_FUNCTIONS; i++)
		p->change[i].call = gm_insn_aim(r->form, p->change[i].was, r->to[i]);
	return GM_TAKEOVER_TAKEN;
}

static enum gm_takeover_end takeover_change(struct gm_patch *p, struct gm_takeover_report *r)
{
	if (set_is_first(p, r))
		return GM_TAKEOVER_TAKEN;
	if (gm_patch_apply(p))
		return gm_patch_drop_lines(p) ? GM_TAKEOVER_TAKEN : GM_TAKEOVER_DRIVER;
	return p->result == CUDA_SUCCESS ? GM_TAKEOVER_NOT_WRITTEN : GM_TAKEOVER_DRIVER;
}

/* Launch the parts of the test, one after another; false: not all. The heap sees one launch. */
static bool test_launch(struct gm_patch *p)
{
	const struct gm_takeover_config *c = p->config;
	const struct gm_helper_order orders[] = {
		{.op = GM_HELPER_TEST, .n = GM_HELPER_MALLOCS},
		{.op = GM_HELPER_TEST, .n = GM_HELPER_ALIGNEDS},
		{.op = GM_HELPER_TEST, .n = GM_HELPER_STRANGERS},
		{.op = GM_HELPER_SEE, .n = c->blocks},
		{.op = GM_HELPER_TEST, .n = GM_HELPER_ALL},
	};
	enum { ORDERS = sizeof orders / sizeof *orders };
	unsigned ran = 0;
	if (c->launch)
		c->launch(c->arg, p->stream);
	while (ran < ORDERS && gm_patch_run(p, orders[ran]))
		ran++;
	if (c->launched)
		c->launched(c->arg, p->stream, ran > 0);
	return ran == ORDERS;
}

static enum gm_takeover_end takeover_test(struct gm_patch *p, struct gm_takeover_report *r)
{
	uint64_t blocks = p->config->blocks;
	if (!test_launch(p) || !gm_patch_fetch(p))
		return GM_TAKEOVER_DRIVER;
	r->given = p->answer.given;
	r->wrong = p->answer.refused + p->answer.elsewhere + p->answer.damaged;
	bool all = r->given == 2 * blocks + blocks * GM_HELPER_THREADS;
	return all && !r->wrong && p->answer.passed ? GM_TAKEOVER_TAKEN : GM_TAKEOVER_TEST_FAILED;
}

static const struct {
	const char *name;
	enum gm_takeover_end (*run)(struct gm_patch *p, struct gm_takeover_report *r);
} steps[] = {
	{"loading the helper", takeover_load},
	{"reading calls", takeover_decode},
	{"reading malloc and free", takeover_plan},
	{"writing", takeover_change},
	{"testing", takeover_test},
};

_Static_assert(sizeof steps / sizeof *steps == GM_TAKEOVER_STEPS, "a time for each step");

const char *gm_takeover_step(unsigned i)
{
	return steps[i].name;
}

static void takeover_run(struct gm_patch *p, struct gm_takeover_report *r)
{
	for (unsigned i = 0; i < GM_TAKEOVER_STEPS; i++) {
		uint64_t start = gm_clock_ns();
		r->end = steps[i].run(p, r);
		r->ns[i] = gm_clock_ns() - start;
		r->step = r->end == GM_TAKEOVER_TAKEN ? NULL : steps[i].name;
		if (r->step)
			break;
	}
	r->result = p->result;
	if (!r->step || !p->changed)
		return;
	bool undone = gm_patch_undo(p);
	if (!gm_patch_drop_lines(p) || !gm_patch_fetch(p) || !undone)
		r->end = GM_TAKEOVER_BROKEN;
}

bool gm_takeover(const struct gm_takeover_config *config, struct gm_takeover_report *r)
{
	const struct gm_driver *d = config->driver;
	struct gm_patch p = {.config = config, .driver = d};
	*r = (struct gm_takeover_report){.end = GM_TAKEOVER_NO_HELPER};
	if (!gm_patch_helper(&p).code || !config->images.empty)
		return false;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(d);
	p.result = d->cuStreamCreate(&p.stream, CU_STREAM_NON_BLOCKING);
	if (p.result == CUDA_SUCCESS) {
		takeover_run(&p, r);
		d->cuStreamDestroy_v2(p.stream);
	} else {
		r->end = GM_TAKEOVER_DRIVER;
		r->step = "making a stream";
		r->result = p.result;
	}
	gm_driver_quiet_end(d, mode);
	return r->end == GM_TAKEOVER_TAKEN;
}
