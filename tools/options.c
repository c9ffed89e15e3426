/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/distance.h"
#include "base/size.h"
#include "knob/knob.h"
#include "log/counters.h"
#include "log/record.h"
#include "tools/log/process.h"
#include "tools/output/layout.h"
#include "tools/replay/policy.h"

enum { WIDTH_LEAST = 40, WIDTH_MOST = 1000, WIDTH_DEFAULT = 80 };
enum { PIXELS_LEAST = 400, PIXELS_MOST = 8000 };
#define DELAY_DEFAULT (2 * (uint64_t)1000000000)
#define DELAY_LEAST ((uint64_t)100000000)
#define TIMEOUT_DEFAULT (30 * (uint64_t)1000000000)

static const struct option_info {
	int letter;
	const char *name, *argument, *help;
} table[GM_OPTION_COUNT] = {
#define GM_OPTION(bit, letter, name, argument, help) {letter, name, argument, help},
#include "tools/options.def"
#undef GM_OPTION
};

/* Digits only, within bounds. */
static bool number_parse(const char *text, unsigned least, unsigned most, unsigned *out)
{
	char *end;
	if (*text < '0' || *text > '9')
		return false;
	unsigned long value = strtoul(text, &end, 10);
	if (*end || value < least || value > most)
		return false;
	*out = (unsigned)value;
	return true;
}

static unsigned width_default(void)
{
	struct winsize window;
	unsigned width;
	const char *columns = getenv("COLUMNS");
	if (columns && number_parse(columns, WIDTH_LEAST, WIDTH_MOST, &width))
		return width;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col >= WIDTH_LEAST &&
	    window.ws_col <= WIDTH_MOST)
		return window.ws_col;
	return WIDTH_DEFAULT;
}

