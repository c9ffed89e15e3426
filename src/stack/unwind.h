/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C and C++ frames of the calling thread, by the unwinder of libgcc_s: it follows .eh_frame,
 * which every object has that exceptions may cross, with or without frame pointers. libgcc_s is
 * loaded when stacks are asked for, so the preload does not need it; glibc itself loads it so, for
 * pthread_cancel and backtrace. Measured (x86-64, glibc 2.36): 130 ns a frame; before glibc 2.35,
 * which has no _dl_find_object, some 20 ns more for each object that is loaded. Frame pointers cost
 * 2 ns, but are wrong, unnoticed, wherever one library is built without them, as wheels are.
 * libunwind has no place where it can be expected.
 */
#ifndef GM_STACK_UNWIND_H
#define GM_STACK_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* Addresses [low, high). */
struct gm_span {
	uintptr_t low, high;
};

/* Load the unwinder. False: there is none, and no frames are found. Not thread-safe. */
bool gm_unwind_open(void);

/*
 * The calls that are under way, the innermost one first, each by an address in its instruction: at
 * most `n` of them. Frames in `skip` are left out up to the first one outside of it; the walk ends
 * before a frame in `end`. *cut: there are more than `n`. No lock may be held: the unwinder asks
 * the dynamic linker.
 */
uint32_t gm_unwind(uintptr_t *out, uint32_t n, struct gm_span skip, struct gm_span end, bool *cut);

#endif
