/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of hashjoin, and a line for each run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/common/program.h"
#include "programs/join/join.h"

struct options {
	struct pr_list tuples, policy;
	uint64_t pages, probes, heap;
};

static const char *const policy_names[JOIN_POLICIES] = {
	"direct",
#define JOIN_POLICY(name, n) name,
#include "programs/join/policies.def"
#undef JOIN_POLICY
	"malloc",
};

static struct options asked;

static const struct pr_option options[] = {
	{"tuples", 'n', PR_NUMBERS, "LIST", "1M", &asked.tuples, 1, 1u << 30, NULL,
	 "tuples of each table, 1 to 1G"},
	{"policy", 'p', PR_NAMES, "LIST", "all", &asked.policy, 0, JOIN_POLICIES, policy_names,
	 "direct, rw, rw-bm, corw, ouroboros, granule, malloc"},
	{"pages", 0, PR_NUMBER, "N", "two a tuple, 64Ki at least", &asked.pages, 1,
	 UINT64_C(1) << 40, NULL, "pages of 256 bytes that a policy has"},
	{"probes", 0, PR_NUMBER, "N", "1", &asked.probes, 1, 1u << 20, NULL,
	 "tuples that a thread probes"},
	PR_HEAP(&asked.heap, "that of --pages"),
	{0}};

/* --- runs --- */

struct reference {
	uint64_t matches, checksum;
};

static unsigned report(uint32_t tuples, enum join_policy policy, const struct reference *cpu,
		       const struct join_result *r)
{
	bool right = r->matches == cpu->matches && r->checksum == cpu->checksum;
	printf("hashjoin way=%s tuples=%u matches=%" PRIu64 " checksum=%016" PRIx64,
	       policy_names[policy], tuples, r->matches, r->checksum);
	/* Of several tuples a thread, chance says which. */
	if (asked.probes == 1 || !pr_asked.untimed)
		printf(" pages=%" PRIu64, r->held);
	pr_line_verified(right);
	if (!pr_asked.untimed)
		printf(" total_ms=%.6g partition_ms=%.6g build_ms=%.6g probe_ms=%.6g "
		       "finish_ms=%.6g",
		       r->partition_ms + r->build_ms + r->probe_ms, r->partition_ms, r->build_ms,
		       r->probe_ms, r->finish_ms);
	return pr_line_end(right,
			   "%s: the result differs from the CPU's, which has %" PRIu64 " pairs",
			   policy_names[policy], cpu->matches);
}

static uint64_t pages_of(uint64_t tuples)
{
	uint64_t least = 1u << 16, enough = 2 * tuples;
	return asked.pages ? asked.pages : enough > least ? enough : least;
}

/* The driver's, before the first kernel; a heap that grows has no use for it. */
static void heap_set(void)
{
	uint64_t pages = pages_of(pr_list_most(&asked.tuples));
	if (pr_list_has(&asked.policy, JOIN_MALLOC))
		PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize,
					   asked.heap ? asked.heap : pages * JOIN_PAGE));
}

/* How many results were wrong. */
static unsigned run_tuples(uint32_t tuples)
{
	struct join_tables tables;
	struct reference cpu = {0, 0};
	unsigned wrong = 0;
	if (!join_tables_make(&tables, tuples) ||
	    (pr_asked.verify && !join_reference(&tables, &cpu.matches, &cpu.checksum)))
		pr_fail(1, "no memory of the host");
	for (unsigned p = 0; p < asked.policy.count; p++) {
		enum join_policy policy = (enum join_policy)asked.policy.value[p];
		struct join_session *s =
			join_open(&tables, (uint32_t)asked.probes, pages_of(tuples), policy);
		for (uint64_t i = 0; i < pr_asked.repeat; i++) {
			struct join_result result;
			join_run(s, &result);
			wrong += report(tuples, policy, &cpu, &result);
		}
		join_close(s);
	}
	join_tables_free(&tables);
	return wrong;
}

static unsigned runs(void)
{
	unsigned wrong = 0;
	heap_set();
	for (unsigned i = 0; i < asked.tuples.count; i++)
		wrong += run_tuples((uint32_t)asked.tuples.value[i]);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "hashjoin",
	.about = "a partitioned hash join of two tables; where its pages of output come from "
		 "differs.",
	.options = options,
	.run = runs,
};
