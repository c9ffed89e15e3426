/* SPDX-License-Identifier: BSD-3-Clause */
/* The same calls in states in which most of them fail natively: odd_states.def. */
#include "odd.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

void odd_states(struct odd *o)
{
#include "odd_states.def"
}

static void states_called(struct odd *o, const char *state)
{
	o->state = state;
	odd_states(o);
}

CUcontext odd_context(struct odd *o)
{
	CUcontext context;
	MUST(cuCtxCreate_v2(&context, 0, o->device));
	return context;
}

/* New memory for each state: rows have freed some of it, or set attributes. */
static void blocks_make(struct odd *o)
{
	MUST(cuMemAllocManaged(&o->managed, 1000, CU_MEM_ATTACH_GLOBAL));
	o->block = odd_block(1000);
	o->other = odd_block(1000);
	o->big = odd_block(3 * MIB + 100);
	for (o->taken = 0; o->taken < ODD_SPARE; o->taken++)
		o->spare[o->taken] = odd_block(1000);
	o->freed = odd_freed(1000);
}

/* --- contexts --- */

void odd_state_no_context(struct odd *o)
{
	MUST(cuCtxSetCurrent(NULL));
	states_called(o, "no context");
}

/* The current context is not the memory's. */
void odd_state_second(struct odd *o)
{
	odd_context(o);
	states_called(o, "another context");
}

/* The memory of a destroyed context. */
void odd_state_gone(struct odd *o)
{
	CUcontext own = odd_context(o);
	blocks_make(o);
	MUST(cuCtxDestroy(own));
	MUST(cuCtxSetCurrent(o->context));
	o->gone = true;
	states_called(o, "its context destroyed");
}

/* Stream handles end with their context: the rows use the default stream. */
void odd_state_reset(struct odd *o)
{
	o->stream = NULL;
	MUST(cuDevicePrimaryCtxReset(o->device));
	states_called(o, "after a reset");
}

void odd_state_again(struct odd *o)
{
	o->stream = NULL;
	MUST(cuDevicePrimaryCtxReset(o->device));
	MUST(cuDevicePrimaryCtxRetain(&o->context, o->device));
	MUST(cuCtxSetCurrent(o->context));
	o->gone = true;
	states_called(o, "reset and retained");
}

/* --- threads --- */

static void thread_run(void *(*body)(void *), void *arg)
{
	pthread_t thread;
	MUST(pthread_create(&thread, NULL, body, arg));
	MUST(pthread_join(thread, NULL));
}

static void *thread_states(void *o)
{
	states_called(o, "a thread without a context");
	return NULL;
}

void odd_state_thread(struct odd *o)
{
	thread_run(thread_states, o);
}

static void *thread_destroy(void *context)
{
	MUST(cuCtxDestroy(context));
	return NULL;
}

/* Another thread destroys it, so that it stays current here. */
void odd_state_ended(struct odd *o)
{
	o->stream = NULL;
	thread_run(thread_destroy, odd_context(o));
	states_called(o, "a destroyed context current");
}

/* --- captures --- */

static const char *const modes[] = {
	[CU_STREAM_CAPTURE_MODE_GLOBAL] = "global",
	[CU_STREAM_CAPTURE_MODE_THREAD_LOCAL] = "thread-local",
	[CU_STREAM_CAPTURE_MODE_RELAXED] = "relaxed",
};

static void capture_begin(struct odd *o)
{
	MUST(cuStreamBeginCapture(o->stream, o->mode));
}

static void capture_end(struct odd *o)
{
	CUgraph graph = NULL;
	TELL("end");
	SAY(cuStreamEndCapture(o->stream, &graph));
	if (graph)
		MUST(cuGraphDestroy(graph));
}

void odd_state_captured(struct odd *o)
{
	static char names[3][64];
	o->enter = capture_begin;
	o->leave = capture_end;
	for (unsigned i = 0; i < 3; i++) {
		o->mode = (CUstreamCaptureMode)i;
		snprintf(names[i], sizeof names[i], "in a %s capture", modes[i]);
		blocks_make(o);
		states_called(o, names[i]);
	}
}

/* The main thread captures; another thread makes the calls. */
static struct {
	sem_t asked, done;
	void (*call)(struct odd *o); /* NULL: end */
} main_thread;

static void main_thread_ask(void (*call)(struct odd *o))
{
	main_thread.call = call;
	sem_post(&main_thread.asked);
	if (call)
		sem_wait(&main_thread.done);
}

static void elsewhere_begin(struct odd *o)
{
	(void)o;
	main_thread_ask(capture_begin);
}

static void elsewhere_end(struct odd *o)
{
	(void)o;
	main_thread_ask(capture_end);
}

static void *elsewhere_run(void *arg)
{
	struct odd *o = arg;
	static char names[3][64];
	MUST(cuCtxSetCurrent(o->context));
	for (unsigned i = 0; i < 3; i++) {
		o->mode = (CUstreamCaptureMode)i;
		snprintf(names[i], sizeof names[i], "beside a %s capture", modes[i]);
		blocks_make(o);
		states_called(o, names[i]);
	}
	main_thread_ask(NULL);
	return NULL;
}

void odd_state_captured_elsewhere(struct odd *o)
{
	pthread_t thread;
	sem_init(&main_thread.asked, 0, 0);
	sem_init(&main_thread.done, 0, 0);
	o->enter = elsewhere_begin;
	o->leave = elsewhere_end;
	MUST(pthread_create(&thread, NULL, elsewhere_run, o));
	for (;;) {
		sem_wait(&main_thread.asked);
		if (!main_thread.call)
			break;
		main_thread.call(o);
		sem_post(&main_thread.done);
	}
	MUST(pthread_join(thread, NULL));
}

/* --- processes, sticky errors --- */

/* The driver does not work in a forked child. */
void odd_state_forked(struct odd *o)
{
	int status = 0;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		o->forked = true;
		states_called(o, "a forked child");
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	MUST(status);
}

/* Run a kernel that writes to NULL. */
static void context_break(struct odd *o)
{
	CUmodule module;
	CUfunction add;
	CUdeviceptr nowhere = 0;
	int n = 1;
	void *args[] = {&nowhere, &nowhere, &nowhere, &n};
	void (*simulated)(CUcontext, CUresult) = NULL;
	*(void **)&simulated = dlsym(RTLD_DEFAULT, "gm_sim_break");
	if (simulated) {
		simulated(o->context, CUDA_ERROR_ILLEGAL_ADDRESS);
		return;
	}
	MUST(cuModuleLoad(&module, odd_kernels));
	MUST(cuModuleGetFunction(&add, module, "add"));
	MUST(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
}

void odd_state_broken(struct odd *o)
{
	context_break(o);
	printf("the error:");
	SAY(cuCtxSynchronize());
	putchar('\n');
	states_called(o, "after an illegal address");
}
