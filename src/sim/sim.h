/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated driver, on host memory, strict about every argument. tests/sim wraps it as
 * libcuda.so.1; unit tests fill a struct gm_driver from it.
 *
 *     reserve   mmap PROT_NONE
 *     create    shared pages (no file: it must work under RLIMIT_FSIZE)
 *     map       another view of the pages at a fixed address
 *     access    mprotect: a use after unmap faults as on the device
 *
 * Streams are queues with steps that the test releases. Capture rules, bounds checks and device
 * borders are the real driver's as measured (doc/performance.md). Environment, read at the first
 * cuInit:
 *
 *     SIM_MEMORY=512M             bytes a device; default 2G
 *     SIM_DEVICES=1               number of devices
 *     SIM_DRIVER=13.4             11.4 to 13.4: newer calls are hidden
 *     SIM_FAIL=CALL:3[:CODE],...  the 3rd call (0: every call) fails with CODE; default 2,
 *                                 CUDA_ERROR_OUT_OF_MEMORY
 *     SIM_ATTRIBUTE=102:0,...     device attribute 102 is 0
 *     SIM_RDMA=create|access      cuMemCreate or cuMemSetAccess refuses gpuDirectRDMACapable, for
 *                                 any value of the attribute
 *     SIM_SHARE=FILE              all processes with this FILE share the devices
 *     SIM_TRACE=FILE              one line a call, "symbol result"
 *     SIM_LEAKS=1                 print at exit the findings of gm_sim_leaks: handles, mappings,
 *                                 reservations, allocations, events and streams
 *     SIM_GPU=N                   part of the UUIDs, by which processes find each other
 *     SIM_YIELD=1                 other threads run before each call, so it loses every race
 *     SIM_MEMFD=1                 pages of cuMemCreate are files: for memcheck, and for
 *                                 descriptors that other processes can use
 *     SIM_PEER=0                  no device has access to another's memory
 */
#ifndef GM_SIM_SIM_H
#define GM_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>

#include "driver/driver.h"

/* The entry point of an exported cu* symbol of the simulated driver (all symbols, not only
 * calls.def), or NULL; SIM_DRIVER hides newer symbols. Serves as `lookup` of gm_driver_load (arg
 * unused). */
void *gm_sim_symbol(void *arg, const char *symbol);

/* All symbols with the version of their ABI, and their name and flags in cuGetProcAddress. */
struct gm_sim_export {
	const char *symbol;	/* "cuMemcpyHtoD_v2_ptds" */
	const char *base;	/* "cuMemcpyHtoD" */
	int since;		/* 7000 */
	bool per_thread_stream; /* returned for flags 2 only */
	void *entry;
};
const struct gm_sim_export *gm_sim_exports(size_t *count);

/* --- tables of cuGetExportTable --- */

/*
 * The driver has a table for each row of driver/tables.def, of the row's size (SIM_TABLES=n: n
 * bytes more), and for the identifiers of GM_SIM_TABLE.
 */
enum gm_sim_table_kind {
	GM_SIM_TABLE_EMPTY,	/* 8 bytes: no function */
	GM_SIM_TABLE_FUNCTIONS, /* a struct gm_sim_table */
	GM_SIM_TABLE_AGAIN,	/* another one */
	GM_SIM_TABLE_UNSIZED,	/* of functions alone; 0 ends it */
	GM_SIM_TABLE_LARGE,	/* 4104 bytes, as its first word says */
	GM_SIM_TABLES
};
#define GM_SIM_TABLE(kind)                    \
	{                                     \
		{                             \
			0, 0, 0, (char)(kind) \
		}                             \
	}

struct gm_sim_big {
	long v[9];
};
typedef double gm_sim_four __attribute__((vector_size(32)));

/* Also the begin of the tables of GM_TABLE_TOOL. */
struct gm_sim_table {
	size_t bytes;
	long (*integers)(long, long, long, long, long, long, long, long, long, long, long, long,
			 long, long, long, long, long, long, long, long);
	double (*mixed)(long, double, int, float, double, double, void *, long, long, double,
			double, double, double, double, char, long);
	struct gm_sim_big (*big)(struct gm_sim_big, long);
	long double (*wide)(long double);
	double (*variadic)(int, ...);
	long (*call)(long (*)(long), long);
	CUresult (*fill)(CUdeviceptr, unsigned char, size_t, CUstream); /* submits a memset */
	uintptr_t none, all, number;		       /* 0, -1, 42: no functions */
	gm_sim_four (*four)(gm_sim_four, gm_sim_four); /* NULL: not on this processor */
};

