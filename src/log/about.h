/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is being logged: the description that the head of every segment carries. */
#ifndef GM_LOG_ABOUT_H
#define GM_LOG_ABOUT_H

#include "log/file.h"
#include "log/format.h"
#include "log/log.h"

struct gm_about {
	char host[256], program[256], job[128];
	int pid, rank; /* rank -1: none */
	char text[GM_TEXT_ROOM];
	uint32_t size; /* of text */
};

/* Look around: host, program, job, rank, pid. */
void gm_about_ask(struct gm_about *about);

/* Write the description, "key=value" each ended by a 0, after gm_about_ask. */
void gm_about_write(struct gm_about *about, const struct gm_log_config *config);

/* What stands in a file name for this process; valid as long as `about`. */
struct gm_file_words gm_about_words(const struct gm_about *about);

#endif
