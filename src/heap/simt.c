/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/simt.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#ifdef HAVE_VALGRIND_VALGRIND_H
#include <valgrind/valgrind.h>
#endif

enum { LANES = 32, MULTIPROCESSORS = 4, STACK = 64 * 1024 };

/* The emulation is no part of what ThreadSanitizer is to look at: a lane is a thread to it. */
#define UNSEEN __attribute__((no_sanitize("thread")))

struct lane {
	ucontext_t context;
	void *fiber;	/* ThreadSanitizer's */
	unsigned stack; /* valgrind's number of it */
	unsigned index, warp;
	/* where it waits: in a *_sync call, or where activemask is asked for */
	enum gm_simt_op op;
	uint32_t mask, from;
	uint64_t value, result;
	const char *file;
	int line;
};

/* A bit a lane; one in none of the three sets waits in a *_sync call, or runs. */
struct warp {
	struct lane lane[LANES];
	uint32_t ready, gathering, done;
	uint32_t meeting;
	uint32_t order;	  /* GM_SIMT_UNFAIR: the lane with the least index ^ order goes first */
	unsigned running; /* the last lane that ran */
	bool goes_on;	  /* and it did not come to a *_sync call since */
	unsigned number;  /* of the warp that is in this seat */
};

static struct launch {
	const struct gm_simt *shape;
	void (*kernel)(void *arg, uint32_t thread);
	void *arg;
	struct warp *warps;
	char *stacks;
	unsigned resident, unfinished; /* warps in seats */
	uint64_t steps;
	uint64_t progress; /* when `steps` stood there, a lane got somewhere */
	bool stuck;
	ucontext_t host;
	void *host_fiber;
} * run;

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

UNSEEN __attribute__((noreturn)) static void die(const struct lane *lane, const char *what)
{
	fprintf(stderr, "simt: warp %u, lane %u, mask %08x, seed %u: %s\n",
		run->warps[lane->warp].number, lane->index, lane->mask, run->shape->seed, what);
	abort();
}

/* --- fibers --- */

/* Sanitizers: a lane's beginning and end order it with the host, nothing else does. */
UNSEEN static void tell_sanitizer(void *fiber, bool ordered)
{
#ifdef __SANITIZE_THREAD__
	__tsan_switch_to_fiber(fiber, ordered ? 0 : __tsan_switch_to_fiber_no_sync);
#else
	(void)fiber;
	(void)ordered;
#endif
}

UNSEEN static void go_to(struct lane *lane)
{
	struct lane *me = self;
	run->warps[lane->warp].running = lane->index;
	run->warps[lane->warp].goes_on = true;
	if (lane == me)
		return;
	self = lane;
	tell_sanitizer(lane->fiber, false);
	swapcontext(&me->context, &lane->context);
}

UNSEEN static void leave(bool ordered)
{
	struct lane *me = self;
	self = NULL;
	tell_sanitizer(run->host_fiber, ordered);
	swapcontext(&me->context, &run->host);
}

/* --- who is next --- */

UNSEEN static uint32_t first_in_order(uint32_t lanes, uint32_t order)
{
	for (uint32_t i = 0;; i++)
		if (lanes >> (i ^ order) & 1)
			return i ^ order;
}

UNSEEN static uint32_t any_of(uint32_t lanes)
{
	uint32_t n = random_below((uint32_t)__builtin_popcount(lanes));
	while (n--)
		lanes &= lanes - 1;
	return (uint32_t)__builtin_ctz(lanes);
}

/* The lanes that wait at the line where `lane` does are active together. */
UNSEEN static void close_gathering(struct warp *warp, const struct lane *at)
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

UNSEEN static struct lane *next_of(struct warp *warp)
{
	bool unfair = run->shape->mode == GM_SIMT_UNFAIR;
	if (warp->gathering && (!warp->ready || random_below(unfair ? 64 : 8) == 0))
		close_gathering(warp, &warp->lane[any_of(warp->gathering)]);
	if (!warp->ready)
		return NULL;
	if (!unfair)
		return &warp->lane[any_of(warp->ready)];
	if (warp->goes_on && warp->ready >> warp->running & 1)
		return &warp->lane[warp->running];
	return &warp->lane[first_in_order(warp->ready, warp->order)];
}

UNSEEN static struct lane *next_lane(void)
{
	unsigned from = random_below(run->resident);
	for (unsigned w = 0; w < run->resident; w++) {
		struct lane *lane = next_of(&run->warps[(from + w) % run->resident]);
		if (lane)
			return lane;
	}
	for (unsigned w = 0; w < run->resident; w++)
		if (run->warps[w].meeting)
			die(&run->warps[w].lane[__builtin_ctz(run->warps[w].meeting)],
			    "waits in a *_sync call for lanes that cannot come");
	return NULL;
}

/* The lane that runs has said what it waits for: another one goes on. */
UNSEEN static void switch_away(void)
{
	struct lane *lane = next_lane();
	if (lane)
		go_to(lane);
	else
		leave(false);
}

UNSEEN void gm_cpu_step(void)
{
	if (!self)
		return;
	if (++run->steps - run->progress > GM_SIMT_PATIENCE) {
		run->stuck = true;
		leave(true);
	}
	if (random_below(8) == 0)
		switch_away();
}

