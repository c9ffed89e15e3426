/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread of shim/idle/trim.c, on pools and heaps under the test's control: its start, its end,
 * a failure to start it, and its last driver call before the process exits.
 */
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"

static int made_by_test(struct gm_thread_start *start, void (*body)(void *arg), void *arg);
/* Longest wait of exit, in ns: practically endless, unless a test sets another value. */
static uint64_t exit_waits = UINT64_MAX / 2;
#define EXIT_WAITS exit_waits
#define gm_thread_start(...) made_by_test(__VA_ARGS__)
#define gm_pool_trim trim_by_test
#define gm_pool_trim_next next_by_test
#define gm_pool_trim_sooner sooner_by_test
#define gm_knob_get knobs_by_test
#include "../../src/base/worker.c"
/* after it */
#include "../../shim/idle/trim.c"
#undef gm_thread_start

#include "../tap.h"

/* The parts of the shim that trim.c uses. */
unsigned gm_shim_n_devices = 2;
struct gm_shim_device gm_shim_devices[GM_COUNTER_DEVICES];
GM_TLS unsigned gm_shim_inside;

#define MOMENT 1000000 /* ns */
static atomic_uint joins;
static struct gm_knobs knobs;

const struct gm_knobs *gm_knob_get(void)
{
	return &knobs;
}

void gm_give_join(void)
{
	atomic_fetch_add(&joins, 1);
}

void gm_samples_write(uint64_t now, bool last)
{
	(void)now;
	(void)last;
}

static struct {
	_Atomic uint64_t next[3];	 /* due time of each pool, and of heaps */
	atomic_uint trims, made, refuse; /* trims; threads made; number of threads to refuse */
	int error;
	uint64_t (*trim)(unsigned device);
	uint64_t now; /* the time given to the last call of gm_pool_trim */
} test;

/* Only their addresses are used. */
static char pools[2];

static unsigned device_of(const struct gm_pool *pool)
{
	return (unsigned)((const char *)pool - pools);
}

uint64_t gm_pool_trim_next(struct gm_pool *pool)
{
	return atomic_load(&test.next[device_of(pool)]);
}

uint64_t gm_pool_trim(struct gm_pool *pool, uint64_t now)
{
	test.now = now;
	atomic_fetch_add(&test.trims, 1);
	return test.trim(device_of(pool));
}

static atomic_bool matters, came; /* others hold more of each device */
static _Atomic uint64_t sooner[2];

bool gm_neighbour_matters(void)
{
	return atomic_load(&matters);
}

bool gm_neighbour_came(unsigned ordinal)
{
	return ordinal == 1 && atomic_load(&came);
}

void gm_pool_trim_sooner(struct gm_pool *pool, uint64_t after)
{
	atomic_store(&sooner[device_of(pool)], after);
}

/* Index of the heaps, behind the pools. */
enum { HEAPS = 2 };

uint64_t gm_modules_trim_next(void)
{
	return atomic_load(&test.next[HEAPS]);
}

uint64_t gm_modules_trim(uint64_t now)
{
	return now < atomic_load(&test.next[HEAPS]) ? 0 : test.trim(HEAPS);
}

static atomic_uint running; /* threads that may still use state of trim.c */

static void (*made_body)(void *arg);

static void counted(void *arg)
{
	made_body(arg);
	atomic_fetch_sub(&running, 1);
}

static int made_by_test(struct gm_thread_start *start, void (*body)(void *arg), void *arg)
{
	made_body = body;
	atomic_fetch_add(&test.made, 1);
	if (atomic_load(&test.refuse)) {
		atomic_fetch_sub(&test.refuse, 1);
		return test.error;
	}
	atomic_fetch_add(&running, 1);
	return gm_thread_start(start, counted, arg);
}

static void set_up(uint64_t (*trim)(unsigned device))
{
	memset(&test, 0, sizeof test);
	test.trim = trim;
	atomic_store(&test.next[HEAPS], UINT64_MAX);
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&test.next[i], UINT64_MAX);
		atomic_store(&gm_shim_devices[i].pool, (struct gm_pool *)&pools[i]);
	}
	gm_trim_forget();
}

static void until_it_has_ended(void)
{
	while (atomic_load(&running))
		sched_yield();
}

/* --- its life --- */

/* One chunk of each, then none. */
static uint64_t one_each(unsigned device)
{
	return atomic_exchange(&test.next[device], UINT64_MAX) == UINT64_MAX ? 0 : 4096;
}

