/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that is cancelled while it waits or writes continues until it has released the locks
 * that other threads wait for. Each thread is cancelled before it begins, so that it would end at
 * the first cancellation point.
 */
#include <pthread.h>

#include "base/lock.h"
#include "log/file.h"
#include "log_help.h"

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_POOL);
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static bool waiting, woken, came_through;

static void *waiter(void *arg)
{
	pthread_cancel(pthread_self());
	gm_lock_take(&lock);
	waiting = true;
	pthread_cond_signal(&condition);
	while (!woken)
		gm_lock_wait(&lock, &condition);
	came_through = true;
	gm_lock_release(&lock);
	pthread_testcancel();
	return arg;
}

static void waits(void)
{
	pthread_t thread;
	void *end = NULL;
	pthread_create(&thread, NULL, waiter, NULL);
	gm_lock_take(&lock);
	while (!waiting)
		gm_lock_wait(&lock, &condition);
	woken = true;
	pthread_cond_broadcast(&condition);
	gm_lock_release(&lock);
	pthread_join(thread, &end);
	TAP_OK(came_through, "a wait under a lock does not end the thread");
	TAP_IS(pthread_mutex_trylock(&lock.mutex), 0, "the lock of a cancelled wait was let go");
	TAP_PTR(end, PTHREAD_CANCELED, "a cancelled thread ends behind its wait");
	pthread_mutex_unlock(&lock.mutex);
}

static int write_log(void *arg)
{
	pthread_cancel(pthread_self());
	gm_counters_open();
	if (!gm_log_open(&help_config))
		return 1;
	help_map(0, GM_GIB);
	for (unsigned i = 0; i < *(unsigned *)arg; i++) {
		help_allocate(0, 1000);
		help_free(0, 0);
		gm_log_poll();
	}
	gm_log_close();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return 7;
}

static void logs(void)
{
	static const struct {
		const char *knobs;
		bool written;
		unsigned turns;
	} cases[] = {
		{"GPUMEM_LOG=small", false, 10},
		{"GPUMEM_LOG=small", true, 10},
		{"GPUMEM_LOG=events", false, 10},
		{"GPUMEM_LOG=events", true, 200000}, /* more than one segment */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		unsigned turns = cases[i].turns;
		gm_file_force_memory = cases[i].written;
		int status = help_child(cases[i].knobs, write_log, &turns);
		TAP_OK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%s, %s: written to its end",
		       cases[i].knobs, cases[i].written ? "written" : "mapped");
		struct gm_log_file *file = help_open("log");
		TAP_OK(file && gm_log_read_about(file)->closed, "the log is closed");
		if (file)
			gm_log_read_close(file);
		unlink("log");
	}
	gm_file_force_memory = false;
}

int main(void)
{
	alarm(60); /* ends a wait for a lock that was never released */
	help_begin();
	waits();
	logs();
	return tap_done();
}
