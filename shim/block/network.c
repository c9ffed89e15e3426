/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/block/network.h"

#include <stdatomic.h>

#include "base/loaded.h"
#include "base/msg.h"
#include "knob/knob.h"

/* Libraries that move device memory between processes and machines: begins of file names. */
static const char *const names[] = {"libucp.",	  "libucm.", "libnccl-net", "libnixl",
				    "libfabric.", "libcxi.", "libpsm"};

static const char *network_find(void)
{
	return gm_loaded_find(names, sizeof names / sizeof *names);
}

void gm_shim_report_network(void)
{
	const char *found = network_find();
	if (found)
		GM_MSG_ONCE(GM_MSG_WARN,
			    "%s cannot share memory of the pool and may copy it through the host; "
			    "GPUMEM_MODE=trace leaves cudaMalloc to the driver",
			    found);
}

/* These libraries cache registrations by address. After a remap they would send the memory that was
 * at the address before. Programs have hundreds of objects, so the list is read again only after a
 * load or unload. */
bool gm_shim_may_remap(void *unused)
{
	static _Atomic unsigned long long seen;
	static atomic_bool cached;
	(void)unused;
	if (gm_knob_get()->remap.choice == GM_REMAP_OFF)
		return false;
	unsigned long long now = gm_loaded_changes();
	if (now != atomic_load_explicit(&seen, memory_order_acquire)) {
		const char *found = network_find();
		atomic_store_explicit(&cached, found != NULL, memory_order_relaxed);
		atomic_store_explicit(&seen, now, memory_order_release);
		if (found)
			GM_MSG_ONCE(GM_MSG_INFO,
				    "idle memory keeps its addresses, which %s may know", found);
	}
	return !atomic_load_explicit(&cached, memory_order_relaxed);
}

void gm_network_pool_config(unsigned ordinal, struct gm_pool_config *config)
{
	(void)ordinal;
	config->may_remap = gm_shim_may_remap;
}
