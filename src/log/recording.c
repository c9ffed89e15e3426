/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/ring.h"
#include "log/writer.h"

static atomic_bool obeying;
/* Of the thread that obeys: the request taken, and if it is one. */
static uint64_t asked;
static bool fresh;

static struct gm_page_request *request_place(void)
{
	return &atomic_load_explicit(&gm_count_shown, memory_order_acquire)->parts.request;
}

void gm_recording_enable(void)
{
	atomic_store_explicit(&request_place()->able, 1, memory_order_release);
}

static enum gm_recording_state state_now(void)
{
	gm_lock_take(&gm_writer_lock);
	const bool own = gm_writer.file.fd >= 0 && gm_writer.level == GM_LEVEL_EVENTS;
	const bool on = gm_recording.file.fd >= 0;
	gm_lock_release(&gm_writer_lock);
	if (own)
		return GM_RECORDING_OWN;
	if (!on)
		return GM_RECORDING_NONE;
	return atomic_load(&gm_recording.ended) ? GM_RECORDING_BROKEN : GM_RECORDING_ON;
}

void gm_recording_wake(void)
{
	atomic_store(&request_place()->wake, 1);
}

bool gm_recording_take(enum gm_request *request, enum gm_recording_state *state)
{
	const uint64_t low = ((uint64_t)1 << GM_REQUEST_SHIFT) - 1;
	struct gm_page_request *place = request_place();
	if (atomic_exchange(&obeying, true))
		return false;
	atomic_store(&place->wake, 0);
	asked = atomic_load(&place->asked);
	const uint64_t number = gm_request_number(asked);
	fresh = gm_request_number(atomic_load(gm_request_answer(place, number))) != number;
	*request = fresh ? (enum gm_request)(asked & low) : GM_REQUEST_NONE;
	*state = state_now();
	if (fresh || *state == GM_RECORDING_BROKEN)
		return true;
	atomic_store(&obeying, false);
	return false;
}

void gm_recording_answer(enum gm_answer answer, int error)
{
	struct gm_page_request *place = request_place();
	const uint64_t number = gm_request_number(asked);
	if (fresh && answer != GM_ANSWER_NONE)
		atomic_store(gm_request_answer(place, number),
			     number << GM_REQUEST_SHIFT | (uint64_t)(error & 0xffff) << 8 |
				     (uint64_t)answer);
	else if (answer == GM_ANSWER_NONE)
		gm_recording_wake();
	atomic_store(&obeying, false);
}

/* --- the file --- */

/* NAME.events, where NAME is the small log, wherever that is now, or its name without a log. False:
 * too long. */
static bool name_make(const struct gm_writer *small, const struct gm_writer *w, char *name,
		      size_t n)
{
	static const char gone[] = " (deleted)", behind[] = ".events";
	char link[64];
	ssize_t length = -1;
	snprintf(link, sizeof link, "/proc/self/fd/%d", small->file.fd);
	if (small->file.fd >= 0 && gm_fd_is(small->file.fd, &small->file.identity))
		length = readlink(link, name, n - 1);
	if (length > 0) {
		name[length] = '\0';
		char *end = length > (ssize_t)strlen(gone) ? name + length - strlen(gone) : name;
		if (strcmp(end, gone) == 0)
			*end = '\0';
	} else if (*small->file.path) {
		snprintf(name, n, "%s", small->file.path);
	} else if (!gm_log_name(w, name, n)) {
		return false;
	}
	const size_t at = strlen(name);
	return snprintf(name + at, n - at, "%s", behind) < (int)(n - at);
}

/* Counts of the recording before. */
static void writer_clear(struct gm_writer *w)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	for (unsigned i = 0; i < 2; i++) {
		gm_segment_forget_records(&w->segments[i]);
		atomic_store(&w->segments[i].sequence, 0);
	}
	w->ready = false;
	w->records = w->dropped = 0;
	atomic_store(&w->lost, 0);
	atomic_store(&w->ended, 0);
}

static void memory_free(struct gm_writer *w)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	atomic_store(&w->current, NULL);
	gm_writer_unmap(w);
	free(w->records_at);
	w->records_at = NULL;
}

int gm_recording_open(void)
{
	static char name[PATH_MAX];
	struct gm_writer *w = &gm_recording;
	int saved = errno;
	w->level = GM_LEVEL_RECORDING;
	if (gm_writer.about.size)
		w->about = gm_writer.about;
	else
		gm_log_describe(w);
	gm_lock_take(&gm_writer_lock);
	const bool named = name_make(&gm_writer, w, name, sizeof name);
	writer_clear(w);
	int error = named ? gm_log_make(w, name) : ENAMETOOLONG;
	if (error)
		memory_free(w);
	gm_lock_release(&gm_writer_lock);
	errno = saved;
	return error;
}

void gm_recording_begin(void)
{
	gm_lock_take(&gm_writer_lock);
	gm_log_route(&gm_recording);
	gm_lock_release(&gm_writer_lock);
}

void gm_recording_checkpoint(void)
{
	int saved = errno;
	gm_log_checkpoint(&gm_recording, gm_recording.head.start);
	errno = saved;
}

bool gm_recording_keeps(enum gm_record_kind kind)
{
	return gm_recording.head.kept >> kind & 1;
}

int gm_recording_error(void)
{
	return atomic_load(&gm_recording.ended);
}

void gm_recording_stop(void)
{
	gm_lock_take(&gm_writer_lock);
	gm_log_route(NULL);
	atomic_store(&gm_recording.current, NULL);
	gm_lock_release(&gm_writer_lock);
}

bool gm_recording_end(void)
{
	struct gm_writer *w = &gm_recording;
	int saved = errno;
	gm_lock_take(&gm_writer_lock);
	const bool done =
		gm_segment_drain(&w->segments[0], true) && gm_segment_drain(&w->segments[1], true);
	if (done && w->file.fd >= 0) {
		gm_ring_close(w, GM_PAGE_ENDED);
		gm_file_close(&w->file);
		memory_free(w);
	}
	gm_lock_release(&gm_writer_lock);
	errno = saved;
	return done;
}

void gm_recording_forget(void)
{
	atomic_store(&obeying, false);
}
