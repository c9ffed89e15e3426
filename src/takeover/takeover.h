/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes over malloc, free and the malloc of over-aligned types of all kernels of one context,
 * present and future. They are one function each per context, in memory that kernels can write.
 * Each saves what its caller expects to be kept, switches to a stack of its own (512 bytes with
 * driver 580), and calls what does the work; that call is made to go to malloc and free of the
 * heap, in a helper module (helper.cu): the host decodes where it is from code that kernels have
 * read, a kernel writes it, lines of code that multiprocessors hold are dropped, and a test kernel
 * calls both. Images of the program are never altered.
 *
 * Either every step reads back as expected, or the calls are put back.
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

/* One line of what it means; never NULL. */
const char *gm_takeover_text(enum gm_takeover_end end);

/* What the driver loads: the helper, and an empty module. NULL: there is none. */
struct gm_takeover_images {
	const void *helper, *empty;	    /* code: for cuModuleLoadData */
	const void *helper_ptx, *empty_ptx; /* a container of PTX: for cuLinkAddData */
};

struct gm_takeover_config {
	const struct gm_driver *driver;
	struct gm_takeover_images images; /* the helper's with the policy of the heap */
	CUdeviceptr heap;		  /* of struct gm_heap, ready */
	unsigned blocks; /* of the test: two for each multiprocessor, at most GM_HELPER_BLOCKS */
	/* Around a launch of kernels that allocate; may be NULL. */
	void (*launch)(void *arg, CUstream stream);
	void (*launched)(void *arg, CUstream stream, bool launched);
	void *arg;
};

/* Functions of the driver that are taken over, in the order in which they are changed; they are put
 * back in the other one: memory of ours must never get to the driver's free. */
enum gm_takeover_function {
	GM_TAKEOVER_FREE,
	GM_TAKEOVER_MALLOC,
	GM_TAKEOVER_ALIGNED, /* __cuda_syscall_aligned_malloc */
	GM_TAKEOVER_FUNCTIONS
};

struct gm_takeover_report {
	enum gm_takeover_end end;
	const char *step; /* that failed, or NULL */
	CUresult result;  /* of the driver, in that step */
	/* addresses, by gm_takeover_function: the driver's, ours; 0: not known */
	uint64_t at[GM_TAKEOVER_FUNCTIONS], to[GM_TAKEOVER_FUNCTIONS];
	unsigned form;	       /* enum gm_call_form */
	uint64_t given, wrong; /* threads of the test */
};

/*
 * Take over the context that is current to the calling thread; nobody else does so meanwhile. Waits
 * for kernels of its own on a stream of its own; legal while captures are open. What it loads
 * stays until the context ends. True: taken over. False: report->end says why not, and the context
 * is as before, unless that is GM_TAKEOVER_BROKEN. The heap stays the caller's.
 */
bool gm_takeover(const struct gm_takeover_config *config, struct gm_takeover_report *report);

/* Those of this build for a policy, by its number in heap/device/policy.def; all NULL: none, for
 * configure found no nvcc. */
struct gm_takeover_images gm_takeover_images(unsigned policy);

#endif
