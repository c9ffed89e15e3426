/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES_DEFAULT = 24, COLUMNS_DEFAULT = 80, NOT_RUN = 126, NOT_FOUND = 127 };

/* The pager chosen by the user; NULL: none, the default is less. */
static const char *pager_command(void)
{
	const char *own = getenv("GPUMEM_PAGER");
	return own ? own : getenv("PAGER");
}

bool gm_pager_is_wanted(void)
{
	const char *command = pager_command();
	if (!isatty(STDOUT_FILENO))
		return false;
	return !command || (*command && strcmp(command, "cat") != 0);
}

/* Columns of a line, without UTF-8 continuation bytes and colour sequences. */
static size_t line_columns(const char *line, size_t n)
{
	size_t columns = 0;
	for (size_t i = 0; i < n; i++) {
		if (line[i] == '\033')
			while (i + 1 < n && line[i] != 'm')
				i++;
		else
			columns += ((unsigned char)line[i] & 0xc0) != 0x80;
	}
	return columns;
}

/* True if the text and the prompt behind it fit the terminal. */
static bool text_fits(const char *text, size_t n)
{
	struct winsize window = {0};
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || !window.ws_row || !window.ws_col)
		window = (struct winsize){.ws_row = LINES_DEFAULT, .ws_col = COLUMNS_DEFAULT};
	size_t lines = 0;
	for (const char *at = text, *end = text + n; at < end && lines < window.ws_row;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const size_t length = (size_t)((newline ? newline : end) - at);
		const size_t columns = line_columns(at, length);
		lines +=
			columns > window.ws_col ? (columns + window.ws_col - 1) / window.ws_col : 1;
		at += length + 1;
	}
	return lines < window.ws_row;
}

/* Runs in the child. */
static _Noreturn void pager_become(int input)
{
	const char *command = pager_command();
	dup2(input, STDIN_FILENO);
	/* F: quit if the text fits; R: colours; X: keep the text on the screen. */
	setenv("LESS", "FRX", 0);
	if (command)
		execlp("sh", "sh", "-c", command, (char *)NULL);
	else
		execlp("less", "less", (char *)NULL);
	_exit(NOT_FOUND);
}

/* A write error is no error: the user left the pager before the end of the text. */
static void pipe_write(int fd, const char *text, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, text, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		text += done;
		n -= (size_t)done;
	}
}

/* False: the pager could not be run. */
static bool pager_run(const char *text, size_t n)
{
	int ends[2], status = 0;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	const pid_t child = fork();
	if (child == 0)
		pager_become(ends[0]);
	close(ends[0]);
	/* Ctrl-C and Ctrl-\ are for the pager, which may handle them without ending. */
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigaction(SIGINT, &ignore, NULL);
	sigaction(SIGQUIT, &ignore, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	if (child > 0)
		pipe_write(ends[1], text, n);
	close(ends[1]);
	if (child < 0)
		return false;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return true;
	return !WIFEXITED(status) ||
	       (WEXITSTATUS(status) != NOT_FOUND && WEXITSTATUS(status) != NOT_RUN);
}

void gm_pager_show(const char *text, size_t n)
{
	fflush(stdout);
	if (text_fits(text, n) || !pager_run(text, n))
		fwrite(text, 1, n, stdout);
}
