/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of a device heap (device/heap.h): makes it, grows it while kernels run, and
 * returns empty chunks. One heap belongs to one context. This is the folder's whole interface.
 *
 *   chunk     a run of granules, mapped at once into the heap's reserved addresses: a loan of the
 *             device's pool, so that the pool's limit, counters and out-of-memory ladder apply
 *   growth    a chunk of a quarter of the heap's memory and 16 MiB, or as large as waiting lanes
 *             need, up to 1 GiB; larger if one allocation needs it: idle and new memory only, and
 *             never behind a fence
 *   slack     the chunk of the next growth, mapped ahead of it, of new memory to spare. The pool
 *             takes it back when it lacks memory
 *   in flight kernels that may allocate, from gm_heap_launch until the work that was in the stream
 *             at gm_heap_launched has completed. A service thread answers the mailbox meanwhile
 *
 * Threads: any thread may call any function at any time, whatever context is current, with no lock
 * held; but gm_heap_destroy is the last call. No lock is held across a call of the driver. The
 * service thread takes no lock that is held while waiting for the GPU, makes no call that needs a
 * context, and reads host memory alone unless the heap has to grow.
 */
#ifndef GM_HEAP_HEAP_H
#define GM_HEAP_HEAP_H

#include "base/debug.h"
#include "context/context.h"
#include "image/places.h"
#include "knob/knob.h"
#include "pool/pool.h"

struct gm_heap;	     /* on the device: device/heap.h */
struct gm_heap_host; /* the host's side of it */

/* A call of malloc or free in a kernel: its return address, and the instructions around it, half of
 * them before it; those that could not be read are 0. */
struct gm_heap_site {
	uint64_t address;
	const uint64_t *code; /* GM_HEAP_SITE_WORDS halves of instructions */
};
enum { GM_HEAP_SITE_WORDS = 64 };

struct gm_heap_config {
	const struct gm_driver *driver;
	struct gm_pool *pool;	    /* of the context's device; outlives the heap */
	struct gm_context *context; /* the heap's; need not be current */
	/* A name of device/policy.def (gm_heap_wanted); NULL: "granule". */
	const char *policy;
	/* Count calls of malloc and free by site (device/sites.h); only the policy "granule" can.
	 */
	bool sites;
	/* Name a new site for the log: fill in the zeroed *out, or false. Called with the heap's
	 * lock held. May be NULL. */
	bool (*site_find)(const struct gm_heap_site *site, struct gm_image_place *out);
	bool own;	/* the program made it through gpumem.h: for the log */
	uint64_t limit; /* bytes mapped at most, rounded down to granules: gm_heap_limit */
	/* The heap's own kernel: gm_heap_image, or the simulated driver's image. */
	const void *image;
	/* Called by each service thread, with true before anything else, and with false at its end:
	 * exit handlers of the program may follow. May be NULL. */
	void (*guard)(bool up);
	/* gm_heap_trim_idle trims after this many ns without a kernel in flight that may allocate;
	 * UINT64_MAX: never. 0: no memory is mapped ahead. */
	uint64_t trim_after;
	/* A service thread calls it when gm_heap_trim_next has become earlier, with no lock held.
	 * May be NULL. Must not call the driver. */
	void (*idle)(void *arg);
	void *idle_arg;
	/* The service thread's clock and sleep; NULL: the system's. Set by tests alone. `sleep`
	 * may wake early. */
	uint64_t (*clock)(void);
	void (*sleep)(struct gm_heap_host *heap, uint64_t nanoseconds);
};

/* In bytes, but for counts, which are totals since the heap was made. */
struct gm_heap_figures {
	uint64_t limit;			    /* of `mapped` */
	uint64_t reserved;		    /* addresses for granules */
	uint64_t own;			    /* mapped besides, for the heap's own books */
	uint64_t mapped;		    /* in chunks */
	uint64_t slack;			    /* mapped besides, ahead of the next growth */
	uint64_t chunks;		    /* now */
	uint64_t used;			    /* in granules that are not free */
	uint64_t live;			    /* in allocations, as rounded up by the policy */
	uint64_t grown, shrunk;		    /* chunks mapped, and given back */
	uint64_t refused;		    /* growths that the pool or the limit refused */
	uint64_t nulls;			    /* allocations that got NULL */
	uint64_t foreign_frees;		    /* invalid frees: no allocation of the heap */
	uint64_t wait_ns;		    /* waits for growth; of concurrent lanes, once */
	uint64_t queue_chunks, recycled[2]; /* as in struct gm_heap_stats */
};

