/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat env: the value of every knob in this environment, a log or a process. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "knob/conf.h"
#include "knob/knob.h"
#include "log/read.h"
#include "tools/log/process.h"
#include "tools/output/emit.h"

struct setting {
	const char *value, *source;
};

static const struct gm_column columns[] = {
	{"name", "knob", GM_COLUMN_LEFT},
	{"value", "value", GM_COLUMN_LEFT},
	{"default", "default", GM_COLUMN_LEFT},
	{"source", "source", GM_COLUMN_LEFT},
	{"help", "", GM_COLUMN_JSON_ONLY},
	{"values", "", GM_COLUMN_JSON_ONLY},
	{NULL, "", GM_COLUMN_LEFT | GM_COLUMN_BELOW | GM_COLUMN_TEXT_ONLY},
};

/* The library's interpretation of the environment's value `given` (NULL: not set). */
static struct setting setting_judge(enum gm_knob_id id, const char *given)
{
	static const char *const refused[] = {"default, refused", "file, refused"};
	union gm_knob_value unused;
	char why[256];
	struct gm_knob_origin origin = gm_knob_judge(id, given, &unused, why, sizeof why);
	if (*why)
		gm_tool_error("%s=%s: %s; using %s", gm_knob_table[id].name, given, why,
			      *origin.text ? origin.text : "none");
	return (struct setting){origin.text, origin.refused ? refused[origin.source]
							    : gm_knob_source_name(origin.source)};
}

/* Each process reads the file at its start; this is its present content. */
static void conf_report(void)
{
	const struct gm_conf *conf = gm_conf_get();
	if (conf->ignored)
		gm_tool_error("%s: %s; the file is ignored", conf->path, conf->ignored);
	for (unsigned i = 0; i < conf->n_bad && i < GM_CONF_BAD_SHOWN; i++)
		gm_tool_error("%s:%u: %s; the line is ignored", conf->path, conf->bad[i].line,
			      conf->bad[i].reason);
	if (conf->n_bad > GM_CONF_BAD_SHOWN)
		gm_tool_error("%s: %u more bad line%s", conf->path, conf->n_bad - GM_CONF_BAD_SHOWN,
			      conf->n_bad - GM_CONF_BAD_SHOWN > 1 ? "s" : "");
}

/* The values of a knob with a fixed set, "off, small, events"; "": the set is not fixed. */
static char *values_text(const struct gm_knob_info *knob, char *buf, size_t n)
{
	const char *words = knob->type == GM_KNOB_BOOL ? "0|1" : knob->argument;
	size_t at = 0;
	*buf = '\0';
	if (knob->type == GM_KNOB_LIST)
		at = (size_t)snprintf(buf, n, "all, none, or a list of ");
	else if (knob->type != GM_KNOB_BOOL && knob->type != GM_KNOB_CHOICE)
		return buf;
	for (; *words && at + 2 < n; words++) {
		buf[at++] = *words == '|' ? ',' : *words;
		if (*words == '|')
			buf[at++] = ' ';
	}
	buf[at] = '\0';
	return buf;
}

static int settings_show(const struct gm_options *options, const struct setting *settings)
{
	struct gm_emit emit;
	gm_emit_open(&emit, stdout, options);
	gm_emit_table(&emit, "knobs", false, columns, sizeof columns / sizeof *columns);
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++) {
		const struct gm_knob_info *knob = &gm_knob_table[i];
		char values[256], both[1024];
		values_text(knob, values, sizeof values);
		snprintf(both, sizeof both, "%s%s%s", knob->help, *values ? "; values: " : "",
			 values);
		gm_emit_row(&emit, NULL,
			    (struct gm_value[]){GM_TEXT(knob->name), GM_TEXT(settings[i].value),
						GM_TEXT(knob->fallback),
						GM_TEXT(settings[i].source), GM_TEXT(knob->help),
						*values ? GM_TEXT(values) : GM_NONE,
						GM_TEXT(both)});
	}
	gm_emit_table_end(&emit);
	return gm_emit_close(&emit);
}

static int here_show(const struct gm_options *options)
{
	struct setting settings[GM_KNOB_COUNT];
	conf_report();
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++)
		settings[i] = setting_judge((enum gm_knob_id)i, getenv(gm_knob_table[i].name));
	return settings_show(options, settings);
}

static int process_show(const struct gm_options *options, const char *pid)
{
	struct setting settings[GM_KNOB_COUNT];
	char *text = NULL;
	size_t n;
	int number;
	if (gm_process_parse(pid, &number))
		text = gm_process_environment(number, &n);
	else
		errno = ENOENT;
	if (!text) {
		gm_tool_error("process %s: %s", pid,
			      errno == ENOENT ? "no such process" : strerror(errno));
		return GM_EXIT_FAILED;
	}
	conf_report();
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++)
		settings[i] = setting_judge((enum gm_knob_id)i,
					    gm_process_variable(text, n, gm_knob_table[i].name));
	int status = settings_show(options, settings);
	free(text);
	return status;
}

/* The start of " (SOURCE)" in "VALUE (SOURCE)". A refused text may contain anything, so the known
 * sources are searched. */
static char *source_find(char *text)
{
	static const char *const sources[] = {" (environment)", " (file)", " (default)"};
	size_t n = strlen(text);
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		size_t m = strlen(sources[i]);
		if (n >= m && strcmp(text + n - m, sources[i]) == 0)
			return text + n - m;
	}
	char *refused = strstr(text, " (default; refused: ");
	return refused ? refused : strstr(text, " (file; refused: ");
}

/* `knob`, from a log: "NAME=VALUE (SOURCE)". The caller frees the text returned. */
static char *setting_from_log(const struct gm_log_about *about, const char *name,
			      struct setting *out)
{
	size_t length = strlen(name);
	*out = (struct setting){"", "not recorded"};
	for (unsigned i = 0; i < about->n_knobs; i++) {
		const char *knob = about->knobs[i];
		if (strncmp(knob, name, length) != 0 || knob[length] != '=')
			continue;
		char *copy = strdup(knob + length + 1);
		char *source = copy ? source_find(copy) : NULL;
		if (source) {
			*source = '\0';
			source += 2;
			source[strlen(source) - 1] = '\0';
		}
		if (copy)
			*out = (struct setting){copy, source ? source : ""};
		return copy;
	}
	return NULL;
}

static int log_show(const struct gm_options *options, const char *path)
{
	struct setting settings[GM_KNOB_COUNT];
	char *copies[GM_KNOB_COUNT], why[256];
	struct gm_log_file *file;
	if (!gm_log_read_open(path, &file, why, sizeof why)) {
		gm_tool_error("%s: %s", gm_tool_name(path), why);
		return GM_EXIT_FAILED;
	}
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++)
		copies[i] = setting_from_log(gm_log_read_about(file), gm_knob_table[i].name,
					     &settings[i]);
	int status = settings_show(options, settings);
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++)
		free(copies[i]);
	gm_log_read_close(file);
	return status;
}

int gm_env_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (first == argc)
		return here_show(&options);
	if (first + 1 < argc)
		return gm_tool_extra(self, argv[first + 1]);
	const char *operand = argv[first];
	bool number = *operand && !operand[strspn(operand, "0123456789")];
	return number ? process_show(&options, operand) : log_show(&options, operand);
}
