/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: a moment in one stream, or in all streams of a context. */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

static CUresult event_find(CUevent handle, struct sim_event **out)
{
	*out = (struct sim_event *)handle;
	if (!handle || !sim_list_has(&sim.events, *out))
		return CUDA_ERROR_INVALID_HANDLE;
	return (*out)->ctx->broken;
}

CUresult sim_cuEventCreate(CUevent *out, unsigned flags)
{
	const unsigned known =
		CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	if (!out || flags & ~known ||
	    (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_event *event = calloc(1, sizeof *event);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->ctx = sim_current();
	event->flags = flags;
	sim_list_add(&sim.events, &event->node);
	*out = (CUevent)event;
	return CUDA_SUCCESS;
}

static void event_destroy(struct sim_event *event)
{
	sim_list_remove(&event->node);
	gm_array_free(&event->moments);
	free(event);
}

CUresult sim_cuEventDestroy_v2(CUevent handle)
{
	struct sim_event *event;
	if (event_find(handle, &event) == CUDA_ERROR_INVALID_HANDLE)
		return CUDA_ERROR_INVALID_HANDLE;
	event_destroy(event);
	return CUDA_SUCCESS;
}

void sim_events_of_context_gone(const struct sim_context *ctx)
{
	for (struct sim_node *n = sim.events.first, *next; n; n = next) {
		struct sim_event *event = (struct sim_event *)n;
		next = n->next;
		if (event->ctx == ctx)
			event_destroy(event);
	}
}

static void event_recorded(struct sim_event *event)
{
	event->stamp = ++sim.next_stamp;
	event->moments.n = 0;
	event->recorded = true;
	event->in_capture = false;
	event->capture = NULL;
}

static bool event_is_of(const struct sim_event *event, const struct sim_context *ctx)
{
	const struct sim_context *mine = event->ctx->origin ? event->ctx->origin : event->ctx;
	return mine == (ctx->origin ? ctx->origin : ctx);
}

CUresult sim_cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags)
{
	struct sim_event *event;
	struct sim_stream *s;
	CUresult result = event_find(handle, &event);
	if (result == CUDA_SUCCESS)
		result = sim_stream_of(stream, &s);
	if (result == CUDA_SUCCESS && flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && !event_is_of(event, s->ctx))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS)
		result = sim_enqueue(s, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	event_recorded(event);
	if (s->capture) {
		event->in_capture = true;
		event->capture = s->capture;
		event->captured_in = s;
		event->captured_at = s->captured;
		return CUDA_SUCCESS;
	}
	struct sim_moment now = {s, s->submitted};
	return gm_array_push(&event->moments, now) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuEventRecord(CUevent handle, CUstream stream)
{
	return sim_cuEventRecordWithFlags(handle, stream, CU_EVENT_RECORD_DEFAULT);
}

/* gm_sim_unfence */
static void moments_leave_out(struct sim_moments *moments)
{
	size_t kept = 0;
	for (size_t i = 0; i < moments->n; i++)
		if (!sim.unfenced && !moments->at[i].stream->unfenced)
			moments->at[kept++] = moments->at[i];
	moments->n = kept;
}

CUresult sim_event_record_context(struct sim_context *ctx, CUevent handle)
{
	struct sim_event *event;
	CUresult result = event_find(handle, &event);
	if (result == CUDA_SUCCESS && !event_is_of(event, ctx))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS)
		result = sim_capture_context(ctx);
	if (result != CUDA_SUCCESS)
		return result;
	event_recorded(event);
	result = sim_moments_of_context(&event->moments, ctx);
	moments_leave_out(&event->moments);
	return result;
}

CUresult sim_cuCtxRecordEvent(CUcontext ctx_handle, CUevent event)
{
	struct sim_context *ctx;
	CUresult result = sim_context_of(ctx_handle, &ctx);
	return result == CUDA_SUCCESS ? sim_event_record_context(ctx, event) : result;
}

/* Work that runs only when a graph is launched can be awaited neither by the program nor by the
 * GPU. */
static CUresult event_can_query(struct sim_event *event)
{
	return event->in_capture ? CUDA_ERROR_CAPTURED_EVENT : sim_capture_unsafe();
}

CUresult sim_cuEventQuery(CUevent handle)
{
	struct sim_event *event;
	CUresult result = event_find(handle, &event);
	if (result == CUDA_SUCCESS)
		result = event_can_query(event);
	if (result == CUDA_SUCCESS && !sim_moments_passed(&event->moments))
		result = CUDA_ERROR_NOT_READY;
	return result;
}

static CUresult moments_copy(struct sim_moments *out, const struct sim_moments *from)
{
	if (!gm_array_reserve(out, out->n + from->n))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (from->n)
		memcpy(out->at + out->n, from->at, from->n * sizeof *from->at);
	out->n += from->n;
	return CUDA_SUCCESS;
}

CUresult sim_cuEventSynchronize(CUevent handle)
{
	struct sim_event *event;
	struct sim_moments moments = {0};
	CUresult result = event_find(handle, &event);
	if (result == CUDA_SUCCESS)
		result = event_can_query(event);
	if (result == CUDA_SUCCESS) /* a copy: the event may be recorded again meanwhile */
		result = moments_copy(&moments, &event->moments);
	return result == CUDA_SUCCESS ? sim_wait(&moments) : result;
}

/* A stream that waits for an event of an open capture joins the capture. */
static CUresult event_wait_captured(struct sim_stream *s, struct sim_event *event)
{
	struct sim_capture *capture = event->capture;
	if (!capture || !sim_list_has(&sim.captures, capture))
		return CUDA_ERROR_CAPTURED_EVENT;
	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (s->capture && s->capture != capture) {
		s->capture->invalid = capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (s->legacy) {
		capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	s->capture = capture;
	if (event->captured_in != s && event->captured_in->joined < event->captured_at)
		event->captured_in->joined = event->captured_at;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags)
{
	struct sim_stream *s;
	struct sim_event *event;
	CUresult result = sim_stream_of(handle, &s);
	if (result == CUDA_SUCCESS)
		result = event_find(event_handle, &event);
	if (result == CUDA_SUCCESS && flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	if (event->in_capture)
		return event_wait_captured(s, event);
	if (s->capture) { /* the capture would depend on work outside it */
		s->capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	result = moments_copy(&s->waits, &event->moments);
	return result == CUDA_SUCCESS ? sim_enqueue(s, NULL) : result;
}

CUresult sim_cuCtxWaitEvent(CUcontext ctx_handle, CUevent handle)
{
	struct sim_event *event;
	struct sim_context *ctx;
	CUresult result = sim_context_of(ctx_handle, &ctx);
	if (result == CUDA_SUCCESS)
		result = event_find(handle, &event);
	if (result == CUDA_SUCCESS)
		result = sim_capture_context(ctx);
	struct sim_stream *s = sim.all_streams;
	for (; s && result == CUDA_SUCCESS; s = s->next_all)
		if (s->ctx == ctx && !s->destroyed)
			result = moments_copy(&s->waits, &event->moments);
	return result;
}

/* Time is the number of records: a microsecond each. */
CUresult sim_cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	struct sim_event *a, *b;
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (event_find(from, &a) == CUDA_ERROR_INVALID_HANDLE ||
	    event_find(to, &b) == CUDA_ERROR_INVALID_HANDLE || !a->recorded || !b->recorded ||
	    (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sim_moments_passed(&a->moments) || !sim_moments_passed(&b->moments))
		return CUDA_ERROR_NOT_READY;
	*ms = (float)(int64_t)(b->stamp - a->stamp) * 1e-3f;
	return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to)
{
	return sim_cuEventElapsedTime(ms, from, to);
}
