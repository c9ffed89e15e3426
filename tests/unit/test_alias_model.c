/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aliases on a modelled GPU, which runs all work in one order. The model notes the memory that each
 * work uses, and sees each unmap and each release: nothing is unmapped while work that uses it is
 * pending, and no handle is released while it is mapped anywhere.
 */
#include "limbo_fake.h"

#include "log/counters.h"

#define FIRST 2 /* the first context */
#define ELSEWHERE ((CUdeviceptr)1 << 46)
enum { MAPPINGS = 4096, WORKS = 1 << 18, BLOCKS = 32, LOANS = 4 };

static uint64_t submitted, ended; /* numbers of the last work */
static struct {
	CUdeviceptr at;
	uint64_t size;
	CUmemGenericAllocationHandle handle;
} mapping[MAPPINGS];
static unsigned n_mappings;
static struct {
	CUdeviceptr at;
	uint64_t size, number;
} work[WORKS];
static unsigned n_works;
static uint64_t used_unmaps, mapped_releases;

static CUresult model_map(CUdeviceptr at, size_t size, size_t offset,
			  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult result = fake_map(at, size, offset, handle, flags);
	if (result != CUDA_SUCCESS)
		return result;
	GM_ASSERT(n_mappings < MAPPINGS);
	mapping[n_mappings].at = at;
	mapping[n_mappings].size = size;
	mapping[n_mappings++].handle = handle;
	return result;
}

static bool is_used(CUdeviceptr at, uint64_t size)
{
	for (unsigned i = 0; i < n_works; i++)
		if (work[i].number > ended && work[i].at < at + size &&
		    at < work[i].at + work[i].size)
			return true;
	return false;
}

static CUresult model_unmap(CUdeviceptr at, size_t size)
{
	CUresult result = fake_unmap(at, size);
	if (result != CUDA_SUCCESS)
		return result;
	for (unsigned i = 0; i < n_mappings;)
		if (mapping[i].at == at)
			mapping[i] = mapping[--n_mappings];
		else
			i++;
	used_unmaps += is_used(at, size);
	return result;
}

static CUresult model_release(CUmemGenericAllocationHandle handle)
{
	for (unsigned i = 0; i < n_mappings; i++)
		if (mapping[i].handle == handle) {
			mapped_releases++;
			break;
		}
	return fake_release(handle);
}

/* --- the order: the newest event alone is polled, as in the process --- */

static _Atomic uint64_t the_run;
static uint64_t runs, run_context;
static bool is_hot;
static struct {
	bool any;
	uint64_t context, number, work;
} newest;

static void segment_end(void)
{
	if (!is_hot)
		return;
	is_hot = false;
	newest.any = true;
	newest.context = run_context;
	newest.work = submitted;
	newest.number = gm_hot_memory()->number(f.pool);
}

static enum gm_order_free order_free(uint64_t context, uint64_t *run)
{
	*run = 0;
	if (!the_run)
		return ended == submitted ? GM_ORDER_EARLY : GM_ORDER_STREAMS;
	if (context != run_context)
		return GM_ORDER_CONTEXT;
	*run = the_run;
	return GM_ORDER_EARLY;
}

static void order_heat(void *pool)
{
	(void)pool;
	is_hot = true;
}

static bool order_take(uint64_t run)
{
	return the_run == run;
}

static void order_cool(bool wait)
{
	segment_end();
	if (!newest.any)
		return;
	if (wait && ended < newest.work)
		ended = newest.work;
	if (ended >= newest.work)
		gm_hot_memory()->passed(f.pool, newest.context, newest.number);
}

static const struct gm_order_ops order = {.free = order_free,
					  .heat = order_heat,
					  .take = order_take,
					  .run = &the_run,
					  .cool = order_cool};

static void run_begin(uint64_t context)
{
	run_context = context;
	the_run = ++runs;
}

/* --- fences: the number of the last work before it, plus one --- */

static CUresult fence_ask(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return CUDA_SUCCESS;
}

