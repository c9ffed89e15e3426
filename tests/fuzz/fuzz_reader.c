/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of coordinates, for programs of programs/. Byte 0 is the format; the text follows. */
#include "fuzz.h"
#include "programs/common/coordinates.h"

static const char *const names[] = {"input.mtx", "input.gr", "input.graph"};

static bool parse(const char *name, const void *text, size_t size, struct pr_coordinates *out,
		  char why[256])
{
	FILE *stream = fmemopen((void *)text, size, "r");
	FUZZ_CHECK(stream);
	memset(why, '?', 256);
	bool done = pr_reader_parse(stream, name, out, why);
	fclose(stream);
	return done;
}

/* One line, with the name and the number of a line of the file. */
static void message_check(const char *name, const char why[256], const uint8_t *text, size_t size)
{
	char line[64];
	uint64_t lines = 1, number;
	FUZZ_CHECK(memchr(why, '\0', 256) && !strpbrk(why, "\n\r"));
	snprintf(line, sizeof line, "%s: line ", name);
	FUZZ_CHECK(strncmp(why, line, strlen(line)) == 0);
	number = strtoull(why + strlen(line), NULL, 10);
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	FUZZ_CHECK(number >= 1 && number <= lines);
	FUZZ_CHECK(strlen(strrchr(why, ':')) > 2);
}

static void rows_check(const struct pr_rows *r)
{
	FUZZ_CHECK(r->start[0] == 0);
	for (uint32_t v = 0; v < r->rows; v++) {
		FUZZ_CHECK(r->start[v] <= r->start[v + 1]);
		for (uint32_t i = r->start[v]; i < r->start[v + 1]; i++) {
			FUZZ_CHECK(r->column[i] < r->rows);
			FUZZ_CHECK(i == r->start[v] || r->column[i - 1] < r->column[i]);
		}
	}
}

/* Written as MatrixMarket and read again, the rows are the same. */
static void again_check(const struct pr_rows *r)
{
	struct pr_coordinates c;
	struct pr_rows again;
	char why[256], *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	FUZZ_CHECK(out);
	fprintf(out, "%%%%matrixmarket MATRIX Coordinate pattern general\n%u %u %u\n", r->rows,
		r->rows, r->start[r->rows]);
	for (uint32_t v = 0; v < r->rows; v++)
		for (uint32_t i = r->start[v]; i < r->start[v + 1]; i++)
			fprintf(out, "%u\t%u\r\n", v + 1, r->column[i] + 1);
	fclose(out);
	FUZZ_CHECK(parse(names[0], text, size, &c, why) && pr_rows_make(&c, &again, why));
	FUZZ_CHECK(again.rows == r->rows && again.start[r->rows] == r->start[r->rows]);
	FUZZ_CHECK(memcmp(again.column, r->column, r->start[r->rows] * sizeof *r->column) == 0);
	FUZZ_CHECK(memcmp(again.start, r->start, r->rows * sizeof *r->start) == 0);
	pr_coordinates_free(&c);
	pr_rows_free(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pr_coordinates c;
	struct pr_rows rows;
	char why[256];
	if (size < 2)
		return 0;
	const char *name = names[data[0] % 3];
	FUZZ_CHECK(pr_reader_knows(name));
	if (!parse(name, data + 1, size - 1, &c, why)) {
		FUZZ_CHECK(!c.row && !c.column);
		message_check(name, why, data + 1, size - 1);
		return 0;
	}
	for (uint64_t i = 0; i < c.entries; i++)
		FUZZ_CHECK(c.row[i] < c.rows && c.column[i] < c.rows);
	/* A head alone can have many rows. */
	if (c.rows <= 1u << 16) {
		FUZZ_CHECK(pr_rows_make(&c, &rows, why));
		FUZZ_CHECK(rows.rows == c.rows && rows.start[rows.rows] <= c.entries);
		rows_check(&rows);
		again_check(&rows);
		pr_rows_free(&rows);
	}
	pr_coordinates_free(&c);
	return 0;
}
