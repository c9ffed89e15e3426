/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared declarations of the simulated driver. One lock (GM_LOCK_RANK_SIM) guards everything. The
 * entry points take it (exports.c), so every body sim_cuX runs under it; it is released only while
 * a thread waits for work, or runs a kernel or a host function. Bodies call one another, never an
 * entry point.
 */
#ifndef GM_SIM_INTERNAL_H
#define GM_SIM_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/lock.h"
#include "base/size.h"
#include "sim/sim.h"

/* cuda.h defines it as a static function */
#undef cuGetProcAddress_v2

#define SIM_MAX_DEVICES 8
#define SIM_PAGE ((size_t)2 << 20) /* granularity of physical memory */
#define SIM_STEP ((size_t)512)	   /* unit of cuMemAlloc's sizes */

/* --- the table of symbols (exports.c) --- */

enum sim_symbol {
#define SIM_CALL(symbol, base, since, flags, params, args) SIM_##symbol,
#define SIM_BOTH(symbol, twin, base, since, twin_since, flags, params, args) \
	SIM_##symbol, SIM_##twin,
#include "sim/exports.def"
#undef SIM_CALL
#undef SIM_BOTH
	SIM_SYMBOLS
};

enum sim_flag {
	SIM_EARLY = 1,
	SIM_CTX = 2,
	SIM_WAITS = 4,
	SIM_CTX_SYNC = 8,
	SIM_PER_THREAD = 16,
	SIM_CLEARS = 32,
	SIM_CLEARS_BOTH = 64,
	SIM_HOSTED = 128
};

/* The body of each entry point. */
#define SIM_CALL(symbol, base, since, flags, params, args) CUresult sim_##symbol params;
#define SIM_BOTH(symbol, twin, base, since, twin_since, flags, params, args) \
	CUresult sim_##symbol params;
#include "sim/exports.def"
#undef SIM_CALL
#undef SIM_BOTH

/* --- objects --- */

/* Handles are addresses of objects. Each kind has a list; a handle is looked up there before it is
 * dereferenced. */
struct sim_list {
	struct sim_node *first;
};
struct sim_node {
	struct sim_node *next, **link;
};
void sim_list_add(struct sim_list *list, struct sim_node *node);
void sim_list_remove(struct sim_node *node);
bool sim_list_has(const struct sim_list *list, const void *node);
size_t sim_list_count(const struct sim_list *list);

/* A moment in a stream: all steps up to `seq`. */
struct sim_moment {
	struct sim_stream *stream;
	uint64_t seq;
};
struct sim_moments {
	struct sim_moment *at;
	size_t n, room;
};

/* The work of a step; shared by the graphs that recorded it. */
struct sim_work {
	unsigned refs;
	struct sim_work *instead; /* of a node: its work since its parameters were set */
	CUcontext context; /* of a copy: its context, or the owner of its memory; NULL: none */
	bool unlocked;	   /* runs code of the program, so without the driver's lock */
	void (*run)(void *data);
	void (*drop)(void *data);	    /* may be NULL */
	bool (*is_ready)(const void *data); /* false: it waits; NULL: it never waits */
	bool programmatic;		    /* does not wait for earlier work in its stream */
	_Alignas(16) char data[];
};

struct sim_step {
	struct sim_step *next;
	uint64_t seq;
	struct sim_moments after;
	struct sim_work *work;	       /* NULL: no work, only an order */
	struct sim_launched *launched; /* the launch of a graph that it belongs to, or NULL */
};

struct sim_stream {
	struct sim_node node; /* first: the handle */
	struct sim_context *ctx;
	uint64_t id, submitted, done;
	struct sim_step *head, **tail;
	struct sim_moments waits; /* awaited by the next step (cuStreamWaitEvent) */
	unsigned flags, allow, ran;
	int priority;
	bool legacy, per_thread, held, running, destroyed;
	bool unfenced; /* no event of its context waits for it (gm_sim_unfence) */
	struct sim_capture *capture;
	uint64_t captured, joined; /* steps of this capture; steps awaited by other streams */
	struct sim_stream *next_all;
};

struct sim_event {
	struct sim_node node;
	struct sim_context *ctx;
	struct sim_moments moments;
	unsigned flags;
	uint64_t stamp;		     /* orders records, for cuEventElapsedTime */
	bool recorded, in_capture;   /* was ever recorded; last record was in a capture */
	struct sim_capture *capture; /* of the last record, while it is open */
	struct sim_stream *captured_in;
	uint64_t captured_at;
};