static CUresult fence_wait(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg, (void)context, (void)native;
	ended = submitted;
	*fenced = GM_FENCED_PASSED;
	return CUDA_SUCCESS;
}

static CUresult fence_record(void *arg, uint64_t context, CUevent *fence)
{
	(void)arg, (void)context;
	*fence = (CUevent)(uintptr_t)(submitted + 1);
	return CUDA_SUCCESS;
}

static CUresult fence_passed(void *arg, uint64_t context, CUevent fence)
{
	(void)arg, (void)context;
	return (uintptr_t)fence - 1 <= ended ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult fence_wait_for(void *arg, uint64_t context, CUevent fence)
{
	(void)arg, (void)context;
	ended = (uintptr_t)fence - 1 > ended ? (uintptr_t)fence - 1 : ended;
	return CUDA_SUCCESS;
}

static void fence_drop(void *arg, uint64_t context, CUevent fence)
{
	(void)arg, (void)context, (void)fence;
}

static bool fence_is_idle(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return ended == submitted;
}

static const struct gm_fence_ops fences = {.ask = fence_ask,
					   .is_idle = fence_is_idle,
					   .wait = fence_wait,
					   .record = fence_record,
					   .passed = fence_passed,
					   .wait_for = fence_wait_for,
					   .drop = fence_drop};

/* --- the program --- */

static uint64_t the_time;

static uint64_t clock_fake(void)
{
	return the_time;
}

static void became_idle(void *arg)
{
	(void)arg;
}

static void start(uint64_t memory)
{
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = UINT64_MAX,
					.fences = &fences,
					.defer = true,
					.order = &order,
					.retire = memory / 20,
					.retire_ppm = 125000,
					.clock = clock_fake,
					.idle = became_idle,
					.trim_after = 5000};
	fake_open(memory);
	fake_driver.cuMemMap = model_map;
	fake_driver.cuMemUnmap = model_unmap;
	fake_driver.cuMemRelease = model_release;
	memset(&f, 0, sizeof f);
	memset(&newest, 0, sizeof newest);
	n_mappings = n_works = 0;
	submitted = ended = used_unmaps = mapped_releases = 0;
	the_run = 0;
	is_hot = false;
	the_time = 1000;
	gm_pool_create(&config, &f.pool);
}

static void works_forget_ended(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < n_works; i++)
		if (work[i].number > ended)
			work[n++] = work[i];
	n_works = n;
}

/* Submit work that uses the block. */
static void use(struct gm_block block, uint64_t context)
{
	if (the_run && context != run_context)
		the_run = 0;
	segment_end();
	if (!the_run && ended == submitted)
		run_begin(context);
	if (n_works == WORKS)
		works_forget_ended();
	GM_ASSERT(n_works < WORKS);
	work[n_works].at = block.base;
	work[n_works].size = block.held;
	work[n_works++].number = ++submitted;
}

static struct gm_block take(uint64_t size, uint64_t context)
{
	struct gm_block block = {0};
	if (gm_pool_alloc(f.pool, size, context, &block) != CUDA_SUCCESS)
		block.base = 0;
	if (block.base)
		use(block, context);
	return block;
}

static void give(struct gm_block block)
{
	gm_pool_free(f.pool, block.base, NULL, NULL);
}

enum { STRIPES = 6 };
#define STRIPE (64 * GM_MIB)

/* Every other block is hot, and its chunks move for a longer one. */
static struct gm_block stripes_join(struct gm_block at[STRIPES])
{
	for (unsigned i = 0; i < STRIPES; i++)
		at[i] = take(STRIPE, FIRST);
	for (unsigned i = 0; i < STRIPES; i += 2)
		give(at[i]);
	return take(STRIPES / 2 * STRIPE, FIRST);
}

