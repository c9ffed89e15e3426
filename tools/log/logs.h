/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the logs named by a command's operands. Single-threaded. */
#ifndef GM_TOOLS_LOG_LOGS_H
#define GM_TOOLS_LOG_LOGS_H

#include "tools/log/figures.h"
#include "tools/log/find.h"
#include "tools/output/emit.h"

struct gm_logs_one {
	struct gm_figures figures;
	bool contradicts;
	char why[256]; /* the contradiction */
};

/* The files of operands: names of files, of GPUMEM_LOG_NAME, of folders; without operands the
 * newest run of this folder. False, after a message: no files. The caller frees *found. */
bool gm_logs_find(struct gm_find *found, char *const *names, size_t n);

/* The content that a command needs in a log. */
enum gm_logs_need { GM_LOGS_ANY, GM_LOGS_EVENTS };

/* True if a log meets the need of the command and has the device (-1: any). False: `log->why` names
 * the missing part. */
bool gm_logs_suits(struct gm_logs_one *log, enum gm_logs_need need, int device);

struct gm_logs {
	struct gm_logs_one *at;
	size_t n;
};

/* Open the named logs, or without names the newest run. Unusable logs are reported on stderr and
 * skipped. Returns the exit status. gm_logs_close must follow: it reports contradictions and
 * returns their exit status. */
int gm_logs_open(struct gm_logs *out, const struct gm_options *options, char *const *names,
		 size_t n);
int gm_logs_close(struct gm_logs *logs);

/*
 * Read the logs named by file or by GPUMEM_LOG_NAME, or without names the newest run. Then call
 * `show` to write them; it may reorder them. Unreadable logs are reported on stderr and skipped;
 * contradictions are reported after the output. Returns the exit status.
 */
int gm_logs_run(const struct gm_options *options, char *const *names, size_t n,
		void (*show)(struct gm_emit *emit, struct gm_logs_one *logs, size_t n));

/*
 * The main function of a command that shows logs one by one: its options, then gm_logs_run. With
 * GM_LOGS_EVENTS logs without events, or without options->device, are reported and skipped, too.
 * `wrong` (NULL: nothing is): what is wrong with the options, or NULL.
 */
int gm_logs_main(const struct gm_command *self, int argc, char **argv, enum gm_logs_need need,
		 const char *(*wrong)(const struct gm_options *options),
		 void (*show)(struct gm_emit *emit, const struct gm_figures *figures));

/* The kind of the counter's values in the output. */
enum gm_value_kind gm_logs_counter_kind(enum gm_counter counter);

/* Identify the log: in text a line; in JSON path, program, rank and length in the open object. */
void gm_logs_head(struct gm_emit *emit, const struct gm_figures *figures);

#endif
