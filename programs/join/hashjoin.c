/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of hashjoin, and a line for each run. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/common/args.h"
#include "programs/join/join.h"

const char *const pr_program = "hashjoin";

struct options {
	struct pr_list tuples, policy;
	uint64_t pages, probes, heap, repeat;
	bool verify, untimed;
};

static const char *const policy_names[JOIN_POLICIES] = {
	"direct",
#define JOIN_POLICY(name, n) name,
#include "programs/join/policies.def"
#undef JOIN_POLICY
	"malloc",
};

static void help(void)
{
	printf("Usage: hashjoin [OPTION]...\n"
	       "hashjoin: a partitioned hash join of two tables; where its pages of output come "
	       "from differs.\n\n"
	       "  -n, --tuples=LIST     tuples of each table, 1 to 1G (1M)\n"
	       "  -p, --policy=LIST     direct, rw, rw-bm, corw, ouroboros, granule, malloc (all)\n"
	       "      --pages=N         pages of 256 bytes that a policy has (2 a tuple, 64Ki at "
	       "least)\n"
	       "      --probes=N        tuples that a thread probes (1)\n"
	       "      --heap=BYTES      the driver's heap for malloc in kernels (that of "
	       "--pages)\n"
	       "      --repeat=N        runs of each (1)\n"
	       "      --verify          compare with the CPU's result; status 1 if one differs\n"
	       "      --untimed         print only what is the same in every run\n"
	       "      --help            print this\n\n"
	       "Each run prints a line of key=value. doc/programs.md says what they mean.\n");
}

static void option_read(int option, struct options *out)
{
	switch (option) {
	case 'n':
		pr_numbers("tuples", optarg, 1, 1u << 30, &out->tuples);
		break;
	case 'p':
		pr_names("policy", optarg, policy_names, JOIN_POLICIES, &out->policy);
		break;
	case 'g':
		out->pages = pr_number("pages", optarg, 1, UINT64_C(1) << 40);
		break;
	case 'o':
		out->probes = pr_number("probes", optarg, 1, 1u << 20);
		break;
	case 'm':
		out->heap = pr_number("heap", optarg, 1, UINT64_MAX);
		break;
	case 'c':
		out->repeat = pr_number("repeat", optarg, 1, 1000000);
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
		{"tuples", required_argument, NULL, 'n'}, {"policy", required_argument, NULL, 'p'},
		{"pages", required_argument, NULL, 'g'},  {"probes", required_argument, NULL, 'o'},
		{"heap", required_argument, NULL, 'm'},	  {"repeat", required_argument, NULL, 'c'},
		{"verify", no_argument, NULL, 'v'},	  {"untimed", no_argument, NULL, 'u'},
		{"help", no_argument, NULL, 'h'},	  {NULL, 0, NULL, 0}};
	*out = (struct options){.tuples = {{1000000}, 1}, .probes = 1, .repeat = 1};
	for (unsigned p = 0; p < JOIN_POLICIES; p++)
		out->policy.value[out->policy.count++] = p;
	for (int option; (option = getopt_long(argc, argv, "n:p:", options, NULL)) != -1;)
		option_read(option, out);
	if (optind < argc)
		pr_fail(2, "%.40s: takes options alone; --help shows them", argv[optind]);
}

/* --- runs --- */

struct reference {
	uint64_t matches, checksum;
};

/* False: the result differs from the CPU's. */
static bool report(const struct options *o, uint32_t tuples, enum join_policy policy,
		   const struct reference *cpu, const struct join_result *r)
{
	bool right = !o->verify || (r->matches == cpu->matches && r->checksum == cpu->checksum);
	printf("hashjoin way=%s tuples=%u matches=%" PRIu64 " checksum=%016" PRIx64,
	       policy_names[policy], tuples, r->matches, r->checksum);
	/* Of several tuples a thread, chance says which. */
	if (o->probes == 1 || !o->untimed)
		printf(" pages=%" PRIu64, r->held);
	if (o->verify)
		printf(" verified=%s", right ? "yes" : "no");
	if (!o->untimed)
		printf(" total_ms=%.6g partition_ms=%.6g build_ms=%.6g probe_ms=%.6g "
		       "finish_ms=%.6g",
		       r->partition_ms + r->build_ms + r->probe_ms, r->partition_ms, r->build_ms,
		       r->probe_ms, r->finish_ms);
	putchar('\n');
	fflush(stdout);
	if (!right)
		fprintf(stderr,
			"hashjoin: %s: the result differs from the CPU's, which has %" PRIu64
			" pairs\n",
			policy_names[policy], cpu->matches);
	return right;
}

static uint64_t pages_of(const struct options *o, uint64_t tuples)
{
	uint64_t least = 1u << 16, enough = 2 * tuples;
	return o->pages ? o->pages : enough > least ? enough : least;
}

/* The driver's, before the first kernel; a heap that grows has no use for it. */
static void heap_set(const struct options *o)
{
	uint64_t most = 0;
	for (unsigned i = 0; i < o->tuples.count; i++)
		most = most > o->tuples.value[i] ? most : o->tuples.value[i];
	for (unsigned i = 0; i < o->policy.count; i++)
		if (o->policy.value[i] == JOIN_MALLOC) {
			uint64_t bytes = o->heap ? o->heap : pages_of(o, most) * JOIN_PAGE;
			PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes));
			return;
		}
}

/* How many results were wrong. */
static unsigned run_tuples(const struct options *o, uint32_t tuples)
{
	struct join_tables tables;
	struct reference cpu = {0, 0};
	unsigned wrong = 0;
	if (!join_tables_make(&tables, tuples) ||
	    (o->verify && !join_reference(&tables, &cpu.matches, &cpu.checksum)))
		pr_fail(1, "no memory of the host");
	for (unsigned p = 0; p < o->policy.count; p++) {
		enum join_policy policy = (enum join_policy)o->policy.value[p];
		struct join_session *s =
			join_open(&tables, (uint32_t)o->probes, pages_of(o, tuples), policy);
		for (uint64_t i = 0; i < o->repeat; i++) {
			struct join_result result;
			join_run(s, &result);
			wrong += !report(o, tuples, policy, &cpu, &result);
		}
		join_close(s);
	}
	join_tables_free(&tables);
	return wrong;
}

int main(int argc, char **argv)
{
	struct options o;
	unsigned wrong = 0;
	options_read(argc, argv, &o);
	heap_set(&o);
	for (unsigned i = 0; i < o.tuples.count; i++)
		wrong += run_tuples(&o, (uint32_t)o.tuples.value[i]);
	return wrong ? 1 : 0;
}
