/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/copy/stage.h"

#include <limits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/msg.h"
#include "base/size.h"
#include "copy/ring.h"
#include "copy/share.h"
#include "knob/knob.h"
#include "log/about.h"
#include "shim/block/memops.h"
#include "shim/context/capture.h"
#include "shim/copy/transfer.h"
#include "shim/idle/trim.h"
#include "shim/memory/device.h"

#define NEVER SIZE_MAX
#define SMALLEST (4 * GM_MIB)	 /* the smallest size in threshold.def */
#define LEAST_ROW ((size_t)4096) /* least bytes of a row: the driver copies shorter rows */
#define LONGEST_PITCH INT32_MAX	 /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
#define PAYS 2 /* with auto: slots are made once their room was copied so many times */
#define LEAST_IDLE 1000000000u /* ns: least GPUMEM_TRIM_AFTER of slots */

/* CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES: the link of such a device is as
 * fast as host memory. */
enum { USES_HOST_PAGES = 100 };

_Atomic size_t gm_stage_least = SIZE_MAX;

static struct gm_ring ring;
static size_t least[2]; /* least bytes of a copy: from the device, to the device */
static bool eager;	/* GPUMEM_COPY has a number of threads: the first copy makes the slots */
static _Atomic uint64_t eligible; /* bytes of copies that slots would have served */
static atomic_bool closed;
static pid_t process;
static atomic_uint decision;
enum { UNDECIDED, DECIDING, DECIDED };

/* --- the start --- */

static void thresholds_find(unsigned threads)
{
	static const struct {
		unsigned threads;
		size_t to_device, from_device;
	} rows[] = {
#define GM_THRESHOLD(n, to, from) {n, to, from},
#include "copy/threshold.def"
#undef GM_THRESHOLD
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows && rows[i].threads <= threads; i++) {
		least[0] = rows[i].from_device;
		least[1] = rows[i].to_device;
	}
}

static bool devices_want_it(void)
{
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		int same = 0;
		gm_shim_driver.cuDeviceGetAttribute(&same, (CUdevice_attribute)USES_HOST_PAGES,
						    gm_shim_devices[i].handle);
		if (same)
			return false;
	}
	return true;
}

static void stage_decide(void)
{
	unsigned threads = gm_knob_get()->copy.threads;
	struct gm_share share = gm_share_find("");
	eager = threads != GM_THREADS_AUTO;
	if (!eager)
		threads = devices_want_it() ? gm_share_threads(&share, gm_about_local_ranks()) : 0;
	process = getpid();
	least[0] = least[1] = NEVER;
	if (threads && gm_ring_init(&ring, &gm_shim_driver, threads, gm_share_room(&share)))
		thresholds_find(threads);
	size_t both = least[0] < least[1] ? least[0] : least[1];
	atomic_store_explicit(&gm_stage_least, both, memory_order_relaxed);
}

/* The first large copy decides; false: another thread is deciding. */
static bool stage_is_decided(void)
{
	unsigned state = atomic_load_explicit(&decision, memory_order_acquire);
	if (GM_LIKELY(state == DECIDED))
		return true;
	if (state != UNDECIDED || !atomic_compare_exchange_strong(&decision, &state, DECIDING))
		return false;
	stage_decide();
	atomic_store_explicit(&decision, DECIDED, memory_order_release);
	return true;
}

void gm_stage_start(void)
{
	const struct gm_knobs *knobs = gm_knob_get();
	bool wanted = knobs->copy.threads && knobs->mode.choice == GM_MODE_POOL;
	atomic_store_explicit(&gm_stage_least, wanted ? SMALLEST : NEVER, memory_order_relaxed);
}

/* --- choice of copies --- */

/* A rectangle that the driver accepts, with rows long enough to stage. */
static bool box_is_plain(const CUDA_MEMCPY3D *box)
{
	const size_t w = box->WidthInBytes;
	bool packed = box->srcPitch == w && box->dstPitch == w;
	return box->Depth == 1 && !box->srcLOD && !box->dstLOD && !box->reserved0 &&
	       !box->reserved1 && w <= box->srcPitch && box->srcXInBytes <= box->srcPitch - w &&
	       w <= box->dstPitch && box->dstXInBytes <= box->dstPitch - w &&
	       box->srcPitch <= LONGEST_PITCH && box->dstPitch <= LONGEST_PITCH &&
	       (packed || w >= LEAST_ROW);
}

