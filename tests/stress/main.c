/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   stress operations|seconds N [SEED [THREADS]]
 *   stress child SEED
 *   stress import HANDLE DEVICE SIZE TAG
 *
 * The threads run until they have done N operations, or for N seconds. A child has one thread, does
 * 300 operations and starts no process. An import reads a block of the process that started it.
 *
 * Prints the operations and exits with 0; with 1 after any fault, each with a line on standard
 * error. STRESS_FAILURES=1: driver calls fail now and then.
 */
#include "stress.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../preload/steer.h"
#include "api/gpumem.h"

#define THREADS 8
#define MOST_THREADS 64
#define MOST_FAULTS 20

CUcontext stress_primary[DEVICES];
pthread_rwlock_t stress_world;
bool stress_injects;

static atomic_uint faults;
static atomic_ullong operations, served[2];
static unsigned long long most_operations;
static time_t until;
static bool is_child;

/* Frequency: `share` divided by the sum of all shares. */
static const struct operation {
	const char *name;
	void (*run)(struct worker *w);
	unsigned share;
	bool alone;   /* holds `stress_world` for writing */
	bool parents; /* not in a child */
} all_operations[] = {
	{"allocate", stress_allocate, 300, false, false},
	{"release", stress_release, 290, false, false},
	{"rewrite", stress_rewrite, 60, false, false},
	{"copy", stress_copy, 60, false, false},
	{"wrong", stress_wrong, 30, false, false},
	{"stream", stress_stream, 60, false, false},
	{"capture", stress_capture, 30, false, false},
	{"peer", stress_peer, 20, false, false},
	{"foreign", stress_foreign, 30, false, false},
	{"context", stress_context, 10, false, false},
	{"green", stress_green, 10, false, false},
	{"hosted", stress_hosted, 10, false, false},
	{"launched", stress_launched, 10, false, false},
	{"pageable", stress_pageable, 8, false, false},
	{"sleep", stress_sleep, 8, false, false},
	{"heap", stress_heap, 6, false, false},
	{"trim", stress_trim, 3, false, false},
	{"inject", stress_inject, 10, false, false},
	{"share", stress_share, 3, false, true},
	{"fork", stress_fork, 1, false, true},
	{"exec", stress_exec, 1, false, true},
	{"reset", stress_reset, 1, true, false},
	{"accounts", stress_accounts, 4, true, false},
};
#define N_OPERATIONS (sizeof all_operations / sizeof *all_operations)
static atomic_ullong done[N_OPERATIONS];

uint64_t stress_random(struct worker *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (w->random * 0x2545F4914F6CDD1Du) % below;
}

void stress_fault(const struct worker *w, const char *format, ...)
{
	char text[256];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (atomic_fetch_add(&faults, 1) < MOST_FAULTS)
		fprintf(stderr, "stress: thread %u, %s: %s\n", w->index, w->doing, text);
}

unsigned stress_faults(void)
{
	return atomic_load(&faults);
}

bool stress_try(const struct worker *w, const char *call, CUresult result)
{
	const char *name = NULL;
	if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY)
		return result == CUDA_SUCCESS;
	cuGetErrorName(result, &name);
	stress_fault(w, "%s: %s", call, name ? name : "?");
	return false;
}

void stress_count_served(uint64_t n, bool in_kernels)
{
	atomic_fetch_add(&served[in_kernels], n);
}

CUcontext stress_use(const struct worker *w, unsigned device)
{
	TRY(w, cuCtxSetCurrent(stress_primary[device]));
	return stress_primary[device];
}

void stress_trim(struct worker *w)
{
	size_t free, total;
	stress_use(w, 0);
	gpumem_trim();
	if (TRY(w, cuMemGetInfo(&free, &total)) && free > total)
		stress_fault(w, "%zu of %zu bytes are free", free, total);
}

/* Has the driver been asked for a block? Possible if the pool has none. */
static bool driver_serves(void)
{
	return gm_sim_calls("cuMemAlloc_v2") || gm_sim_calls("cuMemAllocPitch_v2");
}

/* No operation is in progress, so the pool's blocks are those of the slots, except for blocks that
 * the driver served. */
