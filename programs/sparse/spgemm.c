/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of spgemm, and a line for each way. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "programs/common/program.h"
#include "spgemm.h"

struct options {
	const char *matrix;
	uint64_t percent, heap;
	struct pr_list way, size; /* size 0: by a sample */
};

static const char *const way_names[SP_WAYS] = {"upper",	     "precise", "dynamic",
					       "persistent", "malloc",	"cusparse"};
static const char *const size_auto = "auto";
static struct options asked;

static const struct pr_option options[] = {
	{"matrix", 'a', PR_TEXT, "NAME", "pwtk", &asked.matrix, 0, 0, NULL,
	 "a matrix of the names below, or a file *.mtx, *.gr or *.graph"},
	{"share", 0, PR_NUMBER, "PERCENT", "100", &asked.percent, 1, 100, NULL,
	 "of the rows of a matrix that is no file"},
	{"way", 'w', PR_NAMES, "LIST", "upper,precise,dynamic,persistent,malloc", &asked.way, 0,
	 SP_WAYS, way_names, "upper, precise, dynamic, persistent, malloc, cusparse"},
	{"size", 's', PR_NUMBERS, "LIST", "auto", &asked.size, 1, 65536, &size_auto,
	 "slots of a segment, 1 to 65536, or auto: by a sample of rows"},
	PR_HEAP(&asked.heap, "half of what is free"),
	{0}};

/* --- runs --- */

struct session {
	struct sp_matrix matrix;
	struct sp_device device;
	uint64_t entries, checksum; /* the CPU's, with --verify */
};

static unsigned report(const struct session *s, enum sp_way way, uint32_t size,
		       const struct sp_result *r)
{
	bool sized = way >= SP_DYNAMIC && way < SP_CUSPARSE;
	bool right = r->entries == s->entries && r->checksum == s->checksum;
	printf("spgemm way=%s", way_names[way]);
	if (sized)
		printf("%s%.0u", size ? "-" : "-auto", size);
	printf(" matrix=%s rows=%u nonzeros=%u", asked.matrix, s->matrix.rows,
	       s->matrix.start[s->matrix.rows]);
	if (sized)
		printf(" size=%u", r->size);
	printf(" entries=%" PRIu64 " checksum=%016" PRIx64, r->entries, r->checksum);
	/* In rounds, chance says which rows get the last space of a launch. */
	if (way != SP_PERSISTENT || !pr_asked.untimed)
		printf(" slots=%" PRIu64 " efficiency_share=%.4g launches=%u output_bytes=%" PRIu64,
		       r->slots, r->slots ? 100.0 * (double)r->entries / (double)r->slots : 100,
		       r->launches, r->bytes);
	pr_line_verified(right);
	if (!pr_asked.untimed)
		printf(" total_ms=%.6g estimate_ms=%.6g estimate_share=%.4g active_warps=%.4g",
		       r->total_ms, r->estimate_ms, 100 * r->estimate_ms / r->total_ms,
		       r->active_warps);
	return pr_line_end(right,
			   "%s: the result differs from the CPU's, which has %" PRIu64 " entries",
			   way_names[way], s->entries);
}

static unsigned run_way(struct session *s, enum sp_way way)
{
	unsigned sizes = way >= SP_DYNAMIC && way < SP_CUSPARSE ? asked.size.count : 1, wrong = 0;
	for (unsigned k = 0; k < sizes; k++)
		for (uint64_t i = 0; i < pr_asked.repeat; i++) {
			uint32_t size = (uint32_t)asked.size.value[k];
			struct sp_result result;
			if (way == SP_CUSPARSE)
				sp_rival(&s->device, &result);
			else
				sp_run(&s->device, way, size, &result);
			wrong += report(s, way, size, &result);
		}
	return wrong;
}

/* Before the first kernel; a heap that grows has no use for it. */
static void heap_set(void)
{
	size_t bytes = asked.heap, unused = 0, total;
	if (!bytes) {
		PR_MUST(cudaMemGetInfo(&unused, &total));
		bytes = unused / 2;
	}
	if (pr_list_has(&asked.way, SP_MALLOC))
		PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes));
}

static unsigned ways_run(void)
{
	struct session s = {0};
	char why[256];
	unsigned wrong = 0;
	if (!sp_matrix_make(asked.matrix, (double)asked.percent / 100, &s.matrix, why)) {
		if (errno == ENOMEM)
			pr_fail(1, "%.200s: %s", asked.matrix, why);
		pr_fail(2, "%s", why);
	}
	if (pr_asked.verify && !sp_matrix_square(&s.matrix, &s.entries, &s.checksum))
		pr_fail(1, "no memory of the host");
	heap_set();
	sp_device_open(&s.device, &s.matrix);
	for (unsigned i = 0; i < asked.way.count; i++)
		wrong += run_way(&s, (enum sp_way)asked.way.value[i]);
	sp_device_close(&s.device);
	sp_matrix_free(&s.matrix);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "spgemm",
	.about = "the square of a sparse matrix; where a row of it gets its space differs.",
	.options = options,
	.help = sp_matrix_list,
	.run = ways_run,
};
