/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/simt.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/debug.h"

enum { LANES = 32, MULTIPROCESSORS = 4, PATIENCE = 3 };

/* Lanes on their way to one *_sync call. */
struct meeting {
	uint32_t mask, arrived; /* arrived 0: unused */
	uint64_t value[LANES];
};

/* Lanes that come to one line; the first waits a few turns for others. */
struct gathering {
	const char *file;
	int line;
	uint32_t mask;
};

struct lane {
	pthread_cond_t wake;
	bool waiting;
	uint64_t seen[LANES]; /* every lane's value in the last meeting */
	uint32_t active;
};

struct warp {
	pthread_mutex_t lock;
	struct lane lane[LANES];
	struct meeting meeting[LANES];
	struct gathering gathering[LANES]; /* in the slot of the lane that opened it; mask 0: none */
	unsigned index;
};

struct launch {
	struct warp *warps;
	unsigned count, resident;
	void (*kernel)(void *arg, uint32_t thread);
	void *arg;
};

struct seat {
	struct launch *launch;
	struct warp *warp;
	unsigned lane;
};

static GM_TLS struct warp *self_warp;
static GM_TLS unsigned self_lane;
static GM_TLS uint32_t self_random;
static uint64_t device_clock;

__attribute__((noreturn)) static void die(const char *what, uint32_t mask)
{
	fprintf(stderr, "simt: warp %u, lane %u, mask %08x: %s\n", self_warp->index, self_lane, mask,
		what);
	abort();
}

static void wait_to_be_woken(struct lane *me)
{
	me->waiting = true;
	while (me->waiting)
		pthread_cond_wait(&me->wake, &self_warp->lock);
}

static void wake(struct lane *lane)
{
	lane->waiting = false;
	pthread_cond_signal(&lane->wake);
}

/* The meeting for `mask`. Two meetings that each wait for a lane of the other would never end. */
static struct meeting *find_meeting(struct warp *warp, uint32_t mask)
{
	struct meeting *mine = NULL;
	for (unsigned m = 0; m < LANES; m++) {
		struct meeting *at = &warp->meeting[m];
		if (at->arrived && at->mask == mask)
			mine = at;
		else if (at->arrived & mask && at->mask >> self_lane & 1)
			die("two lanes wait for each other in different *_sync calls", at->mask);
	}
	for (unsigned m = 0; m < LANES && !mine; m++)
		if (!warp->meeting[m].arrived)
			mine = &warp->meeting[m];
	mine->mask = mask;
	return mine;
}

/* Meet the lanes of `mask`; every one of them then finds all values in its `seen`. */
static const uint64_t *meet(uint32_t mask, uint64_t value)
{
	struct warp *warp = self_warp;
	uint32_t bit = 1u << self_lane;
	if (!(mask & bit))
		die("a lane calls *_sync with a mask that it is not in", mask);
	pthread_mutex_lock(&warp->lock);
	struct meeting *at = find_meeting(warp, mask);
	at->arrived |= bit;
	at->value[self_lane] = value;
	if (at->arrived != mask) {
		wait_to_be_woken(&warp->lane[self_lane]);
	} else {
		for (unsigned l = 0; l < LANES; l++) {
			if (!(mask >> l & 1))
				continue;
			for (unsigned v = 0; v < LANES; v++)
				warp->lane[l].seen[v] = at->value[v];
			if (l != self_lane)
				wake(&warp->lane[l]);
		}
		at->arrived = 0;
	}
	pthread_mutex_unlock(&warp->lock);
	return warp->lane[self_lane].seen;
}

uint32_t gm_cpu_lane(void)
{
	return self_lane;
}

uint32_t gm_cpu_sm(void)
{
	return self_warp->index % MULTIPROCESSORS;
}

uint32_t gm_cpu_warp(void)
{
	return self_warp->index / MULTIPROCESSORS;
}

uint64_t gm_cpu_nanoseconds(void)
{
	return __atomic_load_n(&device_clock, __ATOMIC_RELAXED);
}

void gm_simt_advance(uint64_t nanoseconds)
{
	__atomic_fetch_add(&device_clock, nanoseconds, __ATOMIC_RELAXED);
}

static unsigned next_random(void)
{
	self_random = self_random * 1664525 + 1013904223;
	return self_random >> 16;
}

