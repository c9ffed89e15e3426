/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/export_table/tables.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex_lock.h"
#include "base/loaded.h"
#include "base/msg.h"
#include "context/order.h"
#include "knob/knob.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/call.h"
#include "shim/context/submit.h"
#include "shim/entry/object.h"
#include "shim/export_table/wrap.h"

enum how { PLAIN, NEVER, TOOL };

static const struct row {
	CUuuid id;
	unsigned bytes; /* 0: does not begin with them; of a tool's table unused */
	enum how how;
} rows[] = {
#define GM_TABLE(id, bytes, driver, how, libraries) {{id}, bytes, how},
#define GM_TABLE_TOOL(id, name) {{id}, 0, TOOL},
#include "driver/tables.def"
#undef GM_TABLE
#undef GM_TABLE_TOOL
};

/* Files of NVIDIA's driver itself: NVML, for example, gets a table of libcuda. */
static const char *const driver[] = {
	"libcuda.",	  "libcudadebugger.",	"libnvidia-ptxjitcompiler.",
	"libnvidia-nvvm", "libnvidia-gpucomp.", "libnvidia-ml.",
};

/* Libraries that allocate, or map channels, by private tables: OptiX, DLSS, NVBit, and that of
 * cuda-gdb; programs load them for that. Every PyTorch loads CUPTI and its helpers: they matter
 * once they ask for a table. */
static const char *const tools[] = {
	"libnvoptix.", "libnvidia-ngx.", "libnvngx", "libnvsdk_ngx", "libnvbit", "libcudadebugger.",
};
static const char *const profilers[] = {"libcupti.", "libnvperf_target.", "libcheckpoint."};
static atomic_bool profiled;

/* An unknown table, as one file asks for it. Never changed once n_tables counts it, but for
 * `logged`. */
static struct table {
	const void *given; /* by the driver */
	const void *handed_out;
	uint64_t bytes; /* 0: it does not begin with them */
	_Atomic enum gm_table_fate fate;
	_Atomic uint32_t string; /* of its name in the log */
	char name[GM_TABLES_NAME];
} tables[128];
static atomic_uint n_tables;
static struct gm_futex_lock lock = {GM_FUTEX_LOCK_FREE, GM_LOCK_RANK_TABLE};

static _Atomic(const char *) refuses;

const char *gm_tables_refuses(void)
{
	return atomic_load_explicit(&refuses, memory_order_acquire);
}

/* --- what a table is --- */

/* The name of the file with `asker` in its code. */
static const char *object_name(const void *asker)
{
	struct gm_object object;
	if (!gm_object_at(asker, &object) || !object.path || !*object.path)
		return "the program";
	const char *slash = strrchr(object.path, '/');
	return slash ? slash + 1 : object.path;
}

