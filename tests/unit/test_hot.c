/* SPDX-License-Identifier: BSD-3-Clause */
/* Hot memory of a pool. */
#include "hot_fake.h"

static void sizes(void)
{
	static const uint64_t size[] = {512, 60 * GM_KIB, 100 * GM_KIB, 3 * GM_MIB, 64 * GM_MIB};
	for (unsigned i = 0; i < sizeof size / sizeof *size; i++) {
		start(UINT64_MAX);
		struct gm_block a = take(size[i]);
		give(a);
		TAP_OK(fake_valid(f.pool), "a hot block of %llu bytes is valid",
		       (unsigned long long)size[i]);
		TAP_IS(fake_stats(f.pool).retired, a.held, "a hot block counts as retired");
		TAP_IS(take(size[i]).base, a.base, "the hot block is used again at once");
		TAP_IS(o.takes, 1, "the order is asked once");
		TAP_IS(f.recorded + f.waits + f.fences, 0,
		       "a hot block is used again without an event or a wait");
		TAP_IS(fake_stats(f.pool).retired, 0, "a block in use is not retired");
		fake_end(f.pool, "sizes");
	}
}

static void split_and_joined(void)
{
	start(UINT64_MAX);
	struct gm_block a = take(8 * GM_MIB), b = take(8 * GM_MIB), c = take(32 * GM_MIB);
	give(a);
	give(b);
	TAP_OK(sums(0, 16 * GM_MIB), "two hot blocks are retired");
	struct gm_block ab = take(16 * GM_MIB);
	TAP_OK(ab.base == a.base || ab.base == b.base, "hot neighbours are joined");
	give(ab);
	struct gm_block half = take(4 * GM_MIB);
	TAP_OK(half.base - ab.base < 16 * GM_MIB, "a hot extent is split");
	TAP_OK(sums(0, 12 * GM_MIB), "the remainder of a hot extent is hot");
	uint64_t mapped = fake_stats(f.pool).mapped;
	gm_pool_free(f.pool, c.base, &fake_done, NULL);
	TAP_OK(sums(32 * GM_MIB, 12 * GM_MIB), "idle and hot neighbours are counted apart");
	TAP_OK(take(40 * GM_MIB).base, "a block that fits into neither is served");
	TAP_IS(fake_stats(f.pool).mapped, mapped, "idle and hot memory side by side serve a block");
	fake_end(f.pool, "joined");
}

static void run_has_ended(void)
{
	start(UINT64_MAX);
	struct gm_block a = take(3 * GM_MIB), s = take(512);
	give(a);
	give(s);
	run_end();
	struct gm_block b = take(3 * GM_MIB), t = take(512);
	TAP_OK(b.base && b.base != a.base && t.base != s.base,
	       "an allocation gets other memory after the end of the run");
	TAP_IS(f.recorded + f.waits + f.fences, 0,
	       "an allocation after the end of the run does not wait");
	TAP_IS(o.takes, 0, "memory of a run that has ended is not asked for");
	TAP_OK(fake_valid(f.pool) && fake_stats(f.pool).retired >= a.held + s.held,
	       "the hot memory is retired");
	work_has_ended = true;
	TAP_IS(take(3 * GM_MIB).base, a.base, "hot memory is idle when the event has passed");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	TAP_IS(fake_stats(f.pool).retired, 0, "nothing is retired any more");
	fake_end(f.pool, "an ended run");
}

static void ends_meanwhile(void)
{
	static const uint64_t size[] = {512, 3 * GM_MIB};
	for (unsigned i = 0; i < 2; i++) {
		start(UINT64_MAX);
		struct gm_block a = take(size[i]);
		give(a);
		o.ends = true;
		struct gm_block b = take(size[i]);
		TAP_OK(b.base && b.base != a.base,
		       "a run that ends during an allocation keeps its memory");
		TAP_IS(o.takes, 1, "the order was asked for the hot memory");
		TAP_OK(fake_valid(f.pool), "the pool is valid");
		TAP_IS(f.recorded + f.waits + f.fences, 0, "the allocation did not wait");
		fake_end(f.pool, "meanwhile");
	}
}

static void *take_elsewhere(void *arg)
{
	*(struct gm_block *)arg = take(3 * GM_MIB);
	return NULL;
}

static void another_shelf(void)
{
	pthread_t thread;
	struct gm_block b = {0};
	start(UINT64_MAX);
	take(512);
	struct gm_block a = take(3 * GM_MIB);
	give(a);
	take(512); /* the thread's block makes a new peak, so it looks at other shelves */
	run_end();
	pthread_create(&thread, NULL, take_elsewhere, &b);
	pthread_join(thread, NULL);
	TAP_OK(b.base && b.base != a.base,
	       "another thread does not get hot memory of a run that has ended off a shelf");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	fake_end(f.pool, "another shelf");
}

static void later_run(void)
{
	start(UINT64_MAX);
	struct gm_block a = take(8 * GM_MIB), b = take(8 * GM_MIB);
	give(a);
	run_end();
	o.run = 2;
	give(b);
	TAP_OK(sums(0, 16 * GM_MIB), "memory of two runs is retired");
	TAP_IS(take(8 * GM_MIB).base, b.base, "the block of the present run is used again");
	TAP_OK(take(8 * GM_MIB).base != a.base, "the block of the earlier run is not");
	fake_end(f.pool, "a later run");
}

static void new_memory(void)
{
	start(UINT64_MAX);
	give(take(3 * GM_MIB));
	run_end();
	for (unsigned i = 0; i < 3; i++)
		TAP_OK(take((64 + 40 * i) * GM_MIB).base, "new memory is handed out");
	TAP_IS(f.waits + f.fences + o.waits, 0, "new memory waits for nothing");
	fake_end(f.pool, "new memory");
}