static uint32_t close_gathering(struct warp *warp, struct gathering *at)
{
	uint32_t mask = at->mask;
	at->mask = 0;
	for (unsigned l = 0; l < LANES; l++) {
		if (!(mask >> l & 1) || l == self_lane)
			continue;
		warp->lane[l].active = mask;
		wake(&warp->lane[l]);
	}
	return mask;
}

uint32_t gm_cpu_active(const char *file, int line)
{
	struct warp *warp = self_warp;
	struct lane *me = &warp->lane[self_lane];
	uint32_t bit = 1u << self_lane;
	pthread_mutex_lock(&warp->lock);
	for (unsigned g = 0; g < LANES; g++) {
		struct gathering *at = &warp->gathering[g];
		if (at->mask && at->file == file && at->line == line) {
			at->mask |= bit;
			wait_to_be_woken(me);
			uint32_t mask = me->active;
			pthread_mutex_unlock(&warp->lock);
			return mask;
		}
	}
	struct gathering *mine = &warp->gathering[self_lane];
	*mine = (struct gathering){file, line, bit};
	for (unsigned turns = next_random() % (PATIENCE + 1); turns; turns--) {
		pthread_mutex_unlock(&warp->lock);
		sched_yield();
		pthread_mutex_lock(&warp->lock);
	}
	uint32_t mask = close_gathering(warp, mine);
	pthread_mutex_unlock(&warp->lock);
	return mask;
}

uint32_t gm_cpu_match(uint32_t mask, uint64_t value)
{
	const uint64_t *seen = meet(mask, value);
	uint32_t same = 0;
	for (unsigned l = 0; l < LANES; l++)
		if ((mask >> l & 1) && seen[l] == value)
			same |= 1u << l;
	return same;
}

uint64_t gm_cpu_shfl(uint32_t mask, uint64_t value, uint32_t lane)
{
	if (!(mask >> lane & 1))
		die("a shuffle reads a lane outside its mask", mask);
	return meet(mask, value)[lane];
}

uint32_t gm_cpu_union(uint32_t mask, uint32_t bits)
{
	const uint64_t *seen = meet(mask, bits);
	uint32_t all = 0;
	for (unsigned l = 0; l < LANES; l++)
		if (mask >> l & 1)
			all |= (uint32_t)seen[l];
	return all;
}

static void *run_lane(void *arg)
{
	struct seat *seat = arg;
	struct launch *launch = seat->launch;
	self_warp = seat->warp;
	self_lane = seat->lane;
	self_random = self_warp->index * LANES + self_lane;
	for (unsigned w = self_warp->index; w < launch->count; w += launch->resident) {
		launch->kernel(launch->arg, w * LANES + self_lane);
		meet(~0u, 0);
	}
	return NULL;
}

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);
	if (!memory) {
		fprintf(stderr, "simt: no host memory\n");
		abort();
	}
	return memory;
}

void gm_simt_launch(unsigned warps, unsigned resident, void (*kernel)(void *arg, uint32_t thread),
		    void *arg)
{
	if (resident > warps)
		resident = warps;
	struct launch launch = {NULL, warps, resident, kernel, arg};
	launch.warps = allocate(resident, sizeof *launch.warps);
	struct seat *seats = allocate((size_t)resident * LANES, sizeof *seats);
	pthread_t *threads = allocate((size_t)resident * LANES, sizeof *threads);
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	for (unsigned s = 0; s < resident * LANES; s++) {
		struct warp *warp = &launch.warps[s / LANES];
		if (s % LANES == 0) {
			warp->index = s / LANES;
			pthread_mutex_init(&warp->lock, NULL);
			for (unsigned l = 0; l < LANES; l++)
				pthread_cond_init(&warp->lane[l].wake, NULL);
		}
		seats[s] = (struct seat){&launch, warp, s % LANES};
		if (pthread_create(&threads[s], &attr, run_lane, &seats[s]) != 0) {
			fprintf(stderr, "simt: cannot make thread %u\n", s);
			abort();
		}
	}
	for (unsigned s = 0; s < resident * LANES; s++)
		pthread_join(threads[s], NULL);
	pthread_attr_destroy(&attr);
	free(threads);
	free(seats);
	free(launch.warps);
}