static CUstream copy_stream(const struct gm_transfer *t)
{
	return t->stream ? t->stream : t->own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* Fill in *copy; false: the copy has no host side, or must not be staged. */
static bool copy_describe(const struct gm_transfer *t, struct gm_ring_copy *copy)
{
	const unsigned never = GM_RECORD_MEMSET | GM_RECORD_D2D | GM_RECORD_PEER | GM_RECORD_H2H;
	const CUDA_MEMCPY3D *box = t->box;
	if (t->flags & never || t->placed || t->attributed || !t->dst || !t->src ||
	    t->dst_span == SIZE_MAX || t->src_span == SIZE_MAX ||
	    (box && ((t->flags & GM_RECORD_ASYNC && !t->come) || !box_is_plain(box))))
		return false;
	size_t src_pitch = box ? box->srcPitch : 0, dst_pitch = box ? box->dstPitch : 0;
	bool known = t->flags & (GM_RECORD_H2D | GM_RECORD_D2H);
	if (!known && !t->dst_pool == !t->src_pool) /* else our block is the device's side */
		return false;
	bool to_device = known ? t->flags & GM_RECORD_H2D : t->dst_pool != NULL;
	*copy = (struct gm_ring_copy){
		.to_device = to_device,
		.host = (char *)(to_device ? t->src : t->dst),
		.device = to_device ? t->dst : t->src,
		.width = box ? box->WidthInBytes : t->bytes,
		.rows = box ? box->Height : 1,
		.host_pitch = to_device ? src_pitch : dst_pitch,
		.device_pitch = to_device ? dst_pitch : src_pitch,
		.behind = t->come ? NULL : copy_stream(t),
	};
	return true;
}

/* Would the driver accept the whole device side? Checked before the first byte is copied. */
static bool device_is_valid(const struct gm_transfer *t, const struct gm_ring_copy *copy,
			    const struct gm_context *context)
{
	const struct gm_driver *driver = &gm_shim_driver;
	const struct gm_block *block = copy->to_device ? &t->dst_block : &t->src_block;
	size_t span = copy->to_device ? t->dst_span : t->src_span, size = 0;
	CUdeviceptr base = 0;
	unsigned type = 0, managed = 1, ordinal = UINT_MAX;
	if (copy->to_device ? t->dst_pool : t->src_pool)
		return block->ordinal == context->ordinal;
	managed = 0;
	return driver->cuMemGetAddressRange_v2 &&
	       driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					     copy->device) == CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_DEVICE &&
	       driver->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					     copy->device) == CUDA_SUCCESS &&
	       !(managed & 0xff) &&
	       driver->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					     copy->device) == CUDA_SUCCESS &&
	       ordinal == context->ordinal &&
	       driver->cuMemGetAddressRange_v2(&base, &size, copy->device) == CUDA_SUCCESS &&
	       copy->device >= base && copy->device - base <= size &&
	       span <= size - (copy->device - base);
}

bool gm_stage_is_pageable(uint64_t host)
{
	unsigned type;
	return gm_shim_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						    host) == CUDA_ERROR_INVALID_VALUE;
}

/* Memory may be registered in part: the driver then treats a copy of it in its own way. So both
 * ends are asked about. */
static bool host_is_pageable(const struct gm_transfer *t, const struct gm_ring_copy *copy)
{
	uint64_t host = (uint64_t)copy->host;
	size_t span = copy->to_device ? t->src_span : t->dst_span;
	return gm_stage_is_pageable(host) && gm_stage_is_pageable(host + span - 1);
}

/* Slots take time to make. `auto` makes them once enough was copied to save that time. */
static bool slots_pay(uint64_t bytes)
{
	return eager || atomic_load_explicit(&ring.last_used, memory_order_relaxed) ||
	       atomic_fetch_add_explicit(&eligible, bytes, memory_order_relaxed) + bytes >=
		       PAYS * gm_ring_room(&ring);
}

/* The current context, if the ring can be used in it; not in a green one, with another handle. */
static struct gm_context *context_find(void)
{
	CUresult ignored;
	CUcontext handle = NULL;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	if (!context || gm_shim_driver.cuCtxGetCurrent(&handle) != CUDA_SUCCESS ||
	    handle != context->handle)
		return NULL;
	return context;
}