/* The events of another context come after those that cover the aliases. */
static void another_context_comes(void)
{
	struct gm_block b[STRIPES];
	start(GM_GIB);
	struct gm_block joined = stripes_join(b);
	TAP_OK(f.pool->n_aliases > 0, "chunks have moved in the model");
	ended = submitted;
	the_run = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct gm_block x = take(4 * GM_MIB, FIRST + 1);
		use(x, FIRST + 1);
		give(x);
	}
	ended = submitted;
	the_run = 0;
	give(joined);
	for (unsigned i = 1; i < STRIPES; i += 2)
		give(b[i]);
	gm_pool_give_back(f.pool, 0, true);
	TAP_OK(n_mappings == 0 && mapped_releases == 0,
	       "a wait for all work leaves no alias of an earlier context");
	fake_end(f.pool, "another context");
}

/* Another thread finds that a fence has passed while aliases are unmapped. */
static void passes_in_unmap(enum fake_call call)
{
	if (call != FAKE_UNMAP)
		return;
	fake.visit = NULL;
	ended = submitted;
	order_cool(false);
	give(take(40 * GM_MIB, FIRST));
}

static void fence_passes_in_unmap(void)
{
	struct gm_block b[STRIPES], part[3];
	start(GM_GIB);
	struct gm_block joined = stripes_join(b);
	uint64_t number = newest.number, upto = newest.work;
	give(joined);
	for (unsigned i = 0; i < 3; i++)
		part[i] = take(STRIPE, FIRST);
	give(part[0]);
	give(part[2]);
	give(take(2 * STRIPE, FIRST));
	ended = upto;
	gm_hot_memory()->passed(f.pool, FIRST, number);
	fake.visit = passes_in_unmap;
	TAP_OK(gm_pool_give_back(f.pool, 0, false) > 0 && !fake.visit,
	       "memory is returned, and a fence passes meanwhile");
	TAP_IS(mapped_releases, 0, "no handle is released before its aliases have ended");
	ended = submitted;
	fake_end(f.pool, "a fence");
}

/* The program is always three launches ahead of the GPU. */
static void stays_ahead(void)
{
	unsigned most = 0;
	start(16 * GM_GIB);
	for (unsigned i = 0; i < 600; i++) {
		struct gm_block b[8];
		for (unsigned k = 0; k < 8; k++) {
			b[k] = take((16 + (i * 7 + k * 5) % 5 * 8) * GM_MIB, FIRST);
			ended = submitted - 3;
		}
		for (unsigned k = 0; k < 8; k += 2)
			give(b[k]);
		struct gm_block joined = take((96 + i % 3 * 16) * GM_MIB, FIRST);
		ended = submitted - 3;
		for (unsigned k = 1; k < 8; k += 2)
			give(b[k]);
		give(joined);
		most = f.pool->n_aliases > most ? f.pool->n_aliases : most;
	}
	TAP_OK(most > 0 && most < 64,
	       "aliases end while the program stays ahead: at most %u at once", most);
	TAP_IS(used_unmaps + mapped_releases, 0, "no alias ends too soon");
	ended = submitted;
	fake_end(f.pool, "ahead");
}

/* --- random calls --- */

struct kind {
	unsigned contexts;
	bool lends, grants, fails;
};

static struct {
	struct gm_block block[BLOCKS];
	uint64_t context[BLOCKS];
	bool lent[LOANS];
} p;

static void loan_change(unsigned i)
{
	CUdeviceptr at = ELSEWHERE + i * GM_GIB;
	if (p.lent[i])
		gm_pool_take_back(f.pool, at, 32 * GM_MIB);
	p.lent[i] = !p.lent[i] && gm_pool_lend(f.pool, at, 32 * GM_MIB) == CUDA_SUCCESS;
}

static void block_change(unsigned i, uint64_t r, const struct kind *kind)
{
	if (p.block[i].base) {
		give(p.block[i]);
		p.block[i].base = 0;
		return;
	}
	bool same = the_run && r >> 35 & 63;
	p.context[i] = same ? run_context : FIRST + (r >> 30) % kind->contexts;
	p.block[i] = take((16 + (r >> 16) % 80) * GM_MIB, p.context[i]);
}

