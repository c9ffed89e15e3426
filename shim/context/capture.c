/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open stream captures, counted per context because a fence would invalidate them
 * (context/fence.h). The stream on which a capture began is kept with its context until it no
 * longer captures.
 */
#include "shim/context/capture.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "log/count.h"
#include "shim/call.h"
#include "shim/context/submit.h"

/* The driver of src/driver/exports.txt. A newer one may have further calls, such as captures. */
enum { NEWEST_DRIVER = 13040 };

struct capture {
	CUstream stream;
	pid_t thread; /* of a per-thread default stream; else 0 */
	struct gm_context *context;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static GM_ARRAY(struct capture) captures; /* under the lock */
static atomic_size_t open_captures;	  /* avoids the lock while there are none */

static struct capture capture_name(CUstream stream)
{
	bool shared_name = stream == CU_STREAM_PER_THREAD;
	return (struct capture){stream, shared_name ? (pid_t)syscall(SYS_gettid) : 0, NULL};
}

/* The index of a capture; captures.n: not found. */
static size_t capture_find(const struct capture *name)
{
	size_t i = 0;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	while (i < captures.n &&
	       (captures.at[i].stream != name->stream || captures.at[i].thread != name->thread))
		i++;
	return i;
}

void gm_capture_start(void)
{
	/* In known drivers the calls below begin all captures. */
	if (gm_shim_driver.version <= NEWEST_DRIVER)
		gm_fence_captures_counted();
}

static bool capture_remember(struct capture c)
{
	gm_lock_take(&lock);
	bool kept = gm_array_push(&captures, c);
	gm_lock_release(&lock);
	if (kept)
		atomic_fetch_add_explicit(&open_captures, 1, memory_order_relaxed);
	return kept;
}

/* Remove a capture from the table, and complete *out (may be `name`) with its context. */
static bool capture_take(const struct capture *name, struct capture *out)
{
	if (!atomic_load_explicit(&open_captures, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	size_t i = capture_find(name);
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

/* Before the driver's call: take the context's capture lock, so that no fence is recorded. */
static struct gm_context *capture_begin(CUstream stream)
{
	struct gm_context *context = gm_shim_context_of_stream(stream);
	gm_order_capture_begin();
	if (context)
		gm_fence_capture_begin(context);
	else
		gm_fence_capture_missed();
	return context;
}

static CUresult capture_begun(struct gm_context *context, CUstream stream, CUresult result)
{
	struct capture c = capture_name(stream);
	c.context = context;
	gm_order_capture_begun();
	if (!context)
		return result;
	/* A capture missing from the table must not be counted: its end would not be seen. */
	bool counted = result == CUDA_SUCCESS && capture_remember(c);
	if (result == CUDA_SUCCESS && !counted)
		gm_fence_capture_missed();
	gm_fence_capture_begun(context, counted);
	if (result == CUDA_SUCCESS)
		gm_counter_add(0, GM_C_captures, 1);
	return result;
}

/* After the driver's call. The stream was removed from the table before, for the driver may reuse
 * its handle. */
static CUresult capture_end(struct capture c, bool was_open, CUresult result)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!was_open)
		return result;
	/* A failed call, for example on the wrong thread, leaves the capture open. */
	if (result != CUDA_SUCCESS)
		gm_shim_driver.cuStreamIsCapturing(c.stream, &status);
	if (status == CU_STREAM_CAPTURE_STATUS_NONE || !capture_remember(c))
		gm_fence_capture_ended(c.context);
	return result;
}

#define PLAIN(stream) (stream)
#define OWN(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/*
 * Only here the guard stays up during the driver's call (no GM_PASS), for the thread holds the
 * context's capture lock. With the guard down, a hook of another tool inside the driver could free
 * a block of ours, whose fence would need that lock on the same thread: a deadlock.
 */
#define BEGINS(symbol, real_stream, parameters, arguments)                                     \
	GM_HANDLER(symbol, parameters, arguments, ({                                           \
			   struct gm_context *context = capture_begin(real_stream(stream));    \
			   capture_begun(context, real_stream(stream), real.symbol arguments); \
		   }))
#define BEGINS_BOTH(symbol, parameters, arguments)   \
	BEGINS(symbol, PLAIN, parameters, arguments) \
	BEGINS(symbol##_ptsz, OWN, parameters, arguments)

BEGINS_BOTH(cuStreamBeginCapture, (CUstream stream), (stream))
BEGINS_BOTH(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
BEGINS_BOTH(cuStreamBeginCaptureToGraph,
	    (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
	     const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode),
	    (stream, graph, dependencies, data, n, mode))
BEGINS_BOTH(cuStreamBeginRecaptureToGraph,
	    (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
	     CUgraphRecaptureCallback differs, void *data),
	    (stream, mode, graph, differs, data))
BEGINS_BOTH(cuStreamBeginCaptureToCig, (CUstream stream, CUstreamCigCaptureParams *params),
	    (stream, params))

#define ENDS(symbol, real_stream, parameters, arguments)                         \
	GM_HANDLER(symbol, parameters, arguments, ({                             \
			   struct capture c = capture_name(real_stream(stream)); \
			   bool open = capture_take(&c, &c);                     \
			   capture_end(c, open, GM_PASS(real.symbol arguments)); \
		   }))

ENDS(cuStreamEndCapture, PLAIN, (CUstream stream, CUgraph *graph), (stream, graph))
ENDS(cuStreamEndCapture_ptsz, OWN, (CUstream stream, CUgraph *graph), (stream, graph))
ENDS(cuStreamEndCaptureToCig, PLAIN, (CUstream stream), (stream))
ENDS(cuStreamEndCaptureToCig_ptsz, OWN, (CUstream stream), (stream))

/* The driver may reuse the handle at once, so the order is told before the call. */
#define DESTROY(stream) (gm_submit_stream_ends(stream), (stream))
ENDS(cuStreamDestroy, DESTROY, (CUstream stream), (stream))
ENDS(cuStreamDestroy_v2, DESTROY, (CUstream stream), (stream))

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
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	captures.at = NULL;
	captures.n = captures.room = 0;
	atomic_store(&open_captures, 0);
}
