/* SPDX-License-Identifier: BSD-3-Clause */
/* Private tables of functions that gpumem does not know: of the driver here, and in the logs of the
 * newest run of this folder. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "driver/driver.h"
#include "tools/doctor/doctor.h"
#include "tools/log/figures.h"
#include "tools/log/find.h"

static const char remedy[] =
	"Report this line: GPUMEM_FREE=ordered and GPUMEM_SLEEP need to know it.";

/* --- of the driver --- */

static const struct row {
	CUuuid id;
	uint64_t bytes;
} rows[] = {
#define GM_TABLE(id, bytes, driver, how, libraries) {{id}, bytes},
#define GM_TABLE_TOOL(id, name)
#include "driver/tables.def"
#undef GM_TABLE
#undef GM_TABLE_TOOL
};

static bool size_is_known(const CUuuid *id, uint64_t bytes)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (memcmp(id, &rows[i].id, sizeof *id) == 0 &&
		    (rows[i].bytes == bytes || !rows[i].bytes))
			return true;
	return false;
}

void gm_doctor_tables(struct gm_doctor *doctor, void *library, int version)
{
	CUresult(CUDAAPI * get)(const void **, const CUuuid *);
	*(void **)&get = dlsym(library, "cuGetExportTable");
	gm_doctor_step(doctor, "cuGetExportTable");
	for (size_t i = 0; get && i < sizeof rows / sizeof *rows; i++) {
		const CUuuid *id = &rows[i].id;
		const uint64_t *table = NULL;
		char text[2 * sizeof id->bytes + 1];
		bool again = i && memcmp(id, &rows[i - 1].id, sizeof *id) == 0;
		if (again || get((const void **)&table, id) != CUDA_SUCCESS || !table ||
		    size_is_known(id, *table))
			continue;
		for (size_t n = 0; n < sizeof id->bytes; n++)
			snprintf(text + 2 * n, 3, "%02x", (unsigned char)id->bytes[n]);
		gm_doctor_say(doctor, "tables", GM_DOCTOR_WARN, remedy,
			      "table %s, %llu bytes, driver %d.%d", text,
			      (unsigned long long)*table, version / 1000, version % 1000 / 10);
	}
}

/* --- in logs --- */

static void log_tables(struct gm_doctor *doctor, const struct gm_figures *f)
{
	const int version = f->about->driver_version;
	for (size_t i = 0; i < f->tables.n; i++) {
		const struct gm_figures_table *t = &f->tables.at[i];
		if (t->entry)
			continue;
		gm_doctor_say(doctor, "tables", GM_DOCTOR_WARN, remedy,
			      "table %s, %llu bytes, driver %d.%d, handed out: %s", t->name,
			      (unsigned long long)t->bytes, version / 1000, version % 1000 / 10,
			      gm_figures_fate(t->fate));
	}
}

void gm_doctor_logs(struct gm_doctor *doctor)
{
	struct gm_find found = {0};
	struct gm_figures figures;
	char why[256];
	gm_find_newest_run(&found, GM_FIND_DEFAULT_GLOB);
	for (size_t i = 0; i < found.paths.n; i++) {
		if (!gm_figures_open(&figures, found.paths.at[i], why, sizeof why))
			continue;
		log_tables(doctor, &figures);
		gm_figures_close(&figures);
	}
	gm_find_free(&found);
}
