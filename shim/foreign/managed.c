/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/foreign/managed.h"

#include "log/count.h"
#include "shim/memory/device.h"

static uint64_t managed_bytes(void)
{
	uint64_t bytes = 0;
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		bytes += gm_counter_get(i, GM_C_foreign_managed);
	return bytes;
}

/* Pages of managed memory go to the device that uses them, so each pool makes room for all. The sum
 * is read again: another thread may have changed it, and have told the pools first. */
void gm_managed_changed(void)
{
	uint64_t bytes;
	do {
		bytes = managed_bytes();
		for (unsigned i = 0; i < gm_shim_n_devices; i++) {
			struct gm_pool *pool = gm_shim_pool_if_any(i);
			if (pool)
				gm_pool_make_room(pool, bytes);
		}
	} while (managed_bytes() != bytes);
}

void gm_managed_pool_ready(unsigned ordinal)
{
	(void)ordinal;
	gm_managed_changed();
}
