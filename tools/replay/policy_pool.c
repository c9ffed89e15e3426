/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool for each value of GPUMEM_FREE, with the knobs of the environment, trimmed as by the
 * preload's thread. The GPU runs gm_policy_lag behind the program: a fence passes gm_policy_lag
 * after its record. Waits and naps of an allocation advance the time: they delay the program, not
 * the GPU.
 *
 *   pool          synchronous frees: the wait for the GPU precedes the pool's free
 *   pool-defer    freed memory is retired until a fence has passed
 *   pool-ordered  all work is in one stream: freed memory is reused at once
 */
#include <stdlib.h>
#include <string.h>

#include "base/msg.h"
#include "pool/hot.h"
#include "pool/knobs.h"
#include "pool/patience.h"
#include "tools/replay/policy.h"
#include "tools/tool.h"

enum { CONTEXT = 1 };

struct state {
	struct gm_pool *pool;
	bool trims;   /* a trim may become due */
	uint64_t due; /* time of the next trim */
};

uint64_t gm_policy_lag;
uint64_t gm_policy_waited; /* so the program is delayed against the trace */

static uint64_t the_time;

static uint64_t trace_clock(void)
{
	return the_time;
}

/* --- fences: a fence is the time of its passing + 1; 0 is no fence --- */

static CUresult fence_ask(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return CUDA_SUCCESS;
}

static bool fence_is_idle(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return !gm_policy_lag;
}

static CUresult fence_wait(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg, (void)context, (void)native;
	gm_policy_waited += gm_policy_lag;
	*fenced = GM_FENCED_PASSED;
	return CUDA_SUCCESS;
}

static CUresult fence_record(void *arg, uint64_t context, CUevent *fence)
{
	(void)arg, (void)context;
	*fence = gm_policy_lag
			 ? (CUevent)(uintptr_t)(the_time + gm_policy_waited + gm_policy_lag + 1)
			 : NULL;
	return CUDA_SUCCESS;
}

static CUresult fence_passed(void *arg, uint64_t context, CUevent fence)
{
	(void)arg, (void)context;
	return (uintptr_t)fence <= the_time + gm_policy_waited + 1 ? CUDA_SUCCESS
								   : CUDA_ERROR_NOT_READY;
}

static CUresult fence_wait_for(void *arg, uint64_t context, CUevent fence)
{
	if (fence_passed(arg, context, fence) != CUDA_SUCCESS)
		gm_policy_waited += (uintptr_t)fence - the_time - gm_policy_waited - 1;
	return CUDA_SUCCESS;
}

static void fence_drop(void *arg, uint64_t context, CUevent fence)
{
	(void)arg, (void)context, (void)fence;
}

static void fence_nap(void *arg, uint64_t ns)
{
	(void)arg;
	gm_policy_waited += ns;
}

static const struct gm_fence_ops fences = {.ask = fence_ask,
					   .is_idle = fence_is_idle,
					   .wait = fence_wait,
					   .record = fence_record,
					   .passed = fence_passed,
					   .wait_for = fence_wait_for,
					   .drop = fence_drop,
					   .nap = fence_nap};

/* --- the order of one stream --- */

/*
 * Traces have no streams: all work is taken to be in one. The program submits work between any two
 * events of the trace. So each event ends the segment of memory that became hot before it
 * (context/order.h), and the fence of the segment passes gm_policy_lag later. As in the process the
 * newest fence alone is polled. Without a lag no work is unfinished.
 */
enum { RUN = 1 };

static struct {
	struct gm_pool *hot; /* its memory became hot in this segment; NULL: none did */
	struct gm_pool *pool;
	uint64_t number, passes; /* of the newest fence, which covers memory of `pool` */
} segment;

static void segment_end(void)
{
	if (!segment.hot)
		return;
	segment.number = gm_hot_memory()->number(segment.hot);
	segment.passes = the_time + gm_policy_waited + gm_policy_lag;
	segment.pool = segment.hot;
	segment.hot = NULL;
}

static enum gm_order_free order_free(uint64_t context, uint64_t *run)
{
	(void)context;
	*run = gm_policy_lag ? RUN : 0;
	return GM_ORDER_EARLY;
}

static void order_heat(void *pool)
{
	segment.hot = pool;
}

static bool order_take(uint64_t run)
{
	(void)run;
	return true;
}

static void order_cool(bool wait)
{
	segment_end();
	if (wait && segment.passes > the_time + gm_policy_waited)
		gm_policy_waited = segment.passes - the_time;
	if (segment.pool && segment.passes <= the_time + gm_policy_waited)
		gm_hot_memory()->passed(segment.pool, CONTEXT, segment.number);
}

static const _Atomic uint64_t order_run = RUN;
static const struct gm_order_ops order = {.free = order_free,
					  .heat = order_heat,
					  .take = order_take,
					  .run = &order_run,
					  .cool = order_cool};

/* --- the pool --- */

static void state_became_idle(void *arg)
{
	struct state *state = arg;
	state->trims = true;
}

static void *state_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit,
			struct gm_pool_config config)
{
	struct state *state = gm_policy_make(sizeof *state);
	config.driver = driver;
	config.clock = trace_clock;
	config.idle = state_became_idle;
	config.idle_arg = state;
	gm_pool_config_knobs(&config, gm_knob_get(), memory);
	config.limit = limit;
	if (config.trim_after == UINT64_MAX)
		config.idle = NULL;
	the_time = 0;
	memset(&segment, 0, sizeof segment);
	state->due = UINT64_MAX;
	gm_msg_set_level(GM_MSG_SILENT); /* the figures show refusals */
	if (gm_pool_create(&config, &state->pool) != CUDA_SUCCESS) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	return state;
}

static void *pool_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	return state_open(driver, memory, limit, (struct gm_pool_config){0});
}

static void *defer_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	return state_open(driver, memory, limit,
			  (struct gm_pool_config){.fences = &fences, .defer = true});
}

static void *ordered_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	const struct gm_pool_config config = {.fences = &fences, .defer = true, .order = &order};
	return state_open(driver, memory, limit, config);
}

/* Do the trims that the thread of shim/idle/trim.c would have done until `now`. */
static void state_pass_time(struct state *state, uint64_t now)
{
	the_time = now;
	segment_end();
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

extern const struct gm_policy gm_policy_pool, gm_policy_defer, gm_policy_ordered;
const struct gm_policy gm_policy_pool = {"pool",
					 true,
					 pool_open,
					 pool_alloc,
					 pool_free,
					 pool_close,
					 "gpumem's own, with the knobs of the environment"};
const struct gm_policy gm_policy_defer = {
	"pool-defer",
	true,
	defer_open,
	pool_alloc,
	pool_free,
	pool_close,
	"the same with GPUMEM_FREE=defer; the GPU is --lag behind"};
const struct gm_policy gm_policy_ordered = {
	"pool-ordered",
	true,
	ordered_open,
	pool_alloc,
	pool_free,
	pool_close,
	"the same with GPUMEM_FREE=ordered; all work in one stream"};