struct sim_graph {
	struct sim_node node;
	GM_ARRAY(struct sim_work *) steps;
	GM_ARRAY(CUdeviceptr) memory; /* of its allocation nodes */
};

struct sim_exec {
	struct sim_node node;
	GM_ARRAY(struct sim_work *) steps;
	GM_ARRAY(struct sim_work *) nodes; /* of the graph, by step */
	bool on_device, uploaded;	   /* may be launched by kernels; has been uploaded */
};

struct sim_capture {
	struct sim_node node;
	struct sim_context *ctx;
	struct sim_stream *origin;
	CUstreamCaptureMode mode;
	pthread_t thread;
	bool invalid;
	uint64_t id;
	struct sim_graph *graph;
	bool own_graph;
};

struct sim_context {
	struct sim_node node;
	unsigned device;
	bool primary, alive;
	unsigned retains, flags;
	uint64_t id;
	CUresult broken; /* sticky error */
	unsigned peers;	 /* bit mask of devices with memory it may use */
	size_t limits[CU_LIMIT_MAX];
	struct sim_stream *legacy;
	unsigned captures;
	size_t local, taken;	    /* bytes for stacks; bytes charged to the device */
	struct sim_context *origin; /* of a green context: the primary one, owner of its memory */
};

enum sim_kind {
	SIM_DEVICE,	/* cuMemAlloc, cuMemAllocPitch */
	SIM_MANAGED,	/* cuMemAllocManaged */
	SIM_HOST,	/* cuMemHostAlloc */
	SIM_REGISTERED, /* cuMemHostRegister */
	SIM_ASYNC,	/* cuMemAllocAsync and allocation nodes of graphs */
	SIM_MAPPING,	/* cuMemMap */
	SIM_EXTERNAL,	/* cuExternalMemoryGetMappedBuffer */
	SIM_IPC,	/* cuIpcOpenMemHandle */
	SIM_MODULE	/* code and globals of a module */
};

/* A range of addresses with memory; ranges do not overlap. */
struct sim_region {
	CUdeviceptr base;
	size_t size; /* as requested */
	enum sim_kind kind;
	unsigned device;
	uint64_t id;
	struct sim_context *ctx; /* owner; NULL for a mapping */
	uint64_t ctx_id;
	unsigned flags;
	bool sync_memops, freeing;
	bool on_host;		   /* SIM_MANAGED: its pages were prefetched to the host */
	struct sim_slab *slab;	   /* below 1 MiB: its slab */
	struct sim_pool *pool;	   /* SIM_ASYNC */
	struct sim_graph *graph;   /* SIM_ASYNC: graph of its allocation node */
	bool node_frees;	   /* ... and another node frees it */
	struct sim_handle *handle; /* SIM_MAPPING */
	struct sim_ipc *ipc;	   /* SIM_IPC: the memory, and its references */
	int file;		   /* SIM_DEVICE of 1 MiB and more: as in a slab */
	unsigned char access[SIM_MAX_DEVICES]; /* SIM_MAPPING: CUmemAccess_flags by device */
};

/* Pages with views at several addresses; view.c. */
struct sim_shared {
	void *pages;
	int fd; /* of the pages, or -1 */
	size_t size;
};

/* A physical allocation of cuMemCreate. */
struct sim_handle {
	struct sim_node node;
	CUmemAllocationProp prop;
	struct sim_shared memory; /* each mapping is a view of this */
	size_t size;
	uint64_t id, shared;	   /* shared: inode of the exported descriptor, or 0 */
	bool imported;		   /* another process' memory, charged to that process */
	unsigned owners, mappings; /* released when both are 0 */
};

struct sim_reservation {
	CUdeviceptr base;
	size_t size;
};

struct sim_pool {
	struct sim_node node;
	unsigned device;
	bool preset; /* the device's own */
	size_t used, used_peak;
	uint64_t attributes[16];
};

/* A module of one context, or a library of all. */
struct sim_module {
	struct sim_node node;
	const struct gm_sim_image *image;
	struct sim_context *ctx;    /* NULL: a library */
	struct sim_module *library; /* its library */
	CUdeviceptr memory;
	uint64_t memory_id;
	struct gm_sim_image *owned; /* read from a file */
};

/* Rows of `pitch` bytes: the device memory of cuArrayCreate. */
struct sim_array {
	struct sim_node node;
	struct sim_context *ctx;
	size_t pitch, height, depth, bytes, element;
	char *at;
};

