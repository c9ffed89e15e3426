/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat image: the device code of a file, and whether it may call malloc. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "emit.h"
#include "image/image.h"

/* Room for the names of all symbols, with separators. */
enum { CALLS_ROOM = 512, ARCHS_ROOM = GM_IMAGE_ARCHS * (GM_IMAGE_ARCH_ROOM + 2) };

struct row {
	struct gm_image_part part;
	enum gm_image_answer answer;
	enum gm_image_why why;
	char arch[GM_IMAGE_ARCH_ROOM], *calls;
};

struct found {
	GM_ARRAY(struct row) rows;
	bool lost; /* out of memory for a row */
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
	gm_emit_end(emit);
}

static void output_begin(struct gm_emit *emit, const struct gm_options *options)
{
	gm_emit_open(emit, stdout, options);
	gm_emit_list(emit, "files");
}

/* Walk through the image of an open file. NULL: done; else the reason why not. */
static const char *file_walk(int fd, struct found *found)
{
	struct stat about;
	if (fstat(fd, &about) != 0)
		return strerror(errno);
	if (!S_ISREG(about.st_mode))
		return S_ISDIR(about.st_mode) ? strerror(EISDIR) : "not a regular file";
	if (about.st_size == 0)
		return "empty";
	size_t size = (size_t)about.st_size;
	void *bytes = gm_image_read(fd, size);
	if (!bytes)
		return errno ? strerror(errno) : "was cut while it was read";
	gm_image_walk(bytes, size, part_keep, found, &found->verdict);
	free(bytes);
	if (found->lost)
		return "out of memory";
	return found->rows.n ? NULL : gm_image_why_text(found->verdict.why);
}

/* Show one file, or its error on stderr. The output begins with the first file shown; *n counts
 * them. */
static int file_report(struct gm_emit *emit, const struct gm_options *options, const char *path,
		       unsigned *n)
{
	struct found found = {.lost = false};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *wrong = fd < 0 ? (errno == ENOENT ? "no such file" : strerror(errno))
				   : file_walk(fd, &found);
	if (wrong) {
		gm_tool_error("%s: %s", gm_tool_name(path), wrong);
	} else {
		if ((*n)++ > 0)
			gm_emit_break(emit);
		else
			output_begin(emit, options);
		file_show(emit, path, &found);
	}
	for (size_t i = 0; i < found.rows.n; i++)
		free(found.rows.at[i].calls);
	gm_array_free(&found.rows);
	if (fd >= 0)
		close(fd);
	return wrong || found.verdict.why == GM_IMAGE_WHY_DAMAGED ? GM_EXIT_FAILED : GM_EXIT_OK;
}

int gm_image_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	struct gm_emit emit;
	unsigned n = 0;
	int first = gm_options_parse(&options, self, argc, argv), status = GM_EXIT_OK;
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (first == argc)
		return gm_tool_usage(self->name, "%s: expected a FILE", self->name);
	for (int i = first; i < argc; i++)
		status |= file_report(&emit, &options, argv[i], &n);
	if (n == 0)
		return status;
	gm_emit_end(&emit);
	return status | gm_emit_close(&emit);
}
