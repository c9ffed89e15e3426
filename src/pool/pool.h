/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of device memory, one per device. Vocabulary, bottom up:
 *   range   addresses reserved once, 8 times the device's memory
 *   chunk   one physical handle, mapped whole somewhere in the range; a multiple of 2 MiB
 *   extent  a run of mapped addresses, idle or used; idle neighbours coalesce
 *   slab    a 2 MiB extent cut into blocks of one small size class
 *   block   what gm_pool_alloc returned: a used extent or a slot of a slab
 *   idle    mapped and free; retired: freed, but the GPU may still be using it;
 *   pinned  never moved or given back, because its physical address may be known elsewhere
 *
 * Threading: everything here may be called from any thread, concurrently; gm_pool_find takes no
 * lock. No lock is held across a driver call. All sizes are bytes. Results are the driver's
 * CUresult so that the shim can answer with them as they are.
 */
#ifndef GM_POOL_POOL_H
#define GM_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/timing.h"
#include "driver/driver.h"
#include "log/record.h"

#define GM_POOL_GRANULE ((size_t)2 << 20) /* what the driver maps in; also a slab */

struct gm_pool;

/* How a fence ended; see pool/fence.h for the one implementation outside unit tests. */
enum gm_fenced {
	GM_FENCED_PASSED, /* all work submitted to the context before the call has completed */
	GM_FENCED_LATER /* a fence is not allowed now (stream captures are open): retire, ask again
			 */
};

/*
 * What deferred reuse needs of fences; pool/fence.h has the one implementation outside unit tests.
 * `arg` is config.fence_arg. Called with no lock held. Fences of one context pass in the order in
 * which they were recorded. A context that is gone has nothing running.
 */
struct gm_deferral {
	/* What a native free of a block of the context would answer now: CUDA_SUCCESS, or what open
	 * captures or a broken context make of it. Does not wait. */
	CUresult (*ask)(void *arg, uint64_t context);
	/* A fence behind all work submitted to the context so far. CUDA_SUCCESS: *fence is the
	 * caller's until `drop`, or NULL if nothing can be running. CUDA_ERROR_NOT_READY: not now,
	 * captures are open. The member is NULL where the driver has no such fences (before 12.5).
	 */
	CUresult (*record)(void *arg, uint64_t context, CUevent *fence);
	/* CUDA_SUCCESS: it has passed; CUDA_ERROR_NOT_READY: not yet. */
	CUresult (*passed)(void *arg, uint64_t context, CUevent fence);
	CUresult (*wait)(void *arg, uint64_t context, CUevent fence);
	void (*drop)(void *arg, uint64_t context, CUevent fence);
	/* True: `ask` would answer CUDA_SUCCESS for any context. NULL: that is not known. */
	bool (*is_quiet)(void);
};

struct gm_pool_config {
	const struct gm_driver *driver;
	CUdevice device;  /* the driver's handle */
	unsigned ordinal; /* 0, 1, ...: names the device in counters and log */
	uint64_t limit;	  /* most bytes mapped at once; UINT64_MAX: what the device has */
	/*
	 * Wait for the work of context `context`. `native` is set when the call answers a cudaFree
	 * of the program, so that an error the native call would give (a broken context, a capture
	 * that forbids it) comes back as the result; unset, the pool is asking for itself. Called
	 * with no lock held. NULL: nothing ever runs on the device (replay, unit tests).
	 */
	CUresult (*fence)(void *arg, uint64_t context, bool native, enum gm_fenced *fenced);
	void *fence_arg;
	/* True: all work submitted to the context so far has completed; waits for none, no lock
	 * held. False: it has not, or this cannot be asked now. NULL: never. */
	bool (*is_idle)(void *arg, uint64_t context);
	/* NULL: a free waits. Else it returns at once, and the block is used again when a fence
	 * has passed that was recorded after the free. */
	const struct gm_deferral *defer;
	uint64_t retire;     /* bytes that may be retired before each free asks whether fences have
				passed; it waits for none */
	uint64_t trim_after; /* ns that a chunk is wholly idle before gm_pool_trim gives it back;
				UINT64_MAX: never */
	uint64_t keep;	     /* idle bytes that gm_pool_trim leaves */
	uint64_t chunk;	     /* size of handles, a multiple of 2 MiB; 0: by what is needed */
	/* May idle memory be moved to other addresses now? Called with no lock held. NULL: yes. */
	bool (*may_remap)(void *arg);
	void *may_remap_arg;
	/* Nanoseconds of a clock that never goes back; NULL: CLOCK_MONOTONIC_COARSE, or
	 * none where nothing is trimmed. */
	uint64_t (*clock)(void);
	/* A chunk became wholly idle, or a block was retired, and there is more of such memory than
	 * `keep`. Called under the pool's lock, so it may set a flag and no more. NULL: nobody
	 * trims. */
	void (*idle)(void *arg);
	void *idle_arg;
};

