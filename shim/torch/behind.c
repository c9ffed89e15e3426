/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/behind.h"

#include <stddef.h>

#include "base/debug.h"
#include "shim/entry/object.h"

static void *search(const struct gm_behind *behind, const void *address)
{
	struct gm_object object;
	void *found = gm_object_behind(address, behind->symbol, &object)
			      ? gm_object_symbol(&object, behind->symbol)
			      : NULL;
	return found != behind->own ? found : NULL;
}

void *gm_behind_find(struct gm_behind *behind, const void *caller)
{
	void *found = atomic_load_explicit(&behind->found, memory_order_acquire);
	if (GM_LIKELY(found != NULL))
		return found;
	found = search(behind, caller);
	if (!found)
		found = search(behind, behind->own);
	atomic_store_explicit(&behind->found, found, memory_order_release);
	return found;
}
