/* SPDX-License-Identifier: BSD-3-Clause */
/* Description of the logged process, in the head of every segment. */
#ifndef GM_LOG_ABOUT_H
#define GM_LOG_ABOUT_H

#include "log/file.h"
#include "log/format.h"
#include "log/log.h"

#define GM_COMMAND_ROOM 8192

struct gm_about {
	char host[256], program[256], job[128];
	int pid, rank; /* rank -1: none */
	char text[GM_TEXT_ROOM];
	uint32_t size; /* bytes of text */
	/* for gm_about_write: its caller may have a small stack */
	char arguments[GM_COMMAND_ROOM / 2], command[GM_COMMAND_ROOM];
};

/* Read host, program, job, rank and pid. Not thread-safe. */
void gm_about_gather(struct gm_about *about);

/* The job of a process: the value of the first variable of ranks.def that names one. `find` returns
 * the value of a variable, or NULL. NULL: no job. */
const char *gm_about_job(const char *(*find)(void *arg, const char *name), void *arg);

/* The number of processes of the program on this node, from its launcher; 1: unknown. */
unsigned gm_about_local_ranks(void);

/* Write the description into `text`, "key=value" strings each ended by a 0. pre:
 * gm_about_gather. */
void gm_about_write(struct gm_about *about, const struct gm_log_config *config);

/* The words of a file name for this process; they point into `about`. */
struct gm_file_words gm_about_words(const struct gm_about *about);

#endif
