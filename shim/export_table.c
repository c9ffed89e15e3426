/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/export_table.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/msg.h"
#include "context/order.h"
#include "shim/call.h"
#include "shim/entry/object.h"

static const struct table {
	CUuuid id;
	unsigned bytes; /* 0: unknown */
} known[] = {
#define GM_TABLE(id, bytes, libraries) {{id}, bytes},
#include "driver/tables.def"
#undef GM_TABLE
};

/* Files of NVIDIA's driver itself: NVML, for example, gets a table of libcuda. */
static const char *const driver[] = {
	"libcuda.",	  "libcudadebugger.",	"libnvidia-ptxjitcompiler.",
	"libnvidia-nvvm", "libnvidia-gpucomp.", "libnvidia-ml.",
};

static char unknown[GM_EXPORT_TABLE_NAME];
static atomic_uint state;
enum { NONE, NAMING, NAMED };

const char *gm_export_table_unknown(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) == NAMED ? unknown : NULL;
}

/* The name of the file with `asker` in its code. */
static const char *object_name(const void *asker)
{
	struct gm_object object;
	if (!gm_object_at(asker, &object) || !object.path || !*object.path)
		return "the program";
	const char *slash = strrchr(object.path, '/');
	return slash ? slash + 1 : object.path;
}

static const struct table *table_find(const CUuuid *id)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (memcmp(id, &known[i].id, sizeof *id) == 0)
			return &known[i];
	return NULL;
}

static bool driver_asks(const char *asker)
{
	for (size_t i = 0; i < sizeof driver / sizeof *driver; i++)
		if (strncmp(asker, driver[i], strlen(driver[i])) == 0)
			return true;
	return false;
}

static void table_name(const CUuuid *id, const char *asker, char *name, size_t size)
{
	char text[2 * sizeof id->bytes + 1];
	for (size_t i = 0; i < sizeof id->bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
	snprintf(name, size, "%s of %s", text, asker);
}

/* Most tables begin with their size. Another size than the known one shows a driver with other
 * functions in it. */
static void table_show(const struct table *row, const void *table, const char *name)
{
	uint64_t bytes = *(const uint64_t *)table;
	if (bytes % 8 || bytes > 4096)
		gm_msg(GM_MSG_DEBUG, "cuGetExportTable: %s, of unknown size", name);
	else
		gm_msg(GM_MSG_DEBUG, "cuGetExportTable: %s, %u bytes, known with %u", name,
		       (unsigned)bytes, row ? row->bytes : 0);
}

static void table_given(const CUuuid *id, const void *table, const char *asker)
{
	char name[GM_EXPORT_TABLE_NAME];
	const struct table *row = table_find(id);
	unsigned none = NONE;
	table_name(id, asker, name, sizeof name);
	if (table)
		table_show(row, table, name);
	if (row || driver_asks(asker) || !atomic_compare_exchange_strong(&state, &none, NAMING))
		return;
	memcpy(unknown, name, sizeof unknown);
	atomic_store_explicit(&state, NAMED, memory_order_release);
	gm_order_forbid(unknown, "is a table of functions (cuGetExportTable) that may launch work "
				 "past gpumem");
}

/* May be called before cuInit. */
CUresult on_cuGetExportTable(const void **table, const CUuuid *id)
{
	const void *asker = __builtin_return_address(0);
	CUresult result = real.cuGetExportTable(table, id);
	if (result == CUDA_SUCCESS)
		table_given(id, table ? *table : NULL, object_name(asker));
	return result;
}
