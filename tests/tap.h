/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test Anything Protocol for C tests: TAP_OK(expr, name...), TAP_IS(a, b, name...) for integers,
 * TAP_STR for strings, TAP_PTR for pointers, TAP_SKIP_ALL(why); `return tap_done();` at the end of
 * main. A failed check prints the expression with its file and line, and what was expected and
 * what came: a is what came.
 */
#ifndef GM_TESTS_TAP_H
#define GM_TESTS_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned tap_run, tap_failed;

__attribute__((format(printf, 2, 3))) static inline bool tap_line(bool ok, const char *format, ...)
{
	va_list args;
	tap_run++;
	tap_failed += !ok;
	printf("%sok %u - ", ok ? "" : "not ", tap_run);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	return ok;
}

#define TAP_OK(x, ...)                                                                         \
	(tap_line((x), __VA_ARGS__)                                                            \
		 ? true                                                                        \
		 : (printf("# %s:%d: %s: expected true, got false\n", __FILE__, __LINE__, #x), \
		    false))
#define TAP_IS(a, b, ...) tap_is((intmax_t)(a), (intmax_t)(b), #a, __FILE__, __LINE__, __VA_ARGS__)
#define TAP_STR(a, b, ...) tap_str((a), (b), #a, __FILE__, __LINE__, __VA_ARGS__)
#define TAP_PTR(a, b, ...) tap_ptr((a), (b), #a, __FILE__, __LINE__, __VA_ARGS__)

/* Begin a failed check's line of what was expected. */
static inline void tap_where(const char *what, const char *file, int line)
{
	printf("# %s:%d: %s: expected ", file, line, what);
}

__attribute__((format(printf, 6, 7))) static inline bool tap_is(intmax_t got, intmax_t want,
								const char *what, const char *file,
								int line, const char *format, ...)
{
	char name[512];
	va_list args;
	va_start(args, format);
	vsnprintf(name, sizeof name, format, args);
	va_end(args);
	bool ok = tap_line(got == want, "%s", name);
	if (!ok) {
		tap_where(what, file, line);
		printf("%jd (0x%jx), got %jd (0x%jx)\n", want, want, got, got);
	}
	return ok;
}

__attribute__((format(printf, 6, 7))) static inline bool tap_str(const char *got, const char *want,
								 const char *what, const char *file,
								 int line, const char *format, ...)
{
	char name[512];
	va_list args;
	va_start(args, format);
	vsnprintf(name, sizeof name, format, args);
	va_end(args);
	bool ok = tap_line(got && want ? strcmp(got, want) == 0 : got == want, "%s", name);
	if (!ok) {
		tap_where(what, file, line);
		printf(want ? "\"%s\"" : "%s", want ? want : "NULL");
		printf(got ? ", got \"%s\"\n" : ", got %s\n", got ? got : "NULL");
	}
	return ok;
}

__attribute__((format(printf, 6, 7))) static inline bool tap_ptr(const volatile void *got,
								 const volatile void *want,
								 const char *what, const char *file,
								 int line, const char *format, ...)
{
	char name[512];
	va_list args;
	va_start(args, format);
	vsnprintf(name, sizeof name, format, args);
	va_end(args);
	bool ok = tap_line(got == want, "%s", name);
	if (!ok) {
		tap_where(what, file, line);
		printf("%p, got %p\n", (const void *)want, (const void *)got);
	}
	return ok;
}

#define TAP_SKIP_ALL(...)               \
	do {                            \
		printf("1..0 # SKIP "); \
		printf(__VA_ARGS__);    \
		putchar('\n');          \
		exit(0);                \
	} while (0)

static inline int tap_done(void)
{
	printf("1..%u\n", tap_run);
	return tap_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
