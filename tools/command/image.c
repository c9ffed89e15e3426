/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat image: device code of a file or of an archive's members, its kernels and its possible
 * calls of malloc. */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "image/image.h"
#include "tools/command/archive.h"
#include "tools/output/emit.h"
#include "tools/stack/child.h"

/* Room for the names of all symbols, with separators. */
enum { CALLS_ROOM = 512, ARCHS_ROOM = GM_IMAGE_ARCHS * (GM_IMAGE_ARCH_ROOM + 2) };

struct row {
	struct gm_image_part part;
	enum gm_image_answer answer;
	enum gm_image_why why;
	char arch[GM_IMAGE_ARCH_ROOM], *calls;
};

struct kernel {
	char *name;
	uint64_t parts; /* parts with this kernel */
};

struct found {
	GM_ARRAY(struct row) rows;
	GM_ARRAY(struct kernel *) kernels; /* in the order of the file */
	void *by_name;			   /* tree of tsearch, same kernels */
	bool lost;			   /* out of memory for a row */
	struct gm_image_verdict verdict;
};

static const char *const kinds[] = {"PTX", "cubin", "object", "LTO", "other"};
static const char *const packings[] = {"none", "LZ4", "zstd", "other"};

static char *calls_text(uint32_t symbols, char *buf, size_t n)
{
	size_t at = 0;
	*buf = '\0';
	for (unsigned i = 0; i < GM_IMAGE_SYMBOLS; i++)
		if (symbols >> i & 1)
			at += (size_t)snprintf(buf + at, n - at, "%s%s", at ? ", " : "",
					       gm_image_symbol_name((enum gm_image_symbol)i));
	return buf;
}

static char *archs_text(const struct gm_image_verdict *verdict, char *buf, size_t n)
{
	char name[GM_IMAGE_ARCH_ROOM];
	size_t at = 0;
	*buf = '\0';
	for (unsigned i = 0; i < verdict->n_archs; i++)
		at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? ", " : "",
				       gm_image_arch_name(verdict->archs[i], name));
	return buf;
}

static void part_keep(void *arg, const struct gm_image_part *part,
		      const struct gm_image_verdict *verdict)
{
	struct found *found = arg;
	char calls[CALLS_ROOM];
	struct row row = {.part = *part, .answer = verdict->answer, .why = verdict->why};
	if (part->arch)
		gm_image_arch_name(part->arch, row.arch);
	calls_text(verdict->symbols, calls, sizeof calls);
	row.calls = *calls ? strdup(calls) : NULL;
	found->lost |= (*calls && !row.calls) || !gm_array_push(&found->rows, row);
}

static int kernel_compare(const void *a, const void *b)
{
	return strcmp(((const struct kernel *)a)->name, ((const struct kernel *)b)->name);
}

static void kernel_free(struct kernel *kernel)
{
	if (kernel)
		free(kernel->name);
	free(kernel);
}

static void kernel_keep(void *arg, const char *name, size_t n)
{
	struct found *found = arg;
	struct kernel *kernel = calloc(1, sizeof *kernel), **place = NULL;
	if (kernel && (kernel->name = strndup(name, n)))
		place = tsearch(kernel, &found->by_name, kernel_compare);
	if (!place) {
		kernel_free(kernel);
		found->lost = true;
		return;
	}
	(*place)->parts++;
	if (*place != kernel)
		kernel_free(kernel);
	else
		found->lost |= !gm_array_push(&found->kernels, kernel);
}

static void found_free(struct found *found)
{
	for (size_t i = 0; i < found->rows.n; i++)
		free(found->rows.at[i].calls);
	gm_array_free(&found->rows);
	for (size_t i = 0; i < found->kernels.n; i++) {
		tdelete(found->kernels.at[i], &found->by_name, kernel_compare);
		kernel_free(found->kernels.at[i]);
	}
	gm_array_free(&found->kernels);
}

