/* SPDX-License-Identifier: BSD-3-Clause */
/* The value of a knob, by its type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "knob/knob.h"

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

/* --- a function for each type; `argument` is that of its row in knob.def --- */

static bool bool_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	static const char *const words[2] = {"0|no|off|false", "1|yes|on|true"};
	size_t n = strlen(text);
	(void)argument;
	out->flag = word_find(words[1], text, n) >= 0;
	return out->flag || word_find(words[0], text, n) >= 0;
}

static bool choice_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	int i = word_find(argument, text, strlen(text));
	out->choice = (unsigned)i;
	return i >= 0;
}

static bool size_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	uint64_t least = 0;
	gm_size_parse(argument, &least);
	return gm_size_parse(text, &out->bytes) && out->bytes >= least;
}

/* Zero is allowed only if there is an argument. */
static bool share_read(const char *text, bool zero, struct gm_knob_share *out)
{
	if (gm_percent_parse(text, &out->ppm))
		return out->ppm > 0 || zero;
	out->ppm = 0;
	return gm_size_parse(text, &out->bytes) && (out->bytes > 0 || zero);
}

static bool share_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	return share_read(text, *argument, &out->share);
}

static bool store_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	out->share.folder = *text == '/' ? text : NULL;
	return out->share.folder || share_parse(text, argument, out);
}

static bool time_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	if (gm_time_parse(text, &out->ns))
		return true;
	out->ns = UINT64_MAX;
	return *argument && strcasecmp(text, argument) == 0;
}

/* The text before a comma goes into `first`. Returns the text behind it; NULL: there is no comma,
 * or the first text is too long for any value. */
static const char *comma_cut(const char *text, char first[64])
{
	const char *comma = strchr(text, ',');
	size_t n = comma ? (size_t)(comma - text) : strlen(text);
	snprintf(first, 64, "%.*s", n < 64 ? (int)n : 0, text);
	return comma ? comma + 1 : NULL;
}

static bool trim_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	char first[64];
	const char *keep = comma_cut(text, first);
	union gm_knob_value time;
	if (!time_parse(first, argument, &time))
		return false;
	out->trim.after = time.ns;
	out->trim.keep = (struct gm_knob_share){0};
	return !keep || share_read(keep, true, &out->trim.keep);
}

#define SAMPLE_DEFAULT 100000000u /* ns */

static bool level_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	char first[64];
	const char *sample = comma_cut(text, first);
	int i = word_find(argument, first, strlen(first));
	out->level.choice = (unsigned)i;
	out->level.sample = SAMPLE_DEFAULT;
	return i >= 0 && (!sample || gm_time_parse(sample, &out->level.sample));
}

/* A time of 0 would be "0", which is off. */
static bool switch_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	union gm_knob_value flag;
	bool plain = bool_parse(text, argument, &flag);
	out->sleep.on = plain ? flag.flag : true;
	out->sleep.after = UINT64_MAX;
	return plain || gm_time_parse(text, &out->sleep.after);
}

static bool text_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	(void)argument;
	out->text = text;
	return true;
}

/* A '%' before no known letter is a slip: the logs of all processes would have one name. */
static bool name_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	out->text = text;
	for (text = strchr(text, '%'); text; text = strchr(text + 2, '%'))
		if (!text[1] || !strchr(argument, text[1]))
			return false;
	return true;
}

/* "165", "0xa5", or a word; digits only, so that sign, blank and octal are refused. */
static bool byte_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = text + (hex ? 2 : 0);
	size_t n = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
	if (n == 0 || n > (hex ? 2 : 3) || digits[n]) {
		if (!choice_parse(text, argument, out))
			return false;
		out->choice += 256;
		return true;
	}
	out->choice = (unsigned)strtoul(digits, NULL, hex ? 16 : 10);
	return out->choice <= 255;
}