struct sim_device {
	size_t memory, used;
	struct sim_context primary;
	bool primary_listed;
	unsigned primary_flags;
	struct sim_pool *preset_pool, *pool;
};

struct sim_settings {
	int version;
	unsigned devices;
	size_t memory;
	int trace; /* descriptor, or -1 */
	bool memfd, peer;
};

struct sim {
	bool set_up, ready;
	struct sim_settings settings;
	struct sim_device devices[SIM_MAX_DEVICES];
	struct sim_slab *slabs;
	struct sim_list contexts, streams, events, graphs, execs, captures, handles, pools, arrays,
		modules;
	struct sim_stream *all_streams;	       /* includes destroyed ones with work */
	struct sim_stream *buried;	       /* streams to which moments may refer */
	GM_ARRAY(struct sim_region *) regions; /* by address */
	GM_ARRAY(struct sim_reservation) reservations;
	uint64_t next_id, next_stamp;
	unsigned waiters, generation;
	bool unfenced;	  /* all streams are */
	struct sim *past; /* state before gm_sim_reset: other threads may hold its handles */
};
extern struct sim sim;
extern struct gm_lock sim_lock;

/* State of a thread. */
struct sim_thread {
	unsigned generation;
	bool per_thread; /* the call is the variant for the per-thread default stream */
	unsigned depth;
	CUstreamCaptureMode mode;
	unsigned charged_device;
	size_t charged;		       /* bytes charged by gm_sim_need for the current call */
	bool hosting;		       /* runs a host function */
	struct sim_launched *launched; /* the launch whose step runs on this thread */
	struct sim_context *stack[64];
	struct {
		struct sim_context *ctx;
		uint64_t ctx_id;
		struct sim_stream *stream;
	} own[8]; /* per-thread default streams */
};
extern GM_TLS struct sim_thread sim_me;

/* Counts and rules. pre: the lock is held. */
void sim_fail_locked(const char *symbol, unsigned nth, CUresult result);
void sim_calls_reset(void);

/* --- sim.c --- */

void sim_lock_driver(void);
void sim_unlock_driver(void);
void sim_set_up(void); /* settings from the environment, once */
uint64_t sim_new_id(void);

/* --- context.c --- */

struct sim_context *sim_current(void);
CUresult sim_check_current(void);
/* The live context of a handle (NULL: the current one), or the error. */
CUresult sim_context_of(CUcontext handle, struct sim_context **out);
CUcontext sim_context_handle(struct sim_context *ctx);
void sim_context_pop_all(void);
/* Make the context of a green context; end it. */
struct sim_context *sim_context_derive(struct sim_context *primary);
void sim_context_die(struct sim_context *ctx);
bool sim_device_valid(CUdevice device);

/* --- event.c --- */
void sim_events_of_context_gone(const struct sim_context *ctx);
CUresult sim_event_record_context(struct sim_context *ctx, CUevent event);

/* --- stream.c: queues --- */

/* The stream of a handle, for the calling entry point. NULL is the legacy stream, or, in a variant
 * for the per-thread default stream, the thread's own. */
CUresult sim_stream_of(CUstream handle, struct sim_stream **out);
struct sim_stream *sim_stream_make(struct sim_context *ctx, unsigned flags, int priority);
void sim_stream_drop(struct sim_stream *stream);
void sim_streams_of_context_gone(struct sim_context *ctx);
struct sim_work *sim_work_make(void (*run)(void *), void (*drop)(void *), size_t data);
void sim_work_release(struct sim_work *work);
/* Append (or capture) a step. Takes ownership of `work`, which is dropped on failure. */
CUresult sim_enqueue(struct sim_stream *stream, struct sim_work *work);
/* Work that calls a function of the program, without the driver's lock. */
struct sim_work *sim_foreign_work(void (*run)(void *), void *arg);
/* Append a step without work to a stream that is not captured. NULL: no host memory. */
struct sim_step *sim_step_append(struct sim_stream *stream, struct sim_work *work);
/* Insert a step before `next` of the stream, without a moment of its own. */
struct sim_step *sim_step_insert(struct sim_stream *stream, struct sim_step *next,
				 struct sim_work *work);
/* Run all steps that can run. */
void sim_streams_run(void);

/* --- launched.c --- */

