/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/simt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#ifdef HAVE_VALGRIND_VALGRIND_H
#include <valgrind/valgrind.h>
#endif

enum { LANES = 32, MULTIPROCESSORS = 4, STACK = 64 * 1024 };

/* Hides the emulation itself from ThreadSanitizer, which sees a lane as a thread. */
#define UNSEEN __attribute__((no_sanitize("thread")))

struct lane {
	ucontext_t context;
	void *fiber;	/* ThreadSanitizer's handle */
	unsigned stack; /* valgrind's number of the stack */
	unsigned index, warp;
	/* place of the wait: a *_sync call, or a query of activemask */
	enum gm_simt_op op;
	uint32_t mask, from;
	uint64_t value, result;
	const char *file;
	int line;
};

/* A bit a lane. A lane in none of the three sets waits in a *_sync call, or runs. */
struct warp {
	struct lane lane[LANES];
	uint32_t ready, gathering, done;
	uint32_t meeting;
	uint32_t order;	  /* GM_SIMT_UNFAIR: the lane with the least index ^ order runs first */
	unsigned running; /* the last lane that ran */
	bool goes_on;	  /* `running` has reached no *_sync call since */
	unsigned number;  /* number of the warp in this seat */
};

static struct launch {
	const struct gm_simt *shape;
	void (*kernel)(void *arg, uint32_t thread);
	void *arg;
	struct warp *warps;
	char *stacks;
	unsigned resident, unfinished; /* warps in seats */
	uint64_t steps;
	uint64_t progress; /* value of `steps` at the last progress */
	bool stuck;
	ucontext_t host;
	void *host_fiber;
} * run;

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* launch at a time */
static struct lane *self;
static uint64_t device_clock;
static uint32_t random_state;

UNSEEN static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return (uint32_t)((uint64_t)random_state * n >> 32);
}

UNSEEN __attribute__((noreturn)) static void lane_abort(const struct lane *lane, const char *text)
{
	fprintf(stderr, "simt: warp %u, lane %u, mask %08x, seed %u: %s\n",
		run->warps[lane->warp].number, lane->index, lane->mask, run->shape->seed, text);
	abort();
}

/* --- fibers --- */

#ifdef __SANITIZE_THREAD__
/*
 * Fibers of ended lanes, the first that ended in front: to make one takes ThreadSanitizer longer
 * than a small launch. It takes the accesses of a fiber for those of one thread. So a lane has the
 * fiber of a lane of the same launch only if there are FIBERS of them.
 */
enum { FIBERS = 4096 };
static struct {
	void *ended[FIBERS];
	unsigned front, count, made;
	unsigned earlier; /* of `count`, those whose lanes ended before this launch */
} fibers;

UNSEEN static void *fiber_take(void)
{
	if (!fibers.earlier && fibers.made < FIBERS) {
		fibers.made++;
		return __tsan_create_fiber(0);
	}
	fibers.earlier -= fibers.earlier != 0;
	fibers.count--;
	return fibers.ended[fibers.front++ % FIBERS];
}

UNSEEN static void fiber_give(void *fiber)
{
	fibers.ended[(fibers.front + fibers.count++) % FIBERS] = fiber;
}
#endif

/* For sanitizers: only a lane's beginning and end are ordered with the host. */
UNSEEN static void sanitizer_switch(void *fiber, bool ordered)
{
#ifdef __SANITIZE_THREAD__
	__tsan_switch_to_fiber(fiber, ordered ? 0 : __tsan_switch_to_fiber_no_sync);
#else
	(void)fiber;
	(void)ordered;
#endif
}

UNSEEN static void lane_resume(struct lane *lane)
{
	struct lane *me = self;
	run->warps[lane->warp].running = lane->index;
	run->warps[lane->warp].goes_on = true;
	if (lane == me)
		return;
	self = lane;
	sanitizer_switch(lane->fiber, false);
	swapcontext(&me->context, &lane->context);
}

UNSEEN static void lane_leave(bool ordered)
{
	struct lane *me = self;
	self = NULL;
	sanitizer_switch(run->host_fiber, ordered);
	swapcontext(&me->context, &run->host);
}

/* --- scheduling --- */

