/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the handlers share. Each handler runs on the program's thread, any number at a time; none
 * holds a lock across a driver call but the capture lock (pool/fence.h).
 */
#ifndef GM_SHIM_HANDLERS_H
#define GM_SHIM_HANDLERS_H

#include <stdint.h>

#include "base/tick.h"
#include "log/count.h"
#include "log/log.h"
#include "pool/context.h"
#include "pool/fence.h"
#include "pool/pool.h"
#include "shim.h"

/*
 * The program's own call, passed on. The guard is down meanwhile: hooks of others may sit inside
 * the driver and ask us about blocks.
 */
#define GM_PASS(call)                      \
	({                                 \
		gm_shim_inside = 0;        \
		CUresult passed_ = (call); \
		gm_shim_inside = 1;        \
		gm_fence_suspect(passed_); \
		passed_;                   \
	})

static inline bool gm_shim_active(void)
{
	return GM_LIKELY(atomic_load_explicit(&gm_shim_state, memory_order_acquire) ==
			 GM_SHIM_ACTIVE);
}

/* An address that no allocation has: what the driver answers for it is what it natively answers for
 * one that was freed. */
#define GM_NOWHERE ((CUdeviceptr)1)

/* --- device.c: the devices of the process and their pools --- */

struct gm_shim_device {
	CUdevice handle;
	atomic_bool on; /* it has virtual memory management that works */
	uint64_t total; /* bytes */
	uint64_t limit; /* GPUMEM_LIMIT here; UINT64_MAX: none */
	size_t pitch;	/* rows of cuMemAllocPitch start at multiples of this */
	_Atomic(struct gm_pool *) pool;
};

extern unsigned gm_shim_n_devices;
extern struct gm_shim_device gm_shim_devices[GM_COUNTER_DEVICES];

/* Ask the driver about its devices; `pools` is false when only watching. Once, at the start. */
void gm_shim_devices_find(bool pools, struct gm_log_device *log);

/* The pool of a device could not allocate for `why`, which is not a lack of memory: if it never
 * could, the device is left to the driver from now on, and one line says so. */
void gm_shim_pool_failed(unsigned ordinal, CUresult why);

/* The pool made for a device so far, or NULL. */
static inline struct gm_pool *gm_shim_pool_if_any(unsigned ordinal)
{
	return ordinal < gm_shim_n_devices
		       ? atomic_load_explicit(&gm_shim_devices[ordinal].pool, memory_order_acquire)
		       : NULL;
}

/* The pool of a device, made at first need; NULL when it cannot have one. Calls the driver. */
struct gm_pool *gm_shim_pool_made(unsigned ordinal);
static inline struct gm_pool *gm_shim_pool(unsigned ordinal)
{
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	if (GM_LIKELY(pool &&
		      atomic_load_explicit(&gm_shim_devices[ordinal].on, memory_order_relaxed)))
		return pool;
	return gm_shim_pool_made(ordinal);
}

/* The pool in whose range `address` lies; NULL: in none. Lock-free. */
struct gm_pool *gm_shim_pool_at(CUdeviceptr address);
/* Likewise, and what is there (gm_pool_find). */
struct gm_pool *gm_shim_find(CUdeviceptr address, struct gm_block *block);

/* True if `address` is in a live block, within its requested size. False and *ours: in the range of
 * a pool, but in no block. */
bool gm_shim_find_live(CUdeviceptr address, struct gm_block *block, bool *ours);

/* Give all idle memory of all pools back, retired memory included; true if any went since this
 * thread asked last, whoever gave it: a call that lacked memory may find it now. */
bool gm_shim_give_back_all(void);

/* Call `each` for every live block of every pool, as a LIVE record. */
void gm_shim_walk(void (*each)(void *arg, const struct gm_record *live), void *arg);

/* Write a fragmentation sample of every pool whose turn it is; `last`: of every pool. No CUDA call.
 */
void gm_shim_sample(uint64_t now, bool last);

/* In a forked child: the pools are the parent's; forget them untouched. */
void gm_shim_devices_forget(void);

/* --- used.c --- */

/* Count what the driver said is used of a device, just now. */
void gm_used_note(unsigned ordinal, uint64_t used);
/* Ask about the current context's device, if GPUMEM_SAMPLE has passed since it was last asked. */
void gm_used_look(uint64_t now);
void gm_used_forget(void);

/* --- records --- */

/* Something happened at `now`: samples may be due when the handler leaves. */
void gm_shim_happened(uint64_t now);
void gm_shim_happened_at(uint64_t moment); /* likewise, of gm_tick */

/* A call of the program begins that is made again and again (timing.h). All are timed where the log
 * has each of them, and where GPUMEM_SAMPLE is less than a millisecond. */
extern GM_TLS struct gm_pace gm_shim_pace;
static inline struct gm_timing gm_shim_call(void)
{
	return gm_pace_call(&gm_shim_pace);
}

/* What is due at `now` (of the clock): samples, and how much of a device is used. */
void gm_shim_look(uint64_t now);

/* Fill in what all records of calls have in common. `start` is when the call began; both are times
 * of the clock, as gm_tick's moments are where events are kept. */
