/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/unwind.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"

struct walk {
	struct gm_unwound *out;
	uint32_t most;
	struct gm_span skip, end;
};

static bool span_has(struct gm_span span, uintptr_t address)
{
	return address - span.low < span.high - span.low;
}

/* False: the walk ends. */
static bool frame_visit(const struct walk *walk, const struct gm_cfi *frame)
{
	struct gm_unwound *out = walk->out;
	const uintptr_t address = frame->at - !frame->exact;
	if (!out->n && span_has(walk->skip, address))
		return true;
	if (out->n_returns <= GM_UNWIND_MOST) {
		out->links[out->n_returns] =
			(struct gm_unwound_link){frame->link, frame->base, frame->loose};
		out->returns[out->n_returns++] =
			(struct gm_unwound_return){frame->place, frame->at};
	}
	out->cut = out->n == walk->most;
	out->certain = span_has(walk->end, address) || out->cut;
	if (out->certain) {
		out->cut = !span_has(walk->end, address);
		return false;
	}
	out->addresses[out->n++] = address;
	return true;
}

/* A coroutine's first frame returns to any number. */
static bool is_mapped(uintptr_t address)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	return gm_sys_msync((void *)(address & ~(page - 1)), 1, MS_ASYNC) == 0;
}

void gm_unwind(struct gm_unwound *out, uint32_t most, struct gm_span skip, struct gm_span end)
{
	const struct walk walk = {out, most < GM_UNWIND_MOST ? most : GM_UNWIND_MOST, skip, end};
	struct gm_cfi *frame = &out->frame;
	out->n = out->n_returns = 0;
	out->cut = out->certain = false;
	gm_cfi_here(frame);
	while (frame_visit(&walk, frame))
		if (!gm_cfi_up(frame)) {
			out->certain = frame->certain;
			if (frame->at && out->n && !is_mapped(frame->at)) {
				out->n--;
				out->n_returns--;
				out->certain = false;
			}
			break;
		}
}