UNSEEN static uint32_t lanes_first(uint32_t lanes, uint32_t order)
{
	for (uint32_t i = 0;; i++)
		if (lanes >> (i ^ order) & 1)
			return i ^ order;
}

UNSEEN static uint32_t lanes_pick_any(uint32_t lanes)
{
	uint32_t n = random_below((uint32_t)__builtin_popcount(lanes));
	while (n--)
		lanes &= lanes - 1;
	return (uint32_t)__builtin_ctz(lanes);
}

/* Make the lanes that wait at the same line as `at` active together. */
UNSEEN static void gathering_close(struct warp *warp, const struct lane *at)
{
	uint32_t mask = 0;
	for (unsigned l = 0; l < LANES; l++)
		if ((warp->gathering >> l & 1) && warp->lane[l].line == at->line &&
		    warp->lane[l].file == at->file)
			mask |= 1u << l;
	for (unsigned l = 0; l < LANES; l++)
		if (mask >> l & 1)
			warp->lane[l].result = mask;
	warp->gathering &= ~mask;
	warp->ready |= mask;
}

UNSEEN static struct lane *warp_next(struct warp *warp)
{
	bool unfair = run->shape->mode == GM_SIMT_UNFAIR;
	if (warp->gathering && (!warp->ready || random_below(unfair ? 64 : 8) == 0))
		gathering_close(warp, &warp->lane[lanes_pick_any(warp->gathering)]);
	if (!warp->ready)
		return NULL;
	if (!unfair)
		return &warp->lane[lanes_pick_any(warp->ready)];
	if (warp->goes_on && warp->ready >> warp->running & 1)
		return &warp->lane[warp->running];
	return &warp->lane[lanes_first(warp->ready, warp->order)];
}

UNSEEN static struct lane *launch_next_lane(void)
{
	unsigned from = random_below(run->resident);
	for (unsigned w = 0; w < run->resident; w++) {
		struct lane *lane = warp_next(&run->warps[(from + w) % run->resident]);
		if (lane)
			return lane;
	}
	for (unsigned w = 0; w < run->resident; w++)
		if (run->warps[w].meeting)
			lane_abort(&run->warps[w].lane[__builtin_ctz(run->warps[w].meeting)],
				   "waits in a *_sync call for lanes that cannot come");
	return NULL;
}

/* Switch from the running lane to another one. pre: the running lane's wait is recorded. */
UNSEEN static void lane_switch_away(void)
{
	struct lane *lane = launch_next_lane();
	if (lane)
		lane_resume(lane);
	else
		lane_leave(false);
}

UNSEEN void gm_cpu_step(void)
{
	if (!self)
		return;
	if (++run->steps - run->progress > GM_SIMT_PATIENCE) {
		run->stuck = true;
		lane_leave(true);
	}
	if (run->shape->mode == GM_SIMT_CROWD || random_below(8) == 0)
		lane_switch_away();
}

/* --- functions for lanes --- */

UNSEEN void gm_simt_progress(void)
{
	run->progress = run->steps;
}

UNSEEN uint32_t gm_cpu_lane(void)
{
	return self ? self->index : 0;
}

UNSEEN uint32_t gm_cpu_sm(void)
{
	return self ? run->warps[self->warp].number % MULTIPROCESSORS : 0;
}

UNSEEN uint32_t gm_cpu_warp(void)
{
	return self ? self->warp / MULTIPROCESSORS : 0;
}

UNSEEN uint32_t gm_cpu_seat(void)
{
	return self ? run->warps[self->warp].number : 0;
}

UNSEEN uint64_t gm_cpu_nanoseconds(void)
{
	return device_clock + (run ? run->steps : 0);
}

UNSEEN void gm_simt_advance(uint64_t nanoseconds)
{
	device_clock += nanoseconds;
}

UNSEEN void gm_cpu_pause(uint32_t nanoseconds)
{
	device_clock += nanoseconds;
	gm_cpu_step();
	if (self)
		lane_switch_away();
}

UNSEEN uint32_t gm_cpu_active(const char *file, int line)
{
	if (!self)
		return 1;
	struct warp *warp = &run->warps[self->warp];
	self->file = file;
	self->line = line;
	warp->ready &= ~(1u << self->index);
	warp->gathering |= 1u << self->index;
	lane_switch_away();
	return (uint32_t)self->result;
}

