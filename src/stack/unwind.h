/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C and C++ frames of the calling thread, by .eh_frame (cfi.h), which every object has that
 * exceptions may cross, with or without frame pointers. libgcc_s is loaded only if stacks are
 * requested, so the preload does not depend on it; glibc loads it in the same way, for
 * pthread_cancel and backtrace. Measured (x86-64, glibc 2.36): 120 ns a frame; before glibc 2.35,
 * without _dl_find_object, some 20 ns more for each loaded object. Frame pointers cost 2 ns, but
 * are silently wrong if one library is built without them, as wheels are. libunwind is not
 * installed in general.
 */
#ifndef GM_STACK_UNWIND_H
#define GM_STACK_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "stack/cfi.h"

/* Addresses [low, high). */
struct gm_span {
	uintptr_t low, high;
};

enum { GM_UNWIND_MOST = 64 };

/* A return address and its place on the stack; 0: it was in no memory. */
struct gm_unwound_return {
	uintptr_t place, address;
};

/* How a place was found from the one before: gm_cfi.link. */
struct gm_unwound_link {
	uintptr_t place, value;
	bool loose;
};

struct gm_unwound {
	uint32_t n;
	bool cut;     /* there are more */
	bool certain; /* equal return addresses, found in equal ways, make an equal stack */
	uintptr_t addresses[GM_UNWIND_MOST];
	/* Of these frames, and of the following frame in `end`, if there is one. */
	uint32_t n_returns;
	struct gm_unwound_return returns[GM_UNWIND_MOST + 1];
	struct gm_unwound_link links[GM_UNWIND_MOST + 1];
	struct gm_cfi frame; /* during the walk */
};

/*
 * The calls in progress, the innermost first, each as an address in its instruction: at most `most`
 * of them, and GM_UNWIND_MOST. Innermost frames in `skip` are left out; the walk ends before a
 * frame in `end`, and after a frame of code without information. pre: gm_cfi_open, no lock is held.
 */
void gm_unwind(struct gm_unwound *out, uint32_t most, struct gm_span skip, struct gm_span end);

#endif
