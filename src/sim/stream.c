/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: queues of steps. A step runs when the steps before it in its stream have passed, and the
 * moments of other streams that it waits for, and its stream is not held. It runs on the thread
 * that fulfils the last of these conditions. Nothing runs by itself, so no test depends on time.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

static pthread_cond_t passed = PTHREAD_COND_INITIALIZER; /* signalled when a step has finished */

/* --- moments --- */

static bool moment_passed(struct sim_moment m)
{
	return m.stream->done >= m.seq;
}

bool sim_moments_passed(const struct sim_moments *moments)
{
	for (size_t i = 0; i < moments->n; i++)
		if (!moment_passed(moments->at[i]))
			return false;
	return true;
}

static CUresult moments_add(struct sim_moments *out, struct sim_stream *stream, uint64_t seq)
{
	struct sim_moment m = {stream, seq};
	return moment_passed(m) || gm_array_push(out, m) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Every stream of a context, or only those that synchronise with its legacy stream. */
static CUresult moments_add_context(struct sim_moments *out, struct sim_context *ctx,
				    bool blocking_only)
{
	CUresult result = CUDA_SUCCESS;
	for (struct sim_stream *s = sim.all_streams; s && result == CUDA_SUCCESS; s = s->next_all)
		if ((s->ctx == ctx || s->ctx->origin == ctx) &&
		    !(blocking_only && s->flags & CU_STREAM_NON_BLOCKING))
			result = moments_add(out, s, s->submitted);
	return result;
}

CUresult sim_moments_of_context(struct sim_moments *out, struct sim_context *ctx)
{
	return moments_add_context(out, ctx, false);
}

CUresult sim_moments_of_stream(struct sim_moments *out, struct sim_stream *stream)
{
	if (stream->legacy)
		return moments_add_context(out, stream->ctx, true);
	return moments_add(out, stream, stream->submitted);
}

CUresult sim_wait(struct sim_moments *moments)
{
	sim.waiters++;
	while (!sim_moments_passed(moments))
		pthread_cond_wait(&passed, &sim_lock.mutex);
	sim.waiters--;
	gm_array_free(moments);
	return CUDA_SUCCESS;
}

CUresult sim_wait_stream(struct sim_stream *stream)
{
	struct sim_moments moments = {0};
	CUresult result = sim_moments_of_stream(&moments, stream);
	return result == CUDA_SUCCESS ? sim_wait(&moments) : result;
}

CUresult sim_wait_context(struct sim_context *ctx)
{
	struct sim_moments moments = {0};
	CUresult result = sim_moments_of_context(&moments, ctx);
	return result == CUDA_SUCCESS ? sim_wait(&moments) : result;
}

/* --- steps --- */

struct sim_work *sim_work_make(void (*run)(void *), void (*drop)(void *), size_t data)
{
	struct sim_work *work = calloc(1, sizeof *work + data);
	if (work) {
		work->refs = 1;
		work->run = run;
		work->drop = drop;
	}
	return work;
}

void sim_work_release(struct sim_work *work)
{
	if (!work || --work->refs)
		return;
	if (work->drop)
		work->drop(work->data);
	sim_work_release(work->instead);
	free(work);
}

static bool stream_is_runnable(const struct sim_stream *s)
{
	const struct sim_work *work = s->head ? s->head->work : NULL;
	return s->head && !s->running && (!s->held || s->allow) &&
	       sim_moments_passed(&s->head->after) &&
	       !(work && work->is_ready && !work->is_ready(work->data));
}

static void stream_run_head(struct sim_stream *s)
{
	struct sim_step *step = s->head;
	struct sim_launched *outer = sim_me.launched;
	s->running = true;
	s->allow -= s->held && s->allow;
	sim_me.launched = step->launched;
	if (step->work && step->work->unlocked) {
		sim_unlock_driver();
		step->work->run(step->work->data);
		sim_lock_driver();
	} else if (step->work) {
		step->work->run(step->work->data);
	}
	sim_me.launched = outer;
	s->head = step->next;
	if (!s->head)
		s->tail = &s->head;
	s->done = step->seq;
	s->ran++;
	s->running = false;
	sim_work_release(step->work);
	sim_launched_release(step->launched);
	gm_array_free(&step->after);
	free(step);
	pthread_cond_broadcast(&passed);
}

void sim_streams_run(void)
{
	struct sim_stream *s = sim.all_streams;
	while (s) {
		if (!stream_is_runnable(s)) {
			s = s->next_all;
			continue;
		}
		stream_run_head(s);
		s = sim.all_streams; /* other steps may have waited for this one */
	}
}

/* Add the moments that a new step waits for, besides the steps before it. */
static CUresult step_add_after(struct sim_step *step, struct sim_stream *stream)
{
	step->after = stream->waits;
	stream->waits = (struct sim_moments){0};
	if (stream->legacy)
		return moments_add_context(&step->after, stream->ctx, true);
	if (!(stream->flags & CU_STREAM_NON_BLOCKING) && stream->ctx->legacy)
		return moments_add(&step->after, stream->ctx->legacy,
				   stream->ctx->legacy->submitted);
	return CUDA_SUCCESS;
}

static CUresult stream_record(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_capture *capture = stream->capture;
	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (work && !gm_array_push(&capture->graph->steps, work))
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->captured++;
	return CUDA_SUCCESS;
}

/* Run a programmatic kernel while the steps before it in its stream run, unless the stream waits
 * for another one. Its step keeps its place in the order. */
static struct sim_work *work_run_ahead(struct sim_stream *stream, struct sim_step *step,
				       struct sim_work *work)
{
	if (!work || !work->programmatic || !stream->head || !sim_moments_passed(&step->after))
		return work;
	for (const struct sim_step *before = stream->head; before; before = before->next)
		if (!sim_moments_passed(&before->after))
			return work;
	sim_unlock_driver();
	work->run(work->data);
	sim_lock_driver();
	sim_work_release(work);
	return NULL;
}

static void step_put_last(struct sim_stream *stream, struct sim_step *step)
{
	step->seq = ++stream->submitted;
	*stream->tail = step;
	stream->tail = &step->next;
}

CUresult sim_enqueue(struct sim_stream *stream, struct sim_work *work)
{
	CUresult result;
	struct sim_step *step = NULL;
	if (stream->capture) {
		result = stream_record(stream, work);
	} else {
		result = sim_capture_implicit(stream);
		if (result == CUDA_SUCCESS && !(step = calloc(1, sizeof *step)))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		if (result == CUDA_SUCCESS)
			result = step_add_after(step, stream);
	}
	if (result != CUDA_SUCCESS) {
		sim_work_release(work);
		if (step)
			gm_array_free(&step->after);
		free(step);
		return result;
	}
	if (step) {
		step->work = work_run_ahead(stream, step, work);
		step_put_last(stream, step);
		sim_streams_run();
	}
	return CUDA_SUCCESS;
}

struct sim_step *sim_step_append(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_step *step = calloc(1, sizeof *step);
	if (step && step_add_after(step, stream) != CUDA_SUCCESS) {
		gm_array_free(&step->after);
		free(step);
		return NULL;
	}
	if (!step)
		return NULL;
	step->work = work;
	step_put_last(stream, step);
	return step;
}

struct sim_step *sim_step_insert(struct sim_stream *stream, struct sim_step *next,
				 struct sim_work *work)
{
	struct sim_step *step = calloc(1, sizeof *step), **link = &stream->head;
	if (!step)
		return NULL;
	while (*link != next)
		link = &(*link)->next;
	step->work = work;
	step->seq = next->seq - 1; /* so moments from `next` on cover it */
	step->next = next;
	*link = step;
	return step;
}

/* --- streams --- */

/* Remove the stream at *link from the list. */
static void stream_bury(struct sim_stream **link)
{
	struct sim_stream *s = *link;
	*link = s->next_all;
	s->next_all = sim.buried;
	sim.buried = s;
}

/* Remove destroyed streams whose work is done. */
static void streams_prune(void)
{
	struct sim_stream **link = &sim.all_streams;
	while (*link)
		if ((*link)->destroyed && !(*link)->head)
			stream_bury(link);
		else
			link = &(*link)->next_all;
}

struct sim_stream *sim_stream_make(struct sim_context *ctx, unsigned flags, int priority)
{
	struct sim_stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	streams_prune();
	s->ctx = ctx;
	s->flags = flags;
	s->priority = priority;
	s->id = sim_new_id();
	s->tail = &s->head;
	sim_list_add(&sim.streams, &s->node);
	s->next_all = sim.all_streams;
	sim.all_streams = s;
	return s;
}

/* Invalidate the handle. Remaining work still runs, and the struct stays for waiting threads. */
void sim_stream_drop(struct sim_stream *stream)
{
	if (stream->capture) {
		stream->capture->invalid = true;
		if (stream->capture->origin == stream)
			sim_capture_end(stream->capture);
	}
	stream->destroyed = true;
	sim_list_remove(&stream->node);
}

void sim_streams_of_context_gone(struct sim_context *ctx)
{
	struct sim_stream **link = &sim.all_streams;
	while (*link) {
		struct sim_stream *s = *link;
		if (s->ctx != ctx) {
			link = &s->next_all;
			continue;
		}
		if (!s->destroyed)
			sim_stream_drop(s);
		stream_bury(link);
	}
	ctx->legacy = NULL;
}

/* The calling thread's own default stream in its current context. */
static struct sim_stream *context_own_stream(struct sim_context *ctx)
{
	size_t room = sizeof sim_me.own / sizeof *sim_me.own, at = room;
	for (size_t i = 0; i < room; i++) {
		if (sim_me.own[i].ctx == ctx && sim_me.own[i].ctx_id == ctx->id)
			return sim_me.own[i].stream;
		if (at == room && (!sim_me.own[i].ctx || !sim_me.own[i].ctx->alive ||
				   sim_me.own[i].ctx->id != sim_me.own[i].ctx_id))
			at = i;
	}
	struct sim_stream *s = at < room ? sim_stream_make(ctx, CU_STREAM_DEFAULT, 0) : NULL;
	if (s) {
		s->per_thread = true;
		sim_me.own[at].ctx = ctx;
		sim_me.own[at].ctx_id = ctx->id;
		sim_me.own[at].stream = s;
	}
	return s;
}

CUresult sim_stream_of(CUstream handle, struct sim_stream **out)
{
	if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
		*out = (struct sim_stream *)handle;
		if (!sim_list_has(&sim.streams, *out))
			return CUDA_ERROR_INVALID_HANDLE;
		return (*out)->ctx->broken;
	}
	CUresult result = sim_check_current();
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_context *ctx = sim_current();
	bool own = handle == CU_STREAM_PER_THREAD || (!handle && sim_me.per_thread);
	*out = own ? context_own_stream(ctx) : ctx->legacy;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuStreamCreate(CUstream *out, unsigned flags)
{
	return sim_cuStreamCreateWithPriority(out, flags, 0);
}

CUresult sim_cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	int clamped = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	struct sim_stream *s = sim_stream_make(sim_current(), flags, clamped);
	*out = (CUstream)s;
	return s ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuStreamDestroy_v2(CUstream handle)
{
	struct sim_stream *s = (struct sim_stream *)handle;
	if (!handle || !sim_list_has(&sim.streams, s) || s->legacy || s->per_thread)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_stream_drop(s);
	return CUDA_SUCCESS;
}

/* A wait for a capturing stream, or its query, invalidates the capture. */
static CUresult stream_may_wait(struct sim_stream *stream)
{
	if (!stream->capture)
		return stream->legacy ? sim_capture_implicit(stream) : CUDA_SUCCESS;
	CUresult result = stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
						   : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	stream->capture->invalid = true;
	return result;
}

CUresult sim_cuStreamSynchronize(CUstream handle)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	if (result == CUDA_SUCCESS)
		result = stream_may_wait(s);
	if (result == CUDA_SUCCESS)
		result = sim_capture_unsafe();
	return result == CUDA_SUCCESS ? sim_wait_stream(s) : result;
}