static void life(void)
{
	set_up(one_each);
	pool_is_idle(NULL);
	TAP_OK(atomic_load(&gm_trim_wanted), "idle memory asks for a thread");
	trim_start();
	TAP_OK(!atomic_load(&gm_trim_wanted) && !atomic_load(&test.made),
	       "no thread is wanted when no memory is idle any more");

	atomic_store(&test.next[1], 1); /* overdue */
	pool_is_idle(NULL);
	trim_start();
	TAP_IS(atomic_load(&test.made), 1, "a thread is made when memory is idle");
	until_it_has_ended();
	TAP_IS(atomic_load(&test.next[1]), UINT64_MAX, "the thread has trimmed when it ends");
}

/* Run last: the thread sleeps on. */
static void one(void)
{
	set_up(one_each);
	atomic_store(&test.next[0], gm_clock_ns() + 3600000000000u);
	pool_is_idle(NULL);
	trim_start();
	pool_is_idle(NULL);
	TAP_OK(!atomic_load(&gm_trim_wanted), "one trim thread is enough");
	trim_start();
	TAP_IS(atomic_load(&test.made), 1, "no other thread is made");
}

/* A heap that releases memory once; that memory is idle in a pool from then on. */
static uint64_t heap_to_pool(unsigned device)
{
	if (device != HEAPS)
		return test.now < atomic_load(&test.next[device]) ? 0 : one_each(device);
	atomic_store(&test.next[HEAPS], UINT64_MAX);
	atomic_store(&test.next[0], gm_clock_ns());
	pool_is_idle(NULL);
	return 4096;
}

static void heaps(void)
{
	set_up(heap_to_pool);
	gm_trim_heap_idle(NULL);
	TAP_IS(atomic_load(&test.made), 0, "no thread is made when no heap has memory to return");
	atomic_store(&test.next[HEAPS], 1);
	gm_trim_heap_idle(NULL);
	TAP_IS(atomic_load(&test.made), 1, "a heap makes one itself");
	until_it_has_ended();
	TAP_IS(atomic_load(&test.next[HEAPS]), UINT64_MAX, "the thread trims the heap");
	TAP_IS(atomic_load(&test.next[0]), UINT64_MAX, "the thread trims the pool afterwards");
}

static uint64_t nothing_goes(unsigned device)
{
	(void)device;
	return 0;
}

static void at_once_with_0(void)
{
	knobs.trim_after.ns = 0;
	set_up(one_each);
	atomic_store(&test.next[0], 1);
	pool_is_idle(NULL);
	trim_start();
	TAP_OK(atomic_load(&test.next[0]) == UINT64_MAX && !atomic_load(&test.made),
	       "0: the call trims the pools, and makes no thread");
	atomic_store(&test.next[HEAPS], 1);
	trim_start();
	TAP_OK(atomic_load(&test.next[HEAPS]) == 1 && !atomic_load(&test.made),
	       "0: it takes nothing from heaps");
	set_up(nothing_goes);
	atomic_store(&test.next[0], 1);
	gm_trim_heap_idle(NULL);
	TAP_IS(atomic_load(&test.made), 0, "0: a pool needs no thread, though its memory stays");
	set_up(heap_to_pool);
	atomic_store(&test.next[HEAPS], 1);
	gm_trim_heap_idle(NULL);
	until_it_has_ended();
	TAP_OK(atomic_load(&test.made) == 1 && atomic_load(&test.next[HEAPS]) == UINT64_MAX,
	       "0: a thread trims a heap");
	TAP_IS(atomic_load(&test.next[0]), UINT64_MAX, "0: and gives it back at once");
	atomic_store(&worker.running, 1);
	pool_is_due(NULL);
	TAP_OK(atomic_load(&gm_trim_wanted), "0: calls go on meanwhile");
	knobs.trim_after.ns = MOMENT;
}

