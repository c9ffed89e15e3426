/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/log/live.h"

#include "shim/foreign/foreign.h"
#include "shim/memory/device.h"
#include "shim/torch/tensors.h"
#include "stack/held.h"
#include "stack/table.h"

struct walk {
	void (*each)(void *arg, const struct gm_record *live);
	void *arg;
};

static void live_put(const struct walk *w, const struct gm_block *b, unsigned flags)
{
	struct gm_record live = {
		.address = b->base,
		.size = b->size,
		.held = b->held,
		.id = b->id,
		.context = (uint32_t)b->context,
		.flags = (uint16_t)flags,
		.device = (uint8_t)b->ordinal,
		.kind = GM_RECORD_LIVE,
	};
	if (gm_held_may(b->size)) {
		live.stack = gm_held_stack(b->id);
		gm_table_write(live.stack);
	}
	w->each(w->arg, &live);
}

static void walk_block(void *arg, const struct gm_block *b)
{
	live_put(arg, b, 0);
}

static void walk_foreign(void *arg, const struct gm_foreign *f)
{
	const struct gm_block block = gm_foreign_block(f);
	live_put(arg, &block, GM_RECORD_DRIVER);
}

void gm_live_walk(void (*each)(void *arg, const struct gm_record *live), void *arg)
{
	struct walk w = {each, arg};
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (pool)
			gm_pool_walk(pool, walk_block, &w);
	}
	gm_foreign_each(GM_FOREIGN_DRIVER, walk_foreign, &w);
	gm_tensors_walk(each, arg);
}
