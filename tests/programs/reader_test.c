/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of programs/common/reader.c: what it accepts, and the line that names what is wrong.
 */
#include <unistd.h>

#include "../tap.h"
#include "programs/common/coordinates.h"

#define HEAD "%%MatrixMarket matrix coordinate "

/* `said`: behind the file's name; NULL: it is read, and has these rows. */
static const struct {
	const char *name, *text, *said, *rows;
} cases[] = {
	{"a.mtx", HEAD "pattern general\n2 2 2\n1 2\n2 1\n", NULL, "1|0"},
	{"a.MTX", "%%MATRIXMARKET Matrix Coordinate Real GENERAL\r\n% c\n\n2 2 1\n1 2 -1e3\r\n",
	 NULL, "1|"},
	{"a.mtx", HEAD "integer symmetric\n3 3 3\n2 1 5\n\t3 3 7\n3 1 9", NULL, "1,2|0|0,2"},
	{"a.mtx", HEAD "complex hermitian\n2 2 1\n2 1 0 1\n", NULL, "1|0"},
	{"a.mtx", HEAD "double skew-symmetric\n2 2 1\n2 1 1\n% end\n\n", NULL, "1|0"},
	{"a.mtx", HEAD "pattern general\n2 2 3\n1 2\n1 2\n1 1\n", NULL, "0,1|"},
	{"a.mtx", HEAD "pattern general\n1 1 0\n", NULL, ""},
	{"a.mtx", "", "line 1: not a file of MatrixMarket", NULL},
	{"a.mtx", "% " HEAD "pattern general\n", "line 1: not a file of MatrixMarket", NULL},
	{"a.mtx", "%%MatrixMarket vector coordinate real general\n1 1 0\n",
	 "line 1: not a matrix of coordinates", NULL},
	{"a.mtx", "%%MatrixMarket matrix array real general\n1 1\n",
	 "line 1: not a matrix of coordinates", NULL},
	{"a.mtx", HEAD "\nreal general\n",
	 "line 1: its values are not pattern, real, integer or complex", NULL},
	{"a.mtx", HEAD "text general\n",
	 "line 1: its values are not pattern, real, integer or complex", NULL},
	{"a.mtx", HEAD "real\n",
	 "line 1: it is not general, symmetric, skew-symmetric or hermitian", NULL},
	{"a.mtx", HEAD "real general 1\n", "line 1: its head has more than five words", NULL},
	{"a.mtx", HEAD "real general\n% c\n", "line 3: its size is missing", NULL},
	{"a.mtx", HEAD "real general\n2 2\n2 1 2\n", "line 2: its size is missing", NULL},
	{"a.mtx", HEAD "real general\n2 2 1 1\n1 1 1\n", "line 2: its size is missing", NULL},
	{"a.mtx", HEAD "real general\n-2 -2 1\n", "line 2: its size is missing", NULL},
	{"a.mtx", HEAD "real general\n2 2 18446744073709551616\n", "line 2: its size is missing",
	 NULL},
	{"a.mtx", HEAD "real general\n2 2 1.0\n1 1 1\n", "line 2: its size is missing", NULL},
	{"a.mtx", HEAD "real general\n2 3 1\n1 1 1\n", "line 2: not a square", NULL},
	{"a.mtx", HEAD "real general\n0 0 0\n", "line 2: too large, or empty", NULL},
	{"a.mtx", HEAD "real general\n4294967295 4294967295 1\n1 1 1\n",
	 "line 2: too large, or empty", NULL},
	{"a.mtx", HEAD "real general\n9 9 2147483647\n", "line 2: too large, or empty", NULL},
	{"a.mtx", HEAD "real general\n9 9 2147483646\n1 1 1\n",
	 "line 4: it ends before its last entry", NULL},
	{"a.mtx", HEAD "real general\n2 2 1\n\n0 1 1\n", "line 4: not an entry", NULL},
	{"a.mtx", HEAD "real general\n2 2 1\n1 3 1\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "real general\n2 2 1\n1 -1 1\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "real general\n2 2 1\n1 +1 1\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "real general\n2 2 1\n1 1\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "real general\n2 2 1\n1 1 x\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "real general\n2 2 1\n1 1 1 1\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "pattern general\n2 2 1\n1 1 1\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "complex general\n2 2 1\n1 1 1\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "pattern general\n2 2 2\n1 2 % first\n2 1\n", "line 3: not an entry", NULL},
	{"a.mtx", HEAD "pattern general\n2 2 2\n1 2\n", "line 4: it ends before its last entry",
	 NULL},
	{"a.mtx", HEAD "pattern general\n2 2 1\n1 2\n% c\n2 1\n",
	 "line 5: it has more entries than its head says", NULL},
	{"a.gr", "c x\np sp 3 2\na 1 2 7\nc\na 3 1 2\n", NULL, "1||0"},
	{"a.gr", "P SP 2 1\nA 2 2 0\n", NULL, "|1"},
	{"a.gr", "c x\n", "line 2: not a graph of DIMACS", NULL},
	{"a.gr", "p max 2 1\n", "line 1: not a graph of DIMACS", NULL},
	{"a.gr", "p sp 2 1\na 1 2\n", "line 2: not an entry", NULL},
	{"a.gr", "p sp 2 1\ne 1 2 1\n", "line 2: not an entry", NULL},
	{"a.gr", "p sp 2 2\na 1 2 1\n", "line 3: it ends before its last entry", NULL},
	{"a.gr", "p sp 2 1\na 1 2 1\na 2 1 1\n", "line 3: it has more entries than its head says",
	 NULL},
	{"a.graph", "% x\n3 2\n2\n1 3\n2\n", NULL, "1|0,2|1"},
	{"a.graph", "3 1 0\n3\n\n1", NULL, "2||0"},
	{"a.graph", "3 1 001\n3 9\n\n1 9\n", NULL, "2||0"},
	{"a.graph", "2 1 10\n5 2\n6 1\n", NULL, "1|0"},
	{"a.graph", "2 1 11 2\n5 5 2 1.5\n% c\n6 6 1 1.5\n", NULL, "1|0"},
	{"a.graph", "x\n", "line 1: not a graph of DIMACS", NULL},
	{"a.graph", "2\n", "line 1: not a graph of DIMACS", NULL},
	{"a.graph", "2 1 0 1 1\n2\n1\n", "line 1: not a graph of DIMACS", NULL},
	{"a.graph", "2 1 100\n2\n1\n", "line 1: its format is not 0, 1, 10 or 11", NULL},
	{"a.graph", "2 1 10 17\n2\n1\n", "line 1: more than 16 weights of a vertex", NULL},
	{"a.graph", "0 0\n", "line 1: too large, or empty", NULL},
	{"a.graph", "2 2147483647\n2\n1\n", "line 1: too large, or empty", NULL},
	{"a.graph", "2 1\n2\n", "line 3: it ends before its last vertex", NULL},
	{"a.graph", "2 1\n3\n1\n", "line 2: not a neighbour", NULL},
	{"a.graph", "2 1\n2\n0\n", "line 3: not a neighbour", NULL},
	{"a.graph", "2 1\n2,\n1\n", "line 2: not a neighbour", NULL},
	{"a.graph", "2 1 1\n2 1\n1\n", "line 3: not a neighbour", NULL},
	{"a.graph", "2 1 10\n2 2\n\n", "line 3: a weight of the vertex is missing", NULL},
	{"a.graph", "2 1\n2\n1 1\n", "line 3: it has more edges than its head says", NULL},
	{"a.graph", "2 1\n2\n\n", "line 4: it has fewer edges than its head says", NULL},
	{"a.graph", "2 1\n2\n1\n\n% c\n1\n", "line 6: it has more vertices than its head says",
	 NULL},
};