/* Launch a graph that was instantiated for launches by kernels. */
CUresult sim_launched_begin(struct sim_exec *exec, struct sim_stream *stream);
void sim_launched_release(struct sim_launched *launched);
/* The moments of all work submitted to the stream, or to the whole context. */
CUresult sim_moments_of_stream(struct sim_moments *out, struct sim_stream *stream);
CUresult sim_moments_of_context(struct sim_moments *out, struct sim_context *ctx);
bool sim_moments_passed(const struct sim_moments *moments);
/* Wait until the moments have passed; frees them. */
CUresult sim_wait(struct sim_moments *moments);
CUresult sim_wait_stream(struct sim_stream *stream);
CUresult sim_wait_context(struct sim_context *ctx);

/* --- capture.c --- */

/* For a call that a capture may forbid: success, or 900 after invalidating the captures that forbid
 * it. */
CUresult sim_capture_unsafe(void);
/* For a call that waits for, or records in, the whole context. */
CUresult sim_capture_context(struct sim_context *ctx);
/* For work on `stream`: 906 if a capturing blocking stream of its context is involved. */
CUresult sim_capture_implicit(struct sim_stream *stream);
void sim_capture_end(struct sim_capture *capture);

/* --- graph.c --- */

struct sim_graph *sim_graph_make(void);
void sim_graph_drop(struct sim_graph *graph);

/* The graph of a handle, or INVALID_VALUE. */
CUresult sim_graph_of(CUgraph handle, struct sim_graph **out);
CUresult sim_exec_of(CUgraphExec handle, struct sim_exec **out);

/* --- share.c --- */

CUresult sim_charge(unsigned device, size_t bytes); /* OUT_OF_MEMORY beyond SIM_MEMORY */
void sim_uncharge(unsigned device, size_t bytes);
size_t sim_used(unsigned device); /* by all processes */
void sim_share_open(const char *path);
void sim_share_forget(void);

/* --- memory.c, vmm.c --- */

struct sim_region *sim_region_find(CUdeviceptr address);
CUresult sim_region_insert(struct sim_region *region);
void sim_region_remove(struct sim_region *region); /* and free the struct */
size_t sim_region_place(CUdeviceptr address); /* index of the first region that ends after it */
void *sim_pages(size_t size, size_t align);
void sim_pages_drop(void *pages, size_t size);
/* False: no host memory. Pages, and a view at already mapped addresses, are inaccessible until
 * mprotect. A view stays valid after sim_shared_drop. */
bool sim_shared_make(struct sim_shared *shared, size_t size);
/* Likewise for a file made by another process; the caller still owns `fd`. */
bool sim_shared_open(struct sim_shared *shared, size_t size, int fd);
bool sim_shared_view(const struct sim_shared *shared, size_t offset, size_t size, void *at);
void sim_shared_drop(struct sim_shared *shared);
/* Did the driver ever own `address`? */
bool sim_maybe_device(CUdeviceptr address);
/* A new region with memory of its own, charged to the device of `ctx`. */
CUresult sim_memory_alloc(enum sim_kind kind, struct sim_context *ctx, size_t size,
			  struct sim_region **out);
CUresult sim_region_of_host(enum sim_kind kind, struct sim_context *ctx, void *address, size_t size,
			    struct sim_region **out);
void sim_memory_free(struct sim_region *region);
void sim_memory_of_context_gone(struct sim_context *ctx);
void sim_memory_reset(void);
void sim_handle_release(struct sim_handle *handle);
/* The pages under memory of cuMemAlloc: their address and size. Returns the place of their file's
 * descriptor (plus 1; 0: they are no file). */
int *sim_memory_pages(struct sim_region *region, char **pages, size_t *size);
void sim_ipc_drop(struct sim_region *region);
CUresult sim_unmap_region(struct sim_region *region);

/* --- module.c, copy.c --- */

CUresult sim_module_load(const void *data, struct sim_context *ctx, struct sim_module **out);
CUresult sim_module_load_file(const char *path, struct sim_context *ctx, struct sim_module **out);
void sim_module_unload(struct sim_module *module);
/* NULL: no such library or module. */
struct sim_module *sim_module_of(const void *handle, bool library);
CUresult sim_module_kernel(const struct sim_module *module, const char *name,
			   const struct gm_sim_kernel **out);
CUresult sim_module_global(const struct sim_module *module, const char *name, CUdeviceptr *at,
			   size_t *size);
const struct gm_sim_kernel *sim_kernel_of(const void *handle);
void sim_modules_of_context_gone(struct sim_context *ctx);
CUresult sim_array_of(CUarray handle, struct sim_array **out);
void sim_arrays_of_context_gone(struct sim_context *ctx);

#endif
