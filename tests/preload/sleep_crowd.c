/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Four threads in three contexts on two devices, put to sleep again and again: sleep_crowd ASKER
 * MOVES OPERATIONS [kernels]. Between two sleeps the threads make OPERATIONS operations at least:
 * allocations, fills, copies, copies between the devices, captures, grants of peer access, and with
 * `kernels` malloc and free in kernels. Each thread knows what its blocks must contain. TEST_SEED
 * repeats a run.
 */
#include "program.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "heap/device/policies.h"
#include "sim/kernels.h"
#include "tests/unit/takeover_help.h"
/* after sim.h: it takes names from there */
#include "steer.h"

#include "taken_helper.h"

enum { THREADS = 4, SLOTS = 16, HELD = 4 };

struct slot {
	CUdeviceptr at; /* 0: none */
	size_t size;
	unsigned char value;
};

struct user {
	pthread_t thread;
	CUcontext context, far_context;
	CUmodule module; /* NULL: no kernels */
	CUstream stream;
	uint64_t random;
	struct slot slots[SLOTS], far; /* far: on the other device */
	void *held[HELD];	       /* of kernels */
	unsigned number;
};

static struct user users[THREADS];
static unsigned char host[THREADS][2][8 * MIB];
static atomic_bool stop;
static atomic_ulong operations, wrong;

static uint64_t random_next(struct user *u)
{
	u->random ^= u->random << 13;
	u->random ^= u->random >> 7;
	return u->random ^= u->random << 17;
}

static size_t random_size(struct user *u)
{
	uint64_t r = random_next(u);
	size_t most = r % 64 == 0 ? 6 * MIB : r % 8 == 0 ? 3 * MIB / 2 : 60000;
	return 1 + (r >> 8) % most;
}

static void expect(const unsigned char *bytes, size_t size, unsigned char value, const char *what)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != value) {
			atomic_fetch_add(&wrong, 1);
			printf("%s: byte %zu of %zu is %d, not %d\n", what, i, size, bytes[i],
			       value);
			return;
		}
}

/* --- operations on a slot that has a block --- */

static void slot_check(struct user *u, struct slot *s)
{
	unsigned char *to = host[u->number][0];
	MUST(cuMemcpyDtoHAsync_v2(to, s->at, s->size, u->stream));
	MUST(cuStreamSynchronize(u->stream));
	expect(to, s->size, s->value, "a block");
}

static void slot_write(struct user *u, struct slot *s)
{
	unsigned char *from = host[u->number][1];
	s->value = (unsigned char)random_next(u);
	memset(from, s->value, s->size);
	MUST(cuMemcpyHtoDAsync_v2(s->at, from, s->size, u->stream));
	MUST(cuStreamSynchronize(u->stream));
}

static void slot_copy(struct user *u, struct slot *s)
{
	struct slot *to = &u->slots[random_next(u) % SLOTS];
	if (to == s || !to->at || to->size > s->size)
		return;
	MUST(cuMemcpyDtoDAsync_v2(to->at, s->at, to->size, u->stream));
	to->value = s->value;
}

/* To the other device, and from there. */
static void slot_send(struct user *u, struct slot *s)
{
	size_t size = s->size < u->far.size ? s->size : u->far.size;
	unsigned char *to = host[u->number][0];
	MUST(cuMemcpyPeerAsync(u->far.at, u->far_context, s->at, u->context, size, u->stream));
	MUST(cuStreamSynchronize(u->stream));
	MUST(cuMemcpyDtoH_v2(to, u->far.at, size));
	expect(to, size, s->value, "a block on the other device");
}

static void slot_capture(struct user *u, struct slot *s)
{
	CUgraph graph;
	CUgraphExec executable;
	s->value = (unsigned char)random_next(u);
	MUST(cuStreamBeginCapture_v2(u->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuMemsetD8Async(s->at, s->value, s->size, u->stream));
	MUST(cuStreamEndCapture(u->stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&executable, graph, 0));
	MUST(cuGraphLaunch(executable, u->stream));
	MUST(cuStreamSynchronize(u->stream));
	MUST(cuGraphExecDestroy(executable));
	MUST(cuGraphDestroy(graph));
}

static void slot_end(struct user *u, struct slot *s)
{
	MUST(cuStreamSynchronize(u->stream));
	MUST(cuMemFree_v2(s->at));
	s->at = 0;
}

/* --- others --- */

static void slot_begin(struct user *u, struct slot *s)
{
	s->size = random_size(u);
	s->value = (unsigned char)random_next(u);
	MUST(cuMemAlloc_v2(&s->at, s->size));
	MUST(cuMemsetD8Async(s->at, s->value, s->size, u->stream));
}

/* Only the last thread changes grants, so each call has one answer. */
static void peer_toggle(struct user *u)
{
	static bool granted;
	if (granted)
		MUST(cuCtxDisablePeerAccess(u->far_context));
	else
		MUST(cuCtxEnablePeerAccess(u->far_context, 0));
	granted = !granted;
}

static void kernel_launch(struct user *u, const char *name, void **args)
{
	CUfunction function;
	MUST(cuModuleGetFunction(&function, u->module, name));
	MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, u->stream, args, NULL));
	MUST(cuStreamSynchronize(u->stream));
}

