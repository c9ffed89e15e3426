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
 * is held across a driver call. All sizes are bytes. Results are the driver's CUresult; the shim
 * returns them unchanged.
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
	/* Fences: when has the GPU stopped using memory? NULL: no work is ever pending (replay,
	 * unit tests). */
	const struct gm_fence_ops *fences;
	void *fence_arg;
	/* False: a free waits. True: a free returns at once; the block is reused when a fence that
	 * was recorded after the free has passed. */
	bool defer;
	/* May freed memory be used again before its fence has passed (context/order.h)? NULL: no.
	 * Only with `defer`. */
	const struct gm_order_ops *order;
	bool unordered;	 /* `order` was asked for, and is not available: frees are counted so */
	uint64_t retire; /* retired bytes beyond which frees poll for passed fences, without a
			    wait */
	/* The bound at which allocations look and wait a little before the pool grows (patience.h),
	 * in ppm of the live bytes, and never more than `retire`. 0: `retire` itself. */
	uint32_t retire_ppm;
	/* Under `order`: the part of the peak of live bytes that may be mapped beyond it before
	 * chunks move, in ppm (headroom.h). 0: chunks move at once. */
	uint32_t headroom_ppm;
	_Atomic uint64_t *outside; /* bytes of the process on the device that are not the pool's and
				    * count against `limit`; the caller's variable; NULL: none */
	/* Bring *outside up to date, before the pool grows. Called with no lock held. NULL: it is.
	 */
	void (*measure)(unsigned ordinal);
	uint64_t trim_after; /* ns that a chunk is wholly idle before gm_pool_trim returns it to the
				driver; UINT64_MAX: never */
	uint64_t keep;	     /* idle bytes that gm_pool_trim leaves */
	uint64_t chunk;	     /* size of handles, a multiple of 2 MiB; 0: as needed (grow.h) */
	bool short_handles;  /* handles are short, as under `order`, for parts of blocks will be
				vacated (vacant.h) */
	/* May idle memory be moved to other addresses now? Called with no lock held. NULL: yes. */
	bool (*may_remap)(void *arg);
	void *may_remap_arg;
	/* Nanoseconds of a monotonic clock. NULL: CLOCK_MONOTONIC_COARSE, or no clock if nothing is
	 * trimmed. */
	uint64_t (*clock)(void);
	/* A chunk became wholly idle, or a block was shelved or retired, and such memory exceeds
	 * `keep`. Called under locks of the pool, so it may only set a flag. NULL: no thread
	 * trims. */
	void (*idle)(void *arg);
	void *idle_arg;
	/* There is more idle memory than gm_pool_make_room allows: gm_pool_trim returns it at once.
	 * As `idle`. */
	void (*crowded)(void *arg);
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
	/* For calls on the slow path (no shelf had the block, or the GPU was busy): gm_tick at the
	 * start of the slow path, or of the call if it is timed. Else 0. */
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
	uint64_t lent;			    /* bytes of lent chunks (lend.c) */
	uint64_t spare;			    /* of `lent`: in spare loans */
	uint64_t made;	       /* physical memory: mapped, lent, and being mapped or unmapped */
	uint64_t away;	       /* of mapped and lent: chunks with contents off the device */
	uint64_t vacant;       /* of mapped: places without memory of the device (vacant.h) */
	uint64_t hosted;       /* of vacant: places with memory of the host */
	uint64_t stand_ins;    /* part of made: gm_pool_stand_in */
	uint64_t largest_idle; /* longest run of idle mapped addresses */
	uint64_t largest_after_remap; /* sum of wholly idle, unpinned chunks, at least
				       * largest_idle */
	uint64_t unreclaimable;	      /* idle bytes beside live or retired ones in a chunk */
	uint64_t pinned;	      /* bytes of pinned chunks */
	uint64_t live_blocks, chunks, idle_extents;
	/* Runs of idle addresses by floor(log2(size)): their number and bytes. An empty slab is
	 * idle. */
	uint64_t idle_histogram[64], idle_bytes[64];
};

/*
 * Reserve the range and make an empty pool; maps no memory yet. On success the caller owns *out
 * until gm_pool_destroy. CUDA_ERROR_NOT_SUPPORTED: the device has no virtual memory management;
 * CUDA_ERROR_OUT_OF_MEMORY: no addresses or no host memory.
 */