static bool threads_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	size_t n = strspn(text, "0123456789");
	unsigned long value = n && n < 10 && !text[n] ? strtoul(text, NULL, 10) : 0;
	if (strcasecmp(text, "off") == 0)
		out->threads = 0;
	else if (strcasecmp(text, "auto") == 0)
		out->threads = GM_THREADS_AUTO;
	else if (value && value <= strtoul(argument, NULL, 10))
		out->threads = (unsigned)value;
	else
		return false;
	return true;
}

/* "all,-copy": words in order; "all" sets and "none" clears all bits, a minus clears a word's
 * bit. */
static bool list_parse(const char *text, const char *argument, union gm_knob_value *out)
{
	uint32_t set = 0;
	while (true) {
		size_t n = strcspn(text, ",");
		bool minus = *text == '-';
		int i = word_find(argument, text + minus, n - minus);
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
	out->set = set;
	return true;
}

/* --- the types --- */

/* The expected form; '#' stands for the argument, with commas between its words. */
static const struct type {
	bool (*parse)(const char *text, const char *argument, union gm_knob_value *out);
	const char *expected;
	const char *more; /* added if there is an argument */
} types[] = {
	[GM_KNOB_BOOL] = {bool_parse, "0 or 1", ""},
	[GM_KNOB_CHOICE] = {choice_parse, "one of #", ""},
	[GM_KNOB_SIZE] = {size_parse, "a size of at least #, such as 512M", ""},
	[GM_KNOB_SIZE_OR_PERCENT] = {share_parse, "a size such as 512M, or a percentage up to 100%",
				     ""},
	[GM_KNOB_SIZE_OR_FOLDER] = {store_parse,
				    "a size such as 8G, a percentage up to 100%, or a folder that "
				    "begins with /",
				    ""},
	[GM_KNOB_TIME] = {time_parse, "a time such as 100ms or 10s", ", or #"},
	[GM_KNOB_TRIM] = {trim_parse,
			  "a time such as 100ms or 10s, or off, and perhaps a comma and a size or "
			  "a percentage to keep",
			  ""},
	[GM_KNOB_LEVEL] = {level_parse, "one of #, and perhaps a comma and a time", ""},
	[GM_KNOB_SWITCH] = {switch_parse, "0, 1, or a time such as 30s", ""},
	[GM_KNOB_TEXT] = {text_parse, "a text", ""},
	[GM_KNOB_NAME] = {name_parse, "no % but %h, %p, %r, %j, %e and %%", ""},
	[GM_KNOB_BYTE] = {byte_parse, "a byte such as 0xa5, or one of #", ""},
	[GM_KNOB_THREADS] = {threads_parse, "off, auto, or a number of threads up to #", ""},
	[GM_KNOB_LIST] = {list_parse, "a list of all, none, #", ""},
};

/* Returns the end of the text in `why`, or its last byte if the text is too long. */
static size_t expected_put(char *why, size_t n, size_t at, const char *text, const char *argument)
{
	for (; *text && at + 1 < n; text++) {
		if (*text != '#') {
			why[at++] = *text;
			continue;
		}
		for (const char *p = argument; *p && at + 2 < n; p++) {
			why[at++] = *p == '|' ? ',' : *p;
			if (*p == '|')
				why[at++] = ' ';
		}
	}
	why[at] = '\0';
	return at;
}

bool gm_knob_parse(enum gm_knob_id id, const char *text, union gm_knob_value *out, char *why,
		   size_t n)
{
	const struct gm_knob_info *info = &gm_knob_table[id];
	const struct type *type = &types[info->type];
	union gm_knob_value value = {0};
	if (strlen(text) > GM_KNOB_LONGEST) {
		snprintf(why, n, "expected at most %d bytes", GM_KNOB_LONGEST);
		return false;
	}
	if (type->parse(text, info->argument, &value)) {
		*out = value;
		return true;
	}
	size_t at = expected_put(why, n, 0, "expected ", "");
	at = expected_put(why, n, at, type->expected, info->argument);
	expected_put(why, n, at, *info->argument ? type->more : "", info->argument);
	return false;
}