void stress_accounts(struct worker *w)
{
	for (unsigned device = 0; device < DEVICES; device++) {
		struct gpumem_stats s = {.size = sizeof s};
		int result = gpumem_stats((int)device, &s);
		if (result != 0)
			stress_fault(w, "gpumem_stats: %d", result);
		else if (driver_serves() ? s.requested > stress_requested(device)
					 : s.requested != stress_requested(device))
			stress_fault(w,
				     "device %u: %llu bytes are requested, and %llu are said to be",
				     device, (unsigned long long)stress_requested(device),
				     (unsigned long long)s.requested);
		else if (s.mapped != s.handed_out + s.idle + s.retired)
			stress_fault(w, "device %u: mapped is not the sum of its parts", device);
		stress_count_served(s.requested, false);
	}
}

static bool is_over(void)
{
	if (until)
		return time(NULL) >= until;
	return atomic_load(&operations) >= most_operations;
}

static const struct operation *operation_pick(struct worker *w)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < N_OPERATIONS; i++)
		sum += all_operations[i].share;
	uint64_t at = stress_random(w, sum);
	const struct operation *operation = all_operations;
	for (; at >= operation->share; operation++)
		at -= operation->share;
	return operation;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	while (!is_over() && atomic_load(&faults) < MOST_FAULTS) {
		const struct operation *operation = operation_pick(w);
		if (operation->parents && is_child)
			continue;
		w->doing = operation->name;
		if (operation->alone)
			pthread_rwlock_wrlock(&stress_world);
		else
			pthread_rwlock_rdlock(&stress_world);
		operation->run(w);
		pthread_rwlock_unlock(&stress_world);
		atomic_fetch_add(&operations, 1);
		atomic_fetch_add(&done[operation - all_operations], 1);
	}
	return NULL;
}

static void open_all(struct worker *w)
{
	pthread_rwlockattr_t attributes;
	pthread_rwlockattr_init(&attributes);
	/* Otherwise readers would starve writers. */
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&stress_world, &attributes);
	stress_blocks_open();
	stress_heaps_open();
	w->doing = "start";
	if (!TRY(w, cuInit(0)))
		exit(2);
	for (int i = 0; i < DEVICES; i++) {
		CUdevice device;
		if (!TRY(w, cuDeviceGet(&device, i)) ||
		    !TRY(w, cuDevicePrimaryCtxRetain(&stress_primary[i], device)))
			exit(2);
	}
}

static void run_all(uint64_t seed, unsigned n)
{
	static struct worker workers[MOST_THREADS];
	pthread_t threads[MOST_THREADS];
	for (unsigned i = 0; i < n; i++) {
		workers[i] = (struct worker){(seed + i) * 0x9E3779B97F4A7C15u | 1, i, "start"};
		pthread_create(&threads[i], NULL, work, &workers[i]);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void say_all(void)
{
	printf("%llu operations:", (unsigned long long)operations);
	for (unsigned i = 0; i < N_OPERATIONS; i++)
		printf(" %s %llu", all_operations[i].name, (unsigned long long)done[i]);
	printf("\nthe pool served %s, heaps served %s\n", served[false] ? "blocks" : "nothing",
	       served[true] ? "kernels" : "nothing");
}

int main(int argc, char **argv)
{
	struct worker w = {.index = 999};
	if (argc < 3 || (strcmp(argv[1], "import") == 0 && argc != 6))
		return fprintf(stderr, "usage: stress operations|seconds N [SEED [THREADS]]\n"), 2;
	unsigned long long n = strtoull(argv[2], NULL, 0);
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	unsigned threads = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 0) : THREADS;
	is_child = strcmp(argv[1], "child") == 0;
	stress_injects = getenv("STRESS_FAILURES") != NULL;
	most_operations = is_child ? 300 : n;
	if (strcmp(argv[1], "seconds") == 0)
		until = time(NULL) + (time_t)n;
	open_all(&w);
	if (strcmp(argv[1], "import") == 0)
		return stress_import(&w, argv + 2);
	run_all(is_child ? n : seed, is_child		      ? 1
				     : threads < MOST_THREADS ? threads
							      : MOST_THREADS);
	w.doing = "the end";
	stress_accounts(&w);
	if (!is_child)
		say_all();
	return faults ? 1 : 0;
}