/* A copy of what is known about one block; valid when it was taken. */
struct gm_block {
	CUdeviceptr base;
	size_t size;	  /* as requested */
	size_t held;	  /* handed out: size rounded up to the class or step */
	uint64_t id;	  /* unique in the process, never reused; answers BUFFER_ID */
	uint64_t context; /* the owner's key, as given to gm_pool_alloc */
	unsigned ordinal; /* of the pool */
	bool live;	  /* false: the address is in the pool's range, but in no live block */
	/* Of a call that took longer (no shelf had the block, or the GPU was at work): gm_tick when
	 * that was found, or the call began, if it is timed; else 0. */
	uint64_t since;
	uint64_t waited; /* of a free: gm_tick when it had waited; 0: it did not, or nobody knows */
};

/* Everything the log says about a pool; the definitions stand in gpumem-log(5). */
struct gm_pool_stats {
	uint64_t requested, requested_peak; /* sum of gm_block.size over live blocks */
	uint64_t handed_out;		    /* sum of gm_block.held over live blocks */
	uint64_t mapped, mapped_peak;	    /* sum of chunk sizes, lent ones excluded */
	uint64_t idle;			    /* mapped and free, free slots of slabs included */
	uint64_t retired;		    /* mapped = handed_out + idle + retired, always */
	uint64_t lent;			    /* chunks lent to the heap */
	uint64_t largest_idle;		    /* longest run of idle mapped addresses */
	uint64_t largest_after_remap; /* sum of wholly idle, unpinned chunks, at least largest_idle
				       */
	uint64_t unreclaimable;	      /* idle bytes in chunks that also hold live or retired ones */
	uint64_t pinned;	      /* bytes of pinned chunks */
	uint64_t live_blocks, chunks, idle_extents;
	/* Runs of idle addresses by floor(log2(size)): how many, and their bytes; empty slabs
	 * count. */
	uint64_t idle_histogram[64], idle_bytes[64];
};

/*
 * Reserve the range and make an empty pool; maps nothing yet. On success *out is the caller's until
 * gm_pool_destroy. CUDA_ERROR_NOT_SUPPORTED: the device has no virtual memory management;
 * CUDA_ERROR_OUT_OF_MEMORY: no addresses or no host memory.
 */
CUresult gm_pool_create(const struct gm_pool_config *config, struct gm_pool **out);

/* Unmap and release everything. The caller knows that nothing on the GPU or in another thread uses
 * it. */
void gm_pool_destroy(struct gm_pool *pool);

/*
 * A block of `size` bytes (at least 1) owned by context `context`. 512-byte aligned; 2 MiB-aligned
 * when it holds a multiple of 2 MiB, and from 64 MiB on. Never waits for the GPU except at the
 * device's limit, for retired memory. On success *out is filled, else its `since` alone.
 * CUDA_ERROR_OUT_OF_MEMORY: neither idle nor new memory, nor after giving idle chunks back and
 * waiting for retired ones; the caller may still ask the driver itself.
 */
CUresult gm_pool_alloc(struct gm_pool *pool, size_t size, uint64_t context, struct gm_block *out);

/*
 * Give the block that begins at `address` back. Waits for the owner context through config.fence,
 * outside every lock; the block cannot be reused meanwhile, and of several threads that free it one
 * does, once all have waited. With config.defer it waits for nothing, and the block is retired. The
 * wait is counted as `call` says. On success *out (may be NULL) says what it was.
 * CUDA_ERROR_INVALID_VALUE: no live block begins there (double frees included).
 * CUDA_ERROR_OUT_OF_MEMORY: no host memory for the books. Any other error is the fence's. After an
 * error the block is live as before.
 */
CUresult gm_pool_free_since(struct gm_pool *pool, CUdeviceptr address, struct gm_timing call,
			    struct gm_block *out);
static inline CUresult gm_pool_free(struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	return gm_pool_free_since(pool, address, gm_timing_since(gm_tick()), out);
}

/* Likewise, but the work that may use the block is that of `context`, and no native free is
 * answered. Only with config.defer. */