static void kernels_show(struct gm_emit *emit, const struct found *found)
{
	static const struct gm_column columns[] = {
		{"parts", "parts", 0},
		{"kernel", "kernel", GM_COLUMN_LEFT | GM_COLUMN_WRAP},
	};
	if (found->kernels.n > 0)
		gm_emit_break(emit);
	if (found->kernels.n == 0 && !emit->options->json)
		return;
	const char **names = calloc(found->kernels.n + 1, sizeof *names);
	char *text = NULL;
	for (size_t i = 0; names && i < found->kernels.n; i++)
		names[i] = found->kernels.at[i]->name;
	if (names && !emit->options->json)
		gm_child_demangle(names, found->kernels.n, &text);
	gm_emit_table(emit, "kernels", false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < found->kernels.n; i++)
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){
				    GM_COUNT(found->kernels.at[i]->parts),
				    GM_TEXT(names ? names[i] : found->kernels.at[i]->name)});
	gm_emit_table_end(emit);
	free(text);
	free(names);
}

static void rows_show(struct gm_emit *emit, const struct found *found)
{
	static const struct gm_column columns[] = {
		{"container", "container", 0},
		{"kind", "code", GM_COLUMN_LEFT},
		{"architecture", "for", GM_COLUMN_LEFT},
		{"compression", "packed", GM_COLUMN_LEFT},
		{"debug", "", GM_COLUMN_JSON_ONLY},
		{"stored", "stored", 0},
		{"size", "size", 0},
		{"malloc", "malloc", GM_COLUMN_LEFT},
		{"calls", "", GM_COLUMN_JSON_ONLY},
		{"why", "", GM_COLUMN_JSON_ONLY},
		{NULL, "calls", GM_COLUMN_LEFT | GM_COLUMN_WRAP | GM_COLUMN_TEXT_ONLY},
	};
	gm_emit_table(emit, "parts", false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < found->rows.n; i++) {
		const struct row *row = &found->rows.at[i];
		const struct gm_image_part *part = &row->part;
		const char *calls = row->calls ? row->calls : "";
		const char *why = gm_image_why_text(row->why);
		bool known = row->answer != GM_IMAGE_UNKNOWN;
		struct gm_value container = part->container ? GM_COUNT(part->container) : GM_NONE;
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){
				    container, GM_TEXT(kinds[part->kind]),
				    *row->arch ? GM_TEXT(row->arch) : GM_NONE,
				    GM_TEXT(packings[part->packing]), GM_BOOL(part->debug),
				    GM_BYTES(part->stored), GM_BYTES(part->size),
				    GM_TEXT(gm_image_answer_name(row->answer)), GM_TEXT(calls),
				    GM_TEXT(why),
				    known ? (*calls ? GM_TEXT(calls) : GM_NONE) : GM_TEXT(why)});
	}
	gm_emit_table_end(emit);
}

static void file_show(struct gm_emit *emit, const char *path, const struct found *found)
{
	const struct gm_image_verdict *verdict = &found->verdict;
	const char *answer = gm_image_answer_name(verdict->answer);
	const char *why = gm_image_why_text(verdict->why);
	char calls[CALLS_ROOM], archs[ARCHS_ROOM];
	calls_text(verdict->symbols, calls, sizeof calls);
	archs_text(verdict, archs, sizeof archs);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "file", GM_TEXT(path));
	gm_emit_value(emit, "malloc", GM_TEXT(answer));
	gm_emit_value(emit, "why", GM_TEXT(why));
	gm_emit_value(emit, "calls", GM_TEXT(calls));
	gm_emit_value(emit, "architectures", GM_TEXT(archs));
	gm_emit_line(emit, "file", "%s", gm_tool_name(path));
	gm_emit_line(emit, "malloc", "%s: %s%s%s", answer, why, *calls ? ": " : "", calls);
	if (*archs)
		gm_emit_line(emit, "code for", "%s", archs);
	gm_emit_break(emit);
	rows_show(emit, found);
	kernels_show(emit, found);
	gm_emit_end(emit);
}

/* The output of the command. The first file or member shown opens it. */
struct output {
	struct gm_emit emit;
	const struct gm_options *options;
	unsigned shown;
	int status;
};

