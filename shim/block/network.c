/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/block/network.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "base/msg.h"
#include "knob/knob.h"

/* Libraries that move device memory between processes and machines: how the file name begins. */
static const char *const names[] = {"libucp.", "libucm.", "libnccl-net", "libnixl", "libfabric."};

static int network_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *base = slash ? slash + 1 : info->dlpi_name, **found = arg;
	(void)size;
	for (size_t i = 0; i < sizeof names / sizeof *names && !*found; i++)
		if (strncmp(base, names[i], strlen(names[i])) == 0)
			*found = base;
	return *found != NULL;
}

void gm_shim_report_network(void)
{
	const char *found = NULL;
	if (dl_iterate_phdr(network_visit, &found))
		GM_MSG_ONCE(GM_MSG_WARN,
			    "%s cannot share memory of the pool and may copy it through the host; "
			    "GPUMEM_MODE=trace leaves cudaMalloc to the driver",
			    found);
}

/* The number of times that an object was ever loaded or unloaded. */
static int network_count_objects(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

/* These libraries cache registrations by address. If an address came to mean other memory, they
 * would send the memory that was there before. Programs have hundreds of objects, so the list is
 * read again only when one was loaded or unloaded. */
bool gm_shim_may_remap(void *unused)
{
	static _Atomic unsigned long long seen;
	static atomic_bool cached;
	unsigned choice = gm_knob_get()->remap.choice;
	unsigned long long now = 0;
	(void)unused;
	if (choice != GM_REMAP_AUTO)
		return choice == GM_REMAP_ON;
	dl_iterate_phdr(network_count_objects, &now);
	if (now != atomic_load_explicit(&seen, memory_order_acquire)) {
		const char *found = NULL;
		dl_iterate_phdr(network_visit, &found);
		atomic_store_explicit(&cached, found != NULL, memory_order_relaxed);
		atomic_store_explicit(&seen, now, memory_order_release);
		if (found)
			GM_MSG_ONCE(GM_MSG_INFO,
				    "idle memory keeps its addresses, which %s may know; "
				    "GPUMEM_REMAP=on moves it",
				    found);
	}
	return !atomic_load_explicit(&cached, memory_order_relaxed);
}
