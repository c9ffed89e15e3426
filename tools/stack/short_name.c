/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/stack/frames.h"

static const char anonymous[] = "(anonymous namespace)";
static const char word[] = "operator";

struct shortening {
	char *to;
	size_t n, room;
};

static void text_put(struct shortening *s, const char *text, size_t n)
{
	for (size_t i = 0; i < n && s->n + 1 < s->room; i++)
		s->to[s->n++] = text[i];
	s->to[s->n] = '\0';
}

/* The position behind the bracket that closes the one at `at`; the end of the text: not closed. */
static const char *bracket_skip(const char *at)
{
	int depth = 0;
	for (; *at; at++) {
		if (strchr("<({[", *at))
			depth++;
		else if (strchr(">)}]", *at) && !(*at == '>' && at[-1] == '-') && --depth == 0)
			return at + 1;
	}
	return at;
}

/* Copy "operator" and its symbol or type, up to the parameters. */
static const char *operator_put(struct shortening *s, const char *at)
{
	size_t n = sizeof word - 1;
	if (!strncmp(at + n, "()", 2))
		n += 2;
	else
		n += strcspn(at + n, "(");
	text_put(s, at, n);
	return at + n;
}

static bool operator_begins(const struct shortening *s, const char *at)
{
	return !strncmp(at, word, sizeof word - 1) &&
	       (!s->n || s->to[s->n - 1] == ':' || s->to[s->n - 1] == ' ');
}

const char *gm_frames_short_name(const char *name, char *buf, size_t n)
{
	struct shortening s = {buf, 0, n};
	*buf = '\0';
	while (*name) {
		if (!strncmp(name, anonymous, sizeof anonymous - 1)) {
			text_put(&s, anonymous, sizeof anonymous - 1);
			name += sizeof anonymous - 1;
		} else if (operator_begins(&s, name)) {
			name = operator_put(&s, name);
		} else if (*name == '<' || *name == '(') {
			name = bracket_skip(name);
		} else if (*name == ' ' && s.n) {
			if (!strncmp(name, " const", 6) || name[1] == '[' || name[1] == '&')
				break;
			s.n = 0; /* drop the return type */
			name++;
		} else {
			text_put(&s, name++, 1);
		}
	}
	return buf;
}
