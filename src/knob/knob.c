/* SPDX-License-Identifier: BSD-3-Clause */
#include "knob/knob.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/distance.h"
#include "base/msg.h"
#include "base/size.h"
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
static bool refused;
static pthread_once_t read_once = PTHREAD_ONCE_INIT;
static atomic_bool knobs_are_read;

static bool word_equals(const char *word, size_t n, const char *text, size_t m)
{
	return n == m && strncasecmp(word, text, n) == 0;
}

/* Index of the word of `words` ("a|b|c") that equals text[0..n), or -1. */
static int word_find(const char *words, const char *text, size_t n)
{
	for (int i = 0;; i++) {
		size_t length = strcspn(words, "|");
		if (word_equals(words, length, text, n))
			return i;
		if (!words[length])
			return -1;
		words += length + 1;
	}
}

/* "expected one of a, b, c" */
static void words_append(const char *before, const char *words, char *why, size_t n)
{
	size_t at = (size_t)snprintf(why, n, "%s", before);
	for (; *words && at + 2 < n; words++) {
		if (*words == '|')
			why[at++] = ',';
		why[at++] = *words == '|' ? ' ' : *words;
	}
	if (at < n)
		why[at] = '\0';
}

static bool bool_parse(const char *text, bool *out)
{
	static const char *const words[2] = {"0|no|off|false", "1|yes|on|true"};
	for (int value = 0; value < 2; value++)
		if (word_find(words[value], text, strlen(text)) >= 0) {
			*out = value;
			return true;
		}
	return false;
}

/* "all,-copy": words in order; "all" sets and "none" clears all bits, a minus clears a word's
 * bit. */
static bool list_parse(const char *words, const char *text, uint32_t *out)
{
	uint32_t set = 0;
	while (true) {
		size_t n = strcspn(text, ",");
		bool minus = *text == '-';
		int i = word_find(words, text + minus, n - minus);
		uint32_t bits = i >= 0 ? (uint32_t)1 << i : UINT32_MAX;
		if (i < 0 && word_equals("none", 4, text, n))
			set = 0;
		else if (i < 0 && !word_equals("all", 3, text + minus, n - minus))
			return false;
		else
			set = minus ? set & ~bits : set | bits;
		if (!text[n])
			break;
		text += n + 1;
	}
	*out = set;
	return true;
}

/* "165", "0xa5"; digits only, so that sign, blank and octal are refused. */
static bool byte_parse(const char *text, unsigned *out)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = text + (hex ? 2 : 0);
	size_t n = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
	if (n == 0 || n > (hex ? 2 : 3) || digits[n])
		return false;
	*out = (unsigned)strtoul(digits, NULL, hex ? 16 : 10);
	return *out <= 255;
}

/* "off", "auto", or a number from 1 to `most`. */
static bool threads_parse(const char *text, const char *most, unsigned *out)
{
	size_t n = strspn(text, "0123456789");
	unsigned long value = n && n < 10 && !text[n] ? strtoul(text, NULL, 10) : 0;
	if (strcasecmp(text, "off") == 0)
		*out = 0;
	else if (strcasecmp(text, "auto") == 0)
		*out = GM_THREADS_AUTO;
	else if (value && value <= strtoul(most, NULL, 10))
		*out = (unsigned)value;
	else
		return false;
	return true;
}