static void limit(void)
{
	start(UINT64_MAX);
	struct gm_block a = take(MEMORY / 2);
	give(a);
	run_end();
	TAP_OK(take(MEMORY / 4 * 3).base, "an allocation drains before the device has no memory");
	TAP_OK(o.waits > 0, "an allocation waits before the device has no memory");
	fake_end(f.pool, "the limit");
	start(UINT64_MAX);
	give(take(MEMORY / 2));
	TAP_OK(take(MEMORY / 4 * 3).base,
	       "an allocation at the limit drains while the run goes on");
	fake_end(f.pool, "the limit in a run");
}

static void trimmed(void)
{
	start(1000);
	struct gm_block a = take(64 * GM_MIB);
	give(a);
	the_time += 10000;
	TAP_IS(gm_pool_trim(f.pool, the_time), 0, "hot memory is not returned to the driver");
	TAP_OK(o.cools, "the pool asks whether hot memory has cooled");
	TAP_OK(sums(0, 64 * GM_MIB), "hot memory that has not cooled is retired");
	work_has_ended = true;
	TAP_OK(gm_pool_trim(f.pool, the_time), "hot memory is returned when it has cooled");
	fake_end(f.pool, "trimmed");
}

static void given_back(void)
{
	start(UINT64_MAX);
	struct gm_block a = take(64 * GM_MIB), b = take(32 * GM_MIB);
	gm_pool_free(f.pool, b.base, &fake_done, NULL);
	give(a);
	TAP_IS(gm_pool_give_back(f.pool, 0, false), 32 * GM_MIB,
	       "idle memory is returned beside hot memory");
	TAP_OK(sums(0, 64 * GM_MIB), "hot memory stays with the pool");
	TAP_IS(gm_pool_give_back(f.pool, 0, true), 64 * GM_MIB,
	       "hot memory is returned after a wait");
	fake_end(f.pool, "given back");
}

static void pinned(void)
{
	start(UINT64_MAX);
	struct gm_block a = take(4 * GM_MIB), other = take(4 * GM_MIB);
	give(a);
	TAP_IS(gm_pool_pin(f.pool, other.base, 4096), CUDA_SUCCESS, "a block is pinned");
	TAP_IS(o.cools, 0, "a block that was not hot waits for nothing");
	struct gm_block b = take(4 * GM_MIB);
	TAP_IS(b.base, a.base, "a hot block is used again");
	TAP_IS(gm_pool_pin(f.pool, b.base, 4096), CUDA_SUCCESS, "a block that was hot is pinned");
	TAP_IS(o.cools, 1, "a block that was hot waits for the work from before");
	gm_pool_pin(f.pool, b.base, 8192);
	TAP_IS(o.cools, 1, "a block that was hot waits once for its pins");
	fake_end(f.pool, "pinned");
}

static void context_gone(void)
{
	start(UINT64_MAX);
	struct gm_block a = take(4 * GM_MIB), b = take(512), c = take(4 * GM_MIB);
	give(a);
	give(b);
	run_end();
	give(take(4 * GM_MIB));
	o.run = 2;
	give(c);
	gm_pool_context_gone(f.pool, CONTEXT);
	o.run = 0;
	TAP_IS(fake_stats(f.pool).retired, 0, "the end of the context makes its hot memory idle");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	fake_end(f.pool, "the context");
}

/* Blocks of all sizes, runs that end, events that pass, other contexts. */
static void random_calls(void)
{
	struct gm_block block[64] = {0};
	uint64_t seed = 88172645463325252u, live = 0, wrong = 0;
	start(UINT64_MAX);
	for (unsigned i = 0; i < 100000; i++) {
		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		struct gm_block *b = &block[seed % 64];
		unsigned what = (unsigned)(seed >> 8) % 64;
		if (what == 0)
			run_end();
		else if (what < 4 && !o.run)
			o.run = 100 + i;
		else if (what < 8)
			f.passed = f.recorded;
		else if (what == 8)
			gm_pool_give_back(f.pool, 4 * GM_MIB, seed >> 20 & 1);
		else if (what == 9)
			work_has_ended = !work_has_ended;
		else if (what == 10)
			segment_end();
		else if (b->base) {
			live -= b->held;
			give(*b);
			b->base = 0;
		} else {
			gm_pool_alloc(f.pool, 1 + ((seed >> 16) & ((4u << seed % 21) - 1)),
				      CONTEXT + (seed >> 50) % 2, b);
			live += b->held;
		}
		struct gm_pool_stats s = {0};
		if (i % 100 == 0)
			s = fake_stats(f.pool);
		wrong += s.unreclaimable > s.idle || s.largest_after_remap > s.idle ||
			 s.largest_idle > s.largest_after_remap;
		if (i % 1000 == 0 && !fake_valid(f.pool))
			break;
	}
	TAP_OK(fake_valid(f.pool), "the pool is valid after 100,000 random calls");
	TAP_IS(wrong, 0, "no figure exceeds the idle bytes of which it is a part");
	TAP_IS(fake_stats(f.pool).handed_out, live, "live blocks are counted");
	fake_end(f.pool, "random calls");
}

int main(void)
{
	sizes();
	split_and_joined();
	run_has_ended();
	ends_meanwhile();
	another_shelf();
	later_run();
	new_memory();
	limit();
	trimmed();
	given_back();
	pinned();
	context_gone();
	random_calls();
	return tap_done();
}