static bool color_default(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	return !(no && *no) && isatty(STDOUT_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

void gm_options_measure(struct gm_options *options)
{
	if (!options->width_given)
		options->width = width_default();
}

void gm_options_begin(struct gm_options *options)
{
	*options = (struct gm_options){.color = color_default(),
				       .rows = UINT_MAX,
				       .width = width_default(),
				       .timeout = TIMEOUT_DEFAULT,
				       .delay = DELAY_DEFAULT,
				       .policies = (1u << GM_POLICY_COUNT) - 1,
				       .device = -1,
				       .unit_size = 1,
				       .least = UINT32_MAX};
	optind = 0; /* glibc: start over */
}

static bool units_set(struct gm_options *options, const char *text)
{
	if (strcmp(text, "auto") == 0)
		options->unit = 0;
	else if (strlen(text) == 1 && strchr("BKMG", *text))
		options->unit = *text;
	else
		return false;
	return true;
}

static bool color_set(struct gm_options *options, const char *text)
{
	if (strcmp(text, "auto") == 0)
		options->color = color_default();
	else if (strcmp(text, "always") == 0 || strcmp(text, "never") == 0)
		options->color = *text == 'a';
	else
		return false;
	return true;
}

/* The key equal to `text`; NULL: none of the `n`. */
static const char *key_find(const char *const *keys, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(text, keys[i]) == 0)
			return keys[i];
	return NULL;
}

static bool sort_set(struct gm_options *options, const char *text)
{
	static const char *const keys[] = {"rank",   "program", "start", "requested",
					   "mapped", "calls",	"failed"};
	const char *key = key_find(keys, sizeof keys / sizeof *keys, text);
	options->sort = key ? key : options->sort;
	return key;
}

static bool by_set(struct gm_options *options, const char *text)
{
	static const char *const keys[] = {"memory",  "requested", "pool", "heap",
					   "foreign", "external",  "pid",  "program"};
	const char *key = key_find(keys, sizeof keys / sizeof *keys, text);
	options->by = key ? key : options->by;
	return key;
}

static bool delay_set(struct gm_options *options, const char *text)
{
	return gm_time_parse(text, &options->delay) && options->delay >= DELAY_LEAST;
}

/* "-o, --output=NAME" */
static int option_text(const struct option_info *info, char *text, size_t n)
{
	return snprintf(text, n, "%c%c%s%s%s%s%s", info->letter ? '-' : ' ',
			info->letter ? info->letter : ' ', info->letter && info->name ? "," : "",
			info->name ? (info->letter ? " --" : "  --") : "",
			info->name ? info->name : "",
			info->argument ? (info->name ? "=" : " ") : "",
			info->argument ? info->argument : "");
}

static void help_print(const struct gm_command *command)
{
	int width = 20;
	char text[40];
	for (unsigned i = 0; i < GM_OPTION_COUNT; i++)
		if (gm_option_is_of(command, i)) {
			int n = option_text(&table[i], text, sizeof text);
			width = n > width ? n : width;
		}
	printf("Usage: gpumemstat %s %s\n", command->name, command->arguments);
	gm_layout_wrap(stdout, command->help, 0, width_default());
	printf("\nOptions:\n");
	for (unsigned i = 0; i < GM_OPTION_COUNT; i++) {
		if (!gm_option_is_of(command, i))
			continue;
		option_text(&table[i], text, sizeof text);
		printf("  %-*s  ", width, text);
		gm_layout_wrap(stdout, table[i].help, (unsigned)width + 4, width_default());
	}
	if (command->details)
		printf("\n%s\n", command->details);
}

static bool json_set(struct gm_options *options, const char *text)
{
	(void)text;
	options->json = true;
	return true;
}

static bool all_set(struct gm_options *options, const char *text)
{
	(void)text;
	options->all = true;
	return true;
}

static bool program_set(struct gm_options *options, const char *text)
{
	options->program = text;
	return *text;
}

static bool job_set(struct gm_options *options, const char *text)
{
	options->job = text;
	return *text;
}

static bool tree_set(struct gm_options *options, const char *text)
{
	int pid;
	options->tree = text;
	return gm_process_parse(text, &pid);
}

static bool no_pager_set(struct gm_options *options, const char *text)
{
	(void)text;
	options->no_pager = true;
	return true;
}

static bool verbose_set(struct gm_options *options, const char *text)
{
	(void)text;
	options->verbose = true;
	return true;
}

static bool width_set(struct gm_options *options, const char *text)
{
	options->width_given = true;
	return number_parse(text, WIDTH_LEAST, WIDTH_MOST, &options->width);
}

static bool rows_set(struct gm_options *options, const char *text)
{
	return number_parse(text, 1, INT_MAX, &options->rows);
}

static bool size_set(struct gm_options *options, const char *text)
{
	return gm_size_parse(text, &options->size) && options->size >= GM_SAMPLE_LEAST;
}

static bool timeout_set(struct gm_options *options, const char *text)
{
	return gm_time_parse(text, &options->timeout) && options->timeout > 0;
}

static bool policy_set(struct gm_options *options, const char *text)
{
	return gm_policy_parse(text, &options->policies);
}

static bool limit_set(struct gm_options *options, const char *text)
{
	union gm_knob_value value;
	char why[128];
	options->limit = text;
	return gm_knob_parse(GM_KNOB_ID_limit, text, &value, why, sizeof why);
}

static bool memory_set(struct gm_options *options, const char *text)
{
	return gm_size_parse(text, &options->memory) && options->memory >= 2 * GM_MIB &&
	       options->memory <= 16 * GM_KIB * GM_GIB;
}

static bool device_set(struct gm_options *options, const char *text)
{
	unsigned device;
	if (!number_parse(text, 0, GM_COUNTER_DEVICES - 1, &device))
		return false;
	options->device = (int)device;
	return true;
}

static bool at_set(struct gm_options *options, const char *text)
{
	options->at_given = true;
	return gm_moment_parse(text, &options->at);
}

static bool group_set(struct gm_options *options, const char *text)
{
	static const char *const words[] = {[GM_GROUP_STACK] = "stack",
					    [GM_GROUP_SIZE] = "size",
					    [GM_GROUP_CONTEXT] = "context"};
	for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(text, words[i]) == 0) {
			options->group = (enum gm_group)i;
			return true;
		}
	return false;
}

static bool blocks_set(struct gm_options *options, const char *text)
{
	(void)text;
	options->blocks = true;
	return true;
}

static bool stacks_set(struct gm_options *options, const char *text)
{
	union gm_knob_value value;
	char why[128];
	options->stacks = text;
	return gm_knob_parse(GM_KNOB_ID_stacks, text, &value, why, sizeof why);
}

