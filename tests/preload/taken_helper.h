/* SPDX-License-Identifier: BSD-3-Clause */
/* For taken.c: the driver's malloc and free in each context, the helper of a takeover, and the
 * program's kernels. */
#ifndef TAKEN_HELPER_H
#define TAKEN_HELPER_H

#include "heap/device/sites.h"

/* --- state of driver and helper in each context --- */

static struct place {
	CUcontext context;
	struct gm_heap *heap;
	struct gm_helper_answer *answer;
	struct fake_code code[2]; /* of each set of malloc and free: takeover.h */
	unsigned set;		  /* being taken over */
} places[16];

static CUcontext current(void)
{
	CUcontext context = NULL;
	((CUresult(*)(CUcontext *))gm_sim_symbol(NULL, "cuCtxGetCurrent"))(&context);
	return context;
}

/* The state of the current context; a new context has an empty one. */
static struct place *here(void)
{
	CUcontext context = current();
	struct place *p = places;
	while (p < places + 15 && p->context && p->context != context)
		p++;
	if (!p->context) /* else several threads may be here */
		p->context = context;
	return p;
}

static void helper_start(const struct gm_helper_order *order)
{
	struct place *p = here();
	struct gm_heap *heap = (struct gm_heap *)(uintptr_t)order->heap;
	p->answer = (void *)(uintptr_t)gm_sim_find_global("gm_helper_answer");
	memset(p->answer, 0, sizeof *p->answer);
	/* All images are unknown to the preload, so the second set follows the first. */
	p->set = p->heap == heap && fake_is_ours(&p->code[0]) && !fake_is_ours(&p->code[1]);
	p->heap = heap;
	for (unsigned i = p->set; i < 2; i++)
		fake_reset(&p->code[i], GM_CALL_SPLIT);
	p->code[1].ours = &p->code[0];
	fake_start(&p->code[p->set], p->answer, order);
}

static struct fake_code *code_of_helper(void)
{
	struct place *p = here();
	return &p->code[p->set];
}

static void run_empty(void **args)
{
	(void)args;
	fake_drop_lines(code_of_helper());
}

/* --- malloc and free, as kernels call them --- */

/* The policy of GPUMEM_HEAP, or granule. */
static const struct gm_policy *policy;

static void choose_policy(void)
{
	const char *name = getenv("GPUMEM_HEAP"), *colon = name ? strchr(name, ':') : NULL;
	for (unsigned i = 0; i < GM_POLICIES; i++)
		if (strcmp(gm_policies[i].name, colon ? colon + 1 : "granule") == 0)
			policy = &gm_policies[i];
}

struct job {
	struct place *place;
	size_t size;
	void *address;
	bool sited;
	uint64_t from; /* the call's return address: of code_of_calls */
};

/* Stands for the code around the calls of the program's kernels. */
static _Alignas(4096) uint64_t code_of_calls[512];
static unsigned call_now;

static bool is_taken(const struct fake_code *code, enum gm_takeover_function function)
{
	return fake_is_taken(code, code->line[function], function);
}

static void malloc_lane(void *arg, uint32_t thread)
{
	struct job *job = arg;
	if (thread != 0)
		return;
	job->address = job->sited ? gm_sites_malloc(job->place->heap, job->size, job->from)
				  : policy->malloc(job->place->heap, job->size);
}

static void free_lane(void *arg, uint32_t thread)
{
	struct job *job = arg;
	if (thread != 0)
		return;
	uint32_t wrong = job->sited ? gm_sites_free(job->place->heap, job->address) : 0;
	if (wrong)
		gm_sites_wrong(job->place->heap, job->address, wrong, job->from);
	if (!job->sited)
		policy->free(job->place->heap, job->address);
}

/* Our functions that count know the return addresses of the first set. */
static struct job job_of(unsigned set, size_t size, void *address)
{
	struct place *p = here();
	const struct gm_insn call = p->code[set].line[GM_TAKEOVER_MALLOC];
	return (struct job){
		.place = p,
		.size = size,
		.address = address,
		.sited = !fake_is_taken_by(&p->code[set], call, GM_TAKEOVER_MALLOC, FAKE_OURS),
		.from = set ? 0 : (uint64_t)(uintptr_t)&code_of_calls[64 + 2 * call_now],
	};
}

static void emulate(void (*lane)(void *, uint32_t), struct job *job)
{
	gm_simt_launch(&(struct gm_simt){1, 1, 1, GM_SIMT_FAIR}, lane, job);
}

/* By the set of malloc and free of the kernel's image. NULL stands for the driver's own malloc,
 * which is not simulated. */
static void *set_malloc(unsigned set, size_t size)
{
	struct job job = job_of(set, size, NULL);
	if (is_taken(&job.place->code[set], GM_TAKEOVER_MALLOC))
		emulate(malloc_lane, &job);
	return job.address;
}

static void set_free(unsigned set, void *address)
{
	struct job job = job_of(set, 0, address);
	if (is_taken(&job.place->code[set], GM_TAKEOVER_FREE))
		emulate(free_lane, &job);
}

static void *kernel_malloc(size_t size)
{
	return set_malloc(0, size);
}

