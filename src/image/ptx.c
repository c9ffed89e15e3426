/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PTX text. What is called must be declared before, by ".func (...) NAME (...);": so a declared
 * name counts, unless a body follows it, somewhere. Comments and strings are skipped; there is no
 * preprocessor (ptxas refuses one).
 */
#include <ctype.h>
#include <string.h>

#include "judge.h"

enum { NAME_MOST = 64 }; /* longer ones are no allocators' */

struct scan {
	const char *at, *end;
	bool broken; /* a comment or a string that does not end */
};

enum token { TOKEN_END, TOKEN_NAME, TOKEN_MARK };

static bool in_name(unsigned char c)
{
	return isalnum(c) || c == '_' || c == '$' || c == '%';
}

/* Behind the `n` bytes of `mark`, which a comment or string ends with. */
static void skip_to(struct scan *scan, const char *mark, size_t n)
{
	const char *found = memmem(scan->at, (size_t)(scan->end - scan->at), mark, n);
	scan->broken |= !found;
	scan->at = found ? found + n : scan->end;
}

static void skip_line(struct scan *scan)
{
	const char *found = memchr(scan->at, '\n', (size_t)(scan->end - scan->at));
	scan->at = found ? found + 1 : scan->end;
}

static bool skip_comment(struct scan *scan)
{
	if (scan->end - scan->at < 2 || scan->at[0] != '/')
		return false;
	char second = scan->at[1];
	if (second != '/' && second != '*')
		return false;
	scan->at += 2;
	if (second == '/')
		skip_line(scan);
	else
		skip_to(scan, "*/", 2);
	return true;
}

/* The next name or mark, blanks, comments and strings skipped. A directive is a name with its dot.
 */
static enum token next(struct scan *scan, const char **text, size_t *n)
{
	while (scan->at < scan->end) {
		const char *from = scan->at;
		if (isspace((unsigned char)*from)) {
			scan->at++;
		} else if (*from == '"') {
			scan->at++;
			skip_to(scan, "\"", 1);
		} else if (!skip_comment(scan)) {
			scan->at++;
			if (!in_name((unsigned char)*from) && *from != '.') {
				*text = from;
				*n = 1;
				return TOKEN_MARK;
			}
			while (scan->at < scan->end && in_name((unsigned char)*scan->at))
				scan->at++;
			*text = from;
			*n = (size_t)(scan->at - from);
			return TOKEN_NAME;
		}
	}
	return TOKEN_END;
}

static bool is(const char *text, size_t n, const char *what)
{
	return n == strlen(what) && memcmp(text, what, n) == 0;
}

/* Behind the closing bracket of one that was just read. */
static void skip_brackets(struct scan *scan)
{
	const char *text;
	size_t n;
	enum token token;
	unsigned depth = 1;
	while (depth > 0 && (token = next(scan, &text, &n)) != TOKEN_END)
		if (token == TOKEN_MARK)
			depth += (*text == '(') - (*text == ')');
}

struct name {
	char text[NAME_MOST];
	size_t n; /* 0: there is none, or a longer one */
};

/*
 * What follows ".func": attributes, what it returns, its name, its parameters and further
 * attributes, then a body or ";". True: a body.
 */
static bool read_function(struct scan *scan, struct name *name)
{
	const char *text;
	size_t n;
	enum token token;
	name->n = 0;
	bool named = false;
	while ((token = next(scan, &text, &n)) != TOKEN_END) {
		if (token == TOKEN_NAME && *text != '.' && !named) {
			named = true;
			name->n = n < NAME_MOST ? n : 0;
			memcpy(name->text, text, name->n);
		} else if (token == TOKEN_MARK && *text == '(') {
			skip_brackets(scan);
		} else if (token == TOKEN_MARK && (*text == '{' || *text == ';')) {
			return *text == '{';
		}
	}
	return false;
}

/* ".target sm_90a, debug": the first name there. */
static uint32_t read_target(struct scan *scan)
{
	const char *text;
	size_t n;
	uint32_t number = 0;
	if (next(scan, &text, &n) != TOKEN_NAME || n < 4 || memcmp(text, "sm_", 3) != 0)
		return 0;
	size_t i = 3;
	for (; i < n && isdigit((unsigned char)text[i]) && number < 1000; i++)
		number = number * 10 + (uint32_t)(text[i] - '0');
	uint32_t flags = i == n ? 0 : (text[i] == 'a' ? GM_IMAGE_EXACT : GM_IMAGE_FAMILY);
	return number ? number | flags | GM_IMAGE_VIRTUAL : 0;
}

bool gm_ptx_begins(struct gm_view *view)
{
	for (uint64_t i = 0;; i++) {
		const unsigned char *c = gm_view_get(view, i, 1);
		if (!c || !isspace(*c))
			return c && (*c == '.' || *c == '/');
	}
}

/* Whom a body was seen for is not undefined. */
static void judge_text(struct scan *scan, struct gm_image_part *part,
		       struct gm_image_verdict *verdict)
{
	struct gm_image_verdict declared, defined;
	const char *text;
	size_t n;
	enum token token;
	bool version = false;
	gm_verdict_begin(&declared);
	gm_verdict_begin(&defined);
	while ((token = next(scan, &text, &n)) != TOKEN_END) {
		if (token != TOKEN_NAME || *text != '.')
			continue;
		if (is(text, n, ".version")) {
			version = true;
		} else if (is(text, n, ".target")) {
			uint32_t arch = read_target(scan);
			part->arch = part->arch ? part->arch : arch;
		} else if (is(text, n, ".func")) {
			struct name name;
			bool body = read_function(scan, &name);
			gm_verdict_symbol(body ? &defined : &declared, name.text, name.n);
		}
	}
	for (unsigned i = 0; i < GM_IMAGE_SYMBOLS; i++)
		if ((declared.symbols & ~defined.symbols) >> i & 1) {
			const char *name = gm_image_symbol_name((enum gm_image_symbol)i);
			gm_verdict_symbol(verdict, name, strlen(name));
		}
	if (scan->broken)
		gm_verdict_add(verdict, GM_IMAGE_WHY_DAMAGED);
	else if (!version)
		gm_verdict_add(verdict, GM_IMAGE_WHY_FORMAT);
}

void gm_ptx_judge(struct gm_view *view, struct gm_image_part *part,
		  struct gm_image_verdict *verdict)
{
	uint64_t length;
	part->kind = GM_IMAGE_PTX;
	if (!gm_view_text(view, &length) && view->open) {
		gm_verdict_add(verdict, GM_IMAGE_WHY_UNREADABLE);
		return;
	}
	struct scan scan = {.at = (const char *)view->at, .end = (const char *)view->at + length};
	judge_text(&scan, part, verdict);
}
