/* SPDX-License-Identifier: BSD-3-Clause */
#include <link.h>
#include <string.h>

#include "base/msg.h"
#include "handlers.h"

/* What moves device memory between processes and machines, by the beginning of its file's name. */
static const char *const names[] = {"libucp.", "libnccl-net", "libnixl", "libfabric."};

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
