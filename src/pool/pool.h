/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of device memory, one per device.
 *
 *     range    |.....................................................................| addresses
 *     chunks   |---- chunk ----|-- chunk --|      |-------- chunk --------|            mapped
 *     extents  |  used  | slab |    idle   |      |   used   |    idle    |
 *     slots             |#|#|.|
 *     blocks   |########|#|#|                     |##########|
 *
 *     range    addresses reserved once, 8 times the device's memory
 *     chunk    one physical handle, mapped whole somewhere in the range; a multiple of 2 MiB
 *     extent   a run of mapped addresses, idle or used; idle neighbours are joined
 *     slab     an extent of 128 KiB to 2 MiB, cut into slots of one small size class
 *     block    the memory of one allocation: a used extent or a slot of a slab
 *
 *     idle     mapped and free
 *     retired  freed, but the GPU may still use it (limbo.h)
 *     pinned   never moved or returned to the driver: its physical address may be known elsewhere
 *
 * Threading: any thread may call any function here at any time. gm_pool_find takes no lock. No lock
 * is held across a driver call. All sizes are bytes. Results are the driver's CUresult, so that the
 * shim can answer with them as they are.
 */
#ifndef GM_POOL_POOL_H
#define GM_POOL_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/timing.h"
#include "context/fence_ops.h"
#include "context/order.h"
#include "driver/driver.h"
#include "log/record.h"

#define GM_POOL_GRANULE ((size_t)2 << 20) /* the unit in which the driver maps memory */

struct gm_pool;

struct gm_pool_config {
	const struct gm_driver *driver;
	CUdevice device;  /* the driver's handle */
	unsigned ordinal; /* 0, 1, ...: names the device in counters and log */
	uint64_t limit;	  /* most bytes mapped at once; UINT64_MAX: the device's memory */
	/* When the GPU has stopped using memory. NULL: no work is ever pending (replay, unit
	 * tests). */
	const struct gm_fence_ops *fences;
	void *fence_arg;
	/* False: a free waits. True: it returns at once; the block is reused when a fence that was
	 * recorded after the free has passed. */
	bool defer;
	/* May a free be used again before its fence has passed (context/order.h)? NULL: no. Only
	 * with `defer`. */
	const struct gm_order_ops *order;
	uint64_t retire;     /* retired bytes beyond which each free polls for passed fences; it
				waits for none */
	uint64_t trim_after; /* ns that a chunk is wholly idle before gm_pool_trim returns it to the
				driver; UINT64_MAX: never */
	uint64_t keep;	     /* idle bytes that gm_pool_trim leaves */
	uint64_t chunk;	     /* size of handles, a multiple of 2 MiB; 0: as needed (grow.h) */
	/* May idle memory be moved to other addresses now? Called with no lock held. NULL: yes. */
	bool (*may_remap)(void *arg);
	void *may_remap_arg;
	/* Nanoseconds of a monotonic clock. NULL: CLOCK_MONOTONIC_COARSE, or no clock where nothing
	 * is trimmed. */
	uint64_t (*clock)(void);
	/* A chunk became wholly idle, or a block was shelved or retired, and there is more such
	 * memory than `keep`. Called under locks of the pool, so it may set a flag and no more.
	 * NULL: no thread trims. */
	void (*idle)(void *arg);
	void *idle_arg;
};

/* A copy of one block's state, consistent when it was taken. */
struct gm_block {
	CUdeviceptr base;
	size_t size;	  /* as requested */
	size_t held;	  /* handed out: size rounded up to the class or step */
	uint64_t id;	  /* unique in the process, never reused; answers BUFFER_ID */
	uint64_t context; /* the owner's key, as passed to gm_pool_alloc */
	unsigned ordinal; /* of the pool */
	bool live;	  /* false: the address is in the pool's range, but in no live block */
	/* For calls on the slow path (no shelf had the block, or the GPU was busy): gm_tick when
	 * the slow path began, or the call if that is timed. Else 0. */
	uint64_t since;
	uint64_t waited; /* of a free: gm_tick after its wait; 0: no wait, or it was not timed */
};

