/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of all commands: one table (options.def), one parser. Single-threaded. */
#ifndef GM_TOOLS_OPTIONS_H
#define GM_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/log/moment.h"
#include "tools/tool.h"

enum gm_group { GM_GROUP_STACK, GM_GROUP_SIZE, GM_GROUP_CONTEXT };

enum gm_option_index {
#define GM_OPTION(bit, letter, name, argument, help) GM_OPTION_INDEX_##bit,
#include "tools/options.def"
#undef GM_OPTION
	GM_OPTION_COUNT
};
_Static_assert(GM_OPTION_COUNT < 64, "sets of options are of 64 bits");

/* Sets of options; C11 has no enum of more than 32 bits. */
__extension__ enum gm_option_bit {
#define GM_OPTION(bit, letter, name, argument, help) \
	GM_OPTION_##bit = (uint64_t)1 << GM_OPTION_INDEX_##bit,
#include "tools/options.def"
#undef GM_OPTION
	GM_OPTIONS_ALWAYS = GM_OPTION_HELP | GM_OPTION_VERSION,
	GM_OPTIONS_CHOICE = GM_OPTION_ALL | GM_OPTION_PROGRAM | GM_OPTION_JOB | GM_OPTION_TREE,
	GM_OPTIONS_OUTPUT = GM_OPTIONS_ALWAYS | GM_OPTION_JSON | GM_OPTION_COLOR | GM_OPTION_WIDTH |
			    GM_OPTION_PAGER,
	/* The options that only commands have whose first operand is COMMAND. */
	GM_OPTIONS_COMMAND = GM_OPTION_EXEC | GM_OPTION_TIMEOUT,
	GM_OPTIONS_LAUNCH = GM_OPTIONS_ALWAYS | GM_OPTION_SET | GM_OPTION_EXEC | GM_OPTION_TORCH |
			    GM_OPTION_FAST
};

struct gm_options {
	bool json, color;
	bool no_pager;
	bool verbose;  /* summary: all figures; diff: all counters */
	bool named;    /* the command line names the logs */
	char unit;     /* 0: chosen by size; else one of B K M G */
	unsigned rows; /* UINT_MAX: all */
	unsigned width;
	bool width_given;
	uint64_t size;	  /* 0: none */
	uint64_t timeout; /* ns */
	const char *sort; /* NULL: the command's own order */
	/* Of sleep and wake; NULL: not given. */
	const char *program, *job, *tree;
	bool all;
	/* Of replay: */
	unsigned policies;  /* bit i: gm_policies[i] */
	const char *limit;  /* a value of GPUMEM_LIMIT; NULL: the knob's value */
	uint64_t memory;    /* 0: not given */
	int device;	    /* -1: not given */
	uint64_t unit_size; /* bytes */
	uint64_t lag;	    /* ns */
	uint32_t least;	    /* utilisation, ppm; UINT32_MAX: not given */
	struct gm_moment_wish at;
	bool at_given;
	enum gm_group group; /* of live and leaks: the key of the groups */
	bool blocks;	     /* of live, leaks and diff: no tensors */
	const char *stacks;  /* of record: GPUMEM_STACKS; NULL: not given */
	unsigned format;     /* of export: row of formats.def */
	unsigned pixels;     /* of plot: the width; 0: not given */
	uint64_t delay;	     /* ns */
	const char *by;	     /* NULL: the command's own order */
	const char *file;    /* output file; "-": standard output; NULL: the command's own choice */
	int status;	     /* set if gm_options_next returned GM_OPTIONS_STOP */
};

enum { GM_OPTIONS_DONE = -1, GM_OPTIONS_STOP = -2 };

/* Measure the terminal again, unless --width was given. */
void gm_options_measure(struct gm_options *options);

static inline bool gm_option_is_of(const struct gm_command *command, unsigned index)
{
	return command->options >> index & 1;
}

/* A ratio from 0 to 1, "0.95", to parts per million. False: no ratio; *ppm is unchanged. */
bool gm_options_ratio(const char *text, uint64_t *ppm);

/* True if `word`, such as "-e", "--stacks" or "--stacks=all", is an option of the command. */
bool gm_options_has(const struct gm_command *command, const char *word);

/* Print a command's options in the format of complete.h. */
void gm_options_list(const struct gm_command *command);

/* Set defaults from environment and terminal, and start the parser. */
void gm_options_begin(struct gm_options *options);

/*
 * Parse up to the next option that the command handles itself; returns its enum gm_option_index,
 * with getopt's optarg. GM_OPTIONS_DONE: operands begin at optind. GM_OPTIONS_STOP: help was
 * printed, or a usage error; the command must return options->status. For commands with a COMMAND
 * operand, parsing ends at the first operand.
 */
int gm_options_next(struct gm_options *options, const struct gm_command *command, int argc,
		    char **argv);

/* For commands with common options only: the index of the first operand, or GM_OPTIONS_STOP. */
int gm_options_parse(struct gm_options *options, const struct gm_command *command, int argc,
		     char **argv);

#endif
