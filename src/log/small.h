/* SPDX-License-Identifier: BSD-3-Clause */
/* The small log: one segment. pre: GM_LOCK_RANK_LOG is held. */
#ifndef GM_LOG_SMALL_H
#define GM_LOG_SMALL_H

#include "log/writer.h"

/* Begin the log. 0 or an errno. */
int gm_small_open(struct gm_writer *w);

/* Append a record. False: it was not kept. */
bool gm_small_put(struct gm_writer *w, const struct gm_record *record, const void *body,
		  size_t length);

/* Write a `memory` log to its file. */
void gm_small_flush(struct gm_writer *w);

void gm_small_close(struct gm_writer *w);

#endif
