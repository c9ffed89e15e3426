/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks kept for streams of two contexts (library/stream.c), on the simulated driver. */
#include "library/stream.h"

#include <sched.h>

#include "base/size.h"
#include "context/fence.h"

#include "on_sim.h"

#define BIG (64 * GM_MIB) /* freed, it gets an event of its own */

static struct gm_pool *pool;
static struct gm_streams *streams;

/* A context with one stream. */
struct place {
	struct gm_context *context;
	CUstream stream;
	uint64_t number;
};

static CUresult take(void *arg, size_t size, struct gm_context *context, struct gm_block *out)
{
	return gm_pool_alloc(arg, size, context->key, out);
}

static void open_all(void)
{
	sim_start("13.0", "1");
	const struct gm_pool_config config = {
		.driver = &sim,
		.limit = UINT64_MAX,
		.fences = gm_fence_ops(&sim),
		.fence_arg = &sim,
		.trim_after = UINT64_MAX,
	};
	gm_pool_create(&config, &pool);
	const struct gm_streams_config kept = {
		.driver = &sim,
		.pool = pool,
		.most = GM_GIB,
		.take = take,
		.arg = pool,
	};
	streams = gm_streams_create(&kept);
}

static void close_all(void)
{
	const char *why = NULL;
	TAP_OK(gm_pool_is_valid(pool, &why), "the pool is valid");
	gm_streams_destroy(streams);
	gm_pool_destroy(pool);
	gm_context_forget_all();
}

static void enter(const struct place *place)
{
	sim_set_current(place->context->handle);
}

static struct place place_in(struct gm_context *context)
{
	struct place place = {.context = context};
	enter(&place);
	sim.cuStreamCreate(&place.stream, CU_STREAM_NON_BLOCKING);
	place.number = gm_streams_number(&sim, place.stream);
	return place;
}

static struct place place_new(void)
{
	CUresult result;
	return place_in(gm_context_of(&sim, sim_context(0), &result));
}

/* The context of a place is destroyed in the manner of the shim. */
static void place_end(const struct place *place)
{
	CUcontext handle = place->context->handle;
	struct gm_context *ending = gm_context_ending(handle);
	SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(handle);
	uint64_t key = gm_context_gone(handle);
	gm_streams_context_gone(streams, key);
	gm_pool_context_gone(pool, key);
	gm_context_ended(ending);
}

static struct gm_block take_at(const struct place *place, size_t size)
{
	struct gm_block block = {0};
	enter(place);
	gm_streams_alloc(streams, size, place->context, place->number, &block);
	return block;
}

static CUresult give_at(const struct place *place, const struct gm_block *block)
{
	enter(place);
	return gm_streams_free(streams, block->base, place->context, place->stream, place->number);
}

static bool is_live(const struct gm_block *block)
{
	struct gm_block now;
	return gm_pool_find(pool, block->base, &now) && now.live && now.id == block->id;
}

/* --- */

static bool overlaps(const struct gm_block *a, const struct gm_block *b)
{
	return a->base < b->base + b->held && b->base < a->base + a->held;
}

/* A batch shares an event that has passed: any stream of the same context may take its blocks. */
static void stays_in_its_context(void)
{
	struct gm_block freed[GM_STREAMS_BATCH];
	bool crossed = false;
	open_all();
	struct place a = place_new(), b = place_new();
	for (unsigned i = 0; i < GM_STREAMS_BATCH; i++)
		freed[i] = take_at(&a, GM_MIB);
	for (unsigned i = 0; i < GM_STREAMS_BATCH; i++)
		give_at(&a, &freed[i]);
	struct gm_block other = take_at(&b, GM_MIB);
	for (unsigned i = 0; i < GM_STREAMS_BATCH; i++)
		crossed |= overlaps(&other, &freed[i]);
	TAP_OK(other.base && !crossed, "another context gets none of the kept blocks");
	place_end(&a);
	TAP_OK(is_live(&other), "another context's block stays when the first context ends");
	crossed = false;
	for (unsigned i = 0; i < GM_STREAMS_BATCH; i++) {
		freed[i] = take_at(&b, GM_MIB);
		crossed |= overlaps(&other, &freed[i]);
	}
	TAP_OK(!crossed, "another context's block is not handed out again");
	TAP_IS(gm_streams_kept(streams), 0, "no block of the first context is kept");
	close_all();
}

