/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"
#include "base/sys.h"

enum { TEXT_STEP = 1 << 16 };

struct gm_view gm_view_of(const void *at, uint64_t size)
{
	return (struct gm_view){.at = at, .size = size, .open = size == 0};
}

/*
 * Extend an open view up to the page that contains `end`. msync with MS_ASYNC only checks the
 * mappings: it fails where there is a hole, and does nothing else. False: not mapped.
 */
static bool view_extend(struct gm_view *view, uint64_t end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)view->at;
	if (end > UINTPTR_MAX - page - at)
		return false;
	uintptr_t from = (at + view->size) & ~(page - 1);
	uintptr_t to = (at + end + page - 1) & ~(page - 1);
	if (gm_sys_msync((void *)from, to - from, MS_ASYNC) != 0)
		return false;
	view->size = to - at;
	return true;
}

const void *gm_view_get(struct gm_view *view, uint64_t offset, uint64_t n)
{
	uint64_t end;
	if (__builtin_add_overflow(offset, n, &end))
		return NULL;
	if (end > view->size && !(view->open && view_extend(view, end)))
		return NULL;
	return view->at + offset;
}

bool gm_view_copy(struct gm_view *view, uint64_t offset, void *to, uint64_t n)
{
	const void *from = gm_view_get(view, offset, n);
	if (from)
		memcpy(to, from, n);
	return from != NULL;
}

bool gm_view_part(struct gm_view *view, uint64_t offset, uint64_t n, struct gm_view *part)
{
	const void *from = gm_view_get(view, offset, n);
	*part = (struct gm_view){.at = from, .size = n};
	return from != NULL;
}

/* If the end is unknown, search in steps down to a byte: the text may end with the mapping. */
bool gm_view_text(struct gm_view *view, uint64_t *length)
{
	for (uint64_t from = 0;;) {
		uint64_t step = TEXT_STEP - ((uintptr_t)(view->at + from) & (TEXT_STEP - 1));
		if (!view->open)
			step = view->size - from;
		else
			while (step > 1 && !gm_view_get(view, from, step))
				step /= 2;
		const char *text = gm_view_get(view, from, step);
		const char *end = text ? memchr(text, 0, step) : NULL;
		if (end) {
			*length = (uint64_t)(end - (const char *)view->at);
			return true;
		}
		if (!text || !view->open) {
			*length = view->size;
			return false;
		}
		from += step;
	}
}