static size_t held_size(unsigned i)
{
	return 100 + i * (size_t)7000;
}

/* Check and free a block of kernels, and take another one. */
static void kernel_turn(struct user *u, unsigned i)
{
	size_t size = held_size(i), bad = 0, *count = &bad;
	void **block = &u->held[i];
	if (*block) {
		kernel_launch(u, "wrong", (void *[]){&count, block, &size});
		if (bad)
			printf("a block of kernels: %zu bytes are wrong\n", bad);
		atomic_fetch_add(&wrong, bad);
		kernel_launch(u, "drop", (void *[]){block});
	}
	kernel_launch(u, "get", (void *[]){&block, &size});
	if (*block) {
		MUST(cuMemsetD8Async((CUdeviceptr)(uintptr_t)*block, 0x5a, size, u->stream));
	} else {
		puts("malloc in a kernel: NULL");
		atomic_fetch_add(&wrong, 1);
	}
}

static void operation_make(struct user *u)
{
	static void (*const on_slot[])(struct user *, struct slot *) = {
		slot_check, slot_check, slot_write, slot_copy, slot_send, slot_capture, slot_end};
	uint64_t r = random_next(u);
	struct slot *s = &u->slots[r % SLOTS];
	unsigned kind = (unsigned)(r >> 16) % 64;
	if (kind == 0 && u->number == THREADS - 1)
		peer_toggle(u);
	else if (kind < 4 && u->module)
		kernel_turn(u, kind);
	else if (s->at)
		on_slot[(r >> 32) % (sizeof on_slot / sizeof *on_slot)](u, s);
	else
		slot_begin(u, s);
}

static void *user_run(void *arg)
{
	struct user *u = arg;
	MUST(cuCtxSetCurrent(u->context));
	while (!atomic_load(&stop)) {
		operation_make(u);
		atomic_fetch_add(&operations, 1);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (u->slots[i].at) {
			slot_check(u, &u->slots[i]);
			slot_end(u, &u->slots[i]);
		}
	return NULL;
}

/* Threads 0 and 1: primary contexts of the devices; 2: another context on the first; 3: as 0. */
static void users_make(bool with_kernels)
{
	const char *seed = getenv("TEST_SEED");
	CUctxCreateParams none;
	CUcontext contexts[3] = {use_device(0), use_device(1)};
	memset(&none, 0, sizeof none);
	MUST(cuCtxCreate_v4(&contexts[2], &none, 0, 0));
	for (unsigned i = 0; i < THREADS; i++) {
		struct user *u = &users[i];
		u->number = i;
		u->random = (seed ? strtoull(seed, NULL, 10) : 1) * 0x9e3779b97f4a7c15u + i + 1;
		u->context = contexts[i % 3];
		u->far_context = contexts[i % 3 != 1];
		u->far.size = MIB;
		MUST(cuCtxSetCurrent(u->far_context));
		MUST(cuMemAlloc_v2(&u->far.at, u->far.size));
		MUST(cuCtxSetCurrent(u->context));
		MUST(cuStreamCreate(&u->stream, CU_STREAM_NON_BLOCKING));
		if (with_kernels)
			MUST(cuModuleLoadData(&u->module, &image));
	}
}

/* --- the asker --- */

static int ask[2], answer[2];

static void asker_start(const char *path)
{
	char pid[16];
	snprintf(pid, sizeof pid, "%d", (int)getpid());
	if (pipe(ask) || pipe(answer))
		exit(1);
	if (fork())
		return;
	dup2(ask[0], STDIN_FILENO);
	dup2(answer[1], STDOUT_FILENO);
	close(ask[1]);
	unsetenv("LD_PRELOAD");
	execl(path, path, pid, (char *)NULL);
	_exit(127);
}

/* Put this process to sleep once; an open capture refuses, and then it is asked again. */
static void sleep_once(void)
{
	char byte = 0;
	do {
		if (write(ask[1], "?", 1) != 1 || read(answer[0], &byte, 1) != 1 || byte == 'e') {
			puts("the asker fails");
			exit(1);
		}
	} while (byte != 's');
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	unsigned long moves = strtoul(argv[2], NULL, 10), each = strtoul(argv[3], NULL, 10);
	close(STDIN_FILENO);
	asker_start(argv[1]);
	MUST(cuInit(0));
	choose_policy();
	stand_in();
	users_make(argc > 4);
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&users[i].thread, NULL, user_run, &users[i]))
			return 1;
	for (unsigned long n = 1; n <= moves; n++) {
		while (atomic_load(&operations) < n * each)
			usleep(500);
		sleep_once();
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(users[i].thread, NULL);
	printf("%s operations, %lu moves, %lu wrong\n",
	       atomic_load(&operations) >= moves * each ? "enough" : "too few", moves,
	       atomic_load(&wrong));
	return atomic_load(&wrong) != 0;
}