static void serves_its_context(void)
{
	open_all();
	struct place a = place_new();
	struct gm_block block = take_at(&a, BIG);
	give_at(&a, &block);
	struct place other = place_in(a.context);
	TAP_IS(take_at(&other, BIG).base, block.base,
	       "another stream of the context gets the freed block");
	close_all();
}

/* --- events are used only inside their context --- */

static struct gm_context *expected;
static CUresult (*real_query)(CUevent event), (*real_wait)(CUevent event);
static CUresult (*real_destroy)(CUevent event);
static unsigned inside, outside;

static void note_call(void)
{
	*(atomic_load(&expected->users) ? &inside : &outside) += 1;
}

static CUresult note_query(CUevent event)
{
	note_call();
	return real_query(event);
}

static CUresult note_wait(CUevent event)
{
	note_call();
	return real_wait(event);
}

static CUresult note_destroy(CUevent event)
{
	note_call();
	return real_destroy(event);
}

/* From now on count calls with events inside this context, and outside it. */
static void note_calls_of(struct gm_context *context)
{
	expected = context;
	inside = outside = 0;
	real_query = sim.cuEventQuery;
	real_wait = sim.cuEventSynchronize;
	real_destroy = sim.cuEventDestroy_v2;
	sim.cuEventQuery = note_query;
	sim.cuEventSynchronize = note_wait;
	sim.cuEventDestroy_v2 = note_destroy;
}

static void enters_the_context(void)
{
	open_all();
	struct place a = place_new(), b = place_new();
	struct place other = place_in(a.context);
	note_calls_of(a.context);
	struct gm_block block = take_at(&a, BIG);
	give_at(&a, &block);
	TAP_IS(take_at(&other, BIG).base, block.base,
	       "another stream of the context gets the block");
	TAP_OK(inside == 2 && outside == 0, "the event is polled and destroyed inside its context");
	give_at(&other, &block);
	enter(&b);
	TAP_IS(gm_streams_drain(streams), BIG,
	       "a drain in another context returns the block to the pool");
	TAP_OK(inside == 4 && outside == 0,
	       "the drain waits and destroys the event inside its context");
	close_all();
}

/* During a call that may end the context, the context counts as ended for the program. */
static void waits_for_the_end(void)
{
	open_all();
	struct place a = place_new(), b = place_new();
	note_calls_of(a.context);
	struct gm_block block = take_at(&a, BIG);
	give_at(&a, &block);
	enter(&b);
	struct gm_context *ending = gm_context_ending(a.context->handle);
	TAP_PTR(ending, a.context, "a call of the program may end the context");
	TAP_IS(gm_streams_drain(streams), 0, "no block of an ending context is drained");
	TAP_IS(inside + outside, 0, "the event of an ending context is not used");
	TAP_OK(is_live(&block) && gm_streams_kept(streams) == BIG,
	       "the block of an ending context is kept");
	gm_context_ended(ending);
	TAP_IS(gm_streams_drain(streams), BIG, "the block is drained if the context stays");
	TAP_OK(!is_live(&block), "the drained block belongs to the pool");
	close_all();
}

/* The context has ended, and the streams have not been told yet. */
static void leaves_the_dead_alone(void)
{
	open_all();
	struct place a = place_new(), b = place_new();
	note_calls_of(a.context);
	struct gm_block block = take_at(&a, BIG);
	give_at(&a, &block);
	enter(&b);
	SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(a.context->handle);
	uint64_t key = gm_context_gone(a.context->handle);
	gm_streams_drain(streams);
	TAP_IS(inside + outside, 0, "the event of an ended context is not used");
	TAP_IS(gm_streams_kept(streams), 0, "the block of an ended context is not kept");
	TAP_IS(gm_pool_context_gone(pool, key), 1, "the pool ends the blocks of an ended context");
	TAP_IS(take_at(&b, BIG).base, block.base, "another context gets the memory");
	close_all();
}

/* --- a block that was freed by another path --- */

static struct gm_block stolen, owned;

