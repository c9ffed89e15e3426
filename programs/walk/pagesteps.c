/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of pagesteps, a line for each run, and the theory. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/common/program.h"
#include "programs/walk/walk.h"

struct options {
	struct pr_list policy, free, threads;
	uint64_t pages;
};

struct run {
	struct walk_work work;
	struct walk_work *on_device;
	uint32_t *page, *steps; /* of the host */
	double ms, tas, was;	/* average steps a thread, and of the longest of a warp */
};

static const char *const policy_names[WALK_POLICIES] = {"rw", "rw-bm", "corw"};

static struct options asked;

static const struct pr_option options[] = {
	{"policy", 'p', PR_NAMES, "LIST", "all", &asked.policy, 0, WALK_POLICIES, policy_names,
	 "rw, rw-bm, corw"},
	{"pages", 0, PR_NUMBER, "N", "1Mi", &asked.pages, WALK_LEAST, 1u << 27, NULL,
	 "pages of 256 bytes, a power of two, 8Ki to 128Mi"},
	{"free", 'f', PR_NUMBERS, "LIST", "500,100,10,5", &asked.free, 1, 1000, NULL,
	 "pages that are free, per thousand"},
	{"threads", 't', PR_NUMBERS, "LIST", "5120", &asked.threads, WALK_WARP, 1u << 27, NULL,
	 "that take a page each, in warps of 32, no more than are free"},
	{0}};

static uint32_t free_pages(const struct options *o, uint64_t share)
{
	return (uint32_t)(o->pages * share / 1000);
}

/* What no bound of one option says. */
static void check(void)
{
	const struct options *o = &asked;
	if (o->pages & (o->pages - 1))
		pr_fail(2, "--pages: %" PRIu64 " is not a power of two", o->pages);
	for (unsigned t = 0; t < o->threads.count; t++) {
		uint64_t threads = o->threads.value[t];
		if (threads % WALK_WARP)
			pr_fail(2, "--threads: %" PRIu64 " are no whole warps of %d", threads,
				WALK_WARP);
		for (unsigned f = 0; f < o->free.count; f++)
			if (threads > free_pages(o, o->free.value[f]))
				pr_fail(2, "%" PRIu64 " threads, and %u free pages", threads,
					free_pages(o, o->free.value[f]));
	}
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
	uint8_t *taken = pr_host_take(1u << r->work.bits, 1);
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

static unsigned report(const struct run *r, enum walk_policy policy)
{
	uint32_t right = pages_count(r), width = policy == WALK_RW ? 1 : 32;
	printf("pagesteps way=%s pages=%u free=%u threads=%u checksum=%08x", policy_names[policy],
	       1u << r->work.bits, r->work.free, r->work.threads, right);
	pr_line_verified(right == r->work.threads);
	if (!pr_asked.untimed)
		printf(" tas=%.6g was=%.6g", r->tas, r->was);
	if (policy != WALK_CORW)
		printf(" tas_theory=%.6g was_bound=%.6g", theory_tas(&r->work, width),
		       theory_was(&r->work, width));
	if (!pr_asked.untimed)
		printf(" total_ms=%.6g", r->ms);
	return pr_line_end(right == r->work.threads,
			   "%s: %u of %u threads have a page of their own", policy_names[policy],
			   right, r->work.threads);
}

static unsigned policy_run(void *arg, uint64_t policy)
{
	walk(arg, (enum walk_policy)policy);
	return report(arg, (enum walk_policy)policy);
}

static unsigned run_threads(struct run *r)
{
	uint64_t bytes = r->work.threads * sizeof *r->page;
	r->page = pr_host_take(r->work.threads, sizeof *r->page);
	r->steps = pr_host_take(r->work.threads, sizeof *r->steps);
	r->work.page = pr_take(bytes);
	r->work.steps = pr_take(bytes);
	unsigned wrong = pr_each(&asked.policy, policy_run, r);
	PR_MUST(cudaFree(r->work.page));
	PR_MUST(cudaFree(r->work.steps));
	free(r->page);
	free(r->steps);
	return wrong;
}

static unsigned runs(void)
{
	struct run r = {0};
	unsigned wrong = 0;
	while (1u << r.work.bits < asked.pages)
		r.work.bits++;
	struct page_heap *heap = walk_heap_open(r.work.bits);
	r.work.heap = walk_heap_device(heap);
	r.on_device = pr_take(sizeof r.work);
	for (unsigned f = 0; f < asked.free.count; f++)
		for (unsigned t = 0; t < asked.threads.count; t++) {
			r.work.free = free_pages(&asked, asked.free.value[f]);
			r.work.threads = (uint32_t)asked.threads.value[t];
			wrong += run_threads(&r);
		}
	PR_MUST(cudaFree(r.on_device));
	walk_heap_close(heap);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "pagesteps",
	.about = "steps of random walks to a free page, beside theory.",
	.options = options,
	.verifies = true,
	.check = check,
	.run = runs,
};