static void rows_print(const struct pr_rows *r, char text[256])
{
	size_t n = 0;
	for (uint32_t v = 0; v < r->rows; v++) {
		if (v)
			text[n++] = '|';
		for (uint32_t i = r->start[v]; i < r->start[v + 1]; i++)
			n += (size_t)snprintf(text + n, 256 - n, "%s%u",
					      i == r->start[v] ? "" : ",", r->column[i]);
	}
	text[n] = '\0';
}

static void cases_check(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pr_coordinates c;
		struct pr_rows rows;
		char why[256] = "", said[256], text[256];
		/* An empty file is one of a blank. */
		const char *content = *cases[i].text ? cases[i].text : " ";
		FILE *stream = fmemopen((void *)content, strlen(content), "r");
		bool read = pr_reader_parse(stream, cases[i].name, &c, why);
		fclose(stream);
		if (!read) {
			snprintf(said, sizeof said, "%s: %s", cases[i].name,
				 cases[i].said ? cases[i].said : "nothing");
			TAP_STR(why, said, "case %zu is refused", i);
			continue;
		}
		TAP_OK(!cases[i].said && pr_rows_make(&c, &rows, why), "case %zu is read", i);
		rows_print(&rows, text);
		TAP_STR(text, cases[i].rows ? cases[i].rows : "refused", "case %zu has its rows",
			i);
		pr_coordinates_free(&c);
		pr_rows_free(&rows);
	}
}

/* More entries than the reader first has room for; and a line of many neighbours. */
static void growth_check(void)
{
	enum { MANY = 100000 };
	struct pr_coordinates c;
	char why[256] = "", *text;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	fprintf(stream, "%d %d\n", MANY + 1, MANY);
	for (int i = 0; i < MANY; i++)
		fprintf(stream, "%d ", i + 2);
	for (int i = 0; i < MANY; i++)
		fprintf(stream, "\n1");
	fclose(stream);
	stream = fmemopen(text, size, "r");
	TAP_OK(pr_reader_parse(stream, "star.graph", &c, why), "a star of %d edges: %s", MANY, why);
	TAP_IS(c.entries, 2 * MANY, "a star has its edges in both directions");
	TAP_IS(c.column[MANY - 1], MANY, "a star has the last neighbour of its centre");
	TAP_IS(c.row[2 * MANY - 1], MANY, "a star has its last vertex");
	pr_coordinates_free(&c);
	fclose(stream);
	free(text);
}

static void names_check(void)
{
	struct pr_coordinates c;
	char why[256];
	TAP_OK(pr_reader_knows("x.mtx") && pr_reader_knows("x.GR") && pr_reader_knows("x.graph"),
	       "three endings are known, in any case");
	TAP_OK(!pr_reader_knows("rmat") && !pr_reader_knows(".mtx") && !pr_reader_knows("x.mtx.gz"),
	       "other endings are not known");
	TAP_OK(!pr_reader_read("/none/x.mtx", &c, why), "a file that is not there is not read");
	TAP_STR(why, "/none/x.mtx: No such file or directory", "a file that is not there is named");
	char folder[] = "/tmp/reader_XXXXXX", named[64];
	TAP_OK(mkdtemp(folder) != NULL, "a folder is made");
	snprintf(named, sizeof named, "%s.gr", folder);
	TAP_IS(rename(folder, named), 0, "a folder has the name of a graph");
	TAP_OK(!pr_reader_read(named, &c, why), "a folder is not read");
	TAP_OK(strstr(why, ".gr: it cannot be read") != NULL, "a folder is said to be no file");
	rmdir(named);
}

int main(void)
{
	cases_check();
	growth_check();
	names_check();
	return tap_done();
}
