/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated driver on host memory, strict about every argument. tests/sim wraps it as
 * libcuda.so.1; unit tests fill a struct gm_driver from it. Reserve = mmap PROT_NONE, create =
 * shared pages (no file: it must work under RLIMIT_FSIZE), map = another view of them at a fixed
 * address, access = mprotect, so that a use after unmap faults as on the device. Streams are queues
 * whose steps the test releases; capture rules, bounds checks and device borders are the real
 * driver's as measured (doc/design.md).
 *
 * Environment, read at the first cuInit: SIM_MEMORY (bytes a device, "512M"; default 2G),
 * SIM_DEVICES (default 1), SIM_DRIVER ("11.4" ... "13.0"; default 13.0: newer calls are hidden),
 * SIM_FAIL ("cuMemCreate:3[:CODE]", comma separated: the 3rd call fails, with
 * CUDA_ERROR_OUT_OF_MEMORY or CODE; the 0th: every call), SIM_ATTRIBUTE ("102:0", comma separated:
 * device attribute 102 is 0), SIM_RDMA ("create" or "access": cuMemCreate or cuMemSetAccess refuses
 * memory with gpuDirectRDMACapable, whatever the attribute says), SIM_SHARE (file: the devices are
 * those of all processes that name it), SIM_TRACE (file: one line a call, "symbol result"),
 * SIM_LEAKS=1 (at exit, say what gm_sim_leaks finds: handles, mappings, reservations, allocations,
 * events and streams), SIM_YIELD=1 (each call lets other threads go first, to lose every race),
 * SIM_MEMFD=1 (shared pages are files, for memcheck), SIM_PEER=0 (no device reaches another's
 * memory).
 */
#ifndef GM_DRIVER_SIM_H
#define GM_DRIVER_SIM_H

#include <stdbool.h>
#include <stddef.h>

#include "driver/driver.h"

/* The entry point of an exported cu* symbol of the simulated driver (all it has, not only
 * calls.def), or NULL; SIM_DRIVER hides what is newer. Usable as the `lookup` of gm_driver_load
 * (arg unused). */
void *gm_sim_symbol(void *arg, const char *symbol);

/* All its symbols with the version of their ABI and the name and flags by which cuGetProcAddress
 * finds them. */
struct gm_sim_export {
	const char *symbol;	/* "cuMemcpyHtoD_v2_ptds" */
	const char *base;	/* "cuMemcpyHtoD" */
	int since;		/* 7000 */
	bool per_thread_stream; /* answered for flags 2 only */
	void *entry;
};
const struct gm_sim_export *gm_sim_exports(size_t *count);

/* --- what tests steer --- */

/* Queue a step on `stream` (NULL: legacy) that runs only when the test releases it: kernels of a
 * fake program. `work` runs on the thread that releases. */
CUresult gm_sim_launch(CUstream stream, void (*work)(void *arg), void *arg);
/* Hold the stream's steps back until gm_sim_release (default: steps run at once). */
void gm_sim_hold(CUstream stream);
/* Run the next `steps` steps of the stream; (unsigned)-1: all, and hold no longer. Returns how many
 * ran. */
unsigned gm_sim_release(CUstream stream, unsigned steps);
/* Threads now blocked inside the driver waiting for work. */
unsigned gm_sim_waiters(void);
/* Make call number `nth` (from now, 1 = next) of `symbol` fail with `result`; nth 0 removes the
 * rule. */
void gm_sim_fail(const char *symbol, unsigned nth, CUresult result);
/* From now on every call of `symbol` takes as much device memory besides, until its context goes.
 */
void gm_sim_need(const char *symbol, size_t bytes);
/* How often `symbol` was called. */
unsigned gm_sim_calls(const char *symbol);
/* From now on every call that needs this context (NULL: the current one) answers `error`, as after
 * a fault of a kernel. CUDA_SUCCESS mends it. */
void gm_sim_break(CUcontext context, CUresult error);
/* Number of leaked objects by kind, and a line each on stderr if `say`. */
size_t gm_sim_leaks(bool say);
/* Back to a fresh driver, settings from the environment again. Only in unit tests. */
void gm_sim_reset(void);

/* --- images: what cuModuleLoadData and cuLibraryLoadData take, and in files cuModuleLoad --- */

#define GM_SIM_IMAGE "GMSIMIMG"
#define GM_SIM_ARGS 8

struct gm_sim_kernel {
	const char *name;
	void (*run)(void **args); /* args[i] points to the copy of argument i */
	size_t args[GM_SIM_ARGS]; /* bytes of each argument; 0 ends the list */
	size_t local; /* device memory that its context must have for the stacks of its threads */
};

struct gm_sim_global {
	const char *name;
	size_t size;
};

/* Lives as long as the module; a cubin, PTX or fatbin is CUDA_ERROR_INVALID_IMAGE, or what
 * gm_sim_stand_in said last. */
struct gm_sim_image {
	char magic[8]; /* GM_SIM_IMAGE, without its end */
	size_t count;
	const struct gm_sim_kernel *kernels;
	size_t memory; /* device memory that a module takes: code and globals */
	size_t n_globals;
	const struct gm_sim_global *globals;
};

/* Where a global lies in the module that was last loaded into the current context; 0: it has none.
 */
CUdeviceptr gm_sim_find_global(const char *name);

/* From now on this image is loaded for all that is none of the simulator's; NULL: none is. */
void gm_sim_stand_in(const struct gm_sim_image *image);

#endif
