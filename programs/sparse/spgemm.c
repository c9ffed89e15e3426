/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of spgemm, and a line for each way. */
#include "spgemm.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VALUES 16

struct options {
	const char *matrix;
	double share;
	uint64_t heap, repeat;
	uint32_t way[VALUES], size[VALUES];
	unsigned ways, sizes;
	bool verify, untimed;
};

static const char *const way_names[SP_WAYS] = {"upper",	     "precise", "dynamic",
					       "persistent", "malloc",	"cusparse"};

void sp_fail(int status, const char *format, ...)
{
	va_list args;
	fflush(stdout);
	fputs("spgemm: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

double sp_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void help(void)
{
	printf("Usage: spgemm [OPTION]...\n"
	       "spgemm: the square of a sparse matrix; where a row of it gets its space "
	       "differs.\n\n"
	       "  -a, --matrix=NAME     a matrix of the names below, or a file NAME.mtx (pwtk)\n"
	       "      --share=PERCENT   of the rows of a matrix that is no file (100)\n"
	       "  -w, --way=LIST        upper, precise, dynamic, persistent, malloc, cusparse (all "
	       "but cusparse)\n"
	       "  -s, --size=LIST       slots of a segment, 1 to 65536, or auto: by a sample of "
	       "rows "
	       "(auto)\n"
	       "      --heap=BYTES      the driver's heap for malloc in kernels (half of what is "
	       "free)\n"
	       "      --repeat=N        runs of each (1)\n"
	       "      --verify          compare with the CPU's result; status 1 if one differs\n"
	       "      --untimed         print only what is the same in every run\n"
	       "      --help            print this\n\n"
	       "Each run prints a line of key=value. doc/programs.md says what they mean. Names: ");
	sp_matrix_list();
}

/* --- options --- */

static uint64_t number_read(const char *option, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end)
		sp_fail(2, "--%s=%.40s: not a number", option, text);
	if (errno || value < least || value > most)
		sp_fail(2, "--%s=%.40s: %" PRIu64 " to %" PRIu64 " are possible", option, text,
			least, most);
	return value;
}

static uint32_t way_read(const char *text)
{
	for (uint32_t way = 0; way < SP_WAYS; way++)
		if (strcmp(text, way_names[way]) == 0)
			return way;
	sp_fail(2,
		"--way=%.40s: upper, precise, dynamic, persistent, malloc and cusparse are "
		"possible",
		text);
}

static uint32_t size_read(const char *text)
{
	return strcmp(text, "auto") == 0 ? 0 : (uint32_t)number_read("size", text, 1, 65536);
}

static unsigned list_read(const char *option, char *text, uint32_t *out,
			  uint32_t (*value_read)(const char *text))
{
	unsigned n = 0;
	for (char *comma; text; text = comma) {
		comma = strchr(text, ',');
		if (comma)
			*comma++ = '\0';
		if (n == VALUES)
			sp_fail(2, "--%s: more than %d values", option, VALUES);
		out[n++] = value_read(text);
	}
	return n;
}

static void option_read(int option, struct options *out)
{
	switch (option) {
	case 'a':
		out->matrix = optarg;
		break;
	case 'p':
		out->share = (double)number_read("share", optarg, 1, 100) / 100;
		break;
	case 'w':
		out->ways = list_read("way", optarg, out->way, way_read);
		break;
	case 's':
		out->sizes = list_read("size", optarg, out->size, size_read);
		break;
	case 'm':
		out->heap = number_read("heap", optarg, 1, UINT64_MAX);
		break;
	case 'c':
		out->repeat = number_read("repeat", optarg, 1, 1000000);
		break;
	case 'v':
		out->verify = true;
		break;
	case 'u':
		out->untimed = true;
		break;
	case 'h':
		help();
		exit(fflush(stdout) ? 1 : 0);
	default:
		exit(2); /* getopt_long has said why */
	}
}

static void options_read(int argc, char **argv, struct options *out)
{
	static const struct option options[] = {
		{"matrix", required_argument, NULL, 'a'}, {"share", required_argument, NULL, 'p'},
		{"way", required_argument, NULL, 'w'},	  {"size", required_argument, NULL, 's'},
		{"heap", required_argument, NULL, 'm'},	  {"repeat", required_argument, NULL, 'c'},
		{"verify", no_argument, NULL, 'v'},	  {"untimed", no_argument, NULL, 'u'},
		{"help", no_argument, NULL, 'h'},	  {NULL, 0, NULL, 0}};
	*out = (struct options){.matrix = "pwtk",
				.share = 1,
				.repeat = 1,
				.way = {SP_UPPER, SP_PRECISE, SP_DYNAMIC, SP_PERSISTENT, SP_MALLOC},
				.ways = SP_CUSPARSE,
				.sizes = 1};
	for (int option; (option = getopt_long(argc, argv, "a:w:s:", options, NULL)) != -1;)
		option_read(option, out);
	if (optind < argc)
		sp_fail(2, "%.40s: takes options alone; --help shows them", argv[optind]);
}

/* --- runs --- */

struct session {
	struct options options;
	struct sp_matrix matrix;
	struct sp_device device;
	uint64_t entries, checksum; /* the CPU's, with --verify */
	unsigned wrong;
};

static void report(struct session *s, enum sp_way way, uint32_t size, const struct sp_result *r)
{
	bool sized = way >= SP_DYNAMIC && way < SP_CUSPARSE;
	bool right = r->entries == s->entries && r->checksum == s->checksum;
	printf("spgemm way=%s", way_names[way]);
	if (sized)
		printf("%s%.0u", size ? "-" : "-auto", size);
	printf(" matrix=%s rows=%u nonzeros=%u", s->options.matrix, s->matrix.rows,
	       s->matrix.start[s->matrix.rows]);
	if (sized)
		printf(" size=%u", r->size);
	printf(" entries=%" PRIu64 " checksum=%016" PRIx64, r->entries, r->checksum);
	/* In rounds, chance says which rows get the last space of a launch. */
	if (way != SP_PERSISTENT || !s->options.untimed)
		printf(" slots=%" PRIu64 " efficiency_share=%.4g launches=%u output_bytes=%" PRIu64,
		       r->slots, r->slots ? 100.0 * (double)r->entries / (double)r->slots : 100,
		       r->launches, r->bytes);
	if (s->options.verify)
		printf(" verified=%s", right ? "yes" : "no");
	if (!s->options.untimed)
		printf(" total_ms=%.6g estimate_ms=%.6g estimate_share=%.4g active_warps=%.4g",
		       r->total_ms, r->estimate_ms, 100 * r->estimate_ms / r->total_ms,
		       r->active_warps);
	putchar('\n');
	fflush(stdout);
	if (!s->options.verify || right)
		return;
	s->wrong++;
	fprintf(stderr,
		"spgemm: %s: the result differs from the CPU's, which has %" PRIu64 " entries\n",
		way_names[way], s->entries);
}

static void run_way(struct session *s, enum sp_way way)
{
	unsigned sizes = way >= SP_DYNAMIC && way < SP_CUSPARSE ? s->options.sizes : 1;
	for (unsigned k = 0; k < sizes; k++)
		for (uint64_t i = 0; i < s->options.repeat; i++) {
			struct sp_result result;
			if (way == SP_CUSPARSE)
				sp_rival(&s->device, &result);
			else
				sp_run(&s->device, way, s->options.size[k], &result);
			report(s, way, s->options.size[k], &result);
		}
}

/* Before the first kernel; a heap that grows has no use for it. */
static void heap_set(const struct options *o)
{
	size_t bytes = o->heap, unused = 0, total;
	if (!bytes) {
		SP_MUST(cudaMemGetInfo(&unused, &total));
		bytes = unused / 2;
	}
	for (unsigned i = 0; i < o->ways; i++)
		if (o->way[i] == SP_MALLOC) {
			SP_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes));
			return;
		}
}

int main(int argc, char **argv)
{
	struct session s = {0};
	char why[256];
	options_read(argc, argv, &s.options);
	if (!sp_matrix_make(s.options.matrix, s.options.share, &s.matrix, why))
		sp_fail(2, "%s", why);
	if (s.options.verify && !sp_matrix_square(&s.matrix, &s.entries, &s.checksum))
		sp_fail(1, "no memory of the host");
	heap_set(&s.options);
	sp_device_open(&s.device, &s.matrix);
	for (unsigned i = 0; i < s.options.ways; i++)
		run_way(&s, (enum sp_way)s.options.way[i]);
	sp_device_close(&s.device);
	sp_matrix_free(&s.matrix);
	return s.wrong ? 1 : 0;
}
