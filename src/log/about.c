/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/about.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "knob/knob.h"

struct variable {
	const char *name, *also, *none;
};

static const struct variable rank_variables[] = {
#define GM_RANK(name, also) {#name, also, ""},
#define GM_JOB(name, also, none)
#define GM_LOCAL(name)
#include "log/ranks.def"
#undef GM_RANK
#undef GM_JOB
#undef GM_LOCAL
};

static const struct variable job_variables[] = {
#define GM_RANK(name, also)
#define GM_JOB(name, also, none) {#name, also, none},
#define GM_LOCAL(name)
#include "log/ranks.def"
#undef GM_RANK
#undef GM_JOB
#undef GM_LOCAL
};

static const char *const local_variables[] = {
#define GM_RANK(name, also)
#define GM_JOB(name, also, none)
#define GM_LOCAL(name) #name,
#include "log/ranks.def"
#undef GM_RANK
#undef GM_JOB
#undef GM_LOCAL
};

typedef const char *variable_find(void *arg, const char *name);

static const char *own_find(void *unused, const char *name)
{
	(void)unused;
	return secure_getenv(name);
}

/* The variable's value. NULL: not set, the value for none, or the other variable is not set. */
static const char *variable_value(const struct variable *variable, variable_find *find, void *arg)
{
	const char *value = find(arg, variable->name);
	if (!value || !*value || strcmp(value, variable->none) == 0 ||
	    (*variable->also && !find(arg, variable->also)))
		return NULL;
	return value;
}

static void program_name(char *out, size_t n)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
	path[length > 0 ? length : 0] = 0;
	const char *slash = strrchr(path, '/');
	snprintf(out, n, "%s", slash ? slash + 1 : program_invocation_short_name);
}

const char *gm_about_job(variable_find *find, void *arg)
{
	const char *job = NULL;
	for (size_t i = 0; !job && i < sizeof job_variables / sizeof *job_variables; i++)
		job = variable_value(&job_variables[i], find, arg);
	return job;
}

static void job_name(char *out, size_t n)
{
	const char *job = gm_about_job(own_find, NULL);
	snprintf(out, n, "%s", job ? job : "");
}

static int rank_number(void)
{
	for (size_t i = 0; i < sizeof rank_variables / sizeof *rank_variables; i++) {
		const char *value = variable_value(&rank_variables[i], own_find, NULL);
		char *end;
		long rank = value ? strtol(value, &end, 10) : -1;
		if (value && !*end && rank >= 0 && rank <= INT_MAX)
			return (int)rank;
	}
	return -1;
}

/* Slurm's "4(x2),3" means two nodes with four ranks and one with three. */
unsigned gm_about_local_ranks(void)
{
	for (size_t i = 0; i < sizeof local_variables / sizeof *local_variables; i++) {
		const char *value = secure_getenv(local_variables[i]);
		char *end;
		long ranks = value ? strtol(value, &end, 10) : 0;
		if (ranks > 0 && ranks <= INT_MAX && (!*end || *end == '(' || *end == ','))
			return (unsigned)ranks;
	}
	return 1;
}

void gm_about_gather(struct gm_about *about)
{
	if (gethostname(about->host, sizeof about->host))
		strcpy(about->host, "unknown");
	about->host[sizeof about->host - 1] = 0;
	program_name(about->program, sizeof about->program);
	job_name(about->job, sizeof about->job);
	about->pid = getpid();
	about->rank = rank_number();
}

struct gm_file_words gm_about_words(const struct gm_about *about)
{
	return (struct gm_file_words){about->host, about->job, about->program, about->pid,
				      about->rank};
}

/* Append a pair, unless it does not fit as a whole. */
__attribute__((format(printf, 3, 4))) static void text_add(struct gm_about *about, const char *key,
							   const char *format, ...)
{
	size_t room = sizeof about->text - about->size;
	char *at = about->text + about->size;
	size_t n = strlen(key);
	if (n + 2 > room)
		return;
	memcpy(at, key, n);
	at[n++] = '=';
	va_list args;
	va_start(args, format);
	int more = vsnprintf(at + n, room - n, format, args);
	va_end(args);
	if (more >= 0 && n + (size_t)more < room)
		about->size += (uint32_t)(n + (size_t)more + 1);
}

static void text_add_knob(struct gm_about *about, enum gm_knob_id id)
{
	const struct gm_knob_info *knob = &gm_knob_table[id];
	struct gm_knob_origin origin = gm_knob_origin(id);
	const char *source = gm_knob_source_name(origin.source);
	if (origin.refused)
		text_add(about, "knob", "%s=%s (%s; refused: %s)", knob->name, origin.text, source,
			 origin.refused);
	else
		text_add(about, "knob", "%s=%s (%s)", knob->name, origin.text, source);
}

static void text_add_device(struct gm_about *about, const struct gm_log_device *device)
{
	char uuid[33];
	for (unsigned i = 0; i < 16; i++)
		snprintf(uuid + 2 * i, 3, "%02x", device->uuid[i]);
	text_add(about, "device", "%s %llu %.*s", uuid, (unsigned long long)device->total,
		 (int)sizeof device->name, device->name);
}

/* True if a shell reads the argument without quotes. */
static bool argument_is_plain(const char *argument)
{
	return *argument && !argument[strspn(argument, "abcdefghijklmnopqrstuvwxyz0123456789"
						       "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_./=:,@%+")];
}

/* The arguments as typed in a shell; cut at the end of the room. */
static void arguments_join(const char *from, size_t length, char *out, size_t n)
{
	size_t at = 0;
	for (const char *end = from + length; from < end; from += strlen(from) + 1) {
		bool plain = argument_is_plain(from);
		if (at + 4 >= n)
			break;
		if (at)
			out[at++] = ' ';
		if (!plain)
			out[at++] = '\'';
		for (const char *p = from; *p && at + 6 < n; p++) {
			if (*p == '\'') {
				memcpy(out + at, "'\\'", 3);
				at += 3;
			}
			out[at++] = *p;
		}
		if (!plain)
			out[at++] = '\'';
	}
	out[at] = 0;
}

static void text_add_command(struct gm_about *about)
{
	char *raw = about->arguments;
	int fd = gm_sys_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? 0 : gm_sys_read(fd, raw, sizeof about->arguments - 1);
	if (fd >= 0)
		gm_sys_close(fd);
	n = n < 0 ? 0 : n;
	raw[n] = 0;
	arguments_join(raw, (size_t)n, about->command, sizeof about->command);
	text_add(about, "command", "%s", about->command);
}

void gm_about_write(struct gm_about *about, const struct gm_log_config *config)
{
	about->size = 0;
	text_add(about, "host", "%s", about->host);
	text_add(about, "program", "%s", about->program);
	text_add(about, "job", "%s", about->job);
	text_add(about, "mode", "%s", config->mode ? config->mode : "");
	for (unsigned i = 0; i < config->n_devices; i++)
		text_add_device(about, &config->devices[i]);
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++)
		text_add_knob(about, (enum gm_knob_id)i);
	/* The hooks are last but one: if the room ends, a dropped hook loses only a name. */
	for (unsigned i = 0; i < config->n_hooks; i++)
		text_add(about, "hook", "%s", config->hooks[i]);
	text_add_command(about);
}