UNSEEN static uint64_t call_result(const struct warp *warp, const struct lane *lane)
{
	uint64_t result = 0;
	if (lane->op == GM_SIMT_SHFL)
		return warp->lane[lane->from].value;
	for (unsigned l = 0; l < LANES; l++) {
		if (!(lane->mask >> l & 1))
			continue;
		if (lane->op == GM_SIMT_MATCH)
			result |= (uint64_t)(warp->lane[l].value == lane->value) << l;
		else
			result |= warp->lane[l].value;
	}
	return result;
}

UNSEEN static bool call_is_complete(const struct warp *warp, const struct lane *lane)
{
	if ((warp->meeting & lane->mask) != lane->mask)
		return false;
	for (unsigned l = 0; l < LANES; l++)
		if ((lane->mask >> l & 1) && warp->lane[l].mask != lane->mask)
			return false;
	return true;
}

/* Abort for lanes of one mask at different calls: the hardware would exchange their operands. */
UNSEEN static void call_check_places(const struct warp *warp, const struct lane *lane)
{
	for (unsigned l = 0; l < LANES; l++) {
		const struct lane *other = &warp->lane[l];
		if (!(lane->mask >> l & 1) || (other->line == lane->line && other->op == lane->op &&
					       strcmp(other->file, lane->file) == 0))
			continue;
		char text[512];
		snprintf(text, sizeof text,
			 "at the *_sync call of %s:%d, and lane %u at that of %s:%d", lane->file,
			 lane->line, l, other->file, other->line);
		lane_abort(lane, text);
	}
}

/* Only gm_syncwarp orders memory; the other calls exchange one value. */
UNSEEN static void call_order_memory(struct warp *warp, enum gm_simt_op op, bool before)
{
#ifdef __SANITIZE_THREAD__
	if (op == GM_SIMT_SYNC && before)
		__tsan_release(warp);
	else if (op == GM_SIMT_SYNC)
		__tsan_acquire(warp);
#else
	(void)warp;
	(void)op;
	(void)before;
#endif
}

UNSEEN uint64_t gm_cpu_meet(enum gm_simt_op op, uint32_t mask, uint64_t value, uint32_t lane,
			    const char *file, int line)
{
	if (!self)
		return op == GM_SIMT_MATCH ? 1 : value;
	struct lane *me = self;
	struct warp *warp = &run->warps[me->warp];
	me->op = op;
	me->mask = mask;
	me->value = value;
	me->from = lane;
	me->file = file;
	me->line = line;
	if (!(mask >> me->index & 1) || (op == GM_SIMT_SHFL && !(mask >> lane & 1)))
		lane_abort(me, "a mask without the lane that calls, or that it reads from");
	warp->ready &= ~(1u << me->index);
	warp->meeting |= 1u << me->index;
	warp->goes_on = false;
	call_order_memory(warp, op, true);
	if (call_is_complete(warp, me)) {
		call_check_places(warp, me);
		for (unsigned l = 0; l < LANES; l++)
			if (mask >> l & 1)
				warp->lane[l].result = call_result(warp, &warp->lane[l]);
		warp->meeting &= ~mask;
		warp->ready |= mask;
	}
	lane_switch_away();
	call_order_memory(warp, op, false);
	return me->result;
}

/* --- launching --- */

UNSEEN static void lane_main(void)
{
	struct lane *me = self;
	struct warp *warp = &run->warps[me->warp];
	run->kernel(run->arg, warp->number * LANES + me->index);
	warp->ready &= ~(1u << me->index);
	warp->done |= 1u << me->index;
	run->progress = run->steps;
	lane_leave(true);
}

UNSEEN static void lane_prepare(struct lane *lane)
{
	char *stack = run->stacks + (size_t)(lane->warp * LANES + lane->index) * STACK;
	getcontext(&lane->context);
	lane->context.uc_stack.ss_sp = stack;
	lane->context.uc_stack.ss_size = STACK;
	lane->context.uc_link = NULL;
	makecontext(&lane->context, lane_main, 0);
#ifdef __SANITIZE_THREAD__
	if (lane->fiber)
		fiber_give(lane->fiber);
	lane->fiber = fiber_take();
	/* The host's writes precede the lane. */
	sanitizer_switch(lane->fiber, true);
	sanitizer_switch(run->host_fiber, false);
#endif
}

