/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the logs that are a command's operands. Single-threaded. */
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

/* The files of operands: names of files, of GPUMEM_LOG_NAME, of folders; without operands those of
 * the newest run here. False, after a message: there are none. The caller frees *found. */
bool gm_logs_find(struct gm_find *found, char *const *names, size_t n);

/* What a command needs of a log. */
enum gm_logs_need { GM_LOGS_ANY, GM_LOGS_EVENTS };

/* Does a log have what the command needs, and the device, unless that is -1? False: `log->why` says
 * what it lacks. */
bool gm_logs_suits(struct gm_logs_one *log, enum gm_logs_need need, int device);

struct gm_logs {
	struct gm_logs_one *at;
	size_t n;
};

/* Open the logs that are named, or without names those of the newest run. Those that cannot be used
 * are named on stderr, and are not in *out. Returns the exit status. gm_logs_close must follow: it
 * names contradictions, and returns the exit status for them. */
int gm_logs_open(struct gm_logs *out, const struct gm_options *options, char *const *names,
		 size_t n);
int gm_logs_close(struct gm_logs *logs);

/*
 * Read the logs that are named, by file or as GPUMEM_LOG_NAME names them, or without names those of
 * the newest run, and call `show` to write them; it may reorder them. Unreadable logs are named on
 * stderr and skipped; contradictions are named after the output. Returns the exit status.
 */
int gm_logs_run(const struct gm_options *options, char *const *names, size_t n,
		void (*show)(struct gm_emit *emit, struct gm_logs_one *logs, size_t n));

/* Write the list of logs, each by `show`, with an empty line between two. */
void gm_logs_show_each(struct gm_emit *emit, const struct gm_logs_one *logs, size_t n,
		       void (*show)(struct gm_emit *emit, const struct gm_figures *figures));

/* Likewise; logs without events, and those that lack options->device, are named and skipped, too.
 */
int gm_logs_run_events(const struct gm_options *options, char *const *names, size_t n,
		       void (*show)(struct gm_emit *emit, struct gm_logs_one *logs, size_t n));

/* Show which log it is: a line; path, program, rank and length of the object that is open. */
void gm_logs_head(struct gm_emit *emit, const struct gm_figures *figures);

#endif