static bool format_set(struct gm_options *options, const char *text)
{
	static const char *const names[] = {
#define GM_FORMAT(name, binary, events) #name,
#include "tools/export/formats.def"
#undef GM_FORMAT
	};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(text, names[i]) == 0) {
			options->format = i;
			return true;
		}
	return false;
}

static bool file_set(struct gm_options *options, const char *text)
{
	options->file = text;
	return *text;
}

static bool pixels_set(struct gm_options *options, const char *text)
{
	return number_parse(text, PIXELS_LEAST, PIXELS_MOST, &options->pixels);
}

static bool lag_set(struct gm_options *options, const char *text)
{
	return gm_time_parse(text, &options->lag);
}

static bool unit_set(struct gm_options *options, const char *text)
{
	return gm_size_parse(text, &options->unit_size) && options->unit_size > 0;
}

/* Further digits than millionths are cut. */
bool gm_options_ratio(const char *text, uint64_t *ppm)
{
	uint64_t value = 0, unit = 1000000;
	bool digits = false, point = false;
	for (; *text && value <= 1000000; text++) {
		if (*text == '.' && digits && !point && text[1]) {
			point = true;
		} else if (*text >= '0' && *text <= '9') {
			digits = true;
			unit /= point ? 10 : 1;
			value = (point ? value : 10 * value) + (uint64_t)(*text - '0') * unit;
		} else {
			return false;
		}
	}
	*ppm = value;
	return digits && value <= 1000000;
}

static bool least_set(struct gm_options *options, const char *text)
{
	uint64_t ppm;
	if (!gm_options_ratio(text, &ppm))
		return false;
	options->least = (uint32_t)ppm;
	return true;
}

static const struct {
	bool (*set)(struct gm_options *options, const char *text);
	const char *expected;
	const char *values; /* VALUES of complete.h; NULL: any text */
} setters[GM_OPTION_COUNT] = {
	[GM_OPTION_INDEX_SET] = {NULL, NULL, "@knob"}, /* the command handles it itself */
	[GM_OPTION_INDEX_OUTPUT] = {NULL, NULL, "@file"},
	[GM_OPTION_INDEX_ALL] = {all_set, NULL, NULL},
	[GM_OPTION_INDEX_PROGRAM] = {program_set, "a name like 'python*'", NULL},
	[GM_OPTION_INDEX_JOB] = {job_set, "the ID of a job", NULL},
	[GM_OPTION_INDEX_TREE] = {tree_set, "PID", NULL},
	[GM_OPTION_INDEX_JSON] = {json_set, NULL, NULL},
	[GM_OPTION_INDEX_VERBOSE] = {verbose_set, NULL, NULL},
	[GM_OPTION_INDEX_UNITS] = {units_set, "auto, B, K, M or G", "auto B K M G"},
	[GM_OPTION_INDEX_SORT] = {sort_set,
				  "rank, program, start, requested, mapped, calls or "
				  "failed",
				  "rank program start requested mapped calls failed"},
	[GM_OPTION_INDEX_ROWS] = {rows_set, "a number from 1 on", NULL},
	[GM_OPTION_INDEX_SIZE] = {size_set, "a size of 64K or more", NULL},
	[GM_OPTION_INDEX_TIMEOUT] = {timeout_set, "a time like 500ms or 30s", NULL},
	[GM_OPTION_INDEX_POLICY] =
		{policy_set,
		 "names out of pool, pool-defer, pool-ordered, first-fit, exact-size, round-2m, "
		 "pytorch, expandable, malloc-async and pytorch-pool",
		 "@list pool pool-defer pool-ordered first-fit exact-size round-2m pytorch "
		 "expandable malloc-async pytorch-pool"},
	[GM_OPTION_INDEX_LAG] = {lag_set, "a time like 10ms", NULL},
	[GM_OPTION_INDEX_LIMIT] = {limit_set, "a size like 64G or a share like 90%", NULL},
	[GM_OPTION_INDEX_MEMORY] = {memory_set, "a size from 2M to 16T", NULL},
	[GM_OPTION_INDEX_DEVICE] = {device_set, "a number from 0 to 47", NULL},
	[GM_OPTION_INDEX_AT] = {at_set,
				"peak, oom, exit, a time like 1.5s or a range like 1s..2.5s",
				"peak oom exit"},
	[GM_OPTION_INDEX_GROUP] = {group_set, "stack, size or context", "stack size context"},
	[GM_OPTION_INDEX_BLOCKS] = {blocks_set, NULL, NULL},
	[GM_OPTION_INDEX_STACKS] = {stacks_set, "off, large, all or held", "off large all held"},
	[GM_OPTION_INDEX_UNIT] = {unit_set, "a size like 64K", NULL},
	[GM_OPTION_INDEX_LEAST] = {least_set, "a ratio from 0 to 1, like 0.95", NULL},
	[GM_OPTION_INDEX_MAX] = {NULL, NULL, "@counter"},
	[GM_OPTION_INDEX_DELAY] = {delay_set, "a time of 100ms or more", NULL},
	[GM_OPTION_INDEX_BY] = {by_set,
				"memory, requested, pool, heap, foreign, external, pid or program",
				"memory requested pool heap foreign external pid program"},
	[GM_OPTION_INDEX_FORMAT] = {format_set, "csv, openmetrics, prometheus, chrome or pytorch",
				    "csv openmetrics prometheus chrome pytorch"},
	[GM_OPTION_INDEX_PIXELS] = {pixels_set, "a number of pixels from 400 to 8000",
				    "640 1200 1600"},
	[GM_OPTION_INDEX_FILE] = {file_set, "a name", "@file"},
	[GM_OPTION_INDEX_COLOR] = {color_set, "auto, always or never", "auto always never"},
	[GM_OPTION_INDEX_PAGER] = {no_pager_set, NULL, NULL},
	[GM_OPTION_INDEX_WIDTH] = {width_set, "a number from 40 to 1000", NULL},
};