/* The row of a policy in device/policy.def, or -1. gm_heap_policy_name is its inverse, NULL from
 * the end of the table on. GPUMEM_HEAP=auto is "granule". */
int gm_heap_policy(const char *name);
const char *gm_heap_policy_name(unsigned number);

/* The image, for cuModuleLoadData on sm_75 and later, of the own kernels of a heap of this policy.
 * NULL: this build had no nvcc; heaps then need an image from the caller. */
const void *gm_heap_image(const char *policy);

/* The policy that GPUMEM_HEAP names, NULL for "off". */
const char *gm_heap_wanted(const struct gm_knobs *knobs);

/* The bytes that GPUMEM_HEAP_LIMIT allows on a device of `total` bytes. */
uint64_t gm_heap_limit(const struct gm_knobs *knobs, uint64_t total);

/*
 * Make a heap: load its kernel; reserve addresses, four times the limit and 1 TiB at most, or fewer
 * if the driver has not as many; map its books and the first chunk; run the kernel on a stream of
 * its own, and wait for it. On success the caller owns *out until gm_heap_destroy.
 *
 * CUDA_ERROR_NOT_SUPPORTED: no image, no such policy, or a driver before 12.0;
 * CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_IMAGE: the image is not for this device;
 * CUDA_ERROR_OUT_OF_MEMORY: no addresses, no memory for books and first chunk, or no host memory;
 * else the driver's error. Nothing remains allocated then. No message: the caller knows the purpose
 * of the heap.
 */
CUresult gm_heap_create(const struct gm_heap_config *config, struct gm_heap_host **out);

/* Return everything: end the service, wait for the context's work unless the context is gone
 * (gm_context_gone), and unmap all chunks. pre: no other call on the heap is in progress or
 * follows. */
void gm_heap_destroy(struct gm_heap_host *heap);

/* The device address of the heap, which kernels are given. Constant, 16-byte aligned. */
CUdeviceptr gm_heap_device(const struct gm_heap_host *heap);

/* Does the heap count calls by site? After the takeover, and before the first kernel of the
 * program: begin at zero, or, if `on` is false, do without sites. The context is current. */
bool gm_heap_has_sites(const struct gm_heap_host *heap);
void gm_heap_sites_begin(struct gm_heap_host *heap, bool on);

/* The heap's policy, as a number of gm_heap_policy. */
unsigned gm_heap_policy_of(const struct gm_heap_host *heap);

/*
 * Around each call that launches a kernel (or graph) that may allocate from the heap or free to it;
 * the heap's context is current in both. `stream` is the launch's stream: NULL is the legacy
 * stream, so for a _ptsz call with NULL it is CU_STREAM_PER_THREAD. Not for launches that are being
 * captured; the launch of the graph counts.
 *
 * gm_heap_launch starts the service thread if there is none, and may launch a kernel of the heap's
 * own on the stream, once in config.trim_after. While a kernel of the heap's own runs, the stream
 * waits for its end, the caller only until it is launched. If growth was refused before,
 * gm_heap_launch puts a memset on the stream, so that the kernel asks again.
 *
 * gm_heap_launched learns whether the launch succeeded. If so it puts one write of a word of host
 * memory behind it. If the driver refuses that, or more than 256 streams have such kernels in
 * flight, the kernel counts as in flight until the next gm_heap_trim, which waits for it.
 *
 * `kernel`: its name, the same in both calls, which stays as long as the process; NULL: unknown.
 * The log names the kernel of a growth.
 */
void gm_heap_launch(struct gm_heap_host *heap, CUstream stream, const char *kernel);
void gm_heap_launched(struct gm_heap_host *heap, CUstream stream, bool launched,
		      const char *kernel);

