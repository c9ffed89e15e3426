/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/refusal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/loaded.h"
#include "base/msg.h"
#include "knob/knob.h"
#include "residency/opened.h"
#include "shim/entry/unknown.h"
#include "shim/export_table/tables.h"

/* Libraries that submit work past the driver's exports; programs load them for that. The begins of
 * their file names. */
static const char *const libraries[] = {
	"libnvoptix.",
	"libnvcuvid.",
	"libnvidia-encode.",
	"libnvidia-opticalflow.",
};

static atomic_bool communicates;

void gm_refusal_kernel_asked(const char *name)
{
	if (name && strstr(name, "nccl") && strstr(name, "Kernel"))
		atomic_store(&communicates, true);
}

enum gm_refusal gm_refusal_find(bool ordered, char *name, size_t size)
{
	const char *library = gm_loaded_find(libraries, sizeof libraries / sizeof *libraries);
	const char *table = gm_tables_refuses();
	*name = '\0';
	if (gm_knob_get()->remap.choice == GM_REMAP_OFF)
		return GM_REFUSAL_REMAP;
	if (!ordered && atomic_load(&communicates))
		return GM_REFUSAL_COMMUNICATOR;
	if (library) {
		snprintf(name, size, "%s", library);
		return GM_REFUSAL_LIBRARY;
	}
	if (table) {
		snprintf(name, size, "%s", table);
		return GM_REFUSAL_TABLE;
	}
	if (gm_unknown_find(name, size))
		return GM_REFUSAL_ENTRY;
	return gm_opened_find(name, size) ? GM_REFUSAL_DEVICE : GM_REFUSAL_NONE;
}

CUresult gm_refusal_result(enum gm_refusal refusal)
{
	switch (refusal) {
	case GM_REFUSAL_NONE:
	case GM_REFUSAL_AWAY:
		return CUDA_SUCCESS;
	case GM_REFUSAL_CAPTURE:
	case GM_REFUSAL_BUSY:
	case GM_REFUSAL_SUBMISSION:
		return CUDA_ERROR_NOT_READY;
	case GM_REFUSAL_HOST_MEMORY:
	case GM_REFUSAL_DEVICE_MEMORY:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case GM_REFUSAL_CONTEXT:
	case GM_REFUSAL_CALL:
	case GM_REFUSAL_FOLDER:
	case GM_REFUSAL_CONTENTS:
		return CUDA_ERROR_UNKNOWN;
	case GM_REFUSAL_EXIT:
		return CUDA_ERROR_DEINITIALIZED;
	default: /* what is in the process forbids it */
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}
