/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/unwind.h"

#include <dlfcn.h>
#include <unwind.h>

#include "base/thread.h"

static __typeof__(_Unwind_Backtrace) *unwind_backtrace;
static __typeof__(_Unwind_GetIPInfo) *unwind_ip;

struct walk {
	uintptr_t *out;
	uint32_t n, most;
	struct gm_span skip, end;
	bool cut;
};

bool gm_unwind_open(void)
{
	if (unwind_backtrace)
		return true;
	gm_thread_hold_cancel();
	void *library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (library) {
		*(void **)&unwind_ip = dlsym(library, "_Unwind_GetIPInfo");
		*(void **)&unwind_backtrace = dlsym(library, "_Unwind_Backtrace");
	}
	if (!unwind_ip || !unwind_backtrace) {
		unwind_backtrace = NULL;
		dlerror();
	}
	gm_thread_let_cancel();
	return unwind_backtrace != NULL;
}

static bool span_has(struct gm_span span, uintptr_t address)
{
	return address - span.low < span.high - span.low;
}

static _Unwind_Reason_Code frame_visit(struct _Unwind_Context *context, void *arg)
{
	struct walk *walk = arg;
	int before = 0; /* 1: the frame was interrupted before this instruction */
	uintptr_t address = unwind_ip(context, &before);
	address -= !before && address;
	if (!address || span_has(walk->end, address))
		return _URC_END_OF_STACK;
	if (!walk->n && span_has(walk->skip, address))
		return _URC_NO_REASON;
	if (walk->n == walk->most) {
		walk->cut = true;
		return _URC_END_OF_STACK;
	}
	walk->out[walk->n++] = address;
	return _URC_NO_REASON;
}

uint32_t gm_unwind(uintptr_t *out, uint32_t n, struct gm_span skip, struct gm_span end, bool *cut)
{
	struct walk walk = {.out = out, .most = n, .skip = skip, .end = end};
	if (unwind_backtrace)
		unwind_backtrace(frame_visit, &walk);
	*cut = walk.cut;
	return walk.n;
}
