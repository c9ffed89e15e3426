/* SPDX-License-Identifier: BSD-3-Clause */
#include "knob/knob.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/distance.h"
#include "base/msg.h"
#include "knob/conf.h"

const struct gm_knob_info gm_knob_table[GM_KNOB_COUNT] = {
#define GM_KNOB(member, type, name, value, argument, help) \
	{#name, value, argument, help, GM_KNOB_##type},
#include "knob/knob.def"
#undef GM_KNOB
};

/* Names that begin like a knob's but belong to the tools or the tests. */
static const char *const other_names[] = {
	"GPUMEM_LIBRARY_PATH", "GPUMEM_TEST_CONF",	 "GPUMEM_TEST_DATA",
	"GPUMEM_TEST_PRELOAD", "GPUMEM_QUICKSTART_CUDA", "GPUMEM_PAGER",
};

static struct gm_knobs knobs;
static struct gm_knob_origin origins[GM_KNOB_COUNT];
static char kept[GM_KNOB_COUNT][GM_KNOB_LONGEST + 1]; /* copies: the environment may change */
static pthread_once_t read_once = PTHREAD_ONCE_INIT;
static atomic_bool knobs_are_read;

const char *gm_knob_nearest(const char *name)
{
	const char *best = NULL;
	/* At most half the letters behind "GPUMEM_" may differ: else any three letters would be
	 * near. */
	size_t length = strlen(name), half = length > 7 ? (length - 7) / 2 : 0;
	unsigned least = half < 3 ? (unsigned)half + 1 : 4;
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++) {
		unsigned far = gm_distance(name, gm_knob_table[i].name);
		if (far < least) {
			least = far;
			best = gm_knob_table[i].name;
		}
	}
	return best;
}

static bool is_known(const char *name)
{
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++)
		if (strcmp(name, gm_knob_table[i].name) == 0)
			return true;
	for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
		if (strcmp(name, other_names[i]) == 0)
			return true;
	return false;
}

char *gm_knob_unknown(const char *name, char *out, size_t n)
{
	static const struct {
		const char *name, *by;
	} removed[] = {
#define GM_REMOVED(name, by) {#name, by},
#include "knob/removed.def"
#undef GM_REMOVED
	};
	for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
		if (strcmp(name, removed[i].name) != 0)
			continue;
		snprintf(out, n, " is not a knob any more%s%s%s", *removed[i].by ? "; " : "",
			 removed[i].by, *removed[i].by ? " replaces it" : "");
		return out;
	}
	const char *nearest = gm_knob_nearest(name);
	if (nearest)
		snprintf(out, n, " is not a knob; did you mean %s?", nearest);
	else
		snprintf(out, n, " is not a knob; see gpumem-knobs(7)");
	return out;
}

bool gm_knob_is_known(const char *name)
{
	return is_known(name);
}

static void unknown_report(void)
{
	for (char **entry = environ; entry && *entry; entry++) {
		char name[GM_MSG_LONGEST + 2]; /* a longer one is shown cut */
		char why[128];
		size_t n = strcspn(*entry, "=");
		if (strncmp(*entry, "GPUMEM_", 7) != 0)
			continue;
		snprintf(name, sizeof name, "%.*s", (int)n, *entry);
		if (is_known(name))
			continue;
		gm_msg(GM_MSG_WARN, GM_MSG_TEXT "%s", GM_MSG_CUT(name),
		       gm_knob_unknown(name, why, sizeof why));
	}
}

struct gm_knob_origin gm_knob_judge(enum gm_knob_id id, const char *given, union gm_knob_value *out,
				    char *why, size_t n)
{
	const struct gm_conf *conf = gm_conf_get();
	const char *line = conf->values[id];
	enum gm_knob_source below = line ? GM_KNOB_FILE : GM_KNOB_DEFAULT;
	struct gm_knob_origin origin = {below, line ? line : gm_knob_table[id].fallback, NULL};
	*why = '\0';
	if (given && gm_knob_parse(id, given, out, why, n))
		return (struct gm_knob_origin){GM_KNOB_ENVIRONMENT, given, NULL};
	origin.refused = given ? given : conf->refused[id];
	char unused[256]; /* no error: the text was parsed before */
	gm_knob_parse(id, origin.text, out, unused, sizeof unused);
	return origin;
}

static void knob_read(enum gm_knob_id id, union gm_knob_value *value)
{
	char why[256];
	const char *given = secure_getenv(gm_knob_table[id].name);
	if (given && strlen(given) <= GM_KNOB_LONGEST) /* a TEXT points into the copy */
		given = strcpy(kept[id], given);
	origins[id] = gm_knob_judge(id, given, value, why, sizeof why);
	if (given && given != kept[id]) /* too long: the log gets the part that fits */
		origins[id].refused = memcpy(kept[id], given, strnlen(given, GM_KNOB_LONGEST));
}

static void refused_report(enum gm_knob_id id)
{
	const struct gm_knob_info *info = &gm_knob_table[id];
	union gm_knob_value unused;
	char why[256] = "", using[GM_MSG_LONGEST + 16];
	const char *given = secure_getenv(info->name);
	struct gm_knob_origin origin = given ? gm_knob_judge(id, given, &unused, why, sizeof why)
					     : (struct gm_knob_origin){0};
	if (!given || !*why)
		return;
	snprintf(using, sizeof using, "using " GM_MSG_TEXT,
		 GM_MSG_CUT(*origin.text ? origin.text : "none"));
	gm_msg(GM_MSG_WARN, "%s=" GM_MSG_TEXT ": %s; %s", info->name, GM_MSG_CUT(given), why,
	       using);
}

static void conf_report(void)
{
	const struct gm_conf *conf = gm_conf_get();
	if (conf->ignored)
		gm_msg(GM_MSG_WARN, GM_MSG_TEXT ": %s; %s", GM_MSG_CUT(conf->path), conf->ignored,
		       "the file is ignored");
	for (unsigned i = 0; i < conf->n_bad && i < GM_CONF_BAD_SHOWN; i++)
		gm_msg(GM_MSG_WARN, GM_MSG_TEXT ":%u: %s; %s", GM_MSG_CUT(conf->path),
		       conf->bad[i].line, conf->bad[i].reason, "the line is ignored");
	if (conf->n_bad > GM_CONF_BAD_SHOWN)
		gm_msg(GM_MSG_WARN, GM_MSG_TEXT ": %u more bad line%s", GM_MSG_CUT(conf->path),
		       conf->n_bad - GM_CONF_BAD_SHOWN,
		       conf->n_bad - GM_CONF_BAD_SHOWN > 1 ? "s" : "");
}

static void knobs_read(void)
{
#define GM_KNOB(member, type, name, value, argument, help) \
	knob_read(GM_KNOB_ID_##member, &knobs.member);
#include "knob/knob.def"
#undef GM_KNOB
	gm_msg_set_level((enum gm_msg_level)knobs.verbose.choice);
	conf_report();
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++)
		refused_report((enum gm_knob_id)i);
	unknown_report();
	atomic_store_explicit(&knobs_are_read, true, memory_order_release);
}

const struct gm_knobs *gm_knob_get(void)
{
	/* Calls of the program pass here. pthread_once alone costs twice as much. */
	if (GM_UNLIKELY(!atomic_load_explicit(&knobs_are_read, memory_order_acquire)))
		pthread_once(&read_once, knobs_read);
	return &knobs;
}

struct gm_knob_origin gm_knob_origin(enum gm_knob_id id)
{
	return origins[id];
}

const char *gm_knob_source_name(enum gm_knob_source source)
{
	static const char *const names[] = {"default", "file", "environment"};
	return names[source];
}
