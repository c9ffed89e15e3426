/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a log as OpenMetrics 1.0, or in the older text format of Prometheus:
 * gpumemstat(1), FORMATS. They differ in the lines that begin with #. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "log/counters.h"
#include "tools/export/export.h"
#include "tools/log/course.h"

enum { NAME_MOST = 96, LABEL_MOST = 4096 };

/* Prefix of every metric. */
#define PREFIX "gpumem_"

struct metrics {
	FILE *out;
	const struct gm_figures *figures;
	bool prometheus;	     /* the older format */
	char labels[2 * LABEL_MOST]; /* labels of the process, on every sample */
};

/* --- names --- */

static bool text_ends(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);
	return n >= m && strcmp(text + n - m, end) == 0;
}

static bool counter_is_moment(const struct gm_counter_info *info)
{
	return info->kind == GM_KIND_GAUGE && info->unit == GM_UNIT_NS;
}

static bool counter_only_grows(const struct gm_counter_info *info)
{
	return info->kind == GM_KIND_SUM || info->kind == GM_KIND_INTEGRAL;
}

static bool name_is_sum(const char *name, const char *end)
{
	char longer[NAME_MOST];
	snprintf(longer, sizeof longer, "%s%s", name, end);
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		if (counter_only_grows(&gm_counter_table[i]) &&
		    strcmp(gm_counter_table[i].name, longer) == 0)
			return true;
	return false;
}

/* Prometheus's name of a unit, and the ending of counter names that it replaces. */
static const struct {
	const char *name, *ending;
	unsigned decimals; /* of a value */
} units[] = {
	[GM_UNIT_COUNT] = {"", "", 0},
	[GM_UNIT_BYTES] = {"bytes", "_bytes", 0},
	[GM_UNIT_NS] = {"seconds", "_ns", 9},
	[GM_UNIT_PPM] = {"ratio", "", 6},
	[GM_UNIT_BYTES_SECONDS] = {"byte_seconds", "_seconds", 0},
	[GM_UNIT_PPM_SECONDS] = {"ratio_seconds", "_seconds", 6},
};

/* The name of the metric family, with the unit as its ending. */
static void name_make(const struct gm_counter_info *info, char *buf, size_t n)
{
	const char *unit = units[info->unit].name, *ending = units[info->unit].ending;
	const size_t length =
		strlen(info->name) - (text_ends(info->name, ending) ? strlen(ending) : 0);
	if (counter_is_moment(info))
		snprintf(buf, n, PREFIX "%sstamp_seconds", info->name);
	else if (!*unit)
		snprintf(buf, n, PREFIX "%s", info->name);
	else if (!counter_only_grows(info) && name_is_sum(info->name, ending))
		snprintf(buf, n, PREFIX "%s_live_%s", info->name, unit);
	else
		snprintf(buf, n, PREFIX "%.*s_%s", (int)length, info->name, unit);
}

/* --- texts --- */

