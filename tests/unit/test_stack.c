/* SPDX-License-Identifier: BSD-3-Clause */
/* Call stacks: the frames of known functions, one number a stack, threads, and limits. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "log_help.h"
#include "stack/held.h"
#include "stack/objects.h"
#include "stack/stack.h"
#include "stack/table.h"

enum { THREADS = 4, TURNS = 400, DEPTHS = 20 };

static unsigned guard = 1;

/* Not inlined, and no tail call. */
#define DEEPER(call)                               \
	({                                         \
		uint32_t number_ = (call);         \
		__asm__ volatile("" ::: "memory"); \
		number_;                           \
	})

/* Acts as a handler, whose frames are cached. */
static __attribute__((noinline)) uint32_t handler(unsigned *its_guard)
{
	return DEEPER(gm_stack_capture(its_guard, GM_STACK_FROM));
}

static __attribute__((noinline)) uint32_t inner(void)
{
	return DEEPER(gm_stack_capture(&guard, (struct gm_stack_from){0}));
}

static __attribute__((noinline)) uint32_t outer(unsigned depth)
{
	return depth ? DEEPER(outer(depth - 1)) : DEEPER(inner());
}

static bool log_begin(void)
{
	gm_counters_open();
	return gm_log_open(&help_config);
}

static int write_known(void *arg)
{
	uint32_t *numbers = arg;
	if (!log_begin() || !gm_stack_open(0, numbers[0] ? (void *)write_known : NULL))
		return 1;
	for (unsigned depth = 0; depth < 4; depth++)
		numbers[depth] = outer(depth);
	bool same = true;
	for (unsigned i = 0; i < 3; i++) { /* one call a turn, at the same place */
		uint32_t number = outer(200);
		same = same && (!i || number == numbers[4]);
		numbers[4] = number;
	}
	gm_log_close();
	return same && guard == 1 ? 0 : 2;
}

/* Is the frame in `function`? Valid for this process and its children. */
static bool frame_is_in(const struct gm_log_file *file, const struct gm_frame *frame,
			const void *function)
{
	const struct gm_log_object *object = gm_log_read_object(file, frame->object);
	return object && object->address + frame->place - (uintptr_t)function < 512;
}

static void check_known(const uint32_t *numbers)
{
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	for (unsigned depth = 0; depth < 4; depth++) {
		const struct gm_log_stack *stack = gm_log_read_stack(file, numbers[depth]);
		unsigned i = 0;
		while (stack && i < stack->n &&
		       !frame_is_in(file, &stack->frames[i], (void *)inner))
			i++;
		bool right = stack && i + depth + 2 < stack->n;
		for (unsigned up = 1; right && up <= depth + 1; up++)
			right = frame_is_in(file, &stack->frames[i + up], (void *)outer);
		TAP_OK(right && frame_is_in(file, &stack->frames[i + depth + 2],
					    (void *)write_known),
		       "inner, %u times outer, and their caller", depth + 1);
		TAP_OK(right && !stack->flags, "a stack within the depth is whole");
	}
	const struct gm_log_stack *deep = gm_log_read_stack(file, numbers[4]);
	TAP_OK(deep && deep->n == GM_FRAMES_MOST / 2 && deep->flags == GM_STACK_CUT,
	       "a deep stack is cut");
	TAP_OK(numbers[0] != numbers[1] && numbers[1] != numbers[2], "each has its number");
	const struct gm_log_object *object =
		deep ? gm_log_read_object(file, deep->frames[0].object) : NULL;
	const char *path = object ? gm_log_read_string(file, object->path) : NULL;
	TAP_OK(path && strstr(path, "/test_stack"), "frames are in this program");
	gm_log_read_close(file);
}

static void test_known(uint32_t *numbers)
{
	TAP_IS(help_child("GPUMEM_LOG=events", write_known, numbers), 0,
	       "stacks are taken, and one stack has one number");
	check_known(numbers);
	unlink("log");
	numbers[0] = 1;
	TAP_IS(help_child("GPUMEM_LOG=events", write_known, numbers), 0,
	       "stacks leave out the library's own frames");
	struct gm_log_file *file = help_open("log");
	const struct gm_log_stack *stack = file ? gm_log_read_stack(file, numbers[0]) : NULL;
	TAP_OK(stack && stack->n && !frame_is_in(file, stack->frames, (void *)inner) &&
		       !frame_is_in(file, stack->frames, (void *)write_known),
	       "the first frame of a stack is outside of the library");
	gm_log_read_close(file);
}

/* --- threads --- */

static _Atomic uint32_t of_depth[DEPTHS];
static atomic_uint mistakes;

static void *thread_capture(void *arg)
{
	unsigned mine = 1; /* a guard belongs to one thread */
	(void)arg;
	for (unsigned turn = 0; turn < TURNS; turn++) {
		struct gm_trace trace = {.n = 1 + turn % DEPTHS};
		uint32_t unknown = 0;
		for (uint32_t i = 0; i < trace.n; i++)
			trace.frames[i] = (struct gm_frame){.place = i};
		uint32_t number = gm_table_number(&trace);
		gm_table_write(number);
		if (!atomic_compare_exchange_strong(&of_depth[turn % DEPTHS], &unknown, number) &&
		    unknown != number)
			atomic_fetch_add(&mistakes, 1);
		if (!gm_stack_capture(&mine, (struct gm_stack_from){0}))
			atomic_fetch_add(&mistakes, 1);
		uint32_t first = handler(&mine), second = handler(&mine);
		if (!first || !second)
			atomic_fetch_add(&mistakes, 1);
	}
	return NULL;
}

