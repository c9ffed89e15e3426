/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of pagesteps, a line for each run, and the theory. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/common/args.h"
#include "programs/walk/walk.h"

const char *const pr_program = "pagesteps";

struct options {
	struct pr_list policy, free, threads;
	uint64_t pages, repeat;
	bool untimed;
};

struct run {
	struct walk_work work;
	struct walk_work *on_device;
	uint32_t *page, *steps; /* of the host */
	double ms, tas, was;	/* average steps a thread, and of the longest of a warp */
};

static const char *const policy_names[WALK_POLICIES] = {"rw", "rw-bm", "corw"};

static void help(void)
{
	printf("Usage: pagesteps [OPTION]...\n"
	       "pagesteps: steps of random walks to a free page, beside theory.\n\n"
	       "  -p, --policy=LIST     rw, rw-bm, corw (all)\n"
	       "      --pages=N         pages of 256 bytes, a power of two, 8Ki to 128Mi (1Mi)\n"
	       "  -f, --free=LIST       pages that are free, per thousand (500,100,10,5)\n"
	       "  -t, --threads=LIST    that take a page each, in warps of 32, no more than are "
	       "free (5120)\n"
	       "      --repeat=N        runs of each (1)\n"
	       "      --untimed         print only what is the same in every run\n"
	       "      --help            print this\n\n"
	       "Each run prints a line of key=value. doc/programs.md says what they mean.\n");
}