/* The thread looks whenever it wakes. */
static void beside_others(void)
{
	atomic_store(&joins, 0);
	for (int with = 0; with < 2; with++) {
		set_up(one_each);
		atomic_store(&matters, true);
		atomic_store(&came, with);
		atomic_store(&sooner[0], 7);
		atomic_store(&sooner[1], 7);
		atomic_store(&test.next[0], 1);
		atomic_store(&test.next[1], 1);
		pool_is_idle(NULL);
		trim_start();
		until_it_has_ended();
		TAP_IS(atomic_load(&sooner[0]), UINT64_MAX,
		       "a device where others hold no more keeps its time");
		TAP_IS(atomic_load(&sooner[1]), with ? GM_NEIGHBOUR_AFTER : UINT64_MAX,
		       "a device where others hold %s",
		       with ? "more is trimmed sooner" : "no more");
	}
	atomic_store(&matters, false);
	TAP_OK(atomic_load(&joins) >= 2, "each thread lets others find the process");
}

static void refused(void)
{
	set_up(one_each);
	atomic_store(&test.next[0], 1);
	test.error = EAGAIN;
	atomic_store(&test.refuse, 1);
	gm_msg_set_level(GM_MSG_SILENT);
	trim_start();
	pool_is_idle(NULL);
	trim_start();
	gm_msg_set_level(GM_MSG_WARN);
	TAP_OK(atomic_load(&test.made) == 1 && !atomic_load(&gm_trim_wanted),
	       "no further thread is tried after one that cannot be made");
	TAP_IS(atomic_load(&test.trims), 0, "no memory is returned without a thread");
}

/* --- exit, in a child --- */

static int said[2];
static sem_t trimming;

static void put(char c)
{
	if (write(said[1], &c, 1) != 1)
		_exit(9);
}

/* A driver call that lasts until exit has begun, and after which more memory is due. */
static uint64_t over_exit(unsigned device)
{
	(void)device;
	put('<');
	sem_post(&trimming);
	while (!gm_gate_is_closed(&gate))
		sched_yield();
	put('>');
	return 4096;
}

/* The pools have no memory to release. */
static uint64_t over_heap(unsigned device)
{
	return device == HEAPS ? over_exit(device) : 0;
}

__attribute__((noreturn)) static uint64_t for_ever(unsigned device)
{
	(void)device;
	put('<');
	sem_post(&trimming);
	while (true)
		pause();
}

/* Runs after trim.c's handler, since it was registered earlier. Later driver calls would be calls
 * at exit. */
static void last(void)
{
	put('.');
	for (unsigned i = 0; i < 1000; i++)
		sched_yield();
}

static void child(uint64_t (*trim)(unsigned device), unsigned device)
{
	atexit(last);
	atexit(gm_trim_exit); /* registered as in cuInit */
	set_up(trim);
	atomic_store(&test.next[device], 1);
	sem_init(&trimming, 0, 0);
	trim_start();
	sem_wait(&trimming);
	exit(0);
}

static void exits(uint64_t (*trim)(unsigned device), unsigned device, const char *want,
		  const char *name)
{
	char text[16] = "";
	int status = -1;
	fflush(stdout);
	if (pipe(said) != 0)
		exit(1);
	pid_t pid = fork();
	if (pid == 0)
		child(trim, device);
	close(said[1]);
	for (size_t at = 0, n = 1; n > 0 && at < sizeof text - 1; at += n)
		n = (size_t)read(said[0], text + at, sizeof text - 1 - at);
	close(said[0]);
	waitpid(pid, &status, 0);
	TAP_STR(text, want, "%s", name);
	TAP_IS(status, 0, "the process ends with its own status");
}

/* A thread stays inside of each. */
static void all_gates(void)
{
	static struct gm_gate first, second;
	const uint64_t before = exit_waits;
	gm_gate_enter(&first);
	gm_gate_enter(&second);
	exit_waits = 1;
	gm_gate_close(&first);
	exit_waits = 600 * (uint64_t)1000000000;
	uint64_t begin = gm_clock_ns();
	gm_gate_close(&second);
	TAP_OK(gm_clock_ns() - begin < exit_waits / 2,
	       "exit waits for one time at all gates together");
	gm_gate_forget(&first);
	gm_gate_forget(&second);
	exit_waits = before;
}

int main(void)
{
	knobs.trim_after.ns = MOMENT;
	/* Run first: a child has only this thread, and no exit handler is registered yet. */
	exits(over_exit, 0, "<>.",
	      "exit waits for the call that the thread is in; it makes no other");
	exits(over_heap, HEAPS, "<>.", "likewise where that is for a heap");
	exit_waits = 1000000;
	exits(for_ever, 0, "<.", "but not for ever");
	all_gates();
	life();
	heaps();
	at_once_with_0();
	beside_others();
	refused();
	one();
	return tap_done();
}
