/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stack/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/tool.h"

extern char **environ;

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

void gm_symbols_want(struct gm_symbols *symbols, const struct gm_frame *frame)
{
	struct gm_symbols_place place = {.object = frame->object, .place = frame->place};
	if (frame->object && frame->object != GM_FRAME_PYTHON &&
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

/* The file that has the symbols. Returns NULL, or why there is none. */
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

/* --- the child --- */

/* A file without a name that holds the addresses, one a line. -1: none. */
static int addresses_write(const struct gm_symbols_place *places, size_t n)
{
	int fd = memfd_create("addresses", MFD_CLOEXEC);
	FILE *file = fd >= 0 ? fdopen(dup(fd), "w") : NULL;
	for (size_t i = 0; file && i < n; i++)
		fprintf(file, "0x%" PRIx64 "\n", places[i].place);
	bool ok = file && fclose(file) == 0;
	if (fd >= 0 && (!ok || lseek(fd, 0, SEEK_SET) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static pid_t child_start(const char *path, int in, int out)
{
	static const char *const tools[] = {"addr2line", "llvm-addr2line", "eu-addr2line"};
	posix_spawn_file_actions_t actions;
	pid_t child = -1;
	int error = ENOENT;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	for (size_t i = 0; error && i < sizeof tools / sizeof *tools; i++) {
		char *const words[] = {(char *)tools[i], "-a", "-i", "-f", "-C", "-e",
				       (char *)path,	 NULL};
		lseek(in, 0, SEEK_SET);
		error = posix_spawnp(&child, tools[i], &actions, NULL, words, environ);
	}
	posix_spawn_file_actions_destroy(&actions);
	return error ? -1 : child;
}

/* All that a child writes, ended by a 0; the caller frees. NULL: it cannot be run. */
static char *child_run(const char *path, const struct gm_symbols_place *places, size_t n)
{
	GM_ARRAY(char) text = {0};
	int ends[2], in = addresses_write(places, n);
	if (in < 0)
		return NULL;
	if (pipe2(ends, O_CLOEXEC)) {
		close(in);
		return NULL;
	}
	pid_t child = child_start(path, in, ends[1]);
	close(in);
	close(ends[1]);
	for (ssize_t got = 1; child > 0 && got > 0;) {
		if (!gm_array_reserve(&text, text.n + 65536))
			memory_exhausted();
		got = read(ends[0], text.at + text.n, 65535);
		text.n += got > 0 ? (size_t)got : 0;
		got = got < 0 && errno == EINTR ? 1 : got;
	}
	close(ends[0]);
	if (child <= 0)
		return NULL;
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	text.at[text.n] = '\0';
	return text.at;
}

/* --- its answer --- */

/* "FILE:LINE", perhaps with " (discriminator 3)" behind it; "??:0" and "??:?": not known. */
static void place_parse(char *text, struct gm_symbol *symbol)
{
	char *end = strstr(text, " (discriminator");
	if (end)
		*end = '\0';
	char *colon = strrchr(text, ':');
	if (!colon || !strncmp(text, "??", 2))
		return;
	*colon = '\0';
	symbol->file = text;
	symbol->line = (unsigned)strtoul(colon + 1, NULL, 10);
}

/* For each address a line "0xADDRESS", then for each function two lines, its name and its place. */
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
			if (!symbol.function && !symbol.file)
				continue;
			if (!gm_array_push(&symbols->found, symbol))
				memory_exhausted();
			place->n++;
		}
	}
}

/* The places [from, to) are those of one object. */
static void object_resolve(struct gm_symbols *symbols, size_t from, size_t to)
{
	char path[PATH_MAX];
	struct gm_symbols_place *places = &symbols->places.at[from];
	struct gm_symbols_object object = {.number = places->object};
	object.why = file_find(symbols, gm_log_read_object(symbols->file, object.number), path,
			       sizeof path);
	char *text = object.why ? NULL : child_run(path, places, to - from);
	if (!object.why && !text)
		object.why = "was not read: there is no addr2line";
	if (text)
		answer_parse(symbols, text, places, to - from);
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