CUresult gm_pool_free_behind(struct gm_pool *pool, CUdeviceptr address, uint64_t context,
			     struct gm_block *out);

/* Likewise for a block that nothing on the GPU uses any more, as the caller has seen to: waits for
 * nothing. */
CUresult gm_pool_free_done(struct gm_pool *pool, CUdeviceptr address, struct gm_block *out);

/* True if `address` lies in the pool's range. */
bool gm_pool_reserves(const struct gm_pool *pool, CUdeviceptr address);

/* Likewise; *out then says what is there. O(1), lock-free, no
 * allocation: safe inside the driver's own callbacks. */
bool gm_pool_find(const struct gm_pool *pool, CUdeviceptr address, struct gm_block *out);

/* Change when the first bytes are known outside: the chunks under [address, +size) are pinned while
 * the block lives (IPC or shareable handle, dma-buf, SYNC_MEMOPS). INVALID_VALUE: not in a live
 * block. */
CUresult gm_pool_pin(struct gm_pool *pool, CUdeviceptr address, size_t size);

/*
 * Map `size` bytes (a multiple of 2 MiB) of idle or new memory at `at`, addresses that the caller
 * reserved outside the range; they leave the pool until take_back. Never fences. OUT_OF_MEMORY maps
 * nothing. take_back unmaps exactly one earlier loan; the caller has fenced.
 */
CUresult gm_pool_lend(struct gm_pool *pool, CUdeviceptr at, size_t size);
CUresult gm_pool_take_back(struct gm_pool *pool, CUdeviceptr at, size_t size);

/* Map `bytes`, rounded up to 2 MiB, of new memory, to be idle. All of it or none. */
CUresult gm_pool_prewarm(struct gm_pool *pool, uint64_t bytes);

/*
 * Give idle memory back to the driver, wholly idle chunks only, until `keep` bytes of idle memory
 * are left at most or nothing more can go. `settle`: first wait for retired memory. Returns bytes
 * given, after what other threads were giving back meanwhile has arrived, too.
 */
uint64_t gm_pool_give_back(struct gm_pool *pool, uint64_t keep, bool settle);

/*
 * Give back the longest idle chunk if at `now` (of config.clock) it had been wholly idle for
 * config.trim_after, and config.keep bytes of idle memory are left. What was in use for a moment
 * begins anew, so memory that a loop comes back to stays. One chunk a call, that the rest is there
 * for other threads meanwhile. Returns its bytes; 0: none is due, or the driver would not.
 */
uint64_t gm_pool_trim(struct gm_pool *pool, uint64_t now);

/* When gm_pool_trim may next have something to give; UINT64_MAX: not before config.idle is called.
 * In the past if what was due could not go. */
uint64_t gm_pool_trim_next(const struct gm_pool *pool);

/* Bytes that ever went back to the driver. A call of the driver that failed for lack of memory is
 * worth another try when this has grown since it was made. */
uint64_t gm_pool_given(const struct gm_pool *pool);

/* Turn retired blocks whose fence can be had now into idle ones; returns bytes. May wait for the
 * GPU. */
uint64_t gm_pool_settle(struct gm_pool *pool);

/* The context is destroyed or reset, its work is over: all its blocks, live or retired, become
 * idle. Returns how many live blocks went. */
uint64_t gm_pool_context_gone(struct gm_pool *pool, uint64_t context);

/* Let `peer` read and write all present and future chunks, or no longer. Idempotent. */
CUresult gm_pool_grant(struct gm_pool *pool, CUdevice peer);
CUresult gm_pool_revoke(struct gm_pool *pool, CUdevice peer);

/* Current and peak figures, consistent with one another. */
void gm_pool_stats(const struct gm_pool *pool, struct gm_pool_stats *out);

/* The same as the log carries them; device_free is 0, for the driver is not asked. */
void gm_pool_sample(const struct gm_pool *pool, struct gm_sample *out);

/* Call `each` for every live block, under the pool's lock: `each` calls nothing of the pool. */
void gm_pool_walk(const struct gm_pool *pool, void (*each)(void *arg, const struct gm_block *block),
		  void *arg);

/* Record the pool's state at a failed request of `asked` bytes in the log (GM_LOG_OOM and after).
 */
void gm_pool_snapshot(const struct gm_pool *pool, size_t asked);

/* Every invariant, checked one by one; on false *why (may be NULL) names the first broken one.
 * Takes the pool's lock; debug builds call its unlocked half at entry and exit of every mutator. */
bool gm_pool_is_valid(const struct gm_pool *pool, const char **why);

#endif