struct gm_record gm_shim_record(enum gm_record_kind kind, enum gm_hook_id hook,
				const struct gm_context *context, uint64_t start, uint64_t end,
				CUresult result);

/* --- alloc.c, free.c --- */

/* A block of the context's device, counted and recorded; what is refused is so by gm_shim_refused,
 * once the caller has tried all it knows. */
CUresult gm_shim_serve(struct gm_context *context, size_t size, struct gm_block *out);
CUresult gm_shim_refused(struct gm_context *context, size_t size, uint64_t start /* gm_tick */,
			 CUresult result);
/* Count and record that a block went back to the pool, by `call`. */
void gm_shim_freed(enum gm_hook_id hook, const struct gm_block *b, struct gm_timing call);

/* Count and record blocks that go with their context. */
void gm_shim_context_gone(uint64_t key);

/* --- foreign.h and its files --- */
void gm_foreign_forget_all(void);
void gm_create_forget_all(void);
void gm_graph_forget_all(void);

/* If `stream` is being captured, true and the group of its graph. One relaxed load while no capture
 * is open. */
bool gm_graph_captured(CUstream stream, uint64_t *group);

/* --- capture.c --- */

/* The context in which a stream lives, the current one for the default streams; or NULL. */
struct gm_context *gm_shim_context_of_stream(CUstream stream);
/* False: no capture is open in the process. One relaxed load. */
bool gm_capture_any(void);
void gm_capture_context_gone(struct gm_context *context);
void gm_capture_forget_all(void);

/* --- peer.c: which devices reach which pools --- */

/* Let `reader` reach the pool of `owner` because a copy needs it; true if it does now. Stays. */
bool gm_peer_reach(unsigned owner, unsigned reader);
/* Open a fresh pool to those who enabled access before it was there. */
void gm_peer_apply(unsigned owner, struct gm_pool *pool);
void gm_peer_context_gone(uint64_t key);
void gm_peer_forget_all(void);

/* --- memops.c: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of blocks --- */

/* Set or clear it; false: no host memory. */
bool gm_memops_set(uint64_t block, bool on);
extern atomic_size_t gm_memops_entries; /* blocks that it is on for */
static inline void gm_memops_freed(uint64_t block)
{
	if (GM_UNLIKELY(atomic_load_explicit(&gm_memops_entries, memory_order_relaxed)))
		gm_memops_set(block, false);
}
/* One relaxed load while nobody uses it. */
bool gm_memops_get(uint64_t block);
void gm_memops_forget_all(void);

/* --- network.c --- */

/* Somebody asks whether a block can be shared: say once if it is a library that will take a slower
 * road when it cannot. */
void gm_shim_note_network(void);

/* The `may_remap` of struct gm_pool_config: GPUMEM_REMAP. */
bool gm_shim_may_remap(void *unused);

/* --- core.c: what libgpumem-core keeps for streams --- */

/* Give what is kept on a device to its pool; returns bytes. May wait for the GPU. */
uint64_t gm_core_settle(unsigned ordinal);
void gm_core_context_gone(unsigned ordinal, uint64_t key);
void gm_core_forget(void);

/* --- fill.c: GPUMEM_FILL --- */

/* Write what GPUMEM_FILL says into a fresh block of the current context, and wait for it. Where
 * that fails the block stays as it was, and one line says so. */
void gm_fill_block(const struct gm_context *context, const struct gm_block *b);
extern bool gm_fill_on; /* GPUMEM_FILL asks for it; set at the start */
static inline void gm_fill(const struct gm_context *context, const struct gm_block *b)
{
	if (GM_UNLIKELY(gm_fill_on))
		gm_fill_block(context, b);
}
/* In a forked child: the streams are the parent's. */
void gm_fill_forget(void);

/* --- retry.c --- */

/* True if a call of the program that failed with `result` is to be made once more: it lacked
 * device memory, and the pools had some to give back. */
bool gm_retry(CUresult result);

/* --- trim.c: what nobody needed for GPUMEM_TRIM_AFTER goes back by itself --- */

extern atomic_bool gm_trim_wanted; /* there is idle memory that nobody sees to */
/* The `idle` of struct gm_pool_config. */
void gm_trim_idle(void *unused);
/* At the end of a handler when it is wanted: see to it. */
void gm_trim_start(void);
/* The `idle` of struct gm_heap_config: no handler ends there, and what a heap holds is not for a
 * thread that serves kernels to trim. Makes the thread. */
void gm_trim_heap_idle(void *unused);
/* In a forked child: there is no thread. */
void gm_trim_forget(void);
/* For atexit. A thread made only then could be the last one to end, and would end the process. */
void gm_trim_exit(void);

/* --- launch.c --- */

/* Why launches are looked at: a pool exists, whose memory they can run out of; GPUMEM_LAUNCHES;
 * there is a kernel that may call malloc. */
enum { GM_LAUNCH_POOLED = 1, GM_LAUNCH_COUNTED = 2, GM_LAUNCH_HEAP = 4 };
extern atomic_uint gm_launch_watched;

#endif
