/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stack/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "tools/tool.h"

extern char **environ;

enum { NAME_MOST = 2000, NAMES_BYTES = 1 << 20, NAMES_SECONDS = 2 };

/* --- a child --- */

static int input_make(const char *input)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	for (size_t n = strlen(input); fd >= 0 && n > 0;) {
		const ssize_t put = write(fd, input, n);
		if (put <= 0) {
			close(fd);
			return -1;
		}
		input += put;
		n -= (size_t)put;
	}
	return fd;
}

static pid_t child_start(const char *const *tools, size_t n,
			 const char *const words[GM_CHILD_WORDS], int in, int out)
{
	char *line[GM_CHILD_WORDS + 2] = {NULL};
	posix_spawn_file_actions_t actions;
	pid_t child = -1;
	int error = ENOENT;
	for (unsigned i = 0; i < GM_CHILD_WORDS && words[i]; i++)
		line[i + 1] = (char *)(uintptr_t)words[i];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	for (size_t i = 0; error && i < n; i++) {
		line[0] = (char *)(uintptr_t)tools[i];
		lseek(in, 0, SEEK_SET);
		error = posix_spawnp(&child, tools[i], &actions, NULL, line, environ);
	}
	posix_spawn_file_actions_destroy(&actions);
	return error ? -1 : child;
}

/* True: data to read, or the end. False: timeout. */
static bool answer_wait(int fd, uint64_t end)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	for (;;) {
		const uint64_t now = gm_clock_ns();
		const uint64_t ms = now < end ? (end - now) / 1000000 + 1 : 0;
		const int got = ms ? poll(&wait, 1, ms < INT_MAX ? (int)ms : INT_MAX) : 0;
		if (got >= 0 || errno != EINTR)
			return got > 0;
	}
}

struct text {
	GM_ARRAY(char) all;
};

/* False: the child wrote too much, or too slowly. */
static bool answer_read(int fd, struct text *text, size_t most, uint64_t end)
{
	for (ssize_t got = 1; got > 0;) {
		if (!gm_array_reserve(&text->all, text->all.n + 65536)) {
			gm_tool_error("out of memory");
			exit(GM_EXIT_FAILED);
		}
		if (text->all.n > most || !answer_wait(fd, end))
			return false;
		got = read(fd, text->all.at + text->all.n, 65535);
		text->all.n += got > 0 ? (size_t)got : 0;
		got = got < 0 && errno == EINTR ? 1 : got;
	}
	text->all.at[text->all.n] = '\0';
	return true;
}

char *gm_child_ask(const char *const *tools, size_t n, const char *const words[GM_CHILD_WORDS],
		   const char *input, size_t most, unsigned seconds)
{
	struct text text = {0};
	int ends[2], in = input_make(input);
	if (in < 0)
		return NULL;
	if (pipe2(ends, O_CLOEXEC)) {
		close(in);
		return NULL;
	}
	const pid_t child = child_start(tools, n, words, in, ends[1]);
	close(in);
	close(ends[1]);
	const bool well = child > 0 && answer_read(ends[0], &text, most,
						   gm_clock_ns() + seconds * 1000000000ull);
	close(ends[0]);
	if (child > 0 && !well)
		kill(child, SIGKILL);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (!well)
		gm_array_free(&text.all);
	return text.all.at;
}

/* --- names --- */

/* Names come from a log and are not trusted: only these characters reach the tool. */
static bool name_is_mangled(const char *name)
{
	const size_t n =
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$");
	return !strncmp(name, "_Z", 2) && !name[n] && n < NAME_MOST;
}

void gm_child_demangle(const char **names, size_t n, char **text)
{
	static const char *const tools[] = {"c++filt", "llvm-cxxfilt"};
	static const char *const words[GM_CHILD_WORDS] = {NULL};
	size_t size = 1, at = 0;
	*text = NULL;
	for (size_t i = 0; i < n; i++)
		size += name_is_mangled(names[i]) ? strlen(names[i]) + 1 : 0;
	char *input = size > 1 ? malloc(size) : NULL;
	if (!input)
		return;
	for (size_t i = 0; i < n; i++)
		if (name_is_mangled(names[i]))
			at += (size_t)sprintf(input + at, "%s\n", names[i]);
	*text = gm_child_ask(tools, sizeof tools / sizeof *tools, words, input, NAMES_BYTES,
			     NAMES_SECONDS);
	free(input);
	char *rest = *text;
	for (size_t i = 0; rest && i < n; i++)
		if (name_is_mangled(names[i])) {
			const char *line = strsep(&rest, "\n");
			names[i] = *line ? line : names[i];
		}
}
