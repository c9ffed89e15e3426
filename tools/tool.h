/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common functions of the commands of gpumemstat. Single-threaded. Results go to stdout, errors and
 * progress to stderr; a command returns the exit status of the program.
 */
#ifndef GM_TOOLS_TOOL_H
#define GM_TOOLS_TOOL_H

#include <stddef.h>
#include <stdint.h>

enum gm_exit {
	GM_EXIT_OK = 0,
	GM_EXIT_FAILED = 1, /* an unreadable file, or one that contradicts itself */
	GM_EXIT_USAGE = 2,
	GM_EXIT_EXCEEDED = 3 /* beyond a limit given as an option */
};

/* A command; the table is in main.c. argv[0] is the command's name. */
struct gm_command {
	const char *name;
	int (*run)(const struct gm_command *self, int argc, char **argv);
	uint64_t options;      /* set of enum gm_option_bit: its options */
	const char *arguments; /* for the usage line */
	const char *help;      /* one line, for `gpumemstat --help` */
	const char *details;   /* further lines of `gpumemstat COMMAND --help`, or NULL */
};

int gm_run_main(const struct gm_command *self, int argc, char **argv);
int gm_record_main(const struct gm_command *self, int argc, char **argv);
int gm_summary_main(const struct gm_command *self, int argc, char **argv);
int gm_live_main(const struct gm_command *self, int argc, char **argv);
int gm_leaks_main(const struct gm_command *self, int argc, char **argv);
int gm_frag_main(const struct gm_command *self, int argc, char **argv);
int gm_replay_main(const struct gm_command *self, int argc, char **argv);
int gm_image_main(const struct gm_command *self, int argc, char **argv);
int gm_doctor_main(const struct gm_command *self, int argc, char **argv);
int gm_env_main(const struct gm_command *self, int argc, char **argv);
int gm_hooks_main(const struct gm_command *self, int argc, char **argv);
int gm_diff_main(const struct gm_command *self, int argc, char **argv);
int gm_check_main(const struct gm_command *self, int argc, char **argv);
int gm_top_main(const struct gm_command *self, int argc, char **argv);
int gm_map_main(const struct gm_command *self, int argc, char **argv);
int gm_export_main(const struct gm_command *self, int argc, char **argv);
int gm_plot_main(const struct gm_command *self, int argc, char **argv);
int gm_hist_main(const struct gm_command *self, int argc, char **argv);
int gm_report_main(const struct gm_command *self, int argc, char **argv);
int gm_log_main(const struct gm_command *self, int argc, char **argv);
int gm_sleep_main(const struct gm_command *self, int argc, char **argv);
int gm_wake_main(const struct gm_command *self, int argc, char **argv);

/* Print "gpumemstat: TEXT" on stderr, one line, escaped. */
void gm_tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* gm_tool_error, then "Try 'gpumemstat COMMAND --help'" (`command` NULL: "Try 'gpumemstat
 * --help'"). Returns GM_EXIT_USAGE. */
int gm_tool_usage(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* `name`, or "''" if it is empty. */
const char *gm_tool_name(const char *name);

/* Flush stdout. GM_EXIT_FAILED, after one message: the output is incomplete. */
int gm_tool_flush(void);

/* Report a surplus operand. Returns GM_EXIT_USAGE. */
int gm_tool_extra(const struct gm_command *command, const char *operand);

/* A number with commas: "1,204,331". Writes at most `n` bytes and returns `buf`. */
char *gm_tool_count(unsigned long long count, char *buf, size_t n);

#endif
