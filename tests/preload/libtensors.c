/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for PyTorch's libraries. Without ALLOCATOR it is libc10 and libtorch_cpu: the reports
 * that a profiler would read, and the numbers of autograd's nodes. With it, it is libc10_cuda and
 * autograd: the cache, which reports each tensor under its mutex, nodes, and a thread that runs
 * them.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct device {
	int8_t type, index;
};

#define REPORT _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
void REPORT(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device);
#define REFUSE _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
void REFUSE(int64_t asked, size_t allocated, size_t reserved, struct device device);
#define NUMBER _ZN2at15sequence_number17get_and_incrementEv
uint64_t NUMBER(void);
#define THREAD _ZN2at14RecordFunction15currentThreadIdEv
uint64_t THREAD(void);

/* torch::autograd::Node, as far as its number and thread. */
struct node {
	void *table, *weak[2];
	uint64_t number, topological;
	char has_parent;
	uint64_t thread;
};
/* A std::shared_ptr's counts. */
struct counts {
	void *table;
	int uses, weak;
};
/* A std::shared_ptr is returned in memory; so is this, for it has three words. */
struct node_pointer {
	struct node *node;
	struct counts *counts;
	void *none;
};
#define CURRENT _ZN5torch8autograd16get_current_nodeEv
struct node_pointer CURRENT(void);

#ifndef ALLOCATOR

unsigned long reports, sum;

void REPORT(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device)
{
	reports++;
	sum += (address != NULL) + (unsigned long)bytes + 3 * allocated + 5 * reserved +
	       7 * (unsigned long)device.type + 11 * (unsigned long)device.index;
}

void REFUSE(int64_t asked, size_t allocated, size_t reserved, struct device device)
{
	reports++;
	sum += 13 * (unsigned long)asked + allocated + reserved + (unsigned long)device.index;
}

static _Thread_local uint64_t number, thread;
_Thread_local struct node *running;
struct counts counts = {NULL, 1, 1};

uint64_t NUMBER(void)
{
	return number++;
}

uint64_t THREAD(void)
{
	static _Atomic uint64_t threads;
	return thread ? thread : (thread = ++threads);
}

struct node_pointer CURRENT(void) {
	if (!running)
		return (struct node_pointer){NULL, NULL, NULL};
	__atomic_fetch_add(&counts.uses, 1, __ATOMIC_RELAXED);
	return (struct node_pointer){running, &counts, NULL};
}

#else

void segment_add(size_t bytes);
void tensor_take(void *address, size_t bytes);
void tensor_give(void *address, size_t bytes);
void host_take(void *address, size_t bytes);
void tensor_pairs(void *address, size_t bytes, int times, int depth);
void tensor_refuse(size_t bytes);
struct node *node_make(void);
int node_run(struct node *node, void *address, size_t bytes);

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

void tensor_refuse(size_t bytes)
{
	pthread_mutex_lock(&mutex);
	REFUSE((int64_t)bytes, allocated, reserved, (struct device){1, 0});
	pthread_mutex_unlock(&mutex);
}

extern _Thread_local struct node *running;
extern struct counts counts;

/* An operator of the forward pass makes a node. */
struct node *node_make(void)
{
	struct node *node = calloc(1, sizeof *node);
	node->number = NUMBER();
	node->thread = THREAD();
	return node;
}

struct work {
	struct node *node;
	void *address;
	size_t bytes;
};

/* N2at..generated..MmBackward0::apply would be here. */
static void *node_apply(void *arg)
{
	const struct work *work = arg;
	running = work->node;
	tensor_take(work->address, work->bytes);
	running = NULL;
	return NULL;
}

/* The node's backward makes a tensor, in a thread of C. Returns the references to the node that are
 * left. */
int node_run(struct node *node, void *address, size_t bytes)
{
	pthread_t thread;
	pthread_create(&thread, NULL, node_apply, &(struct work){node, address, bytes});
	pthread_join(thread, NULL);
	return counts.uses;
}

/* So many pairs, below as many calls of C. */
__attribute__((noinline)) void tensor_pairs(void *address, size_t bytes, int times, int depth)
{
	if (depth)
		tensor_pairs(address, bytes, times, depth - 1);
	for (; !depth && times; times--) {
		tensor_take(address, bytes);
		tensor_give(address, bytes);
	}
	__asm__ volatile("" ::: "memory"); /* no jump instead of the call */
}

/* Memory of the host is reported, too. */
void host_take(void *address, size_t bytes)
{
	REPORT(address, (int64_t)bytes, bytes, 0, (struct device){0, -1});
}

#endif