static bool stream_is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return gm_shim_driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Wait for the earlier work of the stream. This may take long, so the ring is not taken yet. */
static bool stream_has_come(CUstream stream)
{
	return !stream_is_capturing(stream) &&
	       gm_shim_driver.cuStreamSynchronize(stream) == CUDA_SUCCESS;
}

/* Is the stream of the current context, and is no work before the next in it? */
static bool stream_is_idle(CUstream stream)
{
	const struct gm_driver *driver = &gm_shim_driver;
	CUcontext of = NULL, current = NULL;
	unsigned flags = 0;
	if (driver->cuStreamGetCtx(stream, &of) != CUDA_SUCCESS ||
	    driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || of != current ||
	    driver->cuStreamGetFlags(stream, &flags) != CUDA_SUCCESS ||
	    driver->cuStreamQuery(stream) != CUDA_SUCCESS)
		return false;
	return flags & CU_STREAM_NON_BLOCKING ||
	       driver->cuStreamQuery(CU_STREAM_LEGACY) == CUDA_SUCCESS;
}

bool gm_stage_has_come(CUstream stream)
{
	if (!stream || stream == CU_STREAM_LEGACY || gm_capture_any())
		return false;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	bool come = !stream_is_capturing(stream) && stream_is_idle(stream);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	return come;
}

static bool copy_in(struct gm_context *context, const struct gm_ring_copy *copy)
{
	bool done = false;
	if (!gm_context_enter(context))
		return false;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	if ((!copy->behind || stream_has_come(copy->behind)) && gm_ring_take(&ring)) {
		done = gm_ring_copy(&ring, context, copy);
		gm_ring_leave(&ring);
	}
	gm_driver_quiet_end(&gm_shim_driver, mode);
	gm_context_leave(context);
	return done;
}

bool gm_stage_copy(struct gm_transfer *t)
{
	struct gm_ring_copy copy;
	if (!copy_describe(t, &copy) || !stage_is_decided() || t->bytes < least[copy.to_device] ||
	    gm_capture_any() || atomic_load_explicit(&closed, memory_order_relaxed) ||
	    getpid() != process)
		return false;
	struct gm_context *context = context_find();
	if (!context || !device_is_valid(t, &copy, context) || !host_is_pageable(t, &copy) ||
	    !slots_pay(t->bytes))
		return false;
	t->staged = copy_in(context, &copy);
	if (t->staged) /* for cuMemcpy the direction is known only now */
		t->flags |= copy.to_device ? GM_RECORD_H2D : GM_RECORD_D2H;
	if (atomic_load_explicit(&ring.last_used, memory_order_relaxed))
		gm_trim_slots_idle();
	return t->staged;
}

bool gm_stage_is_used(void)
{
	return atomic_load_explicit(&ring.last_used, memory_order_relaxed);
}

struct gm_ring *gm_stage_ring(void)
{
	bool ready = gm_knob_get()->copy.threads && stage_is_decided() && ring.driver &&
		     getpid() == process;
	if (ready && atomic_load_explicit(&ring.last_used, memory_order_relaxed))
		gm_trim_slots_idle();
	return ready ? &ring : NULL;
}

/* --- the end --- */

uint64_t gm_stage_trim_next(void)
{
	uint64_t used = atomic_load_explicit(&ring.last_used, memory_order_relaxed);
	uint64_t after = gm_knob_get()->trim_after.trim.after;
	if (!used || after == UINT64_MAX)
		return UINT64_MAX;
	return used + (after > LEAST_IDLE ? after : LEAST_IDLE);
}

uint64_t gm_stage_trim(uint64_t now)
{
	uint64_t given = 0;
	if (gm_stage_trim_next() > now || !gm_ring_take(&ring))
		return 0;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	given = gm_ring_release(&ring);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	gm_ring_leave(&ring);
	return given;
}

void gm_stage_exit(void)
{
	atomic_store(&closed, true);
}

void gm_stage_forget(void)
{
	atomic_store(&gm_stage_least, SIZE_MAX);
	atomic_store(&eligible, 0);
	atomic_store(&closed, false);
	atomic_store(&decision, UNDECIDED);
	gm_ring_forget(&ring);
}