/* True if the help text refers to an earlier row of the table: "in these". */
static bool help_continues(const char *help)
{
	static const char *const begins[] = {"in these", "of these",  "time for these",
					     "time in",	 "alive now", "highest of that"};
	for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
		if (strncmp(help, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

/* Of samples, unless the log has every event. */
static bool counter_is_computed(const struct gm_figures *f, unsigned counter)
{
	uint64_t ignored;
	for (unsigned d = 0; d < f->n_devices; d++)
		if (gm_course_counter(f, d, (enum gm_counter)counter, &ignored))
			return true;
	return false;
}

static void help_write(const struct metrics *m, unsigned counter)
{
	FILE *out = m->out;
	unsigned base = counter;
	while (base > 0 && help_continues(gm_counter_table[base].help))
		base--;
	if (base != counter)
		fprintf(out, "%s: ", gm_counter_table[base].help);
	fprintf(out, "%s%s\n", gm_counter_table[counter].help,
		counter_is_computed(m->figures, counter) ? " (here: of the state after each event)"
							 : "");
}

/* A label value: escaped for a terminal, then for OpenMetrics. */
static const char *label_escape(const char *text, char *buf, size_t n)
{
	static char escaped[LABEL_MOST];
	size_t at = 0;
	gm_escape(text, escaped, sizeof escaped);
	for (const char *c = escaped; *c && at + 3 < n; c++) {
		if (*c == '"' || *c == '\\')
			buf[at++] = '\\';
		buf[at++] = *c;
	}
	buf[at] = '\0';
	return buf;
}

static void number_write(FILE *out, uint64_t value, unsigned decimals)
{
	uint64_t unit = 1;
	for (unsigned i = 0; i < decimals; i++)
		unit *= 10;
	fprintf(out, "%" PRIu64, value / unit);
	if (decimals)
		fprintf(out, ".%0*" PRIu64, (int)decimals, value % unit);
	putc('\n', out);
}

/* --- families --- */

/* A counter's family has the name of its samples in the older format; OpenMetrics forbids that. */
static void family_begin(const struct metrics *m, const char *name, const char *type,
			 const char *unit)
{
	const char *end = m->prometheus && strcmp(type, "counter") == 0 ? "_total" : "";
	fprintf(m->out, "# TYPE %s%s %s\n", name, end, type);
	if (*unit && !m->prometheus)
		fprintf(m->out, "# UNIT %s %s\n", name, unit);
	fprintf(m->out, "# HELP %s%s ", name, end);
}

/* The wall clock, ns, at a time of the log. */
static uint64_t wall_of(const struct gm_log_about *about, uint64_t time)
{
	return about->start_wall + (time - about->start);
}

static void sample_write(const struct metrics *m, const struct gm_counter_info *info,
			 const char *name, const char *device, uint64_t value)
{
	const unsigned decimals = units[info->unit].decimals;
	if (counter_is_moment(info)) {
		if (!value)
			return; /* the event never happened */
		value = wall_of(m->figures->about, value);
	}
	fprintf(m->out, "%s%s{%s%s} ", name, counter_only_grows(info) ? "_total" : "", device,
		m->labels);
	number_write(m->out, value, decimals);
}

static void counter_write(const struct metrics *m, unsigned counter)
{
	const struct gm_counter_info *info = &gm_counter_table[counter];
	const struct gm_figures *f = m->figures;
	char name[NAME_MOST], device[32];
	name_make(info, name, sizeof name);
	family_begin(m, name, counter_only_grows(info) ? "counter" : "gauge",
		     counter_is_moment(info) ? "seconds" : units[info->unit].name);
	help_write(m, counter);
	if (info->scope == GM_SCOPE_PROCESS)
		sample_write(m, info, name, "", gm_figures_process(f, counter));
	for (unsigned d = 0; info->scope == GM_SCOPE_DEVICE && d < f->n_devices; d++) {
		if (!f->devices[d].used)
			continue;
		snprintf(device, sizeof device, "device=\"%u\",", d);
		sample_write(m, info, name, device, gm_figures_device(f, d, counter));
	}
}

/* --- the log and its devices --- */

static void log_write(const struct metrics *m)
{
	const struct gm_log_about *about = m->figures->about;
	char host[LABEL_MOST], job[LABEL_MOST], mode[LABEL_MOST];
	family_begin(m, PREFIX "log_info", "gauge", "");
	fputs("the process that wrote the log; always 1\n", m->out);
	fprintf(m->out, PREFIX "log_info{%s,host=\"%s\",job=\"%s\",mode=\"%s\"} 1\n", m->labels,
		label_escape(about->host, host, sizeof host),
		label_escape(about->job, job, sizeof job),
		label_escape(about->mode, mode, sizeof mode));
	family_begin(m, PREFIX "log_start_timestamp_seconds", "gauge", "seconds");
	fputs("when the log was begun\n", m->out);
	fprintf(m->out, PREFIX "log_start_timestamp_seconds{%s} ", m->labels);
	number_write(m->out, about->start_wall, 9);
	family_begin(m, PREFIX "log_end_timestamp_seconds", "gauge", "seconds");
	fputs("the log's last sign of life\n", m->out);
	fprintf(m->out, PREFIX "log_end_timestamp_seconds{%s} ", m->labels);
	number_write(m->out, wall_of(about, about->end), 9);
	family_begin(m, PREFIX "log_closed", "gauge", "");
	fputs("1: the log was closed cleanly\n", m->out);
	fprintf(m->out, PREFIX "log_closed{%s} %d\n", m->labels, about->closed);
}

static void devices_write(const struct metrics *m)
{
	const struct gm_figures *f = m->figures;
	char name[2 * LABEL_MOST];
	family_begin(m, PREFIX "device_memory_bytes", "gauge", "bytes");
	fputs("memory of the device\n", m->out);
	for (unsigned d = 0; d < f->n_devices; d++)
		if (f->devices[d].used)
			fprintf(m->out,
				PREFIX "device_memory_bytes{device=\"%u\",%s,name=\"%s\"} %" PRIu64
				       "\n",
				d, m->labels,
				label_escape(f->about->devices[d].name, name, sizeof name),
				f->about->devices[d].total);
}

static void log_export(FILE *out, struct gm_figures *figures, bool prometheus)
{
	struct metrics m = {.out = out, .figures = figures, .prometheus = prometheus};
	const struct gm_log_about *about = figures->about;
	char program[LABEL_MOST], rank[32] = "";
	if (about->rank >= 0)
		snprintf(rank, sizeof rank, ",rank=\"%d\"", about->rank);
	snprintf(m.labels, sizeof m.labels, "program=\"%s\",pid=\"%d\"%s",
		 label_escape(about->program, program, sizeof program), about->pid, rank);
	log_write(&m);
	devices_write(&m);
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		counter_write(&m, i);
	if (!prometheus)
		fputs("# EOF\n", out);
}

void gm_export_openmetrics(FILE *out, const struct gm_options *options, struct gm_figures *figures)
{
	(void)options;
	log_export(out, figures, false);
}

void gm_export_prometheus(FILE *out, const struct gm_options *options, struct gm_figures *figures)
{
	(void)options;
	log_export(out, figures, true);
}