bool gm_options_has(const struct gm_command *command, const char *word)
{
	for (unsigned i = 0; i < GM_OPTION_COUNT; i++) {
		const char letter[] = {'-', (char)table[i].letter, '\0'}, *name = table[i].name;
		if (!gm_option_is_of(command, i))
			continue;
		if (table[i].letter && strcmp(word, letter) == 0)
			return true;
		if (name && strncmp(word, "--", 2) == 0 && strcspn(word + 2, "=") == strlen(name) &&
		    strncmp(word + 2, name, strlen(name)) == 0)
			return true;
	}
	return false;
}

static const char *text_or_dash(const char *text)
{
	return text ? text : "-";
}

void gm_options_list(const struct gm_command *command)
{
	for (unsigned i = 0; i < GM_OPTION_COUNT; i++) {
		const char letter[] = {(char)(table[i].letter ? table[i].letter : '-'), '\0'};
		if (gm_option_is_of(command, i))
			printf("option\t%s\t%s\t%s\t%s\t%s\t%s\n", command->name, letter,
			       text_or_dash(table[i].name), text_or_dash(table[i].argument),
			       text_or_dash(setters[i].values), table[i].help);
	}
}

/* Apply a common option. False: `options->status` is set. */
static bool option_take(struct gm_options *options, const struct gm_command *command,
			unsigned index)
{
	const struct option_info *info = &table[index];
	if (setters[index].set(options, optarg))
		return true;
	if (info->name)
		options->status = gm_tool_usage(command->name, "--%s=%s: expected %s", info->name,
						optarg, setters[index].expected);
	else
		options->status = gm_tool_usage(command->name, "-%c %s: expected %s", info->letter,
						optarg, setters[index].expected);
	return false;
}

/* The tables of getopt_long for this command's mask; long options have the value 256 + index. */
static void tables_make(const struct gm_command *command, char *letters, struct option *names)
{
	*letters++ = '+';
	*letters++ = ':'; /* getopt prints nothing, and returns ':' for a missing argument */
	for (unsigned i = 0; i < GM_OPTION_COUNT; i++) {
		if (!gm_option_is_of(command, i))
			continue;
		if (table[i].letter) {
			*letters++ = (char)table[i].letter;
			if (table[i].argument)
				*letters++ = ':';
		}
		if (table[i].name)
			*names++ = (struct option){
				table[i].name, table[i].argument ? required_argument : no_argument,
				NULL, 256 + (int)i};
	}
	*letters = '\0';
	*names = (struct option){0};
}

/* Commands may use one letter for different options. GM_OPTION_COUNT: no such option. */
static unsigned key_index(const struct gm_command *command, int key)
{
	for (unsigned i = 0; i < GM_OPTION_COUNT; i++)
		if (gm_option_is_of(command, i) &&
		    (key == 256 + (int)i || (key < 256 && key == table[i].letter)))
			return i;
	return GM_OPTION_COUNT;
}

