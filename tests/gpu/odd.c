/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * At least 200 wrong and odd calls of the driver API, natively and preloaded: usage: odd
 * [KERNELS.cubin] [SECTION]. Each section is a process with a context of its own, so a broken
 * context affects no other section. On the simulated driver no kernels are needed.
 */
#include "odd.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

const char *odd_kernels;

void odd_begin(struct odd *o, const char *name)
{
	printf("%s%s%s:", o->state ? o->state : "", o->state ? ", " : "", name);
	fflush(stdout); /* so that the name of a crashing row is printed */
	if (o->enter)
		o->enter(o);
}

void odd_end(struct odd *o)
{
	if (o->leave)
		o->leave(o);
	putchar('\n');
	fflush(stdout);
}

CUdeviceptr odd_block(size_t size)
{
	CUdeviceptr at = 0;
	MUST(cuMemAlloc(&at, size));
	return at;
}

CUdeviceptr odd_freed(size_t size)
{
	CUdeviceptr at = odd_block(size);
	MUST(cuMemFree(at));
	return at;
}

CUdeviceptr odd_take(struct odd *o)
{
	return o->spare[o->taken++ % ODD_SPARE];
}

static void odd_start(struct odd *o)
{
	static _Alignas(4096) char host[ODD_HOST];
	o->host = host;
	MUST(cuInit(0));
	MUST(cuDeviceGet(&o->device, 0));
	MUST(cuDevicePrimaryCtxRetain(&o->context, o->device));
	MUST(cuCtxSetCurrent(o->context));
	MUST(cuStreamCreate(&o->stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAllocManaged(&o->managed, 1000, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemHostAlloc((void **)&o->pinned, ODD_HOST, 0));
	o->block = odd_block(1000);
	o->other = odd_block(1000);
	o->big = odd_block(3 * MIB + 100);
	for (unsigned i = 0; i < ODD_SPARE; i++)
		o->spare[i] = odd_block(1000);
	MUST(cuMemsetD8(o->block, 1, 1000));
	MUST(cuCtxSynchronize());
	o->freed = odd_freed(1000);
}

/* --- sections --- */

/* Before cuInit there is no memory: any address will do. */
static void rows_before(struct odd *o)
{
	static char host[ODD_HOST];
	o->state = "before cuInit";
	o->host = o->pinned = host;
	o->block = o->other = o->big = o->freed = o->managed = ODD_NOWHERE;
	for (unsigned i = 0; i < ODD_SPARE; i++)
		o->spare[i] = ODD_NOWHERE;
	odd_states(o);
}

#define ROWS(section)                             \
	static void rows_##section(struct odd *o) \
	{                                         \
		(void)o;

/* clang-format off */
ROWS(alloc)
#include "odd_alloc.def"
}
ROWS(free)
#include "odd_free.def"
}
ROWS(query)
#include "odd_query.def"
}
ROWS(host)
#include "odd_host.def"
}
ROWS(map)
#include "odd_map.def"
}
ROWS(async)
#include "odd_async.def"
}
ROWS(graph)
#include "odd_graph.def"
}
ROWS(null)
#include "odd_null.def"
}
ROWS(context)
#include "odd_context.def"
}
ROWS(capture)
#include "odd_capture.def"
}
/* clang-format on */

static const struct section {
	const char *name;
	void (*run)(struct odd *o);
	bool early; /* runs before cuInit */
} sections[] = {
	{"before", rows_before, true},
	{"alloc", rows_alloc, false},
	{"free", rows_free, false},
	{"copies", odd_copies, false},
	{"boxes", odd_boxes, false},
	{"fills", odd_fills, false},
	{"attributes", odd_attributes, false},
	{"query", rows_query, false},
	{"host", rows_host, false},
	{"map", rows_map, false},
	{"async", rows_async, false},
	{"graph", rows_graph, false},
	{"context", rows_context, false},
	{"capture", rows_capture, false},
	{"captured", odd_state_captured, false},
	{"elsewhere", odd_state_captured_elsewhere, false},
	{"none", odd_state_no_context, false},
	{"thread", odd_state_thread, false},
	{"second", odd_state_second, false},
	{"ended", odd_state_ended, false},
	{"gone", odd_state_gone, false},
	{"reset", odd_state_reset, false},
	{"again", odd_state_again, false},
	{"broken", odd_state_broken, false},
	{"unified", odd_unified, false},
	{"null", rows_null, false},
	{"forked", odd_state_forked, false},
};

/* Run the section in a process that has not used CUDA yet. */
static bool section_run(const struct section *s)
{
	struct odd o = {.state = s->name};
	int status = 0;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		if (!s->early)
			odd_start(&o);
		s->run(&o);
		exit(0);
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	printf("\nsection %s: status %d, signal %d\n", s->name, WEXITSTATUS(status),
	       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return false;
}

int main(int argc, char **argv)
{
	const char *only = argc > 2 ? argv[2] : "";
	bool good = true;
	odd_kernels = argc > 1 && *argv[1] ? argv[1] : NULL;
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
		if (!*only || strcmp(only, sections[i].name) == 0)
			good &= section_run(&sections[i]);
	return !good;
}