static void option_read(int option, struct options *out)
{
	switch (option) {
	case 'p':
		pr_names("policy", optarg, policy_names, WALK_POLICIES, &out->policy);
		break;
	case 'g':
		out->pages = pr_number("pages", optarg, WALK_LEAST, 1u << 27);
		if (out->pages & (out->pages - 1))
			pr_fail(2, "--pages=%.40s: not a power of two", optarg);
		break;
	case 'f':
		pr_numbers("free", optarg, 1, 1000, &out->free);
		break;
	case 't':
		pr_numbers("threads", optarg, WALK_WARP, 1u << 27, &out->threads);
		for (unsigned i = 0; i < out->threads.count; i++)
			if (out->threads.value[i] % WALK_WARP)
				pr_fail(2, "--threads: %llu are no whole warps of %d",
					(unsigned long long)out->threads.value[i], WALK_WARP);
		break;
	case 'c':
		out->repeat = pr_number("repeat", optarg, 1, 1000000);
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

static uint32_t free_pages(const struct options *o, uint64_t share)
{
	return (uint32_t)(o->pages * share / 1000);
}

static void options_read(int argc, char **argv, struct options *out)
{
	static const struct option options[] = {
		{"policy", required_argument, NULL, 'p'}, {"pages", required_argument, NULL, 'g'},
		{"free", required_argument, NULL, 'f'},	  {"threads", required_argument, NULL, 't'},
		{"repeat", required_argument, NULL, 'c'}, {"untimed", no_argument, NULL, 'u'},
		{"help", no_argument, NULL, 'h'},	  {NULL, 0, NULL, 0}};
	*out = (struct options){.policy = {{WALK_RW, WALK_RW_BM, WALK_CORW}, WALK_POLICIES},
				.free = {{500, 100, 10, 5}, 4},
				.threads = {{5120}, 1},
				.pages = 1u << 20,
				.repeat = 1};
	for (int option; (option = getopt_long(argc, argv, "p:f:t:", options, NULL)) != -1;)
		option_read(option, out);
	if (optind < argc)
		pr_fail(2, "%.40s: takes options alone; --help shows them", argv[optind]);
	for (unsigned f = 0; f < out->free.count; f++)
		for (unsigned t = 0; t < out->threads.count; t++)
			if (out->threads.value[t] > free_pages(out, out->free.value[f]))
				pr_fail(2, "%llu threads, and %u free pages",
					(unsigned long long)out->threads.value[t],
					free_pages(out, out->free.value[f]));
}

/* --- theory: a word has `width` pages --- */

/* Of a word, when so many pages are free: is any of it? */
static double chance(double free, double pages, double width)
{
	return 1 - pow(1 - free / pages, width);
}

/* Equations 2 and 4, before the logarithm approximates the sum. */
static double theory_tas(const struct walk_work *w, double width)
{
	double sum = 0, pages = ldexp(1, (int)w->bits);
	for (uint32_t i = 0; i < w->threads; i++)
		sum += 1 / chance(w->free - i, pages, width);
	return sum / w->threads;
}

/* Equations 3 and 5: the longest of a warp, as if all pages but one each had been taken. */
static double theory_was(const struct walk_work *w, double width)
{
	double p = chance(w->free - w->threads, ldexp(1, (int)w->bits), width), sum = 0, more = 1;
	for (double none = 1; p > 0 && more > 1e-9; none *= 1 - p) {
		more = 1 - pow(1 - none, WALK_WARP);
		sum += more;
	}
	return p > 0 ? sum : INFINITY;
}

/* --- runs --- */

static void steps_add(struct run *r)
{
	double sum = 0, longest = 0;
	for (uint32_t first = 0; first < r->work.threads; first += WALK_WARP) {
		uint32_t most = 0;
		for (uint32_t t = first; t < first + WALK_WARP; t++) {
			sum += r->steps[t];
			most = most > r->steps[t] ? most : r->steps[t];
		}
		longest += most;
	}
	r->tas = sum / r->work.threads;
	r->was = longest * WALK_WARP / r->work.threads;
}

/* How many threads have a page that was free, and that no other one has. */
static uint32_t pages_count(const struct run *r)
{
	uint32_t right = 0;
	uint8_t *taken = calloc(1u << r->work.bits, 1);
	if (!taken)
		pr_fail(1, "no memory of the host");
	for (uint32_t t = 0; t < r->work.threads; t++) {
		uint32_t page = r->page[t];
		right += page >> r->work.bits == 0 && !taken[page]++ &&
			 walk_place(page, r->work.bits) < r->work.free;
	}
	free(taken);
	return right;
}

static void walk(struct run *r, enum walk_policy policy)
{
	uint64_t bytes = r->work.threads * sizeof *r->page;
	PR_MUST(cudaMemcpy(r->on_device, &r->work, sizeof r->work, cudaMemcpyHostToDevice));
	PR_MUST(walk_kernel_mark(r->on_device, 1u << r->work.bits >> 5));
	PR_MUST(cudaDeviceSynchronize());
	double begin = pr_now_ms();
	PR_MUST(walk_kernel_run(r->on_device, r->work.threads, policy));
	PR_MUST(cudaDeviceSynchronize());
	r->ms = pr_now_ms() - begin;
	PR_MUST(cudaMemcpy(r->page, r->work.page, bytes, cudaMemcpyDeviceToHost));
	PR_MUST(cudaMemcpy(r->steps, r->work.steps, bytes, cudaMemcpyDeviceToHost));
	steps_add(r);
}

/* True: each thread has a page of its own. */
static bool report(const struct run *r, enum walk_policy policy, bool untimed)
{
	uint32_t right = pages_count(r), width = policy == WALK_RW ? 1 : 32;
	bool all = right == r->work.threads;
	printf("pagesteps way=%s pages=%u free=%u threads=%u checksum=%08x verified=%s",
	       policy_names[policy], 1u << r->work.bits, r->work.free, r->work.threads, right,
	       all ? "yes" : "no");
	if (!untimed)
		printf(" tas=%.6g was=%.6g", r->tas, r->was);
	if (policy != WALK_CORW)
		printf(" tas_theory=%.6g was_bound=%.6g", theory_tas(&r->work, width),
		       theory_was(&r->work, width));
	if (!untimed)
		printf(" total_ms=%.6g", r->ms);
	putchar('\n');
	fflush(stdout);
	if (!all)
		fprintf(stderr, "pagesteps: %s: %u of %u threads have a page of their own\n",
			policy_names[policy], right, r->work.threads);
	return all;
}

static unsigned run_threads(const struct options *o, struct run *r)
{
	unsigned wrong = 0;
	uint64_t bytes = r->work.threads * sizeof *r->page;
	r->page = malloc(bytes);
	r->steps = malloc(bytes);
	if (!r->page || !r->steps)
		pr_fail(1, "no memory of the host");
	r->work.page = pr_take(bytes);
	r->work.steps = pr_take(bytes);
	for (unsigned p = 0; p < o->policy.count; p++)
		for (uint64_t i = 0; i < o->repeat; i++) {
			walk(r, (enum walk_policy)o->policy.value[p]);
			wrong += !report(r, (enum walk_policy)o->policy.value[p], o->untimed);
		}
	PR_MUST(cudaFree(r->work.page));
	PR_MUST(cudaFree(r->work.steps));
	free(r->page);
	free(r->steps);
	return wrong;
}

int main(int argc, char **argv)
{
	struct options o;
	struct run r = {0};
	unsigned wrong = 0;
	options_read(argc, argv, &o);
	while (1u << r.work.bits < o.pages)
		r.work.bits++;
	struct page_heap *heap = walk_heap_open(r.work.bits);
	r.work.heap = walk_heap_device(heap);
	r.on_device = pr_take(sizeof r.work);
	for (unsigned f = 0; f < o.free.count; f++)
		for (unsigned t = 0; t < o.threads.count; t++) {
			r.work.free = free_pages(&o, o.free.value[f]);
			r.work.threads = (uint32_t)o.threads.value[t];
			wrong += run_threads(&o, &r);
		}
	PR_MUST(cudaFree(r.on_device));
	walk_heap_close(heap);
	return wrong ? 1 : 0;
}