/* Number of long names with the prefix `word`, "--NAME" or "--NAME=...". */
static unsigned names_count_matching(const struct gm_command *command, const char *word)
{
	unsigned count = 0;
	size_t n = strcspn(word + 2, "=");
	for (unsigned i = 0; i < GM_OPTION_COUNT; i++)
		count += gm_option_is_of(command, i) && table[i].name &&
			 strncmp(word + 2, table[i].name, n) == 0;
	return count;
}

/* The command's long name nearest to `word`, "--NAME" or "--NAME=..."; NULL: none is near. */
static const char *name_nearest(const struct gm_command *command, const char *word)
{
	const char *nearest = NULL;
	char name[64];
	const size_t n = strcspn(word + 2, "=");
	if (n >= sizeof name)
		return NULL;
	memcpy(name, word + 2, n);
	name[n] = '\0';
	/* One letter more for every four: a very different name is no useful suggestion. */
	unsigned least = 2 + (unsigned)n / 4;
	for (unsigned i = 0; i < GM_OPTION_COUNT; i++) {
		if (!gm_option_is_of(command, i) || !table[i].name)
			continue;
		const unsigned far = gm_distance(name, table[i].name);
		if (far < least) {
			least = far;
			nearest = table[i].name;
		}
	}
	return nearest;
}

/* Report an option refused by getopt_long: getopt's message, escaped, and the nearest name. */
static int option_refuse(const struct gm_command *command, int key, const char *word)
{
	const char *name = optopt >= 256 ? table[optopt - 256].name : NULL;
	if (name && key == ':')
		return gm_tool_usage(command->name, "option '--%s' requires an argument", name);
	if (name)
		return gm_tool_usage(command->name, "option '--%s' doesn't allow an argument",
				     name);
	if (optopt && key == ':')
		return gm_tool_usage(command->name, "option requires an argument -- '%c'", optopt);
	if (optopt)
		return gm_tool_usage(command->name, "invalid option -- '%c'", optopt);
	if (names_count_matching(command, word) > 1)
		return gm_tool_usage(command->name, "option '%s' is ambiguous", word);
	const char *nearest = name_nearest(command, word);
	if (nearest)
		return gm_tool_usage(command->name,
				     "unrecognized option '%s'; did you mean '--%s'?", word,
				     nearest);
	return gm_tool_usage(command->name, "unrecognized option '%s'", word);
}

int gm_options_next(struct gm_options *options, const struct gm_command *command, int argc,
		    char **argv)
{
	const uint64_t own = GM_OPTION_SET | GM_OPTION_OUTPUT | GM_OPTION_TRACE | GM_OPTION_EXEC |
			     GM_OPTION_TORCH | GM_OPTION_FAST | GM_OPTION_MAX | GM_OPTION_LEAKS |
			     GM_OPTION_PARTIAL | GM_OPTION_ONCE;
	char letters[2 * GM_OPTION_COUNT + 3];
	struct option names[GM_OPTION_COUNT + 1];
	tables_make(command, letters, names);
	/* Operands may precede options, except before COMMAND: its options are not parsed. */
	const char *order = command->options & GM_OPTIONS_COMMAND ? letters : letters + 1;
	for (;;) {
		int key = getopt_long(argc, argv, order, names, NULL);
		const unsigned index = key >= 0 ? key_index(command, key) : GM_OPTION_COUNT;
		if (key == -1)
			return GM_OPTIONS_DONE;
		if (own >> index & 1)
			return (int)index;
		if (index == GM_OPTION_INDEX_HELP)
			help_print(command);
		else if (index == GM_OPTION_INDEX_VERSION)
			puts("gpumemstat " PACKAGE_VERSION);
		else if (index == GM_OPTION_COUNT)
			options->status = option_refuse(command, key, argv[optind - 1]);
		else if (option_take(options, command, index))
			continue;
		return GM_OPTIONS_STOP;
	}
}

int gm_options_parse(struct gm_options *options, const struct gm_command *command, int argc,
		     char **argv)
{
	gm_options_begin(options);
	return gm_options_next(options, command, argc, argv) == GM_OPTIONS_STOP ? GM_OPTIONS_STOP
										: optind;
}
