/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of streams: of a handle its value, which is a multiple of 4; of a legacy default stream
 * its context's handle, plus 1; of a per-thread default stream a multiple of 4, plus 3. So no two
 * existing streams have the same key, and none has GM_ORDER_MANY.
 */
#include "shim/context/submit.h"

#include <string.h>

#include "base/clock.h"
#include "base/entries.h"
#include "base/loaded.h"
#include "base/msg.h"
#include "knob/knob.h"
#include "pool/hot.h"
#include "shim/context/capture.h"
#include "shim/idle/trim.h"
#include "shim/kernel/launch.h"
#include "shim/memory/retry.h"

/* Libraries that use device memory in no order of streams, or that launch work past our hooks:
 * begins of their file names. Not libcufile and libnvshmem, which every PyTorch loads: before they
 * register memory of the program they set SYNC_MEMOPS or get a handle, which waits; otherwise they
 * copy by the driver's functions. */
static const char *const names[] = {
	"libgdrapi.", "libucp.",     "libfabric.",  "libcxi.",
	"libpsm",     "libnvoptix.", "libnvcuvid.", "libnvidia-encode.",
};
/* NCCL loads it on each machine. Without a device it registers nothing. */
static const char *const verbs[] = {"libibverbs."};
#define VERBS_FOLDER "/dev/infiniband"
#define VERBS_DEVICE "uverbs"

static const struct gm_order_ops *pool_order; /* NULL: the pools sync or defer */

/* The stream of this thread's last context query. */
static GM_TLS struct {
	uint64_t key, context;
	unsigned turn;
} last_stream;
static atomic_uint turn; /* grows when handles may be reused for other streams */

/* This thread's default stream, in the context of its last query. */
static GM_TLS struct {
	CUcontext context;
	uint64_t key;
} own_stream;

static uint64_t key_of_own(CUcontext context)
{
	static _Atomic uint64_t given;
	if (own_stream.context != context || !own_stream.key) {
		own_stream.context = context;
		own_stream.key = (atomic_fetch_add(&given, 1) + 1) * 4 + 3;
	}
	return own_stream.key;
}

static uint64_t stream_key(CUstream stream)
{
	CUcontext context = NULL;
	if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
		return (uint64_t)(uintptr_t)stream;
	gm_shim_driver.cuCtxGetCurrent(&context);
	if (stream == CU_STREAM_PER_THREAD)
		return key_of_own(context);
	return (uint64_t)(uintptr_t)context + 1;
}

static uint64_t stream_context(CUstream stream, uint64_t key)
{
	unsigned now = atomic_load(&turn);
	if (last_stream.key == key && last_stream.turn == now)
		return last_stream.context;
	struct gm_context *context = gm_shim_context_of_stream(stream);
	last_stream.key = key;
	last_stream.turn = now;
	last_stream.context = context ? context->key : 0;
	return last_stream.context;
}

void gm_submit_begin(CUstream stream, bool programmatic)
{
	unsigned inside = gm_shim_inside;
	gm_wrap_pass();
	gm_shim_inside = 1;
	uint64_t key = stream_key(stream);
	if (GM_UNLIKELY(!gm_order_enter(key) || programmatic)) {
		const struct gm_order_stream s = {stream, key, stream_context(stream, key)};
		gm_order_submit(&s, programmatic);
		if (gm_order_suspect_next() != UINT64_MAX)
			gm_trim_order_waits();
	}
	gm_shim_inside = inside;
}

void gm_submit_begin_anywhere(void)
{
	unsigned inside = gm_shim_inside;
	const struct gm_order_stream unknown = {NULL, GM_ORDER_MANY, 0};
	gm_shim_inside = 1;
	gm_order_enter(unknown.key);
	gm_order_submit(&unknown, false);
	gm_shim_inside = inside;
}

void gm_submit_stream_ends(CUstream stream)
{
	if (!gm_order_is_on())
		return;
	atomic_fetch_add(&turn, 1);
	gm_order_stream_ends(stream);
}

/* --- reasons against early reuse of memory --- */

static const char *unordered_find(void)
{
	const char *found = gm_loaded_find(names, sizeof names / sizeof *names);
	if (found)
		return found;
	found = gm_loaded_find(verbs, 1);
	return found && !gm_entries_lack(VERBS_FOLDER, VERBS_DEVICE) ? found : NULL;
}

/* The loader has one lock for the process, so it is asked once a tick of the coarse clock, some
 * milliseconds. A library takes longer to register memory. Programs have hundreds of objects, so
 * the list is read again only after a load. */