CUresult gm_pool_create(const struct gm_pool_config *config, struct gm_pool **out);

/* Unmap and release all memory. pre: no work on the GPU and no other thread uses the pool. */
void gm_pool_destroy(struct gm_pool *pool);

/*
 * A block of `size` bytes (at least 1) owned by context `context`. 512-byte aligned; 2 MiB-aligned
 * if it holds a multiple of 2 MiB, and from 8 MiB on. On success *out is filled in, else only its
 * `since`. Waits for the GPU in three cases:
 *
 *     config.defer, much is retired, and the pool is about to grow     200 us at most (patience.h)
 *     the device or the limit has no more                              for all retired memory
 *     the driver records no fences, much is retired, nothing is idle   for retired memory
 *
 * CUDA_ERROR_OUT_OF_MEMORY: neither idle nor new memory, even after idle chunks were returned to
 * the driver and retired blocks were waited for; the caller may still call the driver.
 */
CUresult gm_pool_alloc(struct gm_pool *pool, size_t size, uint64_t context, struct gm_block *out);

/* The work on the GPU that must complete before the block's memory is reused. */
enum gm_free_after {
	GM_FREE_AFTER_OWNER,   /* the work of the owner context */
	GM_FREE_AFTER_USERS,   /* the work of the context `users`; only with config.defer */
	GM_FREE_AFTER_NOTHING, /* none: the caller has waited */
};

struct gm_free {
	enum gm_free_after after;
	uint64_t users;	       /* for AFTER_USERS: the key of their context */
	uint64_t id;	       /* free only the block of this id; 0: any block */
	struct gm_timing call; /* the call, to count its wait; zero: not timed */
};

/*
 * Free the block that begins at `address`. `how` may be NULL: AFTER_OWNER, timed from now on.
 * AFTER_OWNER waits for the owner context by config.fences, with no lock held. The block stays live
 * meanwhile; of several threads that free it, one succeeds after all have waited. With
 * config.defer, and AFTER_USERS, the call does not wait: the block is retired. On success *out (may
 * be NULL) is the block. CUDA_ERROR_INVALID_VALUE: no live block begins there (double frees
 * included). CUDA_ERROR_OUT_OF_MEMORY: no host memory. Any other error is the fence's. After an
 * error the block is live as before.
 */
CUresult gm_pool_free(struct gm_pool *pool, CUdeviceptr address, const struct gm_free *how,
		      struct gm_block *out);

/* True if `address` lies in the pool's range. */
bool gm_pool_reserves(const struct gm_pool *pool, CUdeviceptr address);

/* True as for gm_pool_reserves; *out is then the block at `address`, if there is one. O(1),
 * lock-free, no allocation: safe inside the driver's own callbacks. */
bool gm_pool_find(const struct gm_pool *pool, CUdeviceptr address, struct gm_block *out);

/* Pin the chunks under [address, +size) while the block lives, because its physical address becomes
 * known elsewhere (IPC or shareable handle, dma-buf, SYNC_MEMOPS). Idempotent. INVALID_VALUE: not
 * in a live block. OUT_OF_MEMORY: a part is vacant (vacant.h), or has memory of the host. */
CUresult gm_pool_pin(struct gm_pool *pool, CUdeviceptr address, size_t size);

/* As gm_pool_pin, but other processes know the memory only while they have the block open: else
 * its contents may leave the device (gm_pool_send). */
CUresult gm_pool_share(struct gm_pool *pool, CUdeviceptr address, size_t size);

/* Does another process have the shared block with this id and base open? False: the block is not
 * live, or was not shared. Neither waits for the GPU nor needs memory. */
bool gm_pool_share_open(struct gm_pool *pool, CUdeviceptr base, uint64_t id, bool open);

/* --- sharing with other processes --- */

/* Does new memory have descriptors? Takes no lock. */
bool gm_pool_exports(const struct gm_pool *pool);

/* Can other processes get the memory of the live block at `address` from the driver? The answer is
 * a snapshot: the block may end meanwhile. */
bool gm_pool_can_export(struct gm_pool *pool, CUdeviceptr address);

#define GM_EXPORT_PARTS 64