/* All figures of a pool in the log; gpumem-log(5) defines them. */
struct gm_pool_stats {
	uint64_t requested, requested_peak; /* sum of gm_block.size over live blocks */
	uint64_t handed_out;		    /* sum of gm_block.held over live blocks */
	uint64_t mapped, mapped_peak;	    /* sum of chunk sizes, lent ones excluded */
	uint64_t idle;			    /* mapped and free, free slots of slabs included */
	uint64_t retired;		    /* mapped = handed_out + idle + retired, always */
	uint64_t lent;			    /* chunks lent to the heap */
	uint64_t spare;			    /* of these, in spare loans */
	uint64_t made;	       /* physical memory: mapped, lent, and being mapped or unmapped */
	uint64_t away;	       /* of mapped, in chunks whose contents have left the device */
	uint64_t largest_idle; /* longest run of idle mapped addresses */
	uint64_t largest_after_remap; /* sum of wholly idle, unpinned chunks, at least largest_idle
				       */
	uint64_t unreclaimable;	      /* idle bytes in chunks that also hold live or retired ones */
	uint64_t pinned;	      /* bytes of pinned chunks */
	uint64_t live_blocks, chunks, idle_extents;
	/* Runs of idle addresses by floor(log2(size)): their number and bytes. An empty slab is
	 * idle. */
	uint64_t idle_histogram[64], idle_bytes[64];
};

/*
 * Reserve the range and make an empty pool; maps nothing yet. On success *out is the caller's until
 * gm_pool_destroy. CUDA_ERROR_NOT_SUPPORTED: the device has no virtual memory management;
 * CUDA_ERROR_OUT_OF_MEMORY: no addresses or no host memory.
 */
CUresult gm_pool_create(const struct gm_pool_config *config, struct gm_pool **out);

/* Unmap and release everything. The caller makes sure that no work on the GPU and no other thread
 * uses the pool. */
void gm_pool_destroy(struct gm_pool *pool);

/*
 * A block of `size` bytes (at least 1) owned by context `context`. 512-byte aligned; 2 MiB-aligned
 * if it holds a multiple of 2 MiB, and from 64 MiB on. Waits for the GPU only at the device's
 * limit, for retired memory. On success *out is filled in, else only its `since`.
 * CUDA_ERROR_OUT_OF_MEMORY: there was neither idle nor new memory, even after idle chunks were
 * returned to the driver and retired blocks were waited for; the caller may still call the driver.
 */
CUresult gm_pool_alloc(struct gm_pool *pool, size_t size, uint64_t context, struct gm_block *out);

/* The work on the GPU that must complete before the block's memory is reused. */
enum gm_free_after {
	GM_FREE_AFTER_OWNER,   /* the work of the owner context */
	GM_FREE_AFTER_USERS,   /* the work of `users`; only with config.defer */
	GM_FREE_AFTER_NOTHING, /* none: the caller has waited */
};

#define GM_STREAM_ANY UINT64_MAX

/* The work that may still use a block: that of one stream (cuStreamGetId), or of any. */
struct gm_users {
	uint64_t context, stream;
};

struct gm_free {
	enum gm_free_after after;
	struct gm_users users;
	uint64_t id;	       /* free only the block of this id; 0: any block */
	struct gm_timing call; /* the call whose wait is counted; zero: not timed */
};

/*
 * Free the block that begins at `address`. `how` may be NULL: AFTER_OWNER, timed from now on.
 * AFTER_OWNER waits for the owner context by config.fences, with no lock held. The block stays live
 * meanwhile; of several threads that free it, one succeeds after all have waited. With
 * config.defer, and AFTER_USERS, the call does not wait: the block is retired. On success *out (may
 * be NULL) is the block. CUDA_ERROR_INVALID_VALUE: no such block begins there (double frees
 * included). CUDA_ERROR_OUT_OF_MEMORY: no host memory. Any other error is the fence's. After an
 * error the block is live as before.
 */
CUresult gm_pool_free(struct gm_pool *pool, CUdeviceptr address, const struct gm_free *how,
		      struct gm_block *out);

/* True if `address` lies in the pool's range. */
bool gm_pool_reserves(const struct gm_pool *pool, CUdeviceptr address);

/* Likewise; then *out is the block at `address`, if there is one. O(1), lock-free, no allocation:
 * safe inside the driver's own callbacks. */
bool gm_pool_find(const struct gm_pool *pool, CUdeviceptr address, struct gm_block *out);

