/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream capture, by the rules measured on driver 580. A call that waits for a whole context, or
 * records in it, invalidates every open capture of that context, on any thread. A call that only
 * may do so (cuMemAlloc, cuMemFree, queries and waits) invalidates captures of the whole process,
 * depending on the modes of the capture and of the calling thread.
 */
#include <stdlib.h>

#include "sim/internal.h"

/* Does the capture forbid potentially unsafe calls of the calling thread? */
static bool capture_forbids(const struct sim_capture *capture)
{
	if (sim_me.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (pthread_equal(capture->thread, pthread_self()))
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       sim_me.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_unsafe(void)
{
	CUresult result = CUDA_SUCCESS;
	for (struct sim_node *n = sim.captures.first; n; n = n->next) {
		struct sim_capture *capture = (struct sim_capture *)n;
		if (capture_forbids(capture)) {
			capture->invalid = true;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

CUresult sim_capture_context(struct sim_context *ctx)
{
	CUresult result = CUDA_SUCCESS;
	for (struct sim_node *n = sim.captures.first; n; n = n->next) {
		struct sim_capture *capture = (struct sim_capture *)n;
		if (capture->ctx == ctx) {
			capture->invalid = true;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

/* An open capture for which the context's legacy stream would have to wait. */
static struct sim_capture *context_blocking_capture(const struct sim_context *ctx)
{
	for (struct sim_stream *s = sim.all_streams; s; s = s->next_all)
		if (s->ctx == ctx && s->capture && !(s->flags & CU_STREAM_NON_BLOCKING))
			return s->capture;
	return NULL;
}

CUresult sim_capture_implicit(struct sim_stream *stream)
{
	struct sim_capture *capture = stream->legacy ? context_blocking_capture(stream->ctx) : NULL;
	if (!capture)
		return CUDA_SUCCESS;
	capture->invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

static CUresult capture_begin(CUstream handle, CUstreamCaptureMode mode, struct sim_graph *graph)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	struct sim_capture *capture = calloc(1, sizeof *capture);
	if (capture && !graph) {
		capture->own_graph = true;
		graph = sim_graph_make();
	}
	if (!capture || !graph) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	capture->graph = graph;
	capture->ctx = s->ctx;
	capture->origin = s;
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->id = sim_new_id();
	sim_list_add(&sim.captures, &capture->node);
	s->capture = capture;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamBeginCapture(CUstream stream)
{
	return capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL);
}

CUresult sim_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	return capture_begin(stream, mode, NULL);
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
					 const CUgraphEdgeData *edges, size_t count,
					 CUstreamCaptureMode mode)
{
	(void)edges;
	if (!graph || !sim_list_has(&sim.graphs, graph) || (count && !after))
		return CUDA_ERROR_INVALID_VALUE;
	return capture_begin(stream, mode, (struct sim_graph *)graph);
}

/* The steps are captured again. No work here has parameters to compare: `differs` is not called,
 * and a capture with another number of steps is accepted. */
CUresult sim_cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode,
					   CUgraph handle, CUgraphRecaptureCallback differs,
					   void *data)
{
	struct sim_graph *graph;
	CUresult result = sim_graph_of(handle, &graph);
	(void)differs, (void)data;
	if (result == CUDA_SUCCESS)
		result = capture_begin(stream, mode, graph);
	for (size_t i = 0; result == CUDA_SUCCESS && i < graph->steps.n; i++)
		sim_work_release(graph->steps.at[i]);
	if (result == CUDA_SUCCESS)
		graph->steps.n = 0;
	return result;
}

/* Captures for graphics need Direct3D. */
CUresult sim_cuStreamBeginCaptureToCig(CUstream stream, CUstreamCigCaptureParams *params)
{
	(void)stream, (void)params;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuStreamEndCaptureToCig(CUstream stream)
{
	(void)stream;
	return CUDA_ERROR_INVALID_VALUE;
}

void sim_capture_end(struct sim_capture *capture)
{
	for (struct sim_stream *s = sim.all_streams; s; s = s->next_all) {
		if (s->capture == capture) {
			s->capture = NULL;
			s->captured = s->joined = 0;
		}
	}
	if (capture->own_graph)
		sim_graph_drop(capture->graph);
	sim_list_remove(&capture->node);
	free(capture);
}

static bool capture_is_unjoined(const struct sim_capture *capture)
{
	for (const struct sim_stream *s = sim.all_streams; s; s = s->next_all)
		if (s->capture == capture && s != capture->origin && s->joined < s->captured)
			return true;
	return false;
}

CUresult sim_cuStreamEndCapture(CUstream handle, CUgraph *out)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_capture *capture = s->capture;
	if (out)
		*out = NULL;
	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != s) {
		capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    !pthread_equal(capture->thread, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (capture->invalid)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (capture_is_unjoined(capture))
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (result == CUDA_SUCCESS && out) {
		*out = (CUgraph)capture->graph;
		capture->own_graph = false;
	}
	sim_capture_end(capture);
	return result;
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	CUstreamCaptureMode before = sim_me.mode;
	if ((unsigned)*mode <= CU_STREAM_CAPTURE_MODE_RELAXED) /* other modes are accepted */
		sim_me.mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

/* --- queries --- */

static CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
			     CUgraph *graph)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	if (result != CUDA_SUCCESS)
		return result;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->legacy && context_blocking_capture(s->ctx)) /* a query invalidates no capture */
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	const struct sim_capture *c = s->capture;
	*status = !c	       ? CU_STREAM_CAPTURE_STATUS_NONE
		  : c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
			       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (id)
		*id = c ? c->id : 0;
	if (graph)
		*graph = c && !c->invalid ? (CUgraph)c->graph : NULL;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	return capture_info(stream, status, NULL, NULL);
}

CUresult sim_cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
	return capture_info(stream, status, id, NULL);
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
				       cuuint64_t *id, CUgraph *graph, const CUgraphNode **after,
				       size_t *count)
{
	if (after)
		*after = NULL;
	if (count)
		*count = 0;
	return capture_info(stream, status, id, graph);
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status,
				       cuuint64_t *id, CUgraph *graph, const CUgraphNode **after,
				       const CUgraphEdgeData **edges, size_t *count)
{
	if (edges)
		*edges = NULL;
	return sim_cuStreamGetCaptureInfo_v2(stream, status, id, graph, after, count);
}