static bool name_is_among(const char *name, const char *const *begins, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(name, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

static bool driver_asks(const char *asker)
{
	return name_is_among(asker, driver, sizeof driver / sizeof *driver);
}

static bool tool_is_present(void)
{
	return atomic_load(&profiled) || gm_loaded_find(tools, sizeof tools / sizeof *tools);
}

/* The first word of a table, if it can be its size. */
static uint64_t table_bytes(const void *table)
{
	uint64_t bytes = *(const uint64_t *)table;
	return bytes % 8 || bytes > GM_WRAP_MOST ? 0 : bytes;
}

/* NULL: the table is known. Else the row that tells most about it. */
static const struct row *row_find(const CUuuid *id, uint64_t bytes)
{
	static const struct row none = {.how = PLAIN};
	const struct row *nearest = &none;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (memcmp(id, &rows[i].id, sizeof *id) != 0)
			continue;
		if (rows[i].how != TOOL && rows[i].bytes == bytes)
			return NULL;
		nearest = &rows[i];
	}
	return nearest;
}

static void table_name(const CUuuid *id, const char *asker, char *name, size_t size)
{
	char text[2 * sizeof id->bytes + 1];
	for (size_t i = 0; i < sizeof id->bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
	snprintf(name, size, "%s of %s", text, asker);
}

/* --- what becomes of it --- */

/* While DORMANT there is no output, so wrong knobs count as unset. */
static int knob_choice(enum gm_knob_id id)
{
	const char *text = getenv(gm_knob_table[id].name);
	union gm_knob_value value;
	char why[256];
	if (!text || !gm_knob_parse(id, text, &value, why, sizeof why))
		gm_knob_parse(id, gm_knob_table[id].fallback, &value, why, sizeof why);
	return id == GM_KNOB_ID_sleep ? value.sleep.on : value.choice;
}

/* Is a mode on, or may it be on after cuInit, in which submissions count? */
static bool modes_are_on(void)
{
	enum gm_shim_state state = atomic_load(&gm_shim_state);
	if (state == GM_SHIM_ACTIVE) {
		const struct gm_knobs *knobs = gm_knob_get();
		return knobs->mode.choice == GM_MODE_POOL &&
		       (knobs->free.choice == GM_FREE_ORDERED || knobs->sleep.sleep.on);
	}
	return state == GM_SHIM_DORMANT &&
	       (knob_choice(GM_KNOB_ID_free) == GM_FREE_ORDERED || knob_choice(GM_KNOB_ID_sleep));
}

/* Also in a signal handler. */
static void modes_end(const char *name)
{
	const char *none = NULL;
	if (atomic_compare_exchange_strong(&refuses, &none, name))
		gm_order_forbid(name, "is a table of functions (cuGetExportTable) that may launch "
				      "work past gpumem");
}

/* --- calls --- */

static void record_put(struct table *table, unsigned entry, uint64_t calls)
{
	gm_log_put(&(struct gm_record){.address = atomic_load(&table->fate),
				       .size = table->bytes,
				       .held = calls,
				       .id = entry,
				       .string = atomic_load(&table->string),
				       .device = 255,
				       .kind = GM_RECORD_TABLE});
}

static bool table_called(unsigned number, unsigned entry, bool quiet)
{
	struct table *table = &tables[number];
	for (unsigned i = 0; i < atomic_load(&n_tables); i++)
		if (tables[i].given == table->given &&
		    atomic_load(&tables[i].fate) == GM_TABLE_ALARMED)
			modes_end(tables[i].name);
	if (!quiet && tool_is_present()) {
		atomic_store(&table->fate, GM_TABLE_ALARMED);
		modes_end(table->name);
	}
	if (!quiet)
		record_put(table, entry, 1);
	return !quiet;
}

static const struct gm_wrap_events wrap_events = {table_called, gm_submit_begin_anywhere};

/* --- the table that a program gets --- */

/* pre: the lock is held. */
static void fate_choose(struct table *table, enum how how, bool tool)
{
	const bool possible = how != NEVER && gm_wrap_possible(table->bytes);
	const void *copy = NULL;
	table->handed_out = table->given;
	for (unsigned i = 0; i < atomic_load(&n_tables) && !copy; i++)
		if (tables[i].given == table->given && tables[i].handed_out != table->given)
			copy = tables[i].handed_out;
	if (!copy && possible && modes_are_on())
		copy = gm_wrap_table(table->given, table->bytes, atomic_load(&n_tables),
				     &wrap_events);
	if (copy)
		table->handed_out = copy;
	table->fate = copy	       ? (tool ? GM_TABLE_ALARMED : GM_TABLE_WRAPPED)
		      : modes_are_on() ? GM_TABLE_REFUSED
				       : GM_TABLE_PASSED;
}

/* The entry of a table of this name; NULL: there is no room. */
static struct table *table_make(const void *given, const char name[GM_TABLES_NAME], enum how how,
				bool tool)
{
	struct table *found = NULL;
	gm_futex_lock_take(&lock);
	unsigned n = atomic_load(&n_tables);
	for (unsigned i = 0; i < n && !found; i++)
		if (tables[i].given == given && strcmp(tables[i].name, name) == 0)
			found = &tables[i];
	if (!found && n < sizeof tables / sizeof *tables) {
		found = &tables[n];
		*found = (struct table){.given = given, .bytes = table_bytes(given)};
		memcpy(found->name, name, GM_TABLES_NAME);
		fate_choose(found, how, tool);
		atomic_store(&n_tables, n + 1);
		if (found->fate == GM_TABLE_ALARMED)
			gm_wrap_alarm();
	}
	gm_futex_lock_release(&lock);
	return found;
}

/* --- the log --- */

/* Once a table, when there is a log. */
static void table_log(struct table *table)
{
	uint32_t none = 0;
	if (!gm_log_wants(GM_RECORD_TABLE) || atomic_load(&table->string))
		return;
	uint32_t string = gm_log_string(table->name);
	if (!string || !atomic_compare_exchange_strong(&table->string, &none, string))
		return;
	gm_counter_add(0, GM_C_tables_unknown, 1);
	record_put(table, 0, 0);
}

void gm_tables_start(void)
{
	for (unsigned i = 0; i < atomic_load(&n_tables); i++)
		table_log(&tables[i]);
}

static void calls_log(unsigned number, unsigned entry, uint64_t calls)
{
	record_put(&tables[number], entry, calls);
}

void gm_tables_report(void)
{
	gm_wrap_walk(calls_log);
}

/* The table to hand out. */
static const void *table_given(const void *given, const CUuuid *id, const char *asker)
{
	char name[GM_TABLES_NAME] = "";
	uint64_t bytes = table_bytes(given);
	const struct row *row = row_find(id, bytes);
	table_name(id, asker, name, sizeof name);
	gm_msg(GM_MSG_DEBUG, "cuGetExportTable: %s, %u bytes, %s", name, (unsigned)bytes,
	       row ? "unknown" : "known");
	if (name_is_among(asker, profilers, sizeof profilers / sizeof *profilers) &&
	    !atomic_exchange(&profiled, true))
		gm_wrap_alarm();
	if (!row || driver_asks(asker))
		return given;
	bool tool = row->how == TOOL || tool_is_present();
	struct table *table = table_make(given, name, row->how, tool);
	if (!table) {
		modes_end("one of too many unknown tables");
		return given;
	}
	table_log(table);
	if (table->fate == GM_TABLE_REFUSED)
		modes_end(table->name);
	return table->handed_out;
}

/* May be called before cuInit. */
CUresult on_cuGetExportTable(const void **table, const CUuuid *id)
{
	const void *asker = __builtin_return_address(0);
	CUresult result = real.cuGetExportTable(table, id);
	if (result == CUDA_SUCCESS && table && *table && id)
		*table = table_given(*table, id, object_name(asker));
	return result;
}

void gm_tables_forget(void)
{
	gm_futex_lock_init(&lock, GM_LOCK_RANK_TABLE);
	for (unsigned i = 0; i < atomic_load(&n_tables); i++)
		atomic_store(&tables[i].string, 0);
	gm_wrap_forget();
}
