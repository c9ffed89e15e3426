/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers for the program's threads, so that each can have its own slots in small tables;
 * protection against cancellation while a thread holds a lock or a count; threads of the library's
 * own.
 */
#ifndef GM_BASE_THREAD_H
#define GM_BASE_THREAD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/debug.h"

/* The calling thread's number, from 1; 0: none yet. gm_thread_give assigns the next one. */
extern GM_TLS unsigned gm_thread_given;
unsigned gm_thread_give(void);

/* The calling thread's index, from 0, in the order of first calls. Constant for the thread's
 * life. */
static inline unsigned gm_thread_index(void)
{
	return (GM_LIKELY(gm_thread_given) ? gm_thread_given : gm_thread_give()) - 1;
}

/* The calling thread's Linux thread id. gm_thread_id_kept: 0 before its first call. */
extern GM_TLS uint32_t gm_thread_id_kept;
uint32_t gm_thread_id_read(void);

static inline uint32_t gm_thread_id(void)
{
	return GM_LIKELY(gm_thread_id_kept) ? gm_thread_id_kept : gm_thread_id_read();
}

/* Between these two calls, which nest, pthread_cancel does not end the calling thread. They enclose
 * every wait, and every driver call that may be a cancellation point: a lock or a count of users
 * that an ended thread had taken would never be released. */
void gm_thread_hold_cancel(void);
void gm_thread_let_cancel(void);

/*
 * Start a detached thread that runs body(arg) with all signals blocked, on all cores of the process
 * (cores.h), not on those of its creator. Returns 0 or an errno. If gm_thread_keeps_process, and
 * it is the last thread of the process to end, the program's exit handlers run on it after the
 * body: its stack has the default size, and the signal mask is then the caller's. `start` belongs
 * to the thread until the body begins.
 */
struct gm_thread_start {
	void (*body)(void *arg);
	void *arg;
	sigset_t mask;
};
int gm_thread_start(struct gm_thread_start *start, void (*body)(void *arg), void *arg);

/*
 * A process ends when its last thread ends. glibc counts threads for that. From 2.34 on threads of
 * ours leave the count, so that the last thread of the program ends the process, as natively. Where
 * the count is not known, each thread of ours keeps the process. So it has to look at times whether
 * it may stay (gm_thread_is_last); seldom where the count is known, for a thread of the program may
 * end by the system call alone, past glibc.
 *
 * gm_thread_open finds the count: one thread, before gm_thread_start, no lock is held.
 */
void gm_thread_open(void);
bool gm_thread_keeps_process(void);

/* True if all other threads of the process were started by gm_thread_start. Reads a file of /proc.
 * Without one: gm_thread_keeps_process, and the main thread has ended. */
bool gm_thread_is_last(void);

/* In a forked child: the parent's threads do not exist, and the calling one has another id. */
void gm_thread_forget(void);

#endif
