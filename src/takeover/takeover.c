/* SPDX-License-Identifier: BSD-3-Clause */
#include "takeover/takeover.h"

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

/* --- the steps: each answers how the takeover ends there, or GM_TAKEOVER_TAKEN to go on --- */

static enum gm_takeover_end load(struct gm_patch *p, struct gm_takeover_report *r)
{
	(void)r;
	return gm_patch_load(p) ? GM_TAKEOVER_TAKEN : GM_TAKEOVER_NO_LOAD;
}

/* The call in a function of the helper; false: the driver failed, or there is none (`low` is 0). */
static bool read_call(struct gm_patch *p, uint64_t at, struct gm_insn *call)
{
	struct gm_insn code[GM_HELPER_CODE];
	*call = (struct gm_insn){0};
	if (!gm_patch_read(p, at, code, GM_HELPER_CODE))
		return false;
	const struct gm_insn *found = gm_insn_call(code, GM_HELPER_CODE);
	if (found)
		*call = *found;
	return true;
}

/* Can it be a function of the driver's? */
static bool is_plausible(const struct gm_takeover_report *r, uint64_t at)
{
	return at && at % 16 == 0 && at != r->to[0] && at != r->to[1];
}

/* Where calls say their target is known from the one whose target is. */
static enum gm_takeover_end decode(struct gm_patch *p, struct gm_takeover_report *r)
{
	uint64_t address[GM_HELPER_FUNCTIONS];
	struct gm_insn ours, call[2];
	if (!gm_patch_run(p, GM_PATCH_ADDRESSES, 1, 1, NULL) || !gm_patch_fetch(p))
		return GM_TAKEOVER_DRIVER;
	for (unsigned i = 0; i < GM_HELPER_FUNCTIONS; i++)
		address[i] = p->answer.address[i];
	if (!read_call(p, address[GM_HELPER_CALLS_OURS], &ours) ||
	    !read_call(p, address[GM_HELPER_CALLS_MALLOC], &call[0]) ||
	    !read_call(p, address[GM_HELPER_CALLS_FREE], &call[1]))
		return GM_TAKEOVER_DRIVER;
	r->to[0] = address[GM_HELPER_MALLOC];
	r->to[1] = address[GM_HELPER_FREE];
	r->form = gm_insn_form(ours, r->to[0]);
	if (r->form == GM_CALL_UNKNOWN || !call[0].low || !call[1].low)
		return GM_TAKEOVER_UNKNOWN_CODE;
	for (unsigned i = 0; i < 2; i++)
		r->at[i] = gm_insn_target(r->form, call[i]);
	if (!is_plausible(r, r->at[0]) || !is_plausible(r, r->at[1]) || r->at[0] == r->at[1])
		return GM_TAKEOVER_STRANGE_MALLOC;
	p->change[GM_PATCH_MALLOC].at = r->at[0];
	p->change[GM_PATCH_MALLOC].jump = gm_insn_aim(r->form, ours, r->to[0]);
	p->change[GM_PATCH_FREE].at = r->at[1];
	p->change[GM_PATCH_FREE].jump = gm_insn_aim(r->form, ours, r->to[1]);
	return GM_TAKEOVER_TAKEN;
}

/* What begins with a call is somebody else's jump. */
static enum gm_takeover_end keep(struct gm_patch *p, struct gm_takeover_report *r)
{
	(void)r;
	for (unsigned i = 0; i < GM_PATCHES; i++) {
		struct gm_insn *was = &p->change[i].was;
		if (!gm_patch_read(p, p->change[i].at, was, 1))
			return GM_TAKEOVER_DRIVER;
		if ((!was->low && !was->high) || gm_insn_call(was, 1))
			return GM_TAKEOVER_STRANGE_MALLOC;
	}
	return GM_TAKEOVER_TAKEN;
}

static enum gm_takeover_end change(struct gm_patch *p, struct gm_takeover_report *r)
{
	(void)r;
	if (gm_patch_apply(p))
		return gm_patch_drop_lines(p) ? GM_TAKEOVER_TAKEN : GM_TAKEOVER_DRIVER;
	return p->result == CUDA_SUCCESS ? GM_TAKEOVER_NOT_WRITTEN : GM_TAKEOVER_DRIVER;
}

static enum gm_takeover_end test(struct gm_patch *p, struct gm_takeover_report *r)
{
	const struct gm_takeover_config *c = p->config;
	uint64_t blocks = c->blocks, threads = blocks * GM_HELPER_TEST_THREADS;
	if (c->launch)
		c->launch(c->arg, p->stream);
	bool ran = gm_patch_run(p, GM_PATCH_TEST, c->blocks, GM_HELPER_TEST_THREADS, NULL);
	if (c->launched)
		c->launched(c->arg, p->stream, ran);
	if (!ran || !gm_patch_run(p, GM_PATCH_SEEN, 1, 1, (void *[]){&blocks}) ||
	    !gm_patch_fetch(p))
		return GM_TAKEOVER_DRIVER;
	r->given = p->answer.given;
	r->wrong = p->answer.refused + p->answer.elsewhere + p->answer.damaged;
	return r->given == threads && !r->wrong && p->answer.strangers >= blocks
		       ? GM_TAKEOVER_TAKEN
		       : GM_TAKEOVER_TEST_FAILED;
}

static const struct {
	const char *name;
	enum gm_takeover_end (*run)(struct gm_patch *p, struct gm_takeover_report *r);
} steps[] = {
	{"loading the helper", load},	{"reading calls", decode}, {"reading malloc and free", keep},
	{"writing the jumps", change}, {"testing", test},
};

static void run_steps(struct gm_patch *p, struct gm_takeover_report *r)
{
	for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
		r->end = steps[i].run(p, r);
		r->step = r->end == GM_TAKEOVER_TAKEN ? NULL : steps[i].name;
		if (r->step)
			break;
	}
	r->result = p->result;
	if (!r->step || !p->changed)
		return;
	bool undone = gm_patch_undo(p);
	if (!gm_patch_drop_lines(p) || !undone)
		r->end = GM_TAKEOVER_BROKEN;
}

bool gm_takeover(const struct gm_takeover_config *config, struct gm_takeover_report *r)
{
	const struct gm_driver *d = config->driver;
	struct gm_patch p = {.config = config, .driver = d};
	*r = (struct gm_takeover_report){.end = GM_TAKEOVER_NO_HELPER};
	if (!config->images.helper || !config->images.empty)
		return false;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(d);
	p.result = d->cuStreamCreate(&p.stream, CU_STREAM_NON_BLOCKING);
	if (p.result == CUDA_SUCCESS) {
		run_steps(&p, r);
		d->cuStreamDestroy_v2(p.stream);
	} else {
		r->end = GM_TAKEOVER_DRIVER;
		r->step = "making a stream";
		r->result = p.result;
	}
	gm_driver_quiet_end(d, mode);
	return r->end == GM_TAKEOVER_TAKEN;
}