/* True: the call was one of the pool's but an allocation or a free. */
static bool pool_call(unsigned what, uint64_t r, const struct kind *kind)
{
	if (what < 3)
		gm_pool_give_back(f.pool, 64 * GM_MIB, what == 2 && (r >> 50) % 8 == 0);
	else if (what < 7)
		gm_pool_trim(f.pool, the_time);
	else if (what < 11 && kind->fails)
		fake.fail[FAKE_MAP] = 1 + (unsigned)(r >> 20) % 8;
	else if (what < 15 && kind->lends)
		loan_change((r >> 20) % LOANS);
	else if (what < 19 && kind->grants)
		r >> 20 & 1 ? gm_pool_grant(f.pool, 1) : gm_pool_revoke(f.pool, 1);
	else
		return false;
	return true;
}

/* The GPU is at most 40 works behind; runs end, and begin on an idle GPU. */
static void gpu_advance(unsigned what, uint64_t r, const struct kind *kind)
{
	the_time += 100;
	if (ended + 40 < submitted)
		ended = submitted - 40 + (r >> 40) % 8;
	if (what == 255 && (r >> 50) % 8 == 0)
		ended = submitted;
	if (what == 254 && (r >> 50) % 8 == 0)
		the_run = 0;
	if (what > 248 && what < 254 && !the_run) {
		ended = submitted;
		run_begin(FIRST + (r >> 20) % kind->contexts);
	}
}

static void program_end(void)
{
	ended = submitted;
	the_run = 0;
	for (unsigned i = 0; i < BLOCKS; i++)
		if (p.block[i].base)
			give(p.block[i]);
	for (unsigned i = 0; i < LOANS; i++)
		if (p.lent[i])
			gm_pool_take_back(f.pool, ELSEWHERE + i * GM_GIB, 32 * GM_MIB);
	gm_pool_give_back(f.pool, 0, true);
}

static void random_calls(uint64_t seed, struct kind kind)
{
	uint64_t moves = gm_counter_get(0, GM_C_ordered_moves);
	start(8 * GM_GIB);
	memset(&p, 0, sizeof p);
	for (unsigned i = 0; i < 20000; i++) {
		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		unsigned at = seed % BLOCKS, what = (unsigned)(seed >> 8) % 256;
		gpu_advance(what, seed, &kind);
		if (pool_call(what, seed, &kind))
			continue;
		if (what < 100 && p.block[at].base)
			use(p.block[at], p.context[at]);
		else
			block_change(at, seed, &kind);
		if (i % 500 == 0 && !fake_valid(f.pool))
			break;
	}
	moves = gm_counter_get(0, GM_C_ordered_moves) - moves;
	printf("# contexts: %u, loans %d, grants %d, failures %d\n", kind.contexts, kind.lends,
	       kind.grants, kind.fails);
	TAP_OK(fake_valid(f.pool), "the pool is valid after 20,000 random calls");
	TAP_OK(moves > 10, "hot chunks moved %llu times", (unsigned long long)moves);
	TAP_IS(used_unmaps, 0, "nothing was unmapped under work that used it");
	TAP_IS(mapped_releases, 0, "no handle was released that was mapped elsewhere");
	program_end();
	TAP_IS(n_mappings, 0, "nothing is mapped at the end");
	fake_end(f.pool, "random calls");
}

int main(void)
{
	another_context_comes();
	fence_passes_in_unmap();
	stays_ahead();
	random_calls(88172645463325252u, (struct kind){.contexts = 1});
	random_calls(99172645463325252u,
		     (struct kind){.contexts = 1, .grants = true, .fails = true});
	random_calls(77172645463325252u, (struct kind){.contexts = 2, .grants = true});
	random_calls(66172645463325252u, (struct kind){.contexts = 3, .fails = true});
	random_calls(55172645463325252u, (struct kind){.contexts = 1, .lends = true});
	return tap_done();
}
