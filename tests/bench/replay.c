/* SPDX-License-Identifier: BSD-3-Clause */
/* Replays the allocations and frees of a trace, one after the other: lines "a BLOCK SIZE" and "f
 * BLOCK", as trace.py writes them. */
#include "client.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct event {
	uint32_t block;
	uint64_t size; /* 0: a free */
};

struct trace {
	struct event *events;
	void **blocks; /* address of each block */
	size_t n, room;
	uint32_t most; /* highest number of a block */
	uint64_t peak; /* most live bytes at a time */
};

static void trace_add(struct trace *trace, struct event event)
{
	if (trace->n == trace->room) {
		trace->room = trace->room ? trace->room * 2 : 1024;
		trace->events = realloc(trace->events, trace->room * sizeof *trace->events);
		BENCH_MUST(trace->events == NULL);
	}
	trace->events[trace->n++] = event;
	if (event.block > trace->most)
		trace->most = event.block;
}

static struct trace trace_read(const char *path)
{
	struct trace trace = {.events = NULL};
	char kind;
	unsigned block;
	FILE *file = fopen(path, "r");
	if (!file) {
		printf("error %s: %s\n", path, strerror(errno));
		exit(1);
	}
	while (fscanf(file, " %c %u", &kind, &block) == 2) {
		unsigned long long size = 0;
		BENCH_MUST(kind != 'f' && (fscanf(file, "%llu", &size) != 1 || size == 0));
		trace_add(&trace, (struct event){block, size});
	}
	BENCH_MUST(!feof(file) || trace.n == 0);
	fclose(file);
	trace.blocks = calloc((size_t)trace.most + 1, sizeof *trace.blocks);
	BENCH_MUST(trace.blocks == NULL);
	return trace;
}

static void trace_free(struct trace *trace)
{
	free(trace->events);
	free(trace->blocks);
}

static size_t used(void)
{
	size_t free_bytes, total;
	BENCH_MUST(cudaMemGetInfo(&free_bytes, &total));
	return total - free_bytes;
}

/* Make the calls. If `most_used` is given, query the device's used memory at each new peak of live
 * bytes. */
static void run(struct trace *trace, size_t *most_used)
{
	uint64_t *sizes = calloc((size_t)trace->most + 1, sizeof *sizes), live = 0;
	BENCH_MUST(sizes == NULL);
	for (size_t i = 0; i < trace->n; i++) {
		const struct event *e = &trace->events[i];
		if (!e->size) {
			BENCH_MUST(cudaFree(trace->blocks[e->block]));
			live -= sizes[e->block];
			continue;
		}
		BENCH_MUST(cudaMalloc(&trace->blocks[e->block], e->size));
		sizes[e->block] = e->size;
		live += e->size;
		if (live <= trace->peak)
			continue;
		trace->peak = live;
		size_t now = most_used ? used() : 0;
		if (most_used && now > *most_used)
			*most_used = now;
	}
	free(sizes);
}

/* Answers microseconds, the peak of live bytes, and the number of calls. */
void bench_replay(char **words)
{
	struct trace trace = trace_read(words[1]);
	double begin = bench_now();
	run(&trace, NULL);
	double took = bench_now() - begin;
	trace_free(&trace);
	printf("ok %.1f %llu %zu\n", took, (unsigned long long)trace.peak, trace.n);
}

/* Answers the peak of live bytes, and the largest growth of the device's used memory. */
void bench_replay_used(char **words)
{
	struct trace trace = trace_read(words[1]);
	size_t before = used(), most = before;
	run(&trace, &most);
	trace_free(&trace);
	printf("ok %llu %zu\n", (unsigned long long)trace.peak, most - before);
}
