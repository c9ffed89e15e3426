/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of hot memory: a pool with an order and fences that do what the test says. */
#ifndef GM_TESTS_HOT_FAKE_H
#define GM_TESTS_HOT_FAKE_H

#include "limbo_fake.h"

#define CONTEXT 2
#define MEMORY (1 * GM_GIB)

static struct {
	_Atomic uint64_t run;
	bool segment; /* a block has become hot since the last event */
	unsigned takes, cools, waits;
	uint64_t covered; /* number of the last event */
	bool ends;	  /* the run ends at the next take */
} o;

static enum gm_order_free order_free(uint64_t context, uint64_t *run)
{
	*run = o.run;
	return context == CONTEXT && o.run ? GM_ORDER_EARLY : GM_ORDER_STREAMS;
}

static void order_heat(void *pool)
{
	GM_ASSERT(pool == f.pool);
	o.segment = true;
}

static bool order_take(uint64_t run)
{
	o.takes++;
	if (o.ends)
		o.run = 0;
	return o.run == run;
}

static void segment_end(void)
{
	if (o.segment)
		o.covered = gm_hot_memory()->number(f.pool);
	o.segment = false;
}

/* An event of the order passes as those of the pool do. */
static bool work_has_ended;

static void order_cool(bool wait)
{
	o.cools++;
	o.waits += wait;
	segment_end();
	if (work_has_ended || wait)
		gm_hot_memory()->passed(f.pool, CONTEXT, o.covered);
}

static const struct gm_order_ops order = {.free = order_free,
					  .heat = order_heat,
					  .take = order_take,
					  .run = &o.run,
					  .cool = order_cool};

static void run_end(void)
{
	o.run = 0;
	segment_end();
}

static uint64_t the_time;

static uint64_t clock_fake(void)
{
	return the_time;
}

static void idle(void *arg)
{
	(void)arg;
}

static struct gm_pool *start(uint64_t trim_after)
{
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = UINT64_MAX,
					.fences = &polled,
					.defer = true,
					.order = &order,
					.retire = MEMORY / 20,
					.retire_ppm = 125000,
					.clock = clock_fake,
					.idle = idle,
					.trim_after = trim_after};
	fake_open(MEMORY);
	memset(&f, 0, sizeof f);
	memset(&o, 0, sizeof o);
	o.run = 1;
	work_has_ended = false;
	the_time = 1000;
	gm_pool_create(&config, &f.pool);
	return f.pool;
}

static struct gm_block take(uint64_t size)
{
	struct gm_block block = {0};
	gm_pool_alloc(f.pool, size, CONTEXT, &block);
	return block;
}

static void give(struct gm_block block)
{
	gm_pool_free(f.pool, block.base, NULL, NULL);
}

static bool sums(uint64_t idle_bytes, uint64_t retired)
{
	struct gm_pool_stats s = fake_stats(f.pool);
	if (s.idle != idle_bytes || s.retired != retired)
		printf("# idle %llu, retired %llu KiB\n", (unsigned long long)s.idle / 1024,
		       (unsigned long long)s.retired / 1024);
	return fake_valid(f.pool) && s.unreclaimable <= s.idle && s.idle == idle_bytes &&
	       s.retired == retired && s.mapped == s.handed_out + s.idle + s.retired;
}

#endif
