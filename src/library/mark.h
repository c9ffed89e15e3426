/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks: an event behind all work that used some parts (cut.h). Users share a mark. The caller
 * counts them under its own lock, and holds no lock across the driver calls here. The context of a
 * mark may not be the caller's, and may end at any time.
 */
#ifndef GM_LIBRARY_MARK_H
#define GM_LIBRARY_MARK_H

#include "context/context.h"

struct gm_mark {
	struct gm_context *context;
	struct gm_mark *next; /* without users: the next one to be dropped */
	unsigned users;	      /* its parts, and threads that record or query it */
	bool recorded, passed;
	CUevent event; /* NULL: none was made */
};

/* A mark of a context; the caller is its user. NULL: no host memory. */
struct gm_mark *gm_mark_new(struct gm_context *context);

/* Record the event of the mark, in the current context. False: the driver failed, or the stream
 * is in a capture: the event would become part of its graph. */
bool gm_mark_record(struct gm_mark *mark, const struct gm_driver *driver, CUstream stream);

/* Call the driver with the event. CUDA_ERROR_NOT_READY also if the context is ending, or has ended
 * and its events with it. */
CUresult gm_mark_call(const struct gm_mark *mark, CUresult (*call)(CUevent event));

#define GM_MARK_TRIES 4u /* marks whose event one call of the program queries */

/* Marks with a pending event; compared, never followed. */
struct gm_asked {
	const struct gm_mark *mark[GM_MARK_TRIES];
	unsigned n;
};

/* Is a query of the event of a mark useful: recorded, not passed, not queried before? NULL: no. */
bool gm_mark_is_worth_asking(const struct gm_mark *mark, const struct gm_asked *asked);

/* Destroy a list of marks with their events. */
void gm_marks_drop(struct gm_mark *list, const struct gm_driver *driver);

#endif