/* --- control by tests --- */

/* Queue a step on `stream` (NULL: legacy) that runs only when the test releases it, like a kernel
 * of a program. `work` runs on the releasing thread. */
CUresult gm_sim_launch(CUstream stream, void (*work)(void *arg), void *arg);
/* By a kernel of a graph that was instantiated for launches by kernels: launch another such graph,
 * which was uploaded, as cudaGraphLaunch in device code. Other callers get
 * CUDA_ERROR_INVALID_VALUE, which is not measured. A launch of such a graph has three more steps,
 * one of a kernel two. */
enum gm_sim_from_kernel {
	GM_SIM_FIRE_AND_FORGET, /* cudaStreamGraphFireAndForget */
	GM_SIM_TAIL,		/* cudaStreamGraphTailLaunch */
	GM_SIM_SIBLING		/* cudaStreamGraphFireAndForgetAsSibling */
};
CUresult gm_sim_launch_from_kernel(CUgraphExec exec, enum gm_sim_from_kernel how);
/* Hold the stream's steps until gm_sim_release (default: steps run at once). */
void gm_sim_hold(CUstream stream);
/* Run the next `steps` steps of the stream; (unsigned)-1: run all and stop holding. Returns the
 * number of run steps. */
unsigned gm_sim_release(CUstream stream, unsigned steps);
/* Wrong on purpose: events of whole contexts (cuCtxRecordEvent) leave out this stream from now on;
 * NULL: all streams. */
void gm_sim_unfence(CUstream stream);
/* Number of threads that wait for work inside the driver. */
unsigned gm_sim_waiters(void);
/* Make call number `nth` (from now on, 1 = next) of `symbol` fail with `result`; nth 0 removes the
 * rule. */
void gm_sim_fail(const char *symbol, unsigned nth, CUresult result);
/* Charge each further call of `symbol` with `bytes` of device memory, until its context ends. */
void gm_sim_need(const char *symbol, size_t bytes);
/* Call `call` before the next call of `symbol`, on its thread, without the driver's lock. */
void gm_sim_before(const char *symbol, void (*call)(void));
/* Number of calls of `symbol`. */
unsigned gm_sim_calls(const char *symbol);
/* Make every call that needs this context (NULL: the current one) return `error`, as after a fault
 * of a kernel. CUDA_SUCCESS repairs the context. */
void gm_sim_break(CUcontext context, CUresult error);
/* Number of leaked objects; with `say` a line on stderr for each kind. */
size_t gm_sim_leaks(bool say);
/* Start with a new driver, and read the settings again. Only in unit tests. */
void gm_sim_reset(void);

/* --- images: input of cuModuleLoadData, cuLibraryLoadData and, in files, cuModuleLoad --- */

#define GM_SIM_IMAGE "GMSIMIMG"
#define GM_SIM_ARGS 8

struct gm_sim_kernel {
	const char *name;
	void (*run)(void **args); /* args[i] points to the copy of argument i */
	size_t args[GM_SIM_ARGS]; /* bytes of each argument; 0 ends the list */
	size_t local;		  /* device memory for the stacks of its context's threads */
};

struct gm_sim_global {
	const char *name;
	size_t size;
};

/* Must outlive the module. The load of a cubin, PTX or fatbin returns CUDA_ERROR_INVALID_IMAGE, or
 * loads the image of gm_sim_stand_in. */
struct gm_sim_image {
	char magic[8]; /* GM_SIM_IMAGE, without its 0 */
	size_t count;
	const struct gm_sim_kernel *kernels;
	size_t memory; /* device memory of a module: code and globals */
	size_t n_globals;
	const struct gm_sim_global *globals;
};

/* Address of a global in the module last loaded into the current context; 0: none. */
CUdeviceptr gm_sim_find_global(const char *name);

/* Load this image in place of every image that is not the simulator's; NULL: none. */
void gm_sim_stand_in(const struct gm_sim_image *image);

#endif
