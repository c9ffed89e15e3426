/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PTX text. A called function must be declared before, by ".func (...) NAME (...);". So a declared
 * name counts, unless a body of that name follows somewhere. Comments and strings are skipped;
 * there is no preprocessor (ptxas refuses one).
 */
#include "ptx.h"

#include <string.h>

#include "judge.h"

enum { NAME_MOST = 64 }; /* no allocator has a longer name */

struct scan {
	const char *at, *end;
	bool broken; /* a comment or a string without an end */
};

enum token { TOKEN_END, TOKEN_NAME, TOKEN_MARK };

/* ASCII only: the program may have set any locale. */
static bool char_is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool char_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool char_is_name(char c)
{
	char lower = (char)(c | 0x20);
	return (lower >= 'a' && lower <= 'z') || char_is_digit(c) || c == '_' || c == '$' ||
	       c == '%';
}

/* Skip to the end of `mark` (`n` bytes), which ends a comment or string. */
static void scan_skip_past(struct scan *scan, const char *mark, size_t n)
{
	const char *found = memmem(scan->at, (size_t)(scan->end - scan->at), mark, n);
	scan->broken |= !found;
	scan->at = found ? found + n : scan->end;
}

static void scan_skip_line(struct scan *scan)
{
	const char *found = memchr(scan->at, '\n', (size_t)(scan->end - scan->at));
	scan->at = found ? found + 1 : scan->end;
}

static bool scan_skip_comment(struct scan *scan)
{
	if (scan->end - scan->at < 2 || scan->at[0] != '/')
		return false;
	char second = scan->at[1];
	if (second != '/' && second != '*')
		return false;
	scan->at += 2;
	if (second == '/')
		scan_skip_line(scan);
	else
		scan_skip_past(scan, "*/", 2);
	return true;
}

/* The next name or mark; blanks, comments and strings are skipped. A directive is a name with its
 * dot. */
static enum token scan_next(struct scan *scan, const char **text, size_t *n)
{
	while (scan->at < scan->end) {
		const char *from = scan->at;
		if (char_is_blank(*from)) {
			scan->at++;
		} else if (*from == '"') {
			scan->at++;
			scan_skip_past(scan, "\"", 1);
		} else if (!scan_skip_comment(scan)) {
			scan->at++;
			if (!char_is_name(*from) && *from != '.') {
				*text = from;
				*n = 1;
				return TOKEN_MARK;
			}
			while (scan->at < scan->end && char_is_name(*scan->at))
				scan->at++;
			*text = from;
			*n = (size_t)(scan->at - from);
			return TOKEN_NAME;
		}
	}
	return TOKEN_END;
}

static bool token_is(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* Skip to the end of the bracket that was just opened. */
static void scan_skip_brackets(struct scan *scan)
{
	const char *text;
	size_t n;
	enum token token;
	unsigned depth = 1;
	while (depth > 0 && (token = scan_next(scan, &text, &n)) != TOKEN_END)
		if (token == TOKEN_MARK)
			depth += (*text == '(') - (*text == ')');
}

struct name {
	char text[NAME_MOST];
	size_t n; /* 0: no name, or a longer one */
};

/*
 * Read the text after ".func": attributes, return value, name, parameters, further attributes, then
 * a body or ";". True: a body.
 */
static bool scan_function(struct scan *scan, struct name *name)
{
	const char *text;
	size_t n;
	enum token token;
	name->n = 0;
	bool named = false;
	while ((token = scan_next(scan, &text, &n)) != TOKEN_END) {
		if (token == TOKEN_NAME && *text != '.' && !named) {
			named = true;
			name->n = n < NAME_MOST ? n : 0;
			memcpy(name->text, text, name->n);
		} else if (token == TOKEN_MARK && *text == '(') {
			scan_skip_brackets(scan);
		} else if (token == TOKEN_MARK && (*text == '{' || *text == ';')) {
			return *text == '{';
		}
	}
	return false;
}

/* ".target sm_90a, debug": the first name. */
static uint32_t scan_target(struct scan *scan)
{
	const char *text;
	size_t n;
	uint32_t number = 0;
	if (scan_next(scan, &text, &n) != TOKEN_NAME || n < 4 || memcmp(text, "sm_", 3) != 0)
		return 0;
	size_t i = 3;
	for (; i < n && char_is_digit(text[i]) && number < 1000; i++)
		number = number * 10 + (uint32_t)(text[i] - '0');
	uint32_t flags = i == n ? 0 : (text[i] == 'a' ? GM_IMAGE_EXACT : GM_IMAGE_FAMILY);
	return number ? number | flags | GM_IMAGE_VIRTUAL : 0;
}

/* The first byte from *i on that is not blank; 0: there is none. */
static char view_next(struct gm_view *view, uint64_t *i)
{
	const char *c;
	while ((c = gm_view_get(view, *i, 1)) && char_is_blank(*c))
		++*i;
	return c ? *c : 0;
}

/* "#line 1", as compilers write it, or "# 1". A script's "#!" is no PTX. */
bool gm_ptx_begins(struct gm_view *view)
{
	uint64_t i = 0;
	char c = view_next(view, &i);
	if (c != '#')
		return c == '.' || c == '/';
	i++;
	c = view_next(view, &i);
	const char *word = c == 'l' ? gm_view_get(view, i, 4) : NULL;
	return char_is_digit(c) || (word && memcmp(word, "line", 4) == 0);
}

/* A declared function with a body is not undefined. */
static void text_judge(struct scan *scan, struct gm_image_part *part,
		       struct gm_image_verdict *verdict)
{
	struct gm_image_verdict declared, defined;
	const char *text;
	size_t n;
	enum token token;
	bool version = false;
	gm_verdict_begin(&declared);
	gm_verdict_begin(&defined);
	while ((token = scan_next(scan, &text, &n)) != TOKEN_END) {
		if (token != TOKEN_NAME || *text != '.')
			continue;
		if (token_is(text, n, ".version")) {
			version = true;
		} else if (token_is(text, n, ".target")) {
			uint32_t arch = scan_target(scan);
			part->arch = part->arch ? part->arch : arch;
		} else if (token_is(text, n, ".func")) {
			struct name name;
			bool body = scan_function(scan, &name);
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

/* The text up to its first 0. False: its end cannot be read. */
static bool text_scan(struct gm_view *view, struct scan *scan)
{
	uint64_t length;
	if (!gm_view_text(view, &length) && view->open)
		return false;
	*scan = (struct scan){.at = (const char *)view->at, .end = (const char *)view->at + length};
	return true;
}

void gm_ptx_judge(struct gm_view *view, struct gm_image_part *part,
		  struct gm_image_verdict *verdict)
{
	struct scan scan;
	part->kind = GM_IMAGE_PTX;
	if (text_scan(view, &scan))
		text_judge(&scan, part, verdict);
	else
		gm_verdict_add(verdict, GM_IMAGE_WHY_UNREADABLE);
}

void gm_ptx_kernels(struct gm_view *view, gm_image_kernel *see, void *arg)
{
	struct scan scan;
	const char *text;
	size_t n;
	enum token token;
	if (!text_scan(view, &scan))
		return;
	while ((token = scan_next(&scan, &text, &n)) != TOKEN_END)
		if (token == TOKEN_NAME && token_is(text, n, ".entry") &&
		    scan_next(&scan, &text, &n) == TOKEN_NAME)
			see(arg, text, n);
}
