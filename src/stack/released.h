/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Python frames of the calling thread, read from the interpreter's memory: the interpreter is
 * not called, so the thread need not hold its lock. PyTorch, CuPy and ctypes release it for a call.
 * The frames are the thread's own: it runs no Python until our call returns, so no frame changes or
 * ends, and no code object that a frame refers to. Other threads only make objects of frames, and
 * change no member that is read here.
 *
 *     UNKNOWN --find--> WAITING --self-check (selfcheck.h)--> READY --interpreter ends--> CLOSED
 *        |                 |                                    |
 *        +--> REFUSED <----+------------ another layout --------+
 *
 * WAITING: each address is first tried by a call that refuses an unmapped one. READY: the type of
 * each code object is still compared. CLOSED: the interpreter frees the states of other threads, so
 * only the main thread's frames are read. The next interpreter begins with UNKNOWN.
 *
 * Before 3.12 the state found is that of the main interpreter, so with sub-interpreters no frame is
 * read.
 */
#ifndef GM_STACK_RELEASED_H
#define GM_STACK_RELEASED_H

#include <stdbool.h>

#include "log/record.h"

enum gm_released_state {
	GM_RELEASED_UNKNOWN, /* not searched */
	GM_RELEASED_REFUSED,
	GM_RELEASED_WAITING,
	GM_RELEASED_READY,
	GM_RELEASED_CLOSED
};

/* Cached data of a place in a code object. */
struct gm_released_kept {
	const void *code, *file, *name, *lines;
	uint64_t print; /* checksum of the texts and lines */
	int at, first;
	struct gm_frame frame;
};

/* What a walk remembers for later walks. All zero at first; of one thread at a time. */
enum { GM_RELEASED_SETS = 512, GM_RELEASED_WAYS = 4, GM_RELEASED_TEXT = 4096 };
struct gm_released_memory {
	struct gm_released_kept kept[GM_RELEASED_SETS][GM_RELEASED_WAYS];
	unsigned replaced;
	char text[GM_RELEASED_TEXT]; /* of one name, as UTF-8; longer ones are cut */
};

/*
 * Find the data of the layout, for an interpreter that was found (pyapi.h); unless `allowed`, no
 * frame is ever read. The state is WAITING then, or REFUSED. Returns the reason for a refusal that
 * a user should know; else NULL. One thread; pre: UNKNOWN.
 */
const char *gm_released_find(bool allowed);

enum gm_released_state gm_released_state(void);

/* The result of the self-check: READY, or REFUSED with one message. No effect unless WAITING. */
void gm_released_decide(bool equal);

/* The interpreter ends: CLOSED, and no other thread is in a walk any more. Waits for walks under
 * way. */
void gm_released_close(void);

/* The interpreter has ended: UNKNOWN, for the program may begin another. No effect unless CLOSED.
 */
void gm_released_reopen(void);

/*
 * The calls in progress in Python, by the calling thread's state (PyGILState_GetThisThreadState;
 * NULL: this thread never ran Python), the innermost first: at most `most`, their number in *n;
 * *cut: there are more. False: they are unknown. Takes no lock but those of gm_log_string.
 */
bool gm_released_frames(struct gm_released_memory *memory, struct gm_frame *out, uint32_t most,
			uint32_t *n, bool *cut);

/* Before 3.12: is there no sub-interpreter? Later: true. */
bool gm_released_is_alone(void);

/* The same for another thread, by its state, each address tried. False: another layout. pre: the
 * caller holds the interpreter's lock. */
bool gm_released_thread_frames(struct gm_released_memory *memory, const void *thread,
			       struct gm_frame *out, uint32_t most, uint32_t *n, bool *cut);

/* The number of a text in the log, each address tried; 0: it cannot be read. False: another layout.
 */
bool gm_released_text(struct gm_released_memory *memory, const void *text, uint64_t *number);

/* In a forked child: no other thread is in a walk. The program's main thread is the caller from now
 * on. */
void gm_released_forget(void);

#endif