bool gm_knob_parse(enum gm_knob_id id, const char *text, union gm_knob_value *out, char *why,
		   size_t n)
{
	const struct gm_knob_info *info = &gm_knob_table[id];
	union gm_knob_value value = {0};
	uint64_t least = 0;
	int choice;
	if (strlen(text) > GM_KNOB_LONGEST) {
		snprintf(why, n, "expected at most %d bytes", GM_KNOB_LONGEST);
		return false;
	}
	switch (info->type) {
	case GM_KNOB_BOOL:
		if (bool_parse(text, &value.flag))
			break;
		snprintf(why, n, "expected 0 or 1");
		return false;
	case GM_KNOB_CHOICE:
		choice = word_find(info->argument, text, strlen(text));
		value.choice = (unsigned)choice;
		if (choice >= 0)
			break;
		words_append("expected one of ", info->argument, why, n);
		return false;
	case GM_KNOB_SIZE: /* the argument is the least value */
		gm_size_parse(info->argument, &least);
		if (gm_size_parse(text, &value.bytes) && value.bytes >= least)
			break;
		snprintf(why, n, "expected a size of at least %s, such as 512M", info->argument);
		return false;
	case GM_KNOB_STEPS: /* the argument is the step */
		gm_size_parse(info->argument, &least);
		if (strcasecmp(text, "auto") == 0)
			break;
		if (gm_size_parse(text, &value.bytes) && value.bytes && value.bytes % least == 0)
			break;
		snprintf(why, n, "expected auto, or a multiple of %s", info->argument);
		return false;
	case GM_KNOB_SIZE_OR_PERCENT:
		if (gm_percent_parse(text, &value.share.ppm) &&
		    (value.share.ppm > 0 || *info->argument))
			break;
		value.share.ppm = 0;
		if (gm_size_parse(text, &value.share.bytes) &&
		    (value.share.bytes > 0 || *info->argument))
			break;
		snprintf(why, n, "expected a size such as 512M, or a percentage up to 100%%");
		return false;
	case GM_KNOB_TIME:
		if (gm_time_parse(text, &value.ns))
			break;
		value.ns = UINT64_MAX;
		if (*info->argument && strcasecmp(text, info->argument) == 0)
			break;
		snprintf(why, n, "expected a time such as 100ms or 10s%s%s",
			 *info->argument ? ", or " : "", info->argument);
		return false;
	case GM_KNOB_TEXT:
		value.text = text;
		break;
	case GM_KNOB_BYTE:
		if (byte_parse(text, &value.choice))
			break;
		choice = word_find(info->argument, text, strlen(text));
		value.choice = 256 + (unsigned)choice;
		if (choice >= 0)
			break;
		words_append("expected a byte such as 0xa5, or one of ", info->argument, why, n);
		return false;
	case GM_KNOB_THREADS:
		if (threads_parse(text, info->argument, &value.threads))
			break;
		snprintf(why, n, "expected off, auto, or a number of threads up to %s",
			 info->argument);
		return false;
	case GM_KNOB_LIST:
		if (list_parse(info->argument, text, &value.set))
			break;
		words_append("expected a list of all, none, ", info->argument, why, n);
		return false;
	}
	*out = value;
	return true;
}

const char *gm_knob_nearest(const char *name)
{
	const char *best = NULL;
	unsigned least = 4;
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

bool gm_knob_is_known(const char *name)
{
	return is_known(name);
}

static void unknown_report(void)
{
	for (char **entry = environ; entry && *entry; entry++) {
		char name[GM_MSG_LONGEST + 2]; /* a longer one is shown as cut */
		size_t n = strcspn(*entry, "=");
		if (strncmp(*entry, "GPUMEM_", 7) != 0)
			continue;
		snprintf(name, sizeof name, "%.*s", (int)n, *entry);
		if (is_known(name))
			continue;
		const char *nearest = gm_knob_nearest(name);
		if (nearest)
			gm_msg(GM_MSG_WARN, "%s is not a knob; did you mean %s?", name, nearest);
		else
			gm_msg(GM_MSG_WARN, GM_MSG_TEXT " is not a knob; see gpumem(7)",
			       GM_MSG_CUT(name));
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
	char unused[256]; /* it was parsed before */
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
	if (given && given != kept[id]) /* too long: the log says of it what there is room for */
		origins[id].refused = memcpy(kept[id], given, strnlen(given, GM_KNOB_LONGEST));
	refused |= origins[id].refused != NULL;
}

static const char *consequence(const char *otherwise)
{
	return gm_knob_must_stay_off() ? "gpumem stays off" : otherwise;
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
	       consequence(using));
}

static void conf_report(void)
{
	const struct gm_conf *conf = gm_conf_get();
	if (conf->ignored)
		gm_msg(GM_MSG_WARN, GM_MSG_TEXT ": %s; %s", GM_MSG_CUT(conf->path), conf->ignored,
		       consequence("the file is ignored"));
	for (unsigned i = 0; i < conf->n_bad && i < GM_CONF_BAD_SHOWN; i++)
		gm_msg(GM_MSG_WARN, GM_MSG_TEXT ":%u: %s; %s", GM_MSG_CUT(conf->path),
		       conf->bad[i].line, conf->bad[i].reason, consequence("the line is ignored"));
	if (conf->n_bad > GM_CONF_BAD_SHOWN)
		gm_msg(GM_MSG_WARN, GM_MSG_TEXT ": %u more bad line%s", GM_MSG_CUT(conf->path),
		       conf->n_bad - GM_CONF_BAD_SHOWN,
		       conf->n_bad - GM_CONF_BAD_SHOWN > 1 ? "s" : "");
}

static void knobs_read(void)
{
	const struct gm_conf *conf = gm_conf_get();
	refused = conf->ignored || conf->n_bad;
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
	/* Calls of the program come here. pthread_once alone costs twice as much. */
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

bool gm_knob_must_stay_off(void)
{
	return refused && knobs.on_error.choice == GM_ON_ERROR_OFF;
}
