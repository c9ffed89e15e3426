/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream captures are counted per context, because a fence would invalidate them (pool/fence.h).
 * The stream on which one began is remembered with its context until the driver says that it no
 * longer captures.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "handlers.h"

struct capture {
	CUstream stream;
	pid_t thread; /* of a per-thread default stream; else 0 */
	struct gm_context *context;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);
static GM_ARRAY(struct capture) captures;
static atomic_size_t open_captures; /* saves the lock where there are none */

struct gm_context *gm_shim_context_of_stream(CUstream stream)
{
	CUcontext handle = NULL;
	CUresult result;
	if (gm_shim_driver.cuStreamGetCtx(stream, &handle) == CUDA_SUCCESS)
		return gm_context_of(&gm_shim_driver, handle, &result);
	return gm_context_current(&gm_shim_driver, &result);
}

static struct capture name(CUstream stream)
{
	bool shared_name = stream == CU_STREAM_PER_THREAD;
	return (struct capture){stream, shared_name ? (pid_t)syscall(SYS_gettid) : 0, NULL};
}

/* Under the lock. */
static size_t find(const struct capture *which)
{
	size_t i = 0;
	while (i < captures.n &&
	       (captures.at[i].stream != which->stream || captures.at[i].thread != which->thread))
		i++;
	return i;
}

static bool remember(struct capture c)
{
	gm_lock_take(&lock);
	bool kept = gm_array_push(&captures, c);
	gm_lock_release(&lock);
	if (kept)
		atomic_fetch_add_explicit(&open_captures, 1, memory_order_relaxed);
	return kept;
}

/* Out of the table; *out (may be `which`) is then whole. */
static bool take(const struct capture *which, struct capture *out)
{
	if (!atomic_load_explicit(&open_captures, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	size_t i = find(which);
	bool found = i < captures.n;
	if (found) {
		*out = captures.at[i];
		captures.at[i] = captures.at[--captures.n];
	}
	gm_lock_release(&lock);
	if (found)
		atomic_fetch_sub_explicit(&open_captures, 1, memory_order_relaxed);
	return found;
}

bool gm_capture_any(void)
{
	return atomic_load_explicit(&open_captures, memory_order_relaxed) > 0;
}

/* Around the driver's call: no fence is recorded in the context meanwhile. */
static struct gm_context *begin(CUstream stream)
{
	struct gm_context *context = gm_shim_context_of_stream(stream);
	if (context)
		gm_fence_capture_begin(context);
	else
		gm_fence_capture_missed();
	return context;
}

static CUresult begun(struct gm_context *context, CUstream stream, CUresult result)
{
	struct capture c = name(stream);
	c.context = context;
	if (!context)
		return result;
	/* What could not be remembered is not counted either: nothing would ever end it. */
	bool counted = result == CUDA_SUCCESS && remember(c);
	if (result == CUDA_SUCCESS && !counted)
		gm_fence_capture_missed();
	gm_fence_capture_begun(context, counted);
	if (result == CUDA_SUCCESS)
		gm_counter_add(0, GM_C_captures, 1);
	return result;
}

/* The stream leaves the table before the driver's call, which may free its name for another one. */
static CUresult end(struct capture c, bool was_open, CUresult result)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!was_open)
		return result;
	/* On the wrong thread, for one, the capture stays open. */
	if (result != CUDA_SUCCESS)
		gm_shim_driver.cuStreamIsCapturing(c.stream, &status);
	if (status == CU_STREAM_CAPTURE_STATUS_NONE || !remember(c))
		gm_fence_capture_ended(c.context);
	return result;
}

#define PLAIN(stream) (stream)
#define OWN(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

#define BEGINS(symbol, real_stream, parameters, arguments)                                    \
	CUresult on_##symbol parameters                                                       \
	{                                                                                     \
		if (!gm_shim_enter())                                                         \
			return real.symbol arguments;                                         \
		struct gm_context *context = begin(real_stream(stream));                      \
		CUresult result = begun(context, real_stream(stream), real.symbol arguments); \
		gm_shim_leave();                                                              \
		return result;                                                                \
	}
#define BEGINS_BOTH(symbol, parameters, arguments)   \
	BEGINS(symbol, PLAIN, parameters, arguments) \
	BEGINS(symbol##_ptsz, OWN, parameters, arguments)

BEGINS_BOTH(cuStreamBeginCapture, (CUstream stream), (stream))
BEGINS_BOTH(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
BEGINS_BOTH(cuStreamBeginCaptureToGraph,
	    (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
	     const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode),
	    (stream, graph, dependencies, data, n, mode))

#define ENDS(symbol, real_stream, parameters, arguments)                        \
	CUresult on_##symbol parameters                                         \
	{                                                                       \
		if (!gm_shim_enter())                                           \
			return real.symbol arguments;                           \
		struct capture c = name(real_stream(stream));                   \
		bool open = take(&c, &c);                                       \
		CUresult result = end(c, open, GM_PASS(real.symbol arguments)); \
		gm_shim_leave();                                                \
		return result;                                                  \
	}

ENDS(cuStreamEndCapture, PLAIN, (CUstream stream, CUgraph *graph), (stream, graph))
ENDS(cuStreamEndCapture_ptsz, OWN, (CUstream stream, CUgraph *graph), (stream, graph))
ENDS(cuStreamDestroy, PLAIN, (CUstream stream), (stream))
ENDS(cuStreamDestroy_v2, PLAIN, (CUstream stream), (stream))

void gm_capture_context_gone(struct gm_context *context)
{
	size_t kept = 0, gone = 0;
	gm_lock_take(&lock);
	for (size_t i = 0; i < captures.n; i++) {
		if (captures.at[i].context == context)
			gone++;
		else
			captures.at[kept++] = captures.at[i];
	}
	captures.n = kept;
	gm_lock_release(&lock);
	atomic_fetch_sub_explicit(&open_captures, gone, memory_order_relaxed);
	while (gone--)
		gm_fence_capture_ended(context);
}

void gm_capture_forget_all(void)
{
	gm_lock_init(&lock, GM_RANK_TABLE);
	captures.at = NULL;
	captures.n = captures.room = 0;
	atomic_store(&open_captures, 0);
}
