/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for PyTorch's two libraries. Without ALLOCATOR it is libc10: the report that a
 * profiler would read. With it, it is libc10_cuda: the cache, which reports each tensor under its
 * mutex.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct device {
	int8_t type, index;
};

#define REPORT _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
void REPORT(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device);

#ifndef ALLOCATOR

unsigned long reports, sum;

void REPORT(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device)
{
	reports++;
	sum += (address != NULL) + (unsigned long)bytes + 3 * allocated + 5 * reserved +
	       7 * (unsigned long)device.type + 11 * (unsigned long)device.index;
}

#else

void segment_add(size_t bytes);
void tensor_take(void *address, size_t bytes);
void tensor_give(void *address, size_t bytes);
void host_take(void *address, size_t bytes);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t allocated, reserved;

void segment_add(size_t bytes)
{
	reserved += bytes;
}

void tensor_take(void *address, size_t bytes)
{
	pthread_mutex_lock(&mutex);
	allocated += bytes;
	REPORT(address, (int64_t)bytes, allocated, reserved, (struct device){1, 0});
	pthread_mutex_unlock(&mutex);
}

void tensor_give(void *address, size_t bytes)
{
	pthread_mutex_lock(&mutex);
	allocated -= bytes;
	REPORT(address, -(int64_t)bytes, allocated, reserved, (struct device){1, 0});
	pthread_mutex_unlock(&mutex);
}

/* Memory of the host is reported, too. */
void host_take(void *address, size_t bytes)
{
	REPORT(address, (int64_t)bytes, bytes, 0, (struct device){0, -1});
}

#endif