/* The list of objects changes continually. */
static void *thread_load(void *arg)
{
	(void)arg;
	for (unsigned turn = 0; turn < TURNS / 10; turn++) {
		void *library = dlopen("libutil.so.1", RTLD_NOW);
		library = library ? library : dlopen("libresolv.so.2", RTLD_NOW);
		gm_objects_refresh();
		if (library)
			dlclose(library);
	}
	return NULL;
}

static int run_threads(void *arg)
{
	pthread_t threads[THREADS + 1];
	(void)arg;
	if (!log_begin() || !gm_stack_open(0, NULL))
		return 1;
	for (unsigned i = 0; i <= THREADS; i++)
		pthread_create(&threads[i], NULL, i ? thread_capture : thread_load, NULL);
	for (unsigned i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	gm_log_close();
	return atomic_load(&mistakes) ? 2 : 0;
}

static void test_threads(void)
{
	unsigned missing = 0;
	unlink("log");
	TAP_IS(help_child("GPUMEM_LOG=events", run_threads, NULL), 0,
	       "threads agree about the number of each stack");
	struct gm_log_file *file = help_open("log");
	if (!file)
		return;
	uint64_t stacks = gm_log_read_counter(file, 0, GM_C_stacks);
	for (uint32_t i = 1; i <= stacks; i++)
		missing += !gm_log_read_stack(file, i);
	TAP_IS(missing, 0, "each of the %u stacks is in the log", (unsigned)stacks);
	TAP_OK(stacks >= DEPTHS && !gm_log_read_stack(file, (uint32_t)stacks + 1),
	       "no other stack is in the log");
	gm_log_read_close(file);
}

/* --- bounds --- */

static int run_bounds(void *arg)
{
	struct gm_trace trace = {.n = 1};
	uint32_t last = 0;
	(void)arg;
	if (!log_begin())
		return 1;
	for (uint32_t i = 1; i <= GM_TABLE_STACKS; i++) {
		trace.frames[0].place = i;
		if (gm_table_number(&trace) != ++last)
			return 2;
	}
	for (uint32_t i = 0; i < 5; i++) {
		trace.frames[0].place = 1000000 + i;
		if (gm_table_number(&trace))
			return 3;
	}
	trace.frames[0].place = 7;
	if (gm_table_number(&trace) != 7 || gm_counter_get(0, GM_C_stacks) != GM_TABLE_STACKS ||
	    gm_counter_get(0, GM_C_stacks_lost) != 5)
		return 4;
	gm_stack_least = 0;
	gm_stack_forget();
	return gm_table_number(&trace) == 1 && !gm_stack_wanted(1u << 30) ? 0 : 5;
}

/* Stacks of two C frames, replaced by a serial, and further frames, in turn. */
static int run_hints(void *arg)
{
	enum { SERIALS = 40, OTHERS = 300 };
	static uint32_t numbers[SERIALS][OTHERS];
	unsigned wrong = 0;
	(void)arg;
	if (!log_begin())
		return 1;
	for (unsigned turn = 0; turn < 3; turn++)
		for (uint32_t i = 0; i < SERIALS * OTHERS; i++) {
			const uint32_t serial = i % SERIALS, other = i / SERIALS;
			struct gm_trace trace = {.n = 3 + other % 3, .flags = other % 2};
			trace.frames[1].place = serial;
			trace.frames[2 + other % 3].line = other;
			const uint32_t number = gm_table_put(
				&trace, (struct gm_table_hint){turn ? serial + 1 : 0, 2});
			wrong += turn && number != numbers[serial][other];
			numbers[serial][other] = number;
			wrong += number != gm_table_number(&trace);
		}
	gm_log_close();
	return wrong || gm_counter_get(0, GM_C_stacks) != SERIALS * OTHERS;
}

static int run_forget(void *arg)
{
	(void)arg;
	gm_held_add(1 << 20, 1);
	gm_held_forget(); /* drops the parent's memory, which the child does not hold */
	return gm_held_stack(1 << 20) ? 1 : 0;
}

/* Compares with a plain array. */
static void test_held(void)
{
	enum { IDS = 5000, STEPS = 200000 };
	static uint32_t stacks[IDS + 1];
	unsigned wrong = 0, x = 1;
	for (unsigned step = 0; step < STEPS; step++) {
		x = x * 1664525 + 1013904223;
		unsigned id = 1 + (x >> 8) % IDS;
		if (x >> 28 < 7) {
			stacks[id] = step + 1;
			gm_held_add(id, step + 1);
		} else if (x >> 28 < 14) {
			stacks[id] = 0;
			gm_held_drop(id);
		} else {
			wrong += gm_held_stack(id) != stacks[id];
		}
	}
	for (unsigned id = 1; id <= IDS; id++)
		wrong += gm_held_stack(id) != stacks[id];
	TAP_IS(wrong, 0, "the stack of each live block is known");
	for (uint64_t id = 1; id <= 2 * (uint64_t)GM_HELD_MOST; id++)
		gm_held_add(id << 20, 1);
	unsigned held = 0;
	for (uint64_t id = 1; id <= 2 * (uint64_t)GM_HELD_MOST; id++)
		held += gm_held_stack(id << 20);
	TAP_OK(held <= GM_HELD_MOST && held > GM_HELD_MOST / 2,
	       "the number of held stacks is bounded");
	TAP_IS(help_child("", run_forget, NULL), 0, "a child of fork holds no stacks");
}

int main(void)
{
	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	help_begin();
	test_known(shared);
	test_threads();
	unlink("log");
	TAP_IS(help_child("GPUMEM_LOG=events", run_bounds, NULL), 0,
	       "the number of stacks is bounded, and a child starts anew");
	unlink("log");
	TAP_IS(help_child("GPUMEM_LOG=events", run_hints, NULL), 0,
	       "a stack with cached first frames keeps its number");
	test_held();
	return tap_done();
}
