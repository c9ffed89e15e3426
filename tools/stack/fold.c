/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stack/fold.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tools/stack/frames.h"

enum { C, PYTHON };

static const struct row {
	enum gm_fold fold;
	int language;
	const char *function, *file;
} rows[] = {
#define GM_FOLD(kind, language, function, file) {GM_FOLD_##kind, language, function, file},
#include "tools/stack/fold.def"
#undef GM_FOLD
};

static const char *const libraries[] = {
#define GM_FOLD_LIBRARY(file) file,
#include "tools/stack/fold.def"
#undef GM_FOLD_LIBRARY
};

static const char *const overloads[] = {
#define GM_FOLD_OVERLOAD(end) end,
#include "tools/stack/fold.def"
#undef GM_FOLD_OVERLOAD
};

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool pattern_matches(const char *pattern, const char *text)
{
	for (; *pattern != '*'; pattern++, text++)
		if (*pattern == '@' ? !is_upper(*text) : *pattern != *text)
			return false;
		else if (!*pattern)
			return true;
	if (!pattern[1])
		return true;
	for (; *text; text++)
		if (pattern_matches(pattern + 1, text))
			return true;
	return pattern_matches(pattern + 1, text);
}

const char *gm_fold_word(enum gm_fold fold)
{
	static const char *const words[GM_FOLD_COUNT] = {
#define GM_FOLD_KIND(name, help) [GM_FOLD_##name] = #name,
#include "tools/stack/fold.def"
#undef GM_FOLD_KIND
	};
	return words[fold];
}

static const char *file_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

enum gm_fold gm_fold_of(bool python, const char *function, const char *file)
{
	char buf[256] = "";
	const char *name = !function ? buf
			   : python  ? function
				     : gm_frames_short_name(function, buf, sizeof buf);
	const char *where = python ? (file ? file : "") : file_name(file);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].language == (python ? PYTHON : C) &&
		    pattern_matches(rows[i].function, name) && pattern_matches(rows[i].file, where))
			return rows[i].fold;
	return GM_FOLD_none;
}

/* --- names --- */

/* The text between `begin` and `end` of a name; its length, 0: the name is of another form. */
static size_t name_between(const char *name, const char *begin, const char *end, const char **out)
{
	const size_t n = strlen(name), head = strlen(begin), tail = strlen(end);
	if (n <= head + tail || strncmp(name, begin, head) != 0 ||
	    strcmp(name + n - tail, end) != 0)
		return 0;
	*out = name + head;
	return n - head - tail;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
	const size_t length = strlen(end);
	return n > length && strncmp(text + n - length, end, length) == 0;
}

/* An operator's name without its overload; the last underscore of add_ is of the operator. */
static size_t operator_length(const char *name, size_t n)
{
	size_t length = 1;
	while (length < n && !(name[length] == '_' && is_upper(name[length + 1])))
		length++;
	for (size_t i = 0; i < sizeof overloads / sizeof *overloads; i++)
		if (ends_with(name, length, overloads[i]))
			return length - strlen(overloads[i]);
	return length;
}

/* MmBackward0: mm. LogSoftmaxBackward0: log_softmax. */
static void operator_put(char *to, size_t room, const char *node, size_t n)
{
	size_t at = 0;
	for (size_t i = 0; i < n && at + 2 < room; i++) {
		if (i > 0 && is_upper(node[i]) && !is_upper(node[i - 1]))
			to[at++] = '_';
		to[at++] = (char)tolower((unsigned char)node[i]);
	}
	to[at] = '\0';
}

static const char backward[] = "backward of ";

bool gm_fold_is_backward(const char *name)
{
	return strncmp(name, backward, sizeof backward - 1) == 0;
}

static const char *node_name(const char *node, size_t n, char *buf, size_t room)
{
	size_t length = n;
	while (length > 1 && isdigit((unsigned char)node[length - 1]))
		length--;
	length -= ends_with(node, length, "Backwards") ? 1 : 0;
	if (n == 6 && strncmp(node, "PyNode", n) == 0)
		*buf = '\0'; /* a function of Python, which has frames of its own */
	else if (!ends_with(node, length, "Backward"))
		snprintf(buf, room, "%.*s", (int)n, node);
	else {
		const size_t head = (size_t)snprintf(buf, room, "%s", backward);
		if (head < room)
			operator_put(buf + head, room - head, node, length - strlen("Backward"));
	}
	return buf;
}

const char *gm_fold_name(const char *function, const char *object, char *buf, size_t n)
{
	char whole[256];
	const char *name = function ? gm_frames_short_name(function, whole, sizeof whole) : NULL;
	const char *at, *file = file_name(object);
	size_t length;
	*buf = '\0';
	for (size_t i = 0; !name && i < sizeof libraries / sizeof *libraries; i++)
		if (pattern_matches(libraries[i], file))
			snprintf(buf, n, "%s", file);
	if (!name)
		return buf;
	if ((length = name_between(name, "at::_ops::", "::call", &at)) ||
	    (length = name_between(name, "at::_ops::", "::redispatch", &at)))
		snprintf(buf, n, "aten::%.*s", (int)operator_length(at, length), at);
	else if ((length = name_between(name, "torch::autograd::generated::", "::apply", &at)) ||
		 (length = name_between(name, "torch::autograd::", "::apply", &at)))
		return memchr(at, ':', length) ? buf : node_name(at, length, buf, n);
	return buf;
}