/* The chunks under a block, side by side; `part` has those from number `first` on. */
struct gm_export {
	uint64_t offset, size; /* the block's offset in the chunks; its requested size */
	uint64_t total;	       /* bytes of all chunks under the block */
	unsigned chunks, first, n;
	struct {
		uint64_t size;
		int fd; /* a POSIX file descriptor of the chunk */
	} part[GM_EXPORT_PARTS];
};

/*
 * Export the chunks under the pinned block with this id and base, from number `first` on, at most
 * GM_EXPORT_PARTS. On success the caller owns the descriptors, else there are none. INVALID_VALUE:
 * no such block, or fewer chunks; any other error is the driver's.
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
 * As gm_pool_lend, but new memory only, and spare: the borrower may need it soon and does not use
 * it yet. Until gm_pool_keep, an allocation, a loan or gm_pool_give_back that lacks memory may turn
 * the loan into idle memory of the pool at any time. OUT_OF_MEMORY also if `size` exceeds
 * gm_pool_to_spare: all spare loans have at most a sixteenth of the memory that may be mapped, one
 * has at most half of the memory not yet mapped, and for a second after a shortage there are none.
 *
 * *spare must outlive the loan. It is `size` while the loan is spare. It is 0 from gm_pool_keep on,
 * or once the memory belongs to the pool again and nothing is mapped at `at`. gm_pool_keep: the
 * borrower is about to use the memory, and has it until take_back; OUT_OF_MEMORY: the pool has the
 * memory, or is taking it. take_back waits for a thread that is taking the loan, then returns
 * INVALID_VALUE.
 */
CUresult gm_pool_lend_spare(struct gm_pool *pool, CUdeviceptr at, size_t size,
			    _Atomic uint64_t *spare);
CUresult gm_pool_keep(struct gm_pool *pool, CUdeviceptr at, size_t size);
uint64_t gm_pool_to_spare(const struct gm_pool *pool);

/* Map `bytes` of new memory, rounded up to 2 MiB, as idle memory. All of it or none. */
CUresult gm_pool_prewarm(struct gm_pool *pool, uint64_t bytes);

/* --- contents that leave the device, under addresses that stay --- */

/* The mover's calls, which move the contents of a chunk, with no lock held. The mover owns a store;
 * the pool keeps only the pointer. */
struct gm_mover {
	/* Begin to copy the contents of [at, +size) into a store; NULL: failure. */
	void *(*out)(void *arg, CUdeviceptr at, uint64_t size);
	/* Begin to copy a store back; false: failure, and the store is whole as before. */
	bool (*in)(void *arg, CUdeviceptr at, uint64_t size, void *store);
	/* Wait for the end of that copy, once for each, in the order of their beginnings; at most
	 * two are in progress. False: failure; a store that was copied back is whole as before. */
	bool (*finish)(void *arg, void *store);
	/* End a store: its contents are on the device, or are no longer needed. */
	void (*drop)(void *arg, void *store, uint64_t size);
	void *arg;
};

struct gm_moved {
	uint64_t bytes, chunks; /* moved by this call */
	uint64_t copied;	/* bytes; chunks without a block return without a copy */
	CUresult result;	/* the driver's first error; UNKNOWN: the mover's */
};

/*
 * gm_pool_send returns idle memory to the driver, and moves the contents of each chunk to the
 * mover's stores, chunk by chunk: copied, unmapped, released; the next copy begins before the wait
 * for the one before. Pinned chunks, spare loans and chunks in use by another thread stay.
 * gm_pool_fetch restores the contents at their old addresses. Both stop at the first error; each
 * chunk is then whole in one place, and either call can go on from there.
 *
 * pre: no work of the GPU uses the pool's memory and none begins; no other thread is in one of the
 * two calls, in gm_pool_alloc, or copies. Until gm_pool_fetch has succeeded, blocks may be freed,
 * found and walked. The capture mode is RELAXED, and no capture is open.
 */
struct gm_moved gm_pool_send(struct gm_pool *pool, const struct gm_mover *mover);
struct gm_moved gm_pool_fetch(struct gm_pool *pool, const struct gm_mover *mover);

/* The number of the chunk with `address`, which a sleep does not change, unique in this pool; 0:
 * none. Any thread, no lock held. */
uint64_t gm_pool_chunk_number(struct gm_pool *pool, CUdeviceptr address);

