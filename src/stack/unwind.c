/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/unwind.h"

#include <dlfcn.h>
#include <unwind.h>

#include "base/thread.h"

static __typeof__(_Unwind_Backtrace) *unwind_backtrace;
static __typeof__(_Unwind_GetIPInfo) *unwind_ip;
static __typeof__(_Unwind_GetCFA) *unwind_frame;

struct walk {
	struct gm_unwound *out;
	uint32_t most;
	struct gm_span skip, end;
};

bool gm_unwind_open(void)
{
	if (unwind_backtrace)
		return true;
	gm_thread_hold_cancel();
	void *library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (library) {
		*(void **)&unwind_ip = dlsym(library, "_Unwind_GetIPInfo");
		*(void **)&unwind_frame = dlsym(library, "_Unwind_GetCFA");
		*(void **)&unwind_backtrace = dlsym(library, "_Unwind_Backtrace");
	}
	if (!unwind_ip || !unwind_frame || !unwind_backtrace) {
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
	struct gm_unwound *out = walk->out;
	int before = 0; /* 1: the frame was interrupted before this instruction */
	const uintptr_t at = unwind_ip(context, &before);
	const uintptr_t address = at - (!before && at);
	if (!out->n && span_has(walk->skip, address))
		return _URC_NO_REASON;
	if (!address)
		return _URC_END_OF_STACK;
	if (out->n_returns <= GM_UNWIND_MOST)
		out->returns[out->n_returns++] =
			(struct gm_unwound_return){unwind_frame(context) - sizeof(uintptr_t), at};
	if (span_has(walk->end, address))
		return _URC_END_OF_STACK;
	if (out->n == walk->most) {
		out->cut = true;
		return _URC_END_OF_STACK;
	}
	out->addresses[out->n++] = address;
	return _URC_NO_REASON;
}

void gm_unwind(struct gm_unwound *out, uint32_t most, struct gm_span skip, struct gm_span end)
{
	struct walk walk = {out, most < GM_UNWIND_MOST ? most : GM_UNWIND_MOST, skip, end};
	out->n = out->n_returns = 0;
	out->cut = false;
	if (unwind_backtrace)
		unwind_backtrace(frame_visit, &walk);
}