/* During the wait the block is freed, and its address is handed out again. */
static CUresult steal_during_wait(CUevent event)
{
	gm_pool_free(pool, stolen.base, &(struct gm_free){.after = GM_FREE_AFTER_NOTHING}, NULL);
	gm_pool_alloc(pool, stolen.size, stolen.context, &owned);
	return real_wait(event);
}

static void frees_no_other(void)
{
	open_all();
	struct place a = place_new();
	note_calls_of(a.context);
	sim.cuEventSynchronize = steal_during_wait;
	stolen = take_at(&a, BIG);
	give_at(&a, &stolen);
	gm_streams_drain(streams);
	TAP_IS(owned.base, stolen.base, "the address is another block's after the wait");
	TAP_OK(is_live(&owned), "the other block at the address is not freed");
	TAP_IS(gm_streams_kept(streams), 0, "the first block is not kept any more");
	close_all();
}

/* Records of a freed block do not apply to the next block at its address. */
static void keeps_the_next(void)
{
	open_all();
	struct place a = place_new();
	struct gm_block first = take_at(&a, BIG), next;
	give_at(&a, &first);
	gm_pool_free(pool, first.base, &(struct gm_free){.after = GM_FREE_AFTER_NOTHING}, NULL);
	gm_pool_alloc(pool, BIG, a.context->key, &next);
	TAP_IS(next.base, first.base, "a kept block is freed, and its address used again");
	TAP_IS(give_at(&a, &next), CUDA_SUCCESS, "the next block there is freed");
	TAP_IS(give_at(&a, &next), CUDA_ERROR_INVALID_VALUE, "the next block is freed once");
	TAP_IS(take_at(&a, BIG).id, next.id, "the next block is reused");
	TAP_OK(take_at(&a, BIG).base != first.base, "the next block is reused once");
	close_all();
}

/* --- drains --- */

static void settles_the_others(void)
{
	open_all();
	struct place a = place_new(), b = place_new();
	struct gm_block first = take_at(&a, BIG), second = take_at(&b, BIG);
	give_at(&a, &first);
	give_at(&b, &second);
	struct gm_context *ending = gm_context_ending(a.context->handle);
	TAP_IS(gm_streams_drain(streams), BIG,
	       "one context is ending: the other's kept blocks are drained");
	TAP_OK(is_live(&first) && !is_live(&second), "the other context's block alone is drained");
	gm_context_ended(ending);
	close_all();
}

static atomic_bool waited;
static pthread_t settler;
static struct gm_block given;

void __real_gm_lock_wait(struct gm_lock *lock, pthread_cond_t *condition);
void __wrap_gm_lock_wait(struct gm_lock *lock, pthread_cond_t *condition);
void __wrap_gm_lock_wait(struct gm_lock *lock, pthread_cond_t *condition)
{
	atomic_store(&waited, true);
	__real_gm_lock_wait(lock, condition);
}

static void *settle_too(void *bytes)
{
	*(uint64_t *)bytes = gm_streams_drain(streams);
	bool early = is_live(&given);
	atomic_store(&waited, true);
	return (void *)(uintptr_t)early;
}

static uint64_t others;

/* Another thread drains while this one waits for the event. */
static CUresult settle_during_wait(CUevent event)
{
	pthread_create(&settler, NULL, settle_too, &others);
	while (!atomic_load(&waited))
		sched_yield();
	return real_wait(event);
}

static void waits_for_other_threads(void)
{
	void *early;
	open_all();
	struct place a = place_new();
	note_calls_of(a.context);
	sim.cuEventSynchronize = settle_during_wait;
	given = take_at(&a, BIG);
	give_at(&a, &given);
	TAP_IS(gm_streams_drain(streams), BIG, "a thread drains the kept blocks");
	pthread_join(settler, &early);
	TAP_OK(!early, "a thread that drains meanwhile waits for it");
	TAP_IS(others, BIG, "a thread that waited sees that memory was returned");
	close_all();
}

int main(void)
{
	stays_in_its_context();
	serves_its_context();
	enters_the_context();
	waits_for_the_end();
	leaves_the_dead_alone();
	frees_no_other();
	keeps_the_next();
	settles_the_others();
	waits_for_other_threads();
	return tap_done();
}
