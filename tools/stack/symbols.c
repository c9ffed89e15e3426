/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stack/symbols.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/stack/child.h"
#include "tools/tool.h"

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

void gm_symbols_want(struct gm_symbols *symbols, const struct gm_frame *frame)
{
	struct gm_symbols_place place = {.object = frame->object, .place = frame->place};
	if (frame->object && frame->object < GM_FRAME_BEFORE &&
	    !gm_array_push(&symbols->places, place))
		memory_exhausted();
}

static int place_compare(const void *a, const void *b)
{
	const struct gm_symbols_place *x = a, *y = b;
	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

static void places_sort(struct gm_symbols *symbols)
{
	size_t to = 0;
	if (symbols->places.n)
		qsort(symbols->places.at, symbols->places.n, sizeof *symbols->places.at,
		      place_compare);
	for (size_t i = 0; i < symbols->places.n; i++)
		if (!to || place_compare(&symbols->places.at[to - 1], &symbols->places.at[i]))
			symbols->places.at[to++] = symbols->places.at[i];
	symbols->places.n = to;
}

/* --- the file of an object --- */

/* Find the file with the symbols. Returns NULL, or the reason for failure. */
static const char *file_find(const struct gm_symbols *symbols, const struct gm_log_object *object,
			     char *path, size_t n)
{
	uint8_t id[GM_BUILD_ID_MOST];
	const char *name = object ? gm_log_read_string(symbols->file, object->path) : NULL;
	if (!name)
		return "is not named in the log";
	bool here = *name == '/' && access(name, R_OK) == 0;
	size_t length = here ? gm_build_id_read(name, id, sizeof id) : 0;
	if (here && length == object->id_length && !memcmp(id, object->id, length)) {
		snprintf(path, n, "%s", name);
		return NULL;
	}
	if (object->id_length >= 2) {
		int at = snprintf(path, n, "/usr/lib/debug/.build-id/%02x/", object->id[0]);
		for (uint32_t i = 1; i < object->id_length; i++)
			at += snprintf(path + at, n - (size_t)at, "%02x", object->id[i]);
		snprintf(path + at, n - (size_t)at, ".debug");
		if (access(path, R_OK) == 0)
			return NULL;
	}
	return here ? "is not the build that ran" : "is not here";
}

/* --- the request --- */

enum { ANSWER_MOST = 1 << 30, SECONDS_MOST = 3600 }; /* debug information may be long */

static char *places_ask(const char *path, const struct gm_symbols_place *places, size_t n)
{
	static const char *const tools[] = {"addr2line", "llvm-addr2line", "eu-addr2line"};
	const char *const words[GM_CHILD_WORDS] = {"-a", "-i", "-f", "-C", "-e", path};
	enum { LINE = 20 };
	char *input = malloc(n * LINE + 1), *answer;
	if (!input)
		memory_exhausted();
	*input = '\0';
	for (size_t i = 0, at = 0; i < n; i++)
		at += (size_t)snprintf(input + at, LINE, "0x%" PRIx64 "\n", places[i].place);
	answer = gm_child_ask(tools, sizeof tools / sizeof *tools, words, input, ANSWER_MOST,
			      SECONDS_MOST);
	free(input);
	return answer;
}

/* --- the reply --- */

/* "FILE:LINE", optionally with " (discriminator 3)" behind it; "??:0" and "??:?": unknown. */
static void place_parse(char *text, struct gm_symbol *symbol)
{
	char *end = strstr(text, " (discriminator");
	if (end)
		*end = '\0';
	char *colon = strrchr(text, ':');
	if (!colon || colon == text || !strncmp(text, "??", 2))
		return;
	*colon = '\0';
	symbol->file = text;
	symbol->line = (unsigned)strtoul(colon + 1, NULL, 10);
}

/* The reply has a line "0xADDRESS" for each address, then name and place of each function. */
static void answer_parse(struct gm_symbols *symbols, char *text, struct gm_symbols_place *places,
			 size_t n)
{
	struct gm_symbols_place *place = NULL;
	char *name = NULL;
	for (char *line; (line = strsep(&text, "\n")) && (*line || text);) {
		if (!name && !strncmp(line, "0x", 2)) {
			place = place ? place + 1 : places;
			if (place == places + n)
				return;
			place->first = symbols->found.n;
		} else if (!name) {
			name = line;
		} else if (place) {
			struct gm_symbol symbol = {.function = strcmp(name, "??") ? name : NULL};
			place_parse(line, &symbol);
			name = NULL;
			if (!symbol.file && (!symbol.function || !place->covered))
				continue;
			if (!gm_array_push(&symbols->found, symbol))
				memory_exhausted();
			place->n++;
		}
	}
}

/* pre: the places [from, to) belong to one object. */
static void object_resolve(struct gm_symbols *symbols, size_t from, size_t to)
{
	char path[PATH_MAX];
	struct gm_symbols_place *places = &symbols->places.at[from];
	struct gm_symbols_object object = {.number = places->object};
	object.why = file_find(symbols, gm_log_read_object(symbols->file, object.number), path,
			       sizeof path);
	char *text = object.why ? NULL : places_ask(path, places, to - from);
	if (!object.why && !text)
		object.why = "was not read: there is no addr2line";
	if (text) {
		gm_symbols_cover(path, places, to - from);
		answer_parse(symbols, text, places, to - from);
	}
	if (!gm_array_push(&symbols->texts, text) || !gm_array_push(&symbols->objects, object))
		memory_exhausted();
}

void gm_symbols_resolve(struct gm_symbols *symbols)
{
	places_sort(symbols);
	for (size_t from = 0, to; from < symbols->places.n; from = to) {
		for (to = from + 1;
		     to < symbols->places.n &&
		     symbols->places.at[to].object == symbols->places.at[from].object;)
			to++;
		object_resolve(symbols, from, to);
	}
}

const struct gm_symbol *gm_symbols_at(const struct gm_symbols *symbols,
				      const struct gm_frame *frame, size_t *n)
{
	const struct gm_symbols_place key = {.object = frame->object, .place = frame->place};
	const struct gm_symbols_place *place =
		symbols->places.n ? bsearch(&key, symbols->places.at, symbols->places.n, sizeof key,
					    place_compare)
				  : NULL;
	*n = place ? place->n : 0;
	return *n ? &symbols->found.at[place->first] : NULL;
}

void gm_symbols_free(struct gm_symbols *symbols)
{
	for (size_t i = 0; i < symbols->texts.n; i++)
		free(symbols->texts.at[i]);
	gm_array_free(&symbols->texts);
	gm_array_free(&symbols->places);
	gm_array_free(&symbols->found);
	gm_array_free(&symbols->objects);
}