/* Pin the chunks under [address, +size) while the block lives, because its physical address becomes
 * known elsewhere (IPC or shareable handle, dma-buf, SYNC_MEMOPS). Once more is no change.
 * INVALID_VALUE: not in a live block. */
CUresult gm_pool_pin(struct gm_pool *pool, CUdeviceptr address, size_t size);

/* --- sharing with other processes --- */

/* Does new memory have descriptors? Takes no lock. */
bool gm_pool_exports(const struct gm_pool *pool);

/* Can other processes get the memory of the live block at `address` from the driver? No more than
 * a look: the block may end. */
bool gm_pool_can_export(struct gm_pool *pool, CUdeviceptr address);

#define GM_EXPORT_PARTS 64

/* The chunks under a block, side by side; of them those from `first` on. */
struct gm_export {
	uint64_t offset, size; /* of the block in them; size as requested */
	uint64_t total;	       /* bytes of all of them */
	unsigned chunks, first, n;
	struct {
		uint64_t size;
		int fd; /* a POSIX file descriptor of the chunk */
	} part[GM_EXPORT_PARTS];
};

/*
 * Export the chunks from number `first` on under the pinned block of this id that begins at `base`,
 * at most GM_EXPORT_PARTS. On success the descriptors are the caller's, else there are none.
 * INVALID_VALUE: no such block, or not so many chunks; any other error is the driver's.
 */
CUresult gm_pool_export(struct gm_pool *pool, CUdeviceptr base, uint64_t id, unsigned first,
			struct gm_export *out);

/*
 * Map `size` bytes (a multiple of 2 MiB) of idle or new memory at `at`, addresses that the caller
 * reserved outside the range. The memory leaves the pool until take_back. Never waits for the GPU.
 * OUT_OF_MEMORY: nothing is mapped. take_back unmaps exactly one earlier loan; the caller has
 * waited for the work that used it.
 */
CUresult gm_pool_lend(struct gm_pool *pool, CUdeviceptr at, size_t size);
CUresult gm_pool_take_back(struct gm_pool *pool, CUdeviceptr at, size_t size);

/*
 * Likewise, but new memory alone, and spare: memory that the borrower may need soon and that nobody
 * uses. An allocation, a loan or gm_pool_give_back that lacks memory makes it idle memory of the
 * pool, at any time, until gm_pool_keep. OUT_OF_MEMORY, too: more than gm_pool_to_spare, which is
 * at most a sixteenth of what may be mapped, in all such loans, and half of what is not mapped; and
 * 0 for a second after memory lacked.
 *
 * *spare, which outlives the loan, is `size` while the borrower has the memory to spare. It is 0
 * from gm_pool_keep on, or once the memory is the pool's again and nothing is mapped at `at`.
 * gm_pool_keep: the borrower is about to use it, and has it until take_back; OUT_OF_MEMORY: the
 * pool has it, or is taking it. take_back waits for a thread that is: INVALID_VALUE then.
 */
CUresult gm_pool_lend_spare(struct gm_pool *pool, CUdeviceptr at, size_t size,
			    _Atomic uint64_t *spare);
CUresult gm_pool_keep(struct gm_pool *pool, CUdeviceptr at, size_t size);
uint64_t gm_pool_to_spare(const struct gm_pool *pool);

/* Map `bytes` of new memory, rounded up to 2 MiB, as idle memory. All of it or none. */
CUresult gm_pool_prewarm(struct gm_pool *pool, uint64_t bytes);

/* --- contents that leave the device, under addresses that stay --- */

/* How the contents of a chunk move: the mover's calls, with no lock held. A store is the mover's,
 * and the pool keeps no more than the pointer. */
struct gm_mover {
	/* Copy what is at [at, +size) into a store; NULL: it cannot be. */
	void *(*out)(void *arg, CUdeviceptr at, uint64_t size);
	/* Copy it back; false: it cannot be, and the store is whole as before. */
	bool (*in)(void *arg, CUdeviceptr at, uint64_t size, const void *store);
	/* The contents are on the device, or nobody needs them any more. */
	void (*drop)(void *arg, void *store, uint64_t size);
	void *arg;
};

struct gm_moved {
	uint64_t bytes, chunks; /* moved by this call */
	uint64_t copied;	/* bytes; chunks without a block return without a copy */
	CUresult result;	/* the driver's first error; UNKNOWN: the mover's */
};