UNSEEN static void warp_prepare(struct warp *warp, unsigned seat)
{
	warp->done = warp->meeting = warp->gathering = 0;
	warp->ready = ~0u;
	warp->order = random_below(LANES);
	warp->running = warp->order;
	for (unsigned l = 0; l < LANES; l++) {
		warp->lane[l].index = l;
		warp->lane[l].warp = seat;
		lane_prepare(&warp->lane[l]);
	}
}

/* Registers the stacks with memcheck, which otherwise takes a switch for a stack that grows by
 * megabytes. */
UNSEEN static void stacks_register(const struct launch *launch)
{
#ifdef HAVE_VALGRIND_VALGRIND_H
	for (unsigned l = 0; l < launch->resident * LANES; l++) {
		const char *stack = launch->stacks + (size_t)l * STACK;
		launch->warps[l / LANES].lane[l % LANES].stack =
			VALGRIND_STACK_REGISTER(stack, stack + STACK - 1);
	}
#else
	(void)launch;
#endif
}

UNSEEN static void stacks_unregister(const struct launch *launch)
{
#ifdef HAVE_VALGRIND_VALGRIND_H
	for (unsigned l = 0; l < launch->resident * LANES; l++)
		VALGRIND_STACK_DEREGISTER(launch->warps[l / LANES].lane[l % LANES].stack);
#else
	(void)launch;
#endif
}

UNSEEN static void host_loop(void)
{
	unsigned next = run->resident;
	while (run->unfinished && !run->stuck) {
		struct lane *lane = launch_next_lane();
		if (lane) {
			self = lane;
			run->warps[lane->warp].running = lane->index;
			run->warps[lane->warp].goes_on = true;
			sanitizer_switch(lane->fiber, false);
			swapcontext(&run->host, &lane->context);
		}
		for (unsigned w = 0; w < run->resident; w++) {
			struct warp *warp = &run->warps[w];
			if (warp->done != ~0u)
				continue;
			warp->done = 0;
			if (next < run->shape->warps) {
				warp->number = next++;
				warp_prepare(warp, w);
			} else {
				run->unfinished--;
			}
		}
	}
}

UNSEEN static void *memory_allocate(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		fprintf(stderr, "simt: no host memory\n");
		abort();
	}
	return memory;
}

UNSEEN bool gm_simt_launch(const struct gm_simt *shape, void (*kernel)(void *arg, uint32_t thread),
			   void *arg)
{
	struct launch launch = {.shape = shape, .kernel = kernel, .arg = arg};
	launch.resident = shape->resident < shape->warps ? shape->resident : shape->warps;
	launch.unfinished = launch.resident;
	size_t warps = launch.resident * sizeof *launch.warps;
	size_t stacks = (size_t)launch.resident * LANES * STACK;
	pthread_mutex_lock(&one);
	launch.warps = memory_allocate(warps);
	launch.stacks = memory_allocate(stacks);
	stacks_register(&launch);
#ifdef __SANITIZE_THREAD__
	launch.host_fiber = __tsan_get_current_fiber();
	fibers.earlier = fibers.count;
#endif
	run = &launch;
	random_state = shape->seed * 2654435761u | 1;
	for (unsigned w = 0; w < launch.resident; w++) {
		launch.warps[w].number = w;
		warp_prepare(&launch.warps[w], w);
	}
	host_loop();
#ifdef __SANITIZE_THREAD__
	for (unsigned l = 0; l < launch.resident * LANES; l++) {
		/* The accesses of dropped lanes precede the host's. */
		sanitizer_switch(launch.warps[l / LANES].lane[l % LANES].fiber, false);
		sanitizer_switch(launch.host_fiber, true);
		fiber_give(launch.warps[l / LANES].lane[l % LANES].fiber);
	}
#endif
	device_clock += launch.steps; /* a clock never runs backwards */
	run = NULL;
	self = NULL;
	stacks_unregister(&launch);
	munmap(launch.stacks, stacks);
	munmap(launch.warps, warps);
	pthread_mutex_unlock(&one);
	return !launch.stuck;
}
