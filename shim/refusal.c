/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/refusal.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/loaded.h"
#include "knob/knob.h"
#include "residency/opened.h"

/* Libraries that submit work past the driver's exports; programs load them to do so. How the file
 * name begins. */
static const char *const libraries[] = {
	"libnvoptix.",
	"libnvcuvid.",
	"libnvidia-encode.",
	"libnvidia-opticalflow.",
};

static atomic_bool communicates;
static atomic_bool has_table;
static _Atomic uint64_t table[2]; /* the halves of its identifier */

void gm_refusal_kernel_asked(const char *name)
{
	if (name && strstr(name, "nccl") && strstr(name, "Kernel"))
		atomic_store(&communicates, true);
}

void gm_refusal_table_given(const CUuuid *id)
{
	uint64_t halves[2];
	memcpy(halves, id, sizeof halves);
	atomic_store(&table[0], halves[0]);
	atomic_store(&table[1], halves[1]);
	atomic_store(&has_table, true);
}

static void table_print(char *name, size_t size)
{
	const uint64_t halves[2] = {atomic_load(&table[0]), atomic_load(&table[1])};
	unsigned char bytes[sizeof halves];
	memcpy(bytes, halves, sizeof bytes);
	for (size_t i = 0; i < sizeof bytes && 2 * i + 2 < size; i++)
		snprintf(name + 2 * i, size - 2 * i, "%02x", bytes[i]);
}

enum gm_refusal gm_refusal_find(char *name, size_t size)
{
	const char *library = gm_loaded_find(libraries, sizeof libraries / sizeof *libraries);
	*name = '\0';
	if (gm_knob_get()->remap.choice == GM_REMAP_OFF)
		return GM_REFUSAL_REMAP;
	if (atomic_load(&communicates)) {
		snprintf(name, size, "NCCL");
		return GM_REFUSAL_COMMUNICATOR;
	}
	if (library) {
		snprintf(name, size, "%s", library);
		return GM_REFUSAL_LIBRARY;
	}
	if (atomic_load(&has_table)) {
		table_print(name, size);
		return GM_REFUSAL_TABLE;
	}
	return gm_opened_find(name, size) ? GM_REFUSAL_DEVICE : GM_REFUSAL_NONE;
}
