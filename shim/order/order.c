/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of streams: a handle's value, which is a multiple of 4; of a legacy default stream its
 * context's handle, plus 1; of a per-thread default stream a number, plus 3. So no stream has the
 * key of another one that exists, nor GM_ORDER_MANY.
 */
#include "shim/order/order.h"

#include <string.h>

#include "base/loaded.h"
#include "base/msg.h"
#include "knob/knob.h"
#include "shim/context/capture.h"
#include "shim/refusal.h"
#include "shim/trim.h"

/* Libraries that use device memory in no order of streams, or that launch work past our hooks: how
 * the file name begins. */
static const char *const names[] = {
	"libibverbs.", "libcufile.",  "libgdrapi.",  "libnvshmem",
	"libucp.",     "libnvoptix.", "libnvcuvid.", "libnvidia-encode.",
};

/* The last stream of this thread whose context was asked for. */
static GM_TLS struct {
	uint64_t key, context;
	unsigned turn;
} last_stream;
static atomic_uint turn; /* grows when handles may come to name other streams */

/* This thread's default stream in the context that it was last asked for. */
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
	gm_order_cool();
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

/* --- where memory is not used early --- */

/* Programs have hundreds of objects, so the list is read again only when one was loaded. */
static bool order_may(void)
{
	static _Atomic unsigned long long seen;
	unsigned long long now = gm_loaded_changes();
	if (GM_LIKELY(now == atomic_load_explicit(&seen, memory_order_relaxed)))
		return true;
	const char *found = gm_loaded_find(names, sizeof names / sizeof *names);
	if (found) {
		gm_order_forbid(found, "uses memory in no order of streams");
		return false;
	}
	atomic_store_explicit(&seen, now, memory_order_relaxed);
	return true;
}

const struct gm_order_ops *gm_submit_start(void)
{
	const struct gm_knobs *knobs = gm_knob_get();
	if (knobs->fill.choice == GM_FILL_OFF)
		return gm_order_start(&gm_shim_driver, order_may);
	gm_msg(GM_MSG_WARN, "GPUMEM_FREE=ordered acts as defer: GPUMEM_FILL writes to new blocks "
			    "in a stream of its own");
	return NULL;
}

/* Of libcudart 11 to 13: the tables that hold no launch that passes us by. */
static const CUuuid tables[] = {
	{"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"},
	{"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66"},
	{"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc"},
	{"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93"},
	{"\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2"},
	{"\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e"},
};

static bool table_is_known(const CUuuid *id)
{
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (memcmp(id, &tables[i], sizeof *id) == 0)
			return true;
	return false;
}

/* May come before cuInit. */
CUresult on_cuGetExportTable(const void **table, const CUuuid *id)
{
	CUresult result = real.cuGetExportTable(table, id);
	if (result == CUDA_SUCCESS && !table_is_known(id)) {
		gm_refusal_table_given(id, __builtin_return_address(0));
		gm_order_forbid(
			"a library of the program",
			"may launch work past the functions of the driver (cuGetExportTable)");
	}
	return result;
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
		return GM_GATED(symbol, ordered_##symbol arguments);                               \
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
WORDS_BOTH(cuStreamBatchMemOp,
	   (CUstream stream, unsigned n, CUstreamBatchMemOpParams *list, unsigned flags),
	   (stream, n, list, flags))

/* --- ends --- */

void gm_submit_context_gone(struct gm_context *context)
{
	if (!gm_order_is_on())
		return;
	atomic_fetch_add(&turn, 1);
	gm_order_context_gone(context->key);
}