/* --- what lanes call --- */

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
		switch_away();
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
	switch_away();
	return (uint32_t)self->result;
}

UNSEEN static uint64_t result_for(const struct warp *warp, const struct lane *lane)
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

UNSEEN static bool all_met(const struct warp *warp, const struct lane *lane)
{
	if ((warp->meeting & lane->mask) != lane->mask)
		return false;
	for (unsigned l = 0; l < LANES; l++)
		if ((lane->mask >> l & 1) &&
		    (warp->lane[l].mask != lane->mask || warp->lane[l].op != lane->op))
			return false;
	return true;
}

/* Only gm_syncwarp orders memory; the other calls carry one value, and no more. */
UNSEEN static void order_memory(struct warp *warp, enum gm_simt_op op, bool before)
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

UNSEEN uint64_t gm_cpu_meet(enum gm_simt_op op, uint32_t mask, uint64_t value, uint32_t lane)
{
	if (!self)
		return op == GM_SIMT_MATCH ? 1 : value;
	struct lane *me = self;
	struct warp *warp = &run->warps[me->warp];
	me->op = op;
	me->mask = mask;
	me->value = value;
	me->from = lane;
	if (!(mask >> me->index & 1) || (op == GM_SIMT_SHFL && !(mask >> lane & 1)))
		die(me, "a mask without the lane that calls, or that it reads from");
	warp->ready &= ~(1u << me->index);
	warp->meeting |= 1u << me->index;
	warp->goes_on = false;
	order_memory(warp, op, true);
	if (all_met(warp, me)) {
		for (unsigned l = 0; l < LANES; l++)
			if (mask >> l & 1)
				warp->lane[l].result = result_for(warp, &warp->lane[l]);
		warp->meeting &= ~mask;
		warp->ready |= mask;
	}
	switch_away();
	order_memory(warp, op, false);
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
	leave(true);
}

UNSEEN static void prepare_lane(struct lane *lane)
{
	char *stack = run->stacks + (size_t)(lane->warp * LANES + lane->index) * STACK;
	getcontext(&lane->context);
	lane->context.uc_stack.ss_sp = stack;
	lane->context.uc_stack.ss_size = STACK;
	lane->context.uc_link = NULL;
	makecontext(&lane->context, lane_main, 0);
#ifdef __SANITIZE_THREAD__
	if (lane->fiber)
		__tsan_destroy_fiber(lane->fiber);
	lane->fiber = __tsan_create_fiber(0);
	/* The host's writes come before all that the lane does. */
	tell_sanitizer(lane->fiber, true);
	tell_sanitizer(run->host_fiber, false);
#endif
}

UNSEEN static void prepare(struct warp *warp, unsigned seat)
{
	warp->done = warp->meeting = warp->gathering = 0;
	warp->ready = ~0u;
	warp->order = random_below(LANES);
	warp->running = warp->order;
	for (unsigned l = 0; l < LANES; l++) {
		warp->lane[l].index = l;
		warp->lane[l].warp = seat;
		prepare_lane(&warp->lane[l]);
	}
}

/* Told of them, memcheck knows a switch of stacks from a stack that grows by megabytes. */
UNSEEN static void show_stacks(const struct launch *launch)
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

UNSEEN static void hide_stacks(const struct launch *launch)
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
		struct lane *lane = next_lane();
		if (lane) {
			self = lane;
			run->warps[lane->warp].running = lane->index;
			run->warps[lane->warp].goes_on = true;
			tell_sanitizer(lane->fiber, false);
			swapcontext(&run->host, &lane->context);
		}
		for (unsigned w = 0; w < run->resident; w++) {
			struct warp *warp = &run->warps[w];
			if (warp->done != ~0u)
				continue;
			warp->done = 0;
			if (next < run->shape->warps) {
				warp->number = next++;
				prepare(warp, w);
			} else {
				run->unfinished--;
			}
		}
	}
}

UNSEEN static void *allocate(size_t bytes)
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
	launch.warps = allocate(warps);
	launch.stacks = allocate(stacks);
	show_stacks(&launch);
#ifdef __SANITIZE_THREAD__
	launch.host_fiber = __tsan_get_current_fiber();
#endif
	run = &launch;
	random_state = shape->seed * 2654435761u | 1;
	for (unsigned w = 0; w < launch.resident; w++) {
		launch.warps[w].number = w;
		prepare(&launch.warps[w], w);
	}
	host_loop();
#ifdef __SANITIZE_THREAD__
	for (unsigned l = 0; l < launch.resident * LANES; l++) {
		/* All that lanes did which were dropped comes before what the host does. */
		tell_sanitizer(launch.warps[l / LANES].lane[l % LANES].fiber, false);
		tell_sanitizer(launch.host_fiber, true);
		__tsan_destroy_fiber(launch.warps[l / LANES].lane[l % LANES].fiber);
	}
#endif
	device_clock += launch.steps; /* a clock never goes back */
	run = NULL;
	self = NULL;
	hide_stacks(&launch);
	munmap(launch.stacks, stacks);
	munmap(launch.warps, warps);
	return !launch.stuck;
}