CUresult sim_cuStreamQuery(CUstream handle)
{
	struct sim_stream *s;
	struct sim_moments moments = {0};
	CUresult result = sim_stream_of(handle, &s);
	if (result == CUDA_SUCCESS)
		result = stream_may_wait(s);
	if (result == CUDA_SUCCESS)
		result = sim_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = sim_moments_of_stream(&moments, s);
	if (result == CUDA_SUCCESS && !sim_moments_passed(&moments))
		result = CUDA_ERROR_NOT_READY;
	gm_array_free(&moments);
	return result;
}

CUresult sim_cuStreamGetCtx(CUstream handle, CUcontext *out)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	if (result == CUDA_SUCCESS && !out)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*out = (CUcontext)s->ctx;
	return result;
}

/* sim_cuStreamGet<query>: one member of the stream. */
#define GET(query, type, member)                                    \
	CUresult sim_cuStreamGet##query(CUstream handle, type *out) \
	{                                                           \
		struct sim_stream *s;                               \
		CUresult result = sim_stream_of(handle, &s);        \
		if (result == CUDA_SUCCESS && !out)                 \
			result = CUDA_ERROR_INVALID_VALUE;          \
		if (result == CUDA_SUCCESS)                         \
			*out = s->member;                           \
		return result;                                      \
	}
