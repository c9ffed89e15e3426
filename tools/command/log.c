/* SPDX-License-Identifier: BSD-3-Clause */
/* log: ask a process to begin or end a recording, by a word in its live counters (log/page.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "log/file.h"
#include "log/page.h"
#include "tools/log/find.h"
#include "tools/log/process.h"
#include "tools/options.h"
#include "tools/tool.h"

#define PATIENCE 10  /* seconds for the answer */
#define NAP 2000000u /* ns between two looks */

static const char *const words[] = {
	[GM_REQUEST_EVENTS] = "events",
	[GM_REQUEST_SMALL] = "small",
};
enum { WORDS = sizeof words / sizeof *words };

/* The request word of a process, mapped. */
struct channel {
	struct gm_process process;
	struct gm_fd_identity identity;
	char *map;
	size_t size;
	struct gm_page_request *place;
	uint64_t end; /* of the wait: CLOCK_MONOTONIC */
};

enum channel_state { CHANNEL_OPEN, CHANNEL_GONE, CHANNEL_OLD, CHANNEL_ERROR };

static void channel_close(struct channel *channel)
{
	if (channel->map)
		munmap(channel->map, channel->size);
	channel->map = NULL;
}

static enum channel_state channel_map(struct channel *channel, int fd)
{
	struct stat st;
	channel->size = channel->process.at + sizeof(struct gm_counter_live);
	if (fstat(fd, &st) != 0 || !gm_fd_identify(fd, &channel->identity))
		return CHANNEL_ERROR;
	if (!channel->process.split || (uint64_t)st.st_size < channel->size)
		return CHANNEL_OLD;
	void *map = mmap(NULL, channel->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return CHANNEL_ERROR;
	channel->map = map;
	struct gm_counter_live *live = (void *)(channel->map + channel->process.at);
	channel->place = &live->parts.request;
	return atomic_load(&channel->place->able) == 1 ? CHANNEL_OPEN : CHANNEL_OLD;
}

static enum channel_state channel_open(struct channel *channel)
{
	channel_close(channel);
	if (!gm_process_find(channel->process.pid, &channel->process))
		return CHANNEL_GONE;
	const int fd = open(channel->process.live, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? CHANNEL_GONE : CHANNEL_ERROR;
	const enum channel_state state = channel_map(channel, fd);
	close(fd);
	return state;
}

/* The process still has the file open: it has neither ended nor moved its counters. */
static bool channel_is_whole(const struct channel *channel)
{
	struct stat st;
	return stat(channel->process.live, &st) == 0 && st.st_dev == channel->identity.device &&
	       st.st_ino == channel->identity.inode;
}

/*
 * Ask, unless the same request waits already: one answer is for all who ask. Returns the number of
 * the request; 0: one of another kind waits.
 */
static uint64_t request_send(struct gm_page_request *place, enum gm_request request)
{
	const uint64_t low = ((uint64_t)1 << GM_REQUEST_SHIFT) - 1;
	uint64_t asked = atomic_load(&place->asked);
	const uint64_t number = gm_request_number(asked);
	if (gm_request_number(atomic_load(gm_request_answer(place, number))) != number) {
		atomic_store(&place->wake, 1); /* the one who asked may have been killed */
		return (asked & low) == request ? number : 0;
	}
	const uint64_t next = (number + 1) << GM_REQUEST_SHIFT | request;
	if (!atomic_compare_exchange_strong(&place->asked, &asked, next))
		return 0;
	atomic_store(&place->wake, 1);
	return number + 1;
}

enum outcome { OUTCOME_ANSWER, OUTCOME_GONE, OUTCOME_SILENT, OUTCOME_BEHIND };

/* Wait for the answer. If many later ones have overtaken it, ask again. */
static enum outcome request_await(struct channel *channel, enum gm_request request,
				  uint64_t *answer)
{
	uint64_t number = 0;
	while (gm_clock_ns() < channel->end) {
		if (!number)
			number = request_send(channel->place, request);
		*answer = atomic_load(gm_request_answer(channel->place, number));
		if (number && gm_request_number(*answer) == number)
			return OUTCOME_ANSWER;
		if (gm_request_number(*answer) > number)
			number = 0;
		if (!channel_is_whole(channel) && channel_open(channel) != CHANNEL_OPEN)
			return OUTCOME_GONE;
		gm_sys_nap(NAP);
	}
	return number ? OUTCOME_SILENT : OUTCOME_BEHIND;
}

/* --- what it says --- */

/* " in PATH"; "": it is not known, since others asked meanwhile. */
static const char *in_path(const char *path, char *buf, size_t n)
{
	snprintf(buf, n, "%s%s", *path ? " in " : "", gm_find_from_here(path));
	return buf;
}

static void failure_show(const struct gm_process *process, int error)
{
	const char *why =
		gm_file_error(error == (GM_FILE_SPECIAL & 0xffff) ? GM_FILE_SPECIAL : error);
	if (*process->log)
		gm_tool_error("%d: no recording: %s.events: %s", process->pid,
			      gm_find_from_here(process->log), why);
	else
		gm_tool_error("%d: no recording in GPUMEM_LOG_NAME with .events: %s", process->pid,
			      why);
}

/* Its file was full, or could not be written. Returns the exit status. */
static int early_show(int pid, const char *in, int error)
{
	gm_tool_error("%d: the recording%s had ended early: %s", pid, in, gm_file_error(error));
	return GM_EXIT_FAILED;
}

/* `before`: the process as it was before it answered. Returns the exit status. */
static int answer_show(const struct gm_process *before, const struct gm_process *now,
		       enum gm_request request, uint64_t word)
{
	const int error = (int)(word >> 8 & 0xffff);
	char in[PATH_MAX + 8];
	in_path(*now->recording ? now->recording : before->recording, in, sizeof in);
	switch ((enum gm_answer)(word & 0xff)) {
	case GM_ANSWER_BEGUN:
		printf("%d: records events%s\n", now->pid, in);
		return GM_EXIT_OK;
	case GM_ANSWER_GOES_ON:
		printf("%d: already records events%s\n", now->pid, in);
		return GM_EXIT_OK;
	case GM_ANSWER_ENDED:
		in_path(before->recording, in, sizeof in);
		if (error)
			return early_show(now->pid, in, error);
		printf("%d: ended the recording%s\n", now->pid, in);
		return GM_EXIT_OK;
	case GM_ANSWER_IDLE:
		if (error)
			return early_show(now->pid, "", error);
		printf("%d: has no recording to end\n", now->pid);
		return GM_EXIT_OK;
	case GM_ANSWER_OWN:
		gm_tool_error("%d: %s: %s has events from its start, by GPUMEM_LOG=events",
			      now->pid,
			      request == GM_REQUEST_SMALL ? "does not end" : "nothing to begin",
			      gm_find_from_here(now->log));
		return GM_EXIT_FAILED;
	case GM_ANSWER_FAILED:
		failure_show(now, error);
		return GM_EXIT_FAILED;
	default:
		gm_tool_error("%d: its libgpumem.so does not know '%s'", now->pid, words[request]);
		return GM_EXIT_FAILED;
	}
}

static int process_ask(int pid, enum gm_request request)
{
	struct channel channel = {.process.pid = pid,
				  .end = gm_clock_ns() + PATIENCE * 1000000000ull};
	enum channel_state state = channel_open(&channel);
	/* A process that calls cuInit now will be able soon. */
	for (unsigned i = 0; state == CHANNEL_OLD && i < 100; i++) {
		gm_sys_nap(NAP);
		state = channel_open(&channel);
	}
	struct gm_process before = channel.process, now;
	uint64_t word = 0;
	if (state == CHANNEL_GONE)
		gm_tool_error("%d: %s", pid, gm_process_why(pid));
	else if (state == CHANNEL_OLD)
		gm_tool_error("%d: its libgpumem.so is of a version that cannot do this", pid);
	else if (state == CHANNEL_ERROR)
		gm_tool_error("%d: %s: %s", pid, channel.process.live, strerror(errno));
	if (state != CHANNEL_OPEN) {
		channel_close(&channel);
		return GM_EXIT_FAILED;
	}
	const enum outcome outcome = request_await(&channel, request, &word);
	channel_close(&channel);
	if (outcome == OUTCOME_GONE)
		gm_tool_error("%d: it ended before it answered", pid);
	else if (outcome == OUTCOME_SILENT)
		gm_tool_error(
			"%d: the process made no allocation, free or copy within %d s; it will "
			"%s at its next",
			pid, PATIENCE, request == GM_REQUEST_SMALL ? "end" : "begin");
	else if (outcome == OUTCOME_BEHIND)
		gm_tool_error("%d: the process made no allocation, free or copy within %d s, and "
			      "another request waits",
			      pid, PATIENCE);
	if (outcome != OUTCOME_ANSWER)
		return GM_EXIT_FAILED;
	if (!gm_process_find(pid, &now))
		now = before;
	return answer_show(&before, &now, request, word);
}

static enum gm_request request_parse(const char *word)
{
	for (unsigned i = 1; i < WORDS; i++)
		if (strcmp(word, words[i]) == 0)
			return (enum gm_request)i;
	return GM_REQUEST_NONE;
}

int gm_log_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	int pid, first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (first == argc)
		return gm_tool_usage(self->name, "%s: expected PID", self->name);
	if (!gm_process_parse(argv[first], &pid))
		return gm_tool_usage(self->name, "%s: expected PID, not '%s'", self->name,
				     argv[first]);
	if (first + 1 == argc)
		return gm_tool_usage(self->name, "%s: expected 'events' or 'small'", self->name);
	const enum gm_request request = request_parse(argv[first + 1]);
	if (request == GM_REQUEST_NONE)
		return gm_tool_usage(self->name, "%s: expected 'events' or 'small', not '%s'",
				     self->name, argv[first + 1]);
	if (first + 2 < argc)
		return gm_tool_extra(self, argv[first + 2]);
	const int status = process_ask(pid, request), flushed = gm_tool_flush();
	return status ? status : flushed;
}
