/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/sys.h"

GM_TLS unsigned gm_thread_given;

unsigned gm_thread_give(void)
{
	static atomic_uint given;
	gm_thread_given = atomic_fetch_add_explicit(&given, 1, memory_order_relaxed) + 1;
	return gm_thread_given;
}

GM_TLS uint32_t gm_thread_id_kept;

uint32_t gm_thread_id_read(void)
{
	gm_thread_id_kept = (uint32_t)syscall(SYS_gettid);
	return gm_thread_id_kept;
}

static GM_TLS unsigned holds;
static GM_TLS int state_before;

void gm_thread_hold_cancel(void)
{
	if (holds++ > 0)
		return;
	/* Without libpthread, glibc before 2.34 leaves `state_before` unset. */
	state_before = PTHREAD_CANCEL_ENABLE;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_before);
}

void gm_thread_let_cancel(void)
{
	if (--holds == 0)
		pthread_setcancelstate(state_before, NULL);
}

/* --- threads of the library --- */

static atomic_uint serving; /* threads inside a body; each counts itself */

/* On a thread of ours: the signal mask of the program's thread that started it, or its maker. */
static GM_TLS const sigset_t *mask_of_program;

enum { STAT_ROOM = 1024, STAT_STATE = 1, STAT_THREADS = 18 };

/* False: no /proc, or no free descriptor. */
static bool stat_read(char text[STAT_ROOM])
{
	int fd = gm_sys_open("/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	ssize_t n = gm_sys_read(fd, text, STAT_ROOM - 1);
	gm_sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Field `n` of /proc/self/stat after the program's name, which may contain blanks and brackets. */
static const char *stat_field(const char *text, unsigned n)
{
	const char *at = strrchr(text, ')');
	for (; at && n > 0; n--)
		at = strchr(at + 1, ' ');
	return at ? at + 1 : "";
}

/* glibc's count of threads, which it exports for debuggers, from 2.34 on; NULL: not known. The
 * thread whose end makes it 0 calls exit. */
static atomic_uint *counted;

/* A later glibc may count something else. Without /proc nobody can tell. */
static bool counts_threads(const atomic_uint *count)
{
	char text[STAT_ROOM];
	return !stat_read(text) ||
	       strtoul(stat_field(text, STAT_THREADS), NULL, 10) == atomic_load(count);
}

void gm_thread_open(void)
{
	atomic_uint *count = (atomic_uint *)dlsym(RTLD_DEFAULT, "__nptl_nthreads");
	if (!count)
		dlerror();
	counted = count && counts_threads(count) ? count : NULL;
}

/* Count the calling thread of ours again, for glibc does so at its end. The process exits if there
 * is no other thread: then this one must not seem to be the last. */
static void count_enter(void)
{
	if (counted && atomic_fetch_add(counted, 1) == 0)
		for (;;)
			pause();
}

static void *thread_run(void *arg)
{
	const struct gm_thread_start start = *(struct gm_thread_start *)arg;
	atomic_fetch_add(&serving, 1);
	gm_cores_use();
	mask_of_program = &start.mask;
	start.body(start.arg);
	mask_of_program = NULL;
	count_enter();
	atomic_fetch_sub(&serving, 1);
	pthread_sigmask(SIG_SETMASK, &start.mask, NULL);
	return NULL;
}

/* Ends at once, and is counted: glibc then calls exit. */
static void *last_run(void *mask)
{
	pthread_sigmask(SIG_SETMASK, mask, NULL);
	return NULL;
}

static int thread_make(void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	const int error = pthread_create(&thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return error;
}

/* Take a new thread of ours out of the count. While it was counted, the program's last thread may
 * have ended without being the last one counted, so that glibc did not call exit. Then a further,
 * counted thread ends in its place, unless the process was exiting before (`exits`). */
static void count_leave(const sigset_t *mask, bool exits)
{
	static sigset_t mask_at_exit;
	if (atomic_fetch_sub(counted, 1) != 1 || exits)
		return;
	mask_at_exit = *mask;
	thread_make(last_run, &mask_at_exit); /* else ours find out: gm_thread_is_last */
}

int gm_thread_start(struct gm_thread_start *start, void (*body)(void *arg), void *arg)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const sigset_t mask = mask_of_program ? *mask_of_program : before;
	const bool exits = counted && atomic_load(counted) == 0;
	*start = (struct gm_thread_start){.body = body, .arg = arg, .mask = mask};
	const int error = thread_make(thread_run, start);
	if (!error && counted)
		count_leave(&mask, exits);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

/* A thread that has ended has no memory, and cannot be asked for it. */
static bool main_has_ended(void)
{
	char from = 0, to;
	struct iovec here = {&to, 1}, there = {&from, 1};
	return syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0) < 0 &&
	       errno == ESRCH;
}

bool gm_thread_keeps_process(void)
{
	return !counted;
}

/* The main thread exists until the process ends, in state Z once it has ended itself. Without
 * /proc, or without a free descriptor, nobody can say how many threads there are: then no thread of
 * ours that keeps the process outlives the main thread. */
bool gm_thread_is_last(void)
{
	char text[STAT_ROOM];
	if (!stat_read(text))
		return gm_thread_keeps_process() && main_has_ended();
	return *stat_field(text, STAT_STATE) == 'Z' &&
	       strtoul(stat_field(text, STAT_THREADS), NULL, 10) == atomic_load(&serving) + 1;
}

void gm_thread_forget(void)
{
	atomic_store(&serving, 0);
	gm_thread_id_kept = 0;
}