/* True if a kernel that may allocate is in flight. Calls nothing. */
bool gm_heap_in_flight(struct gm_heap_host *heap);

/*
 * Return slack and empty chunks to the pool, except the first chunk. Waits for the work submitted
 * to the context so far, then for a kernel of the heap's own. Returns bytes. Returns slack alone
 * while kernels that may allocate are in flight, captures are open in the context, or the policy
 * returns no granules.
 */
uint64_t gm_heap_trim(struct gm_heap_host *heap);

/*
 * The same for a heap that no kernel has used for config.trim_after, once after each time that
 * kernels were in flight. For a heap in use (shed.h), the same with memory that its kernels did not
 * need for that time: this call requests it, a kernel that the next gm_heap_launch puts before its
 * launch takes it from the device, and a later call returns it, when the kernels of that time have
 * ended.
 *
 * Does not wait for the context's work, only for a kernel of the heap's own, which may have to wait
 * for room on the GPU. Launches without a write behind them (gm_heap_launched) are in flight here
 * until gm_heap_trim has waited for them. Not while captures are open. Slack that was not used for
 * config.trim_after is returned, whatever is in flight.
 */
uint64_t gm_heap_trim_idle(struct gm_heap_host *heap, uint64_t now);

/* The earliest time at which gm_heap_trim_idle may have work; UINT64_MAX: not before config.idle is
 * called, as for a heap with its first chunk alone. Calls nothing. */
uint64_t gm_heap_trim_next(struct gm_heap_host *heap);

/*
 * Figures of the heap. A kernel reads those of the device (used, live, nulls, foreign_frees,
 * wait_ns, queue_chunks, recycled), and this function waits for it. While kernels that may allocate
 * are in flight, or if the driver fails, these are the last ones read, the host's are valid all the
 * same, and the result is CUDA_ERROR_NOT_READY or the driver's error.
 */
CUresult gm_heap_figures(struct gm_heap_host *heap, struct gm_heap_figures *out);

/* The host's figures, with the device's as last read. Calls nothing. */
void gm_heap_figures_of_host(struct gm_heap_host *heap, struct gm_heap_figures *out);

/*
 * Read the heaps of the context, which is current, for counters and log. A heap is read when no
 * kernel that may allocate is in flight; not again before the time of GPUMEM_LOG, or a sixteenth of
 * its age if that is less, has passed. Waits for nothing: a later call takes in the reading. Not
 * while captures are open.
 *
 * To be called at gm_heap_sample_at, CLOCK_MONOTONIC, or later; UINT64_MAX: no call is needed.
 */
extern GM_HIDDEN _Atomic uint64_t gm_heap_sample_at;
void gm_heap_sample_context(const struct gm_context *context);

/* The context is about to end, and other threads cannot enter it (context/context.h): read its
 * heaps a last time, and wait for that. gm_heap_any_unread: has any of them to be read? */
void gm_heap_sample_last(const struct gm_context *context);
bool gm_heap_any_unread(const struct gm_context *context);

/* Code of the program that may call malloc is about to be unloaded: heaps of which readings are due
 * do not read the code of the calls that these find. Any thread, no lock. */
void gm_heap_code_ends(void);

/* The process exits, after gm_heap_exit: write the last record of all heaps. Waits 10 ms at most
 * for a reading that was launched. No call of the driver. */
void gm_heap_log_all(void);

/* The context is about to be destroyed or reset, which may be refused: end the service, so that
 * kernels still in flight get NULL after a second. */
void gm_heap_context_ending(struct gm_heap_host *heap);

/* After gm_heap_context_ending: the context did not end. Kernels in flight, and later ones, are
 * served again. */
void gm_heap_context_stays(struct gm_heap_host *heap);

/* The context was destroyed or reset (after gm_context_gone): end the service, and return the
 * heap's memory to the pool. Once; after it, only gm_heap_destroy may be called. */
void gm_heap_context_gone(struct gm_heap_host *heap);

/* The process exits: service threads make no more calls of the driver. Waits for calls in progress,
 * for a second at most. All heaps. */
void gm_heap_exit(void);

/* In a forked child: forget all heaps, calling nothing. */
void gm_heap_forget_all(void);

#endif