GET(Id, unsigned long long, id)
GET(Flags, unsigned, flags)
GET(Priority, int, priority)

/* --- control by tests --- */

static void kernel_run(void *data)
{
	void (**work)(void *) = data;
	void **arg = (void **)(work + 1);
	(*work)(*arg);
}

struct sim_work *sim_foreign_work(void (*run)(void *), void *arg)
{
	struct sim_work *work = sim_work_make(kernel_run, NULL, sizeof run + sizeof arg);
	if (work) {
		work->unlocked = true;
		memcpy(work->data, &run, sizeof run);
		memcpy(work->data + sizeof run, &arg, sizeof arg);
	}
	return work;
}

CUresult gm_sim_launch(CUstream handle, void (*work)(void *arg), void *arg)
{
	struct sim_stream *s;
	sim_lock_driver();
	sim_me.per_thread = false;
	CUresult result = sim_stream_of(handle, &s);
	if (result == CUDA_SUCCESS) {
		struct sim_work *made = sim_foreign_work(work, arg);
		result = made ? sim_enqueue(s, made) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_unlock_driver();
	return result;
}

void gm_sim_hold(CUstream handle)
{
	struct sim_stream *s;
	sim_lock_driver();
	sim_me.per_thread = false;
	if (sim_stream_of(handle, &s) == CUDA_SUCCESS)
		s->held = true;
	sim_unlock_driver();
}

unsigned gm_sim_release(CUstream handle, unsigned steps)
{
	struct sim_stream *s;
	unsigned ran = 0;
	sim_lock_driver();
	sim_me.per_thread = false;
	if (sim_stream_of(handle, &s) == CUDA_SUCCESS) {
		s->held = steps != (unsigned)-1;
		s->allow = s->held ? steps : 0;
		s->ran = 0;
		sim_streams_run();
		s->allow = 0;
		ran = s->ran;
	}
	sim_unlock_driver();
	return ran;
}

void gm_sim_unfence(CUstream handle)
{
	struct sim_stream *s;
	sim_lock_driver();
	sim_me.per_thread = false;
	if (!handle)
		sim.unfenced = true;
	else if (sim_stream_of(handle, &s) == CUDA_SUCCESS)
		s->unfenced = true;
	sim_unlock_driver();
}

unsigned gm_sim_waiters(void)
{
	sim_lock_driver();
	unsigned waiters = sim.waiters;
	sim_unlock_driver();
	return waiters;
}
