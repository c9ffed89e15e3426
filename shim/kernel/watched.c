/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/kernel/watched.h"

#include <link.h>
#include <stdint.h>
#include <string.h>

#include "shim/entry/resolve.h"

/* Libraries that compute-sanitizer, or the driver for a debugger, loads: begins of file names. */
static const char names[][26] = {"libsanitizer-collection.", "libsanitizer-public.",
				 "libcudadebugger."};

static int watcher_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *base = slash ? slash + 1 : info->dlpi_name;
	(void)size;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(base, names[i], strlen(names[i])) == 0)
			*(bool *)arg = true;
	return *(bool *)arg;
}

/* Variables of the driver that a debugger sets (cudadebugger.h). The first is set before the driver
 * starts, and cleared then; the others stay set (driver 580). A dump of the GPU after an exception
 * (CUDA_ENABLE_COREDUMP_ON_EXCEPTION) sets none. */
static bool debugger_attached(void)
{
	static const char flags[][26] = {"cudbgIpcFlag", "cudbgDebuggerInitialized",
					 "cudbgRpcEnabled", "cudbgApiClientPid",
					 "cudbgUseExternalDebugger"};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		const uint32_t *flag = gm_resolve_symbol(NULL, flags[i]);
		if (flag && __atomic_load_n(flag, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

bool gm_watched(void)
{
	bool found = debugger_attached();
	if (!found)
		dl_iterate_phdr(watcher_visit, &found);
	return found;
}