static void output_add(struct output *output, const char *path, const struct found *found)
{
	if (output->shown++ > 0) {
		gm_emit_break(&output->emit);
	} else {
		gm_emit_open(&output->emit, stdout, output->options);
		gm_emit_list(&output->emit, "files");
	}
	file_show(&output->emit, path, found);
}

static void output_refuse(struct output *output, const char *path, const char *why)
{
	gm_tool_error("%s: %s", gm_tool_name(path), why);
	output->status = GM_EXIT_FAILED;
}

/* Show an image. False: no image, or an image without code; *why has the reason. */
static bool image_report(struct output *output, const char *path, const void *bytes, size_t size,
			 enum gm_image_why *why)
{
	struct found found = {.lost = false};
	gm_image_walk(bytes, size, part_keep, kernel_keep, &found, &found.verdict);
	const bool any = found.rows.n > 0;
	*why = found.verdict.why;
	if (found.lost)
		output_refuse(output, path, "out of memory");
	else if (any)
		output_add(output, path, &found);
	if (any && *why == GM_IMAGE_WHY_DAMAGED)
		output->status = GM_EXIT_FAILED;
	found_free(&found);
	return any;
}

/* Members without device code are skipped; an archive without any device code is refused. */
static void archive_report(struct output *output, const char *path, const void *bytes, size_t size)
{
	struct gm_archive archive;
	struct gm_archive_member member;
	enum gm_image_why why;
	const char *wrong = gm_archive_open(&archive, bytes, size);
	unsigned shown = 0;
	while (!wrong && gm_archive_next(&archive, &member, &wrong)) {
		char *name = NULL;
		if (asprintf(&name, "%s(%.*s)", path, (int)member.name_length, member.name) < 0)
			name = NULL;
		if (member.size > 0 &&
		    image_report(output, name ? name : path, member.at, member.size, &why))
			shown++;
		else if (member.size > 0 && why == GM_IMAGE_WHY_DAMAGED)
			output_refuse(output, name ? name : path, gm_image_why_text(why));
		free(name);
	}
	if (wrong)
		output_refuse(output, path, wrong);
	else if (!shown && output->status == GM_EXIT_OK)
		output_refuse(output, path, "an archive, and no member has device code");
}

/* Read a whole open file. NULL: *why has the reason. */
static void *file_read(int fd, size_t *size, const char **why)
{
	struct stat about;
	*why = NULL;
	if (fstat(fd, &about) != 0)
		*why = strerror(errno);
	else if (!S_ISREG(about.st_mode))
		*why = S_ISDIR(about.st_mode) ? strerror(EISDIR) : "not a regular file";
	else if (about.st_size == 0)
		*why = "empty";
	if (*why)
		return NULL;
	*size = (size_t)about.st_size;
	void *bytes = gm_image_read(fd, *size);
	if (!bytes)
		*why = errno ? strerror(errno) : "was cut while it was read";
	return bytes;
}

/* Show one file, or its error on stderr. */
static void file_report(struct output *output, const char *path)
{
	const char *wrong = NULL;
	enum gm_image_why why;
	size_t size;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		output_refuse(output, path, errno == ENOENT ? "no such file" : strerror(errno));
		return;
	}
	void *bytes = file_read(fd, &size, &wrong);
	close(fd);
	if (!bytes)
		output_refuse(output, path, wrong);
	else if (gm_archive_begins(bytes, size))
		archive_report(output, path, bytes, size);
	else if (!image_report(output, path, bytes, size, &why))
		output_refuse(output, path, gm_image_why_text(why));
	free(bytes);
}

int gm_image_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	struct output output = {.options = &options};
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (first == argc)
		return gm_tool_usage(self->name, "%s: expected a FILE", self->name);
	for (int i = first; i < argc; i++)
		file_report(&output, argv[i]);
	if (output.shown == 0)
		return output.status;
	gm_emit_end(&output.emit);
	return output.status | gm_emit_close(&output.emit);
}
