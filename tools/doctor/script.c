/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/doctor/script.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool gm_script_is_shell(const char *path)
{
	static const char *const shells[] = {"sh",   "ash",  "bash", "busybox", "csh",
					     "dash", "fish", "ksh",  "mksh",	"rbash",
					     "tcsh", "yash", "zsh",  "ksh93"};
	for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
		if (strcmp(name_of(path), shells[i]) == 0)
			return true;
	return false;
}

/* Take the next word of a line, without its quotes. False: the line has no further one. */
static bool word_take(const char **line, char *word, size_t n)
{
	const char *p = *line + strspn(*line, " \t");
	size_t at = 0;
	char quote = '\0';
	bool found = *p && *p != '\n';
	for (; *p && *p != '\n' && (quote || (*p != ' ' && *p != '\t')); p++) {
		if (*p == quote)
			quote = '\0';
		else if (!quote && (*p == '\'' || *p == '"'))
			quote = *p;
		else if (at + 1 < n)
			word[at++] = *p;
	}
	word[at] = '\0';
	*line = p;
	return found;
}

/* The interpreter of the first line, which begins behind "#!". */
static void first_line_read(const char *line, char *out, size_t n)
{
	char word[PATH_MAX];
	*out = '\0';
	while (word_take(&line, word, sizeof word)) {
		const bool env = *out != '\0';
		if (env && (*word == '-' || strchr(word, '=')))
			continue;
		snprintf(out, n, "%s", word);
		if (env || strcmp(name_of(word), "env") != 0)
			return;
	}
}

bool gm_script_name_is_plain(const char *name)
{
	for (; isalnum((unsigned char)*name) || (*name && strchr("_.-", *name)); name++)
		;
	return !*name;
}

static void exec_line_read(const char *line, struct gm_script *out)
{
	char program[PATH_MAX], word[PATH_MAX];
	if (!word_take(&line, program, sizeof program))
		return;
	while (word_take(&line, word, sizeof word) && *word == '-')
		;
	if (strcmp(word, "exec") == 0 && gm_script_name_is_plain(name_of(program)))
		snprintf(out->manager, sizeof out->manager, "%.31s", name_of(program));
	else if (strcmp(word, "$0") == 0 && !strpbrk(program, "$`"))
		snprintf(out->interpreter, sizeof out->interpreter, "%s", program);
}

bool gm_script_read(const char *head, struct gm_script *out)
{
	*out = (struct gm_script){0};
	if (strncmp(head, "#!", 2) != 0)
		return false;
	first_line_read(head + 2, out->interpreter, sizeof out->interpreter);
	for (const char *line = head; gm_script_is_shell(out->interpreter) && line;
	     line = strchr(line, '\n')) {
		char word[8];
		line += *line == '\n';
		if (word_take(&line, word, sizeof word) && strcmp(word, "exec") == 0) {
			exec_line_read(line, out);
			break;
		}
	}
	return *out->interpreter != '\0';
}
