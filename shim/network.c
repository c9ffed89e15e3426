/* SPDX-License-Identifier: BSD-3-Clause */
#include <link.h>
#include <string.h>

#include "base/msg.h"
#include "handlers.h"
#include "knob/knob.h"

/* What moves device memory between processes and machines, by the beginning of its file's name. */
static const char *const names[] = {"libucp.", "libucm.", "libnccl-net", "libnixl", "libfabric."};

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *base = slash ? slash + 1 : info->dlpi_name, **found = arg;
	(void)size;
	for (size_t i = 0; i < sizeof names / sizeof *names && !*found; i++)
		if (strncmp(base, names[i], strlen(names[i])) == 0)
			*found = base;
	return *found != NULL;
}

void gm_shim_note_network(void)
{
	const char *found = NULL;
	if (dl_iterate_phdr(visit, &found))
		GM_MSG_ONCE(GM_MSG_WARN,
			    "%s cannot share memory of the pool and may copy it through the host; "
			    "GPUMEM_MODE=trace leaves cudaMalloc to the driver",
			    found);
}

/* How many objects were ever loaded and unloaded. */
static int changes(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

/* Those libraries cache registrations by address: an address that comes to mean other memory would
 * have them send what was there before. Programs have hundreds of objects, so they are looked at
 * again only once one came or went. */
bool gm_shim_may_remap(void *unused)
{
	static _Atomic unsigned long long seen;
	static atomic_bool cached;
	unsigned choice = gm_knob_get()->remap.choice;
	unsigned long long now = 0;
	(void)unused;
	if (choice != GM_REMAP_AUTO)
		return choice == GM_REMAP_ON;
	dl_iterate_phdr(changes, &now);
	if (now != atomic_load_explicit(&seen, memory_order_acquire)) {
		const char *found = NULL;
		dl_iterate_phdr(visit, &found);
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
