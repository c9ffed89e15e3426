/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes over malloc, free and the malloc of over-aligned types of all kernels of one context,
 * present and future. Each is one function per context, in memory that kernels can write. It saves
 * the caller's registers, switches to a stack of its own (512 bytes with driver 580), and calls the
 * function that does the work. A takeover redirects that call to malloc and free of the heap, in a
 * helper module (helper.cu):
 *
 *   load     the helper, and the driver's own malloc with it
 *   decode   the code of the helper's callers of malloc and free: finds the driver's functions
 *   plan     the code of these functions: finds the call, and checks for unexpected code
 *   change   a kernel writes the calls, and multiprocessors drop their cached lines of code
 *   test     a kernel calls malloc and free
 *
 * Either every step reads back as expected, or the original calls are restored. Images of the
 * program are never altered.
 *
 * The driver has these functions twice: images that call the device runtime (graphs and kernels
 * launched by kernels, conditional nodes) get a second set, also one per context (driver 580). It
 * stays on the caller's stack and calls the functions that do the work of the first set. A second
 * takeover redirects these calls to the same heap: its helper is an image of that kind.
 */
#ifndef GM_TAKEOVER_TAKEOVER_H
#define GM_TAKEOVER_TAKEOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

enum gm_takeover_end {
#define GM_TAKEOVER(name, text) GM_TAKEOVER_##name,
#include "takeover/takeover.def"
#undef GM_TAKEOVER
	GM_TAKEOVER_ENDS
};

/* One line of explanation; never NULL. */
const char *gm_takeover_text(enum gm_takeover_end end);

/* The modules to load: the helper, that of the second set, and an empty one. NULL: no module.
 * Each as code for cuModuleLoadData, and as a container of PTX for cuLinkAddData. */
struct gm_takeover_images {
	const void *helper, *runtime, *empty;
	const void *helper_ptx, *runtime_ptx, *empty_ptx;
};

struct gm_takeover_report;

struct gm_takeover_config {
	const struct gm_driver *driver;
	struct gm_takeover_images images; /* helper for the policy of the heap */
	CUdeviceptr heap;		  /* address of a struct gm_heap that is ready */
	bool sites;	 /* count calls by site (heap/device/sites.h), if the code allows it */
	unsigned blocks; /* blocks of the test: 2 a multiprocessor, at most GM_HELPER_BLOCKS */
	/* Called before and after the launches of kernels that allocate; may be NULL. */
	void (*launch)(void *arg, CUstream stream);
	void (*launched)(void *arg, CUstream stream, bool launched);
	void *arg;
	/* NULL: take over the first set. Else the second one: the report of the first takeover,
	 * with the functions of ours. */
	const struct gm_takeover_report *first;
};

/* Functions of the driver that are taken over, in the order of the change. They are restored in
 * reverse order: memory of ours must never reach the driver's free. */
enum gm_takeover_function {
	GM_TAKEOVER_FREE,
	GM_TAKEOVER_MALLOC,
	GM_TAKEOVER_ALIGNED, /* __cuda_syscall_aligned_malloc */
	GM_TAKEOVER_FUNCTIONS
};

enum { GM_TAKEOVER_STEPS = 5 };

struct gm_takeover_report {
	enum gm_takeover_end end;
	const char *step; /* the failed step, or NULL */
	CUresult result;  /* of the driver, in that step */
	/* addresses, by gm_takeover_function: the driver's, the function that does its work,
	 * ours; 0: unknown */
	uint64_t at[GM_TAKEOVER_FUNCTIONS], work[GM_TAKEOVER_FUNCTIONS], to[GM_TAKEOVER_FUNCTIONS];
	/* Calls are counted by site, by `to`; the second set's by `second`, without addresses. */
	bool sited;
	uint64_t second[GM_TAKEOVER_FUNCTIONS];
	unsigned form;			/* enum gm_call_form */
	uint64_t given, wrong;		/* threads of the test */
	uint64_t ns[GM_TAKEOVER_STEPS]; /* time of each step; 0: it was not reached */
};

/* The name of step `i`. */
const char *gm_takeover_step(unsigned i);

/*
 * Take over the context that is current to the calling thread; no other thread does so meanwhile.
 * Waits for its own kernels on its own stream; legal while captures are open. The modules remain
 * loaded until the context ends. True: taken over. False: report->end has the reason, and the
 * context is as before, except after GM_TAKEOVER_BROKEN. The caller still owns the heap.
 */
bool gm_takeover(const struct gm_takeover_config *config, struct gm_takeover_report *report);

/* The modules of this build for a policy, a row of heap/device/policy.def; all NULL: configure
 * found no nvcc. */
struct gm_takeover_images gm_takeover_images(unsigned policy);

#endif