static void kernel_free(void *address)
{
	set_free(0, address);
}

static void run_malloc(void **args)
{
	**(void ***)args[0] = kernel_malloc(*(size_t *)args[1]);
}

static void run_free(void **args)
{
	kernel_free(*(void **)args[0]);
}

static void run_second_malloc(void **args)
{
	**(void ***)args[0] = set_malloc(1, *(size_t *)args[1]);
}

static void run_second_free(void **args)
{
	set_free(1, *(void **)args[0]);
}

/* Counts the bytes that differ from those that get() writes. */
static void run_wrong(void **args)
{
	const unsigned char *block = *(const unsigned char **)args[1];
	for (size_t i = 0; i < *(size_t *)args[2]; i++)
		**(size_t **)args[0] += block[i] != 0x5a;
}

/* Asks for the block's memory and waits: the heap's thread answers after an unknown time. Then
 * allocates and frees the block. */
static void run_churn(void **args)
{
	struct gm_heap *heap = here()->heap;
	struct gm_mailbox *mail = heap->mail;
	size_t size = *(size_t *)args[0];
	uint64_t have = __atomic_load_n(&mail->have.value, __ATOMIC_ACQUIRE);
	__atomic_store_n(&mail->want.value, heap->granted + (size >> GM_GRANULE_SHIFT),
			 __ATOMIC_RELEASE);
	while (__atomic_load_n(&mail->have.value, __ATOMIC_ACQUIRE) == have)
		sched_yield();
	kernel_free(kernel_malloc(size));
}

static unsigned blocks_of_test(void)
{
	int processors = 0;
	((CUresult(*)(int *, CUdevice_attribute, CUdevice))gm_sim_symbol(
		NULL, "cuDeviceGetAttribute"))(&processors,
					       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
	unsigned blocks = processors > 0 ? 2 * (unsigned)processors : 1;
	return blocks < GM_HELPER_BLOCKS ? blocks : GM_HELPER_BLOCKS;
}

static void helper_test(unsigned part)
{
	unsigned blocks = blocks_of_test();
	struct place *p = here();
	uint64_t threads = part == GM_HELPER_ALL ? blocks * GM_HELPER_THREADS : blocks;
	bool aligned = part == GM_HELPER_ALIGNEDS;
	if (part == GM_HELPER_STRANGERS)
		for (unsigned i = 0; i < blocks; i++)
			set_free(p->set, p);
	if (part == GM_HELPER_STRANGERS)
		return;
	bool ours = is_taken(&p->code[p->set], aligned ? GM_TAKEOVER_ALIGNED : GM_TAKEOVER_MALLOC);
	*(ours ? &p->answer->given : &p->answer->elsewhere) += threads;
}

static void helper_see(unsigned tests)
{
	struct place *p = here();
	p->answer->strangers = p->heap->foreign_frees;
	p->answer->passed = p->answer->strangers >= tests && fake_went_well(p->answer);
	p->heap->foreign_frees -= tests;
	if (p->heap->sites)
		p->heap->sites->counts[0][0].at[GM_SITE_INVALID] -= tests;
}

static void run_helper(void **args)
{
	const struct gm_helper_order *order = args[0];
	switch (order->op) {
	case GM_HELPER_START:
		helper_start(order);
		break;
	case GM_HELPER_READ:
		fake_read(code_of_helper(), here()->answer, order->at);
		break;
	case GM_HELPER_WRITE:
		fake_write(code_of_helper(), here()->answer, order);
		break;
	case GM_HELPER_TEST:
		helper_test(order->n);
		break;
	case GM_HELPER_SEE:
		helper_see(order->n);
		break;
	default:
		abort();
	}
}

/* --- images --- */

static const struct gm_sim_kernel helper[] = {
	{"gm_helper_run", run_helper, {sizeof(struct gm_helper_order)}, 0},
	{"gm_empty", run_empty, {0}, 0},
};
static const struct gm_sim_global globals[] = {
	{"gm_helper_answer", sizeof(struct gm_helper_answer)}};
static const struct gm_sim_kernel kernels[] = {{"get", run_malloc, {8, 8}, 0},
					       {"drop", run_free, {8}, 0},
					       {"get_second", run_second_malloc, {8, 8}, 0},
					       {"drop_second", run_second_free, {8}, 0},
					       {"churn", run_churn, {8}, 0},
					       {"wrong", run_wrong, {8, 8, 8}, 0}};
static const struct gm_sim_image image = {GM_SIM_IMAGE, 6, kernels, 4096, 0, NULL};

/* Joins the helper's kernels and the heap's in one image. */
static void stand_in(void)
{
	enum { OWN = sizeof helper / sizeof *helper };
	static struct gm_sim_kernel all[64];
	static struct gm_sim_image both = {GM_SIM_IMAGE, 0, all, 65536, 1, globals};
	both.count = OWN + gm_heap_sim_image.count;
	if (both.count > sizeof all / sizeof *all)
		exit(1);
	memcpy(all, helper, sizeof helper);
	memcpy(all + OWN, gm_heap_sim_image.kernels, gm_heap_sim_image.count * sizeof *all);
	gm_sim_stand_in(&both);
}

#endif
