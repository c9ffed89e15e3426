/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool, with the knobs of the environment, trimmed as by the preload's thread. */
#include <stdlib.h>

#include "base/msg.h"
#include "pool/knobs.h"
#include "tools/replay/policy.h"
#include "tools/tool.h"

enum { CONTEXT = 1 };

struct state {
	struct gm_pool *pool;
	bool trims;   /* a trim may become due */
	uint64_t due; /* time of the next trim */
};

static uint64_t the_time;

static uint64_t trace_clock(void)
{
	return the_time;
}

static void state_became_idle(void *arg)
{
	struct state *state = arg;
	state->trims = true;
}

static void *pool_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	struct state *state = gm_policy_make(sizeof *state);
	struct gm_pool_config config = {.driver = driver,
					.clock = trace_clock,
					.idle = state_became_idle,
					.idle_arg = state};
	gm_pool_config_knobs(&config, gm_knob_get(), memory);
	config.limit = limit;
	if (config.trim_after == UINT64_MAX)
		config.idle = NULL;
	the_time = 0;
	state->due = UINT64_MAX;
	gm_msg_set_level(GM_MSG_SILENT); /* the figures show refusals */
	if (gm_pool_create(&config, &state->pool) != CUDA_SUCCESS) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	return state;
}

/* Trim as the thread of shim/trim.c would have done until `now`. */
static void state_pass_time(struct state *state, uint64_t now)
{
	the_time = now;
	if (state->trims) {
		state->trims = false;
		state->due = gm_pool_trim_next(state->pool);
	}
	while (now >= state->due) {
		uint64_t given = gm_pool_trim(state->pool, now);
		state->due = given ? gm_pool_trim_next(state->pool) : UINT64_MAX;
	}
}

static bool pool_alloc(void *arg, uint64_t size, uint64_t now, struct gm_policy_place *out)
{
	struct state *state = arg;
	struct gm_block block;
	state_pass_time(state, now);
	if (gm_pool_alloc(state->pool, size, CONTEXT, &block) != CUDA_SUCCESS)
		return false;
	out->address = block.base;
	return true;
}

static void pool_free(void *arg, const struct gm_policy_place *place, uint64_t now)
{
	struct state *state = arg;
	state_pass_time(state, now);
	gm_pool_free(state->pool, place->address, NULL, NULL);
}

static void pool_close(void *arg)
{
	struct state *state = arg;
	gm_pool_destroy(state->pool);
	free(state);
}

extern const struct gm_policy gm_policy_pool;
const struct gm_policy gm_policy_pool = {"pool",     true,	pool_open,
					 pool_alloc, pool_free, pool_close};