/*
 * Idle memory goes to the driver, and the contents of each chunk to the mover's stores, chunk by
 * chunk: copied, unmapped, released. Pinned chunks, loans and those in another thread's hands stay.
 * gm_pool_fetch brings them back to the addresses where they were. Both stop at the first error;
 * each chunk is then whole in one place, and either call can go on from there.
 *
 * pre: no work of the GPU uses the pool's memory and none begins; no other thread is in one of the
 * two calls, in gm_pool_alloc, or copies. Blocks may be freed, asked for and walked meanwhile, and
 * until gm_pool_fetch has succeeded. The capture mode is RELAXED, and no capture is open.
 */
struct gm_moved gm_pool_send(struct gm_pool *pool, const struct gm_mover *mover);
struct gm_moved gm_pool_fetch(struct gm_pool *pool, const struct gm_mover *mover);

/*
 * Return wholly idle chunks to the driver until at most `keep` bytes of idle memory remain or no
 * such chunk is left. `drain`: first wait for retired memory. Also waits until chunks that other
 * threads are returning have arrived. The result is the bytes that this call returned.
 */
uint64_t gm_pool_give_back(struct gm_pool *pool, uint64_t keep, bool drain);

/*
 * Return to the driver the chunk that has been idle for the longest time, if at `now` (of
 * config.clock) that is config.trim_after, and config.keep bytes of idle memory remain. Each use of
 * a chunk starts its time anew, so a loop keeps its memory. One chunk a call, so that other threads
 * can use the others meanwhile. The result is its bytes; 0: none is due, or the driver failed.
 */
uint64_t gm_pool_trim(struct gm_pool *pool, uint64_t now);

/* When a chunk may next be due for gm_pool_trim; UINT64_MAX: not before config.idle is called. In
 * the past if a chunk that was due could not be returned. */
uint64_t gm_pool_trim_next(const struct gm_pool *pool);

/* Bytes that were ever returned to the driver. A driver call that failed for lack of memory is
 * worth a retry if this has grown since. */
uint64_t gm_pool_given(const struct gm_pool *pool);

/* Wait for the work that may use retired blocks, where open captures allow a wait, and make the
 * blocks idle. Returns their bytes. */
uint64_t gm_pool_drain(struct gm_pool *pool);

/* The context was destroyed or reset, so its work is over: all its blocks, live or retired, become
 * idle. Returns the number of live blocks. */
uint64_t gm_pool_context_gone(struct gm_pool *pool, uint64_t context);

/* Grant `peer` access to all present and future chunks; revoke it. Idempotent. */
CUresult gm_pool_grant(struct gm_pool *pool, CUdevice peer);
CUresult gm_pool_revoke(struct gm_pool *pool, CUdevice peer);

/* Current and peak figures, consistent with one another. */
void gm_pool_stats(const struct gm_pool *pool, struct gm_pool_stats *out);

/*
 * The figures at a moment for which the result of `ask`, which reads the device's free memory from
 * the driver, holds as well: `ask` is called again, a few times at most, if the pool's physical
 * memory has changed meanwhile. No lock is held during `ask`. Returns its last result; *out is
 * filled in in any case.
 */
CUresult gm_pool_stats_beside(const struct gm_pool *pool, CUresult (*ask)(void *arg), void *arg,
			      struct gm_pool_stats *out);

/* The figures in the form of the log; device_free is 0: the driver is not called. */
void gm_pool_sample(const struct gm_pool *pool, struct gm_sample *out);

/* Call `each` for every live block, under the pool's locks: `each` calls no function of the pool.
 */
void gm_pool_walk(const struct gm_pool *pool, void (*each)(void *arg, const struct gm_block *block),
		  void *arg);

/* Log the pool's state at a failed request of `asked` bytes. `device_free`: free bytes of the
 * device by the driver; 0: unknown. */
void gm_pool_snapshot(const struct gm_pool *pool, size_t asked, uint64_t device_free);

/* Check every invariant; if false, *why (may be NULL) names the first broken one. Takes the pool's
 * locks. Debug builds check at entry and exit of every mutator (valid.h). */
bool gm_pool_is_valid(const struct gm_pool *pool, const char **why);

#endif
