/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"

/* Messages contain file names and strings of logs, so they are escaped for the terminal. They are
 * not cut: a long name must not hide the error. */
static void message_print(const char *format, va_list args)
{
	char *text, *escaped = NULL;
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	size_t n = text ? gm_escape(text, NULL, 0) + 1 : 0;
	if (text && (escaped = malloc(n)))
		gm_escape(text, escaped, n);
	fflush(stdout);
	fprintf(stderr, "gpumemstat: %s\n", escaped ? escaped : "out of memory");
	free(escaped);
	free(text);
}

void gm_tool_error(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	message_print(format, args);
	va_end(args);
}

static void hint_print(const char *command)
{
	fprintf(stderr, "Try 'gpumemstat %s%s--help'\n", command ? command : "",
		command ? " " : "");
}

int gm_tool_usage(const char *command, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	message_print(format, args);
	va_end(args);
	hint_print(command);
	return GM_EXIT_USAGE;
}

const char *gm_tool_name(const char *name)
{
	return *name ? name : "''";
}

int gm_tool_flush(void)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return GM_EXIT_OK;
	/* An earlier write failed, and nothing was due now: another one has the reason. */
	if (!errno && (putchar('\n') == EOF || fflush(stdout) != 0) && !errno)
		errno = EIO;
	gm_tool_error("standard output: %s", strerror(errno ? errno : EIO));
	clearerr(stdout);
	return GM_EXIT_FAILED;
}

int gm_tool_extra(const struct gm_command *command, const char *operand)
{
	return gm_tool_usage(command->name, "%s: unexpected argument '%s'", command->name, operand);
}

char *gm_tool_count(unsigned long long count, char *buf, size_t n)
{
	char digits[32];
	size_t length = (size_t)snprintf(digits, sizeof digits, "%llu", count), at = 0;
	for (size_t i = 0; i < length && at + 2 < n; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}