/* The address of 2 MiB with the properties of the pool's chunks, except access of peers: while
 * these are away the driver is asked about it. Made at the first call; the pool's until its end,
 * beyond its limit. 0: no memory. Any thread, no lock held. */
CUdeviceptr gm_pool_stand_in(struct gm_pool *pool);

/*
 * Return wholly idle chunks to the driver until at most `keep` bytes of idle memory remain or no
 * such chunk is left. `drain`: first wait for retired memory. Also waits until other threads have
 * returned their chunks. The result is the bytes that this call returned.
 */
uint64_t gm_pool_give_back(struct gm_pool *pool, uint64_t keep, bool drain);

/*
 * Return to the driver the chunk that has been idle for the longest time, if it was idle for
 * config.trim_after at `now` (of config.clock), and config.keep bytes of idle memory remain. Each
 * use of a chunk restarts its time, so a loop keeps its memory. One chunk a call, so that other
 * threads can use the others meanwhile. The result is its bytes; 0: none is due, or the driver
 * failed.
 */
uint64_t gm_pool_trim(struct gm_pool *pool, uint64_t now);

/*
 * The process has `managed` bytes of managed memory, whose pages need the device: idle memory is at
 * most the device's memory without the pool's memory in use, without `managed`, and without a 16th
 * of the device. Return idle memory beyond that to the driver now; gm_pool_trim returns what
 * becomes idle later. Less than a 256th of the device, such as flags of a program, needs no room.
 * Any thread, no lock held.
 */
void gm_pool_make_room(struct gm_pool *pool, uint64_t managed);

/* From now on chunks are due after `after` ns, or after config.trim_after if that is less. If the
 * program mapped memory again after such returns the time is longer (trim.h). UINT64_MAX ends it.
 */
void gm_pool_trim_sooner(struct gm_pool *pool, uint64_t after);

/* The time when a chunk may next be due for gm_pool_trim; UINT64_MAX: not before config.idle is
 * called. The time is past if a due chunk could not be returned. */
uint64_t gm_pool_trim_next(struct gm_pool *pool);

/* Total bytes returned to the driver. A driver call that failed for lack of memory is worth a retry
 * if this total has grown since. */
uint64_t gm_pool_given(const struct gm_pool *pool);

/* Make retired blocks idle: wait for the work that may use them, where open captures allow a wait.
 * Returns their bytes. */
uint64_t gm_pool_drain(struct gm_pool *pool);

/* The context was destroyed or reset, so its work is over: all its blocks, live or retired, become
 * idle. Returns the number of live blocks. */
uint64_t gm_pool_context_gone(struct gm_pool *pool, uint64_t context);

/* Add to *config.outside. False: `limit` does not allow so many bytes more. */
bool gm_pool_outside_take(struct gm_pool *pool, uint64_t bytes);

/* Grant `peer` access to all present and future chunks, or revoke it. Idempotent. */
CUresult gm_pool_grant(struct gm_pool *pool, CUdevice peer);
CUresult gm_pool_revoke(struct gm_pool *pool, CUdevice peer);

/* Current and peak figures, consistent with one another. Empties all shelves, so the next
 * allocations take the pool's lock; so do the next two functions. */
void gm_pool_stats(const struct gm_pool *pool, struct gm_pool_stats *out);

/*
 * Figures for the moment of `ask`, which reads the device's free memory from the driver. If the
 * pool's physical memory has changed meanwhile, `ask` is called again, a few times at most. No lock
 * is held during `ask`. Returns its last result; *out is always filled in.
 */
CUresult gm_pool_stats_beside(const struct gm_pool *pool, CUresult (*ask)(void *arg), void *arg,
			      struct gm_pool_stats *out);

/* The figures in the form of the log; device_free is 0: the driver is not called. */
void gm_pool_sample(const struct gm_pool *pool, struct gm_sample *out);

/* Call `each` for every live block, under the pool's locks: `each` calls no function of the pool.
 */
void gm_pool_walk(const struct gm_pool *pool, void (*each)(void *arg, const struct gm_block *block),
		  void *arg);

/* Check every invariant; if false, *why (may be NULL) names the first broken one. Takes the pool's
 * locks. Debug builds check at entry and exit of every mutator (valid.h). */
bool gm_pool_is_valid(const struct gm_pool *pool, const char **why);

#endif
