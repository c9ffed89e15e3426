/* SPDX-License-Identifier: BSD-3-Clause */
/* PTX is read by tokens: declarations of an allocator, and text that only resembles them. */
#include "image/image.h"

#include <stdlib.h>

#include "../tap.h"

#define HEAD ".version 8.5\n.target sm_90a, debug\n.address_size 64\n"
#define MALLOC ".extern .func (.param .b64 r) malloc (.param .b64 a)"

static const struct {
	const char *text;
	enum gm_image_answer answer;
	const char *name;
} rows[] = {
	{HEAD MALLOC ";", GM_IMAGE_YES, "declared"},
	{HEAD ".extern\t.func\n(.param .b64 r)\nmalloc(.param .b64 a)\n;", GM_IMAGE_YES,
	 "over lines"},
	{HEAD ".extern .func free(.param .b64 a);", GM_IMAGE_NO, "free alone"},
	{HEAD ".weak .func (.param .b64 r) malloc (.param .b64 a);", GM_IMAGE_YES, "weak"},
	{HEAD ".func (.param .b64 r) malloc (.param .b64 a);", GM_IMAGE_YES, "neither"},
	{HEAD ".extern .func (.param .b64 r) malloc (.param .b64 a) .noreturn ;", GM_IMAGE_YES,
	 "an attribute behind it"},
	{HEAD ".extern .func .attribute(.unified(1,2)) (.param .b64 r) malloc (.param .b64 a);",
	 GM_IMAGE_YES, "an attribute before it"},
	{HEAD MALLOC "/*;*/ ; //{", GM_IMAGE_YES, "comments between"},
	{HEAD "// " MALLOC ";\n", GM_IMAGE_NO, "in a comment to the end of the line"},
	{HEAD "/* " MALLOC ";\n*/", GM_IMAGE_NO, "in a comment over lines"},
	{HEAD "/* /* */ " MALLOC ";\n", GM_IMAGE_YES, "comments do not nest"},
	{HEAD "/**/" MALLOC ";\n", GM_IMAGE_YES, "a comment with nothing in it"},
	{HEAD "/*/" MALLOC ";*/", GM_IMAGE_NO, "a star does not end what it begins"},
	{HEAD ".file 1 \"" MALLOC ";\"\n", GM_IMAGE_NO, "in a string"},
	{HEAD ".file 1 \"//\"\n" MALLOC ";", GM_IMAGE_YES, "a comment in a string is none"},
	{HEAD ".file 1 \"a/*\"\n" MALLOC "; //*/\n", GM_IMAGE_YES, "nor one over lines"},
	{HEAD ".extern .func mymalloc(.param .b64 a);", GM_IMAGE_NO, "a name that ends so"},
	{HEAD ".extern .func malloc2(.param .b64 a);", GM_IMAGE_NO, "one that begins so"},
	{HEAD ".extern .func $malloc(.param .b64 a);", GM_IMAGE_NO, "with a dollar"},
	{HEAD ".extern .func %malloc(.param .b64 a);", GM_IMAGE_NO, "with a percent"},
	{HEAD ".global .b8 malloc[4];", GM_IMAGE_NO, "a variable"},
	{HEAD ".func f(.param .b64 malloc) { ret; }", GM_IMAGE_NO, "a parameter"},
	{HEAD ".func (.param .b64 malloc) f() { ret; }", GM_IMAGE_NO, "what is returned"},
	{HEAD ".visible .func (.param .b64 r) malloc(.param .b64 a) { ret; }", GM_IMAGE_NO,
	 "the program's own"},
	{HEAD ".func (.param .b64 r) malloc(.param .b64 a);\n"
	      ".func (.param .b64 r) malloc(.param .b64 a) { ret; }",
	 GM_IMAGE_NO, "its own, declared before"},
	{HEAD ".func (.param .b64 r) malloc(.param .b64 a) { ret; }\n"
	      ".extern .func (.param .b64 r) __cuda_syscall_aligned_malloc(.param .b64 a);",
	 GM_IMAGE_YES, "its own beside another's"},
	{HEAD ".extern .func malloc", GM_IMAGE_YES, "cut off in the declaration"},
	{HEAD ".extern .func (.param .b64 r", GM_IMAGE_NO, "cut off before the name"},
	{HEAD ".extern .func", GM_IMAGE_NO, "cut off before everything"},
	{HEAD ".extern .func () ;\n" MALLOC ";", GM_IMAGE_YES,
	 "a function without a name before it"},
	{HEAD MALLOC "; /*", GM_IMAGE_YES, "a yes before a comment without an end"},
	{HEAD "\"", GM_IMAGE_UNKNOWN, "a string without an end"},
	{HEAD "/* " MALLOC ";", GM_IMAGE_UNKNOWN, "a comment without an end"},
	{".target sm_90\n", GM_IMAGE_UNKNOWN, "no version: no PTX"},
	{"#line 1 \"a.cu\"\n" HEAD MALLOC ";", GM_IMAGE_YES, "behind a line of the preprocessor"},
	{"\n # 1 \"a.cu\"\n" HEAD, GM_IMAGE_NO, "the same without its word"},
	{"#!/bin/sh\n" HEAD, GM_IMAGE_UNKNOWN, "a script"},
	{HEAD ".visible .entry k() { .reg .pred %p<2>; @%p1 bra L; L: call.uni (x), malloc, (y); }",
	 GM_IMAGE_NO, "a call of what was never declared, which does not compile"},
	{HEAD ".extern .func "
	      "malloc_of_a_very_long_name_that_is_longer_than_any_name_of_an_allocator_can_be();",
	 GM_IMAGE_NO, "a long name"},
};

static void targets(void)
{
	static const struct {
		const char *target, *arch;
	} of[] = {{"sm_90a, debug", "compute_90a"},
		  {"sm_75", "compute_75"},
		  {"sm_120f", "compute_120f"},
		  {"compute", NULL},
		  {"sm_", NULL},
		  {"sm_0", NULL},
		  {"", NULL}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct gm_image_verdict verdict;
		char text[128], name[GM_IMAGE_ARCH_ROOM];
		snprintf(text, sizeof text, ".version 8.0\n.target %s", of[i].target);
		gm_image_allocates(text, strlen(text), 0, &verdict);
		TAP_STR(verdict.n_archs ? gm_image_arch_name(verdict.archs[0], name) : NULL,
			of[i].arch, "the target '%s' is read", of[i].target);
	}
}

int main(void)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct gm_image_verdict verdict;
		size_t n = strlen(rows[i].text);
		char *exact = malloc(n), *open = strdup(rows[i].text);
		memcpy(exact, rows[i].text, n);
		gm_image_allocates(exact, n, 0, &verdict);
		TAP_IS(verdict.answer, rows[i].answer, "%s", rows[i].name);
		gm_image_allocates(open, 0, 90, &verdict);
		TAP_IS(verdict.answer, rows[i].answer, "%s, its size not told", rows[i].name);
		free(exact);
		free(open);
	}
	targets();
	return tap_done();
}
