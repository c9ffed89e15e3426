/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "ooc.h"

#define THREADS_MAX 64
#define PART_MIN (1u << 16) /* elements for which a thread is worth its start */

struct part {
	void (*run)(void *arg, uint64_t from, uint64_t to);
	void *arg;
	uint64_t from, to;
};

static void *part_thread(void *arg)
{
	struct part *part = arg;
	part->run(part->arg, part->from, part->to);
	return NULL;
}

void ooc_parallel(uint64_t n, void (*run)(void *arg, uint64_t from, uint64_t to), void *arg)
{
	struct part parts[THREADS_MAX];
	pthread_t threads[THREADS_MAX];
	bool started[THREADS_MAX] = {false};
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t count = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (uint64_t)cores;
	if (count > n / PART_MIN + 1)
		count = n / PART_MIN + 1;
	for (uint64_t i = 0, from = 0; i < count; i++) {
		uint64_t length = n / count + (i < n % count);
		parts[i] = (struct part){run, arg, from, from + length};
		from += length;
		if (i > 0)
			started[i] = !pthread_create(&threads[i], NULL, part_thread, &parts[i]);
	}
	for (uint64_t i = 0; i < count; i++)
		if (!started[i])
			part_thread(&parts[i]);
	for (uint64_t i = 1; i < count; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
}

float ooc_start(int array, uint64_t i)
{
	uint32_t word = (uint32_t)(i * 2654435761u + (uint64_t)array * 40503u);
	return (float)(word >> 8) * 0x1p-24f;
}

static void fill_part(void *arg, uint64_t from, uint64_t to)
{
	float *const *host = arg;
	for (int array = 0; array < 2; array++)
		for (uint64_t i = from; i < to; i++)
			host[array][i] = ooc_start(array, i);
}

void ooc_fill(float *const host[2], uint64_t elements)
{
	ooc_parallel(elements, fill_part, (void *)host);
}

struct sum {
	const float *cells;
	uint64_t value;
};

static void sum_part(void *arg, uint64_t from, uint64_t to)
{
	struct sum *sum = arg;
	uint64_t value = 0;
	for (uint64_t i = from; i < to; i++) {
		uint32_t bits;
		memcpy(&bits, &sum->cells[i], sizeof bits);
		value += bits * (2 * i + 1);
	}
	__atomic_fetch_add(&sum->value, value, __ATOMIC_RELAXED);
}

uint64_t ooc_checksum(const float *cells, uint64_t elements)
{
	struct sum sum = {.cells = cells};
	ooc_parallel(elements, sum_part, &sum);
	return sum.value;
}
