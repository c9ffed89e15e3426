/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of programs on the CPU: host threads run the threads of the kernel by turns. */
#ifndef THREADS_SIM_H
#define THREADS_SIM_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { SIM_THREADS = 4 };

struct sim_launch {
	void (*lane)(void *arg, uint32_t thread);
	void *arg;
	uint32_t count, next;
};

static inline void *sim_lanes(void *arg)
{
	struct sim_launch *l = arg;
	for (uint32_t i; (i = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED)) < l->count;)
		l->lane(l->arg, i);
	return NULL;
}

/* Run `lane` once for each thread below `count`. */
static inline void sim_run(uint32_t count, void (*lane)(void *arg, uint32_t thread), void *arg)
{
	struct sim_launch l = {lane, arg, count, 0};
	pthread_t thread[SIM_THREADS];
	for (int i = 0; i < SIM_THREADS; i++)
		if (pthread_create(&thread[i], NULL, sim_lanes, &l))
			abort();
	for (int i = 0; i < SIM_THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* --- blocks: a host thread for each thread of the block, one block after the other --- */

struct sim_block {
	void (*lane)(void *arg, uint32_t block, uint32_t thread);
	void *arg;
	uint32_t blocks, threads, next;
	pthread_barrier_t barrier;
};

static struct sim_block *sim_block_now;

static inline void sim_barrier(void)
{
	pthread_barrier_wait(&sim_block_now->barrier);
}

static inline void *sim_block_lane(void *arg)
{
	struct sim_block *s = arg;
	uint32_t thread = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
	for (uint32_t block = 0; block < s->blocks; block++) {
		s->lane(s->arg, block, thread);
		sim_barrier();
	}
	return NULL;
}

/* Run `lane` once for each thread of each block; it may call sim_barrier with all of its block. */
static inline void sim_blocks_run(uint32_t blocks, uint32_t threads,
				  void (*lane)(void *arg, uint32_t block, uint32_t thread),
				  void *arg)
{
	struct sim_block s = {.lane = lane, .arg = arg, .blocks = blocks, .threads = threads};
	pthread_t *thread = calloc(threads, sizeof *thread);
	sim_block_now = &s;
	if (!thread || pthread_barrier_init(&s.barrier, NULL, threads))
		abort();
	for (uint32_t i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, sim_block_lane, &s))
			abort();
	for (uint32_t i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&s.barrier);
	free(thread);
}

#endif