static bool order_may(void)
{
	static _Atomic uint64_t asked;
	static _Atomic unsigned long long seen;
	uint64_t tick = gm_clock_coarse_ns();
	if (GM_LIKELY(tick == atomic_load_explicit(&asked, memory_order_relaxed)))
		return true;
	atomic_store_explicit(&asked, tick, memory_order_relaxed);
	unsigned long long now = gm_loaded_changes();
	if (now == atomic_load_explicit(&seen, memory_order_relaxed))
		return true;
	const char *found = unordered_find();
	if (found) {
		gm_order_forbid(found, "uses memory in no order of streams");
		return false;
	}
	atomic_store_explicit(&seen, now, memory_order_relaxed);
	return true;
}

void gm_submit_start(void)
{
	const struct gm_knobs *knobs = gm_knob_get();
	const char *why = "GPUMEM_FILL writes to new blocks in a stream of its own";
	if (knobs->mode.choice != GM_MODE_POOL || knobs->free.choice != GM_FREE_ORDERED)
		return;
	if (knobs->fill.choice == GM_FILL_OFF) {
		pool_order = gm_order_start(&gm_shim_driver, gm_hot_memory(), order_may);
		why = "the driver is older than 12.5";
	}
	if (pool_order)
		atomic_fetch_or(&gm_launch_watched, GM_LAUNCH_ORDERED);
	else
		gm_msg(GM_MSG_WARN, "GPUMEM_FREE=ordered acts as defer: %s", why);
}

void gm_submit_pool_config(unsigned ordinal, struct gm_pool_config *config)
{
	(void)ordinal;
	config->order = pool_order;
	config->unordered = !pool_order && gm_knob_get()->free.choice == GM_FREE_ORDERED;
}

uint64_t gm_submit_trim(uint64_t now)
{
	gm_order_suspect(now);
	return 0;
}

/* --- submissions that have no other handler --- */

#define PLAIN(stream) (stream)
#define OWN(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)
#define WORD(symbol, real_stream, parameters, arguments)                                           \
	static CUresult ordered_##symbol parameters                                                \
	{                                                                                          \
		if (!gm_order_is_on() || !gm_shim_enter())                                         \
			return real.symbol arguments;                                              \
		CUresult result = GM_SUBMITS(real_stream(stream), GM_PASS(real.symbol arguments)); \
		gm_shim_leave();                                                                   \
		return result;                                                                     \
	}                                                                                          \
	CUresult on_##symbol parameters                                                            \
	{                                                                                          \
		return GM_REPORTED(symbol, GM_GATED(symbol, ordered_##symbol arguments));          \
	}
#define WORDS(symbol, parameters, arguments)       \
	WORD(symbol, PLAIN, parameters, arguments) \
	WORD(symbol##_ptsz, OWN, parameters, arguments)
#define WORDS_BOTH(symbol, parameters, arguments) \
	WORDS(symbol, parameters, arguments)      \
	WORDS(symbol##_v2, parameters, arguments)
#define WORDS_OF(bits)                                                                        \
	WORDS_BOTH(cuStreamWaitValue##bits,                                                   \
		   (CUstream stream, CUdeviceptr at, cuuint##bits##_t value, unsigned flags), \
		   (stream, at, value, flags))                                                \
	WORDS_BOTH(cuStreamWriteValue##bits,                                                  \
		   (CUstream stream, CUdeviceptr at, cuuint##bits##_t value, unsigned flags), \
		   (stream, at, value, flags))
WORDS_OF(32)
WORDS_OF(64)
/* A host function submits work when the driver refuses the waits that it would need. So its own
 * stream has them. */
WORDS(cuLaunchHostFunc, (CUstream stream, CUhostFn run, void *arg), (stream, run, arg))
WORDS(cuLaunchHostFunc_v2, (CUstream stream, CUhostFn run, void *arg, unsigned how),
      (stream, run, arg, how))
WORDS(cuStreamAddCallback, (CUstream stream, CUstreamCallback run, void *arg, unsigned flags),
      (stream, run, arg, flags))
WORDS_BOTH(cuStreamBatchMemOp,
	   (CUstream stream, unsigned n, CUstreamBatchMemOpParams *list, unsigned flags),
	   (stream, n, list, flags))

/* --- ends of contexts --- */

void gm_submit_context_gone(struct gm_context *context)
{
	if (!gm_order_is_on())
		return;
	atomic_fetch_add(&turn, 1);
	gm_order_context_gone(context->key);
}

void gm_submit_forget(void)
{
	pool_order = NULL;
	gm_order_forget();
}
