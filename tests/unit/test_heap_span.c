/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growth: a lane acts as the host and grants requests, refuses them, or stops answering.
 * Allocations wait for it, and get NULL exactly when they should. Also the bitmaps of granules.
 */
#include "tests/unit/heap_help.h"

enum { CAPACITY = 48, LANES = 96, EACH = 5 };

enum host { ALIVE, AWAY, DEAD };

struct work {
	struct fixture f;
	enum host host;
	uint32_t mapped, limit, running; /* granules; lanes that have not ended */
	uint64_t got, null;
	uint64_t gave_up; /* ns that lanes had waited at the first NULL */
	uint32_t unasked; /* 1: all lanes still waited after TURNS, and none had asked */
	size_t size;
};

static void answer(struct work *work)
{
	struct gm_mailbox *mail = &work->f.mail;
	uint64_t have = mail->have.value, want = gm_load64_system(&mail->want.value);
	gm_store64_system(&mail->beat.value, gm_nanoseconds());
	if (want > work->limit)
		gm_store64_system(&mail->refused.value, work->limit + 1);
	if (want > work->limit)
		want = work->limit;
	if (work->mapped >= want || have - gm_load64_system(&mail->taken.value) >= GM_GRANTS)
		return;
	/* One granule at a time for small requests, the full amount for large ones. */
	uint64_t n = want - work->mapped > 4 ? want - work->mapped : 1;
	mail->grant[have % GM_GRANTS] = (uint64_t)work->mapped << 32 | n;
	work->mapped += (uint32_t)n;
	gm_store64_system(&mail->have.value, have + 1);
}

static void grow_lane(void *arg, uint32_t thread)
{
	struct work *work = arg;
	/* The host is a warp of its own. */
	if (thread < 32) {
		while (thread == 0 && gm_load32(&work->running)) {
			if (work->host != ALIVE)
				gm_simt_advance(work->host == AWAY ? 5 * GM_HOST_DEAD
								   : GM_HOST_DEAD / 20);
			if (work->host != DEAD)
				answer(work);
			gm_pause(1000);
		}
		return;
	}
	for (uint32_t i = 0; i < EACH; i++) {
		void *address = work->f.policy->malloc(&work->f.heap, work->size);
		if (!address && gm_load64(&work->null) == 0)
			gm_store64(&work->gave_up, gm_load64(&work->f.heap.waited));
		test_count(address ? &work->got : &work->null);
		if (address)
			test_fill(address, work->size, thread);
		gm_simt_progress();
	}
	gm_add32(&work->running, ~0u);
}

static void grow(struct work *work, const struct gm_policy *policy, enum host host, uint32_t limit,
		 size_t size, enum gm_simt_mode mode)
{
	memset(work, 0, sizeof *work);
	test_open(&work->f, policy, CAPACITY, 0, test_seed());
	work->f.mail.refused.value = 0;
	work->f.mode = mode;
	work->host = host;
	work->limit = limit;
	work->size = size;
	work->running = LANES;
	TAP_OK(test_launch(&work->f, LANES / 32 + 1, LANES / 32 + 1, grow_lane, work),
	       "%s: all lanes come to their end", policy->name);
}

static void check_growth(struct work *work, const struct gm_policy *policy, enum gm_simt_mode mode)
{
	const char *name = policy->name;
	grow(work, policy, ALIVE, CAPACITY, 3000, mode);
	TAP_IS(work->null, 0, "%s: grows from nothing, and no lane gets NULL", name);
	TAP_OK(work->mapped <= 12, "%s: grows only as needed: %u granules", name, work->mapped);
	gm_span_collect(&work->f.heap);
	TAP_IS(work->f.heap.granted, work->mapped, "%s: all grants were taken", name);
	TAP_IS(work->f.mail.taken.value, work->f.mail.have.value,
	       "%s: the host knows the grants that were taken", name);
	test_close(&work->f);

	grow(work, policy, ALIVE, CAPACITY, 3 * GM_GRANULE / 2, mode);
	TAP_OK(work->got >= CAPACITY / 2 - 4, "%s: %lu runs of granules are served", name,
	       (unsigned long)work->got);
	TAP_OK(work->null > 0, "%s: a refusal gives NULL", name);
	test_close(&work->f);

	grow(work, policy, ALIVE, 1, 8192, mode);
	TAP_OK(work->got >= 100 && work->got <= 256,
	       "%s: one granule is granted, more are refused: %lu blocks", name,
	       (unsigned long)work->got);
	test_close(&work->f);

	grow(work, policy, AWAY, CAPACITY, 3000, mode);
	TAP_IS(work->null, 0, "%s: no NULL after the GPU was another process's for seconds", name);
	test_close(&work->f);

	grow(work, policy, DEAD, CAPACITY, 64, mode);
	TAP_IS(work->got, 0, "%s: nobody waits for ever for a dead host", name);
	TAP_OK(work->gave_up > GM_HOST_DEAD && work->gave_up < GM_HOST_STUCK,
	       "%s: lanes wait less for a dead host than for a stuck one: %lu ns", name,
	       (unsigned long)work->gave_up);
	test_close(&work->f);
}

/* --- slots that others free, and others take --- */

enum { WAITING = 64, TURNS = 20000, LOW = 4 };

/* The host, and the neighbours of lanes that wait: a shard always seems to have room. After TURNS
 * without a request it ends that, so that the lanes find the heap empty, and end. */
static void pass_by(struct work *work)
{
	struct gm_heap *heap = &work->f.heap;
	struct gm_granule_class *class_ =
		&gm_granules_of(heap)->class_[gm_granule_class_of(work->size)];
	for (uint32_t turn = 0; gm_load32(&work->running); turn++) {
		for (uint32_t w = 0; w < GM_SHARDS / 64 && turn < TURNS; w++)
			gm_or64(&class_->room[w], ~0ull);
		if (turn < TURNS)
			gm_or64(&class_->rooms, ~0ull);
		else if (gm_load32(&work->running) == WAITING)
			gm_store32(&work->unasked, 1);
		answer(work);
		gm_pause(1000);
	}
}

static void pass_by_lane(void *arg, uint32_t thread)
{
	struct work *work = arg;
	if (thread < 32) {
		if (thread == 0)
			pass_by(work);
		return;
	}
	test_count(work->f.policy->malloc(&work->f.heap, work->size) ? &work->got : &work->null);
	gm_add32(&work->running, ~0u);
}

static void check_passing(struct work *work, const struct gm_policy *policy)
{
	memset(work, 0, sizeof *work);
	test_open(&work->f, policy, CAPACITY, 0, test_seed());
	work->f.mail.refused.value = 0;
	work->f.heap.low = LOW;
	work->limit = CAPACITY;
	work->size = 1024 * 1024;
	work->running = WAITING;
	TAP_OK(test_launch(&work->f, WAITING / 32 + 1, WAITING / 32 + 1, pass_by_lane, work),
	       "lanes wait for slots that others free and take");
	TAP_IS(work->unasked, 0, "lanes ask for memory although the heap is never seen full");
	TAP_IS(work->got, WAITING, "each lane has a slot of memory that the host granted");
	TAP_OK(work->mapped < CAPACITY, "the heap grew to %u granules, not to its limit",
	       work->mapped);
	test_close(&work->f);
}

/* --- bitmaps --- */

static struct gm_bits bits;
static uint32_t taken[64 * 100];

static void take_all(void *arg, uint32_t thread)
{
	uint32_t i;
	(void)arg;
	while ((i = gm_bits_take(&bits, 2, thread)) != GM_NO_GRANULE) {
		gm_add32(&taken[i], 1);
		gm_simt_progress();
		if (i % 3 == 0 && gm_load32(&taken[i]) == 1)
			gm_bits_put(&bits, i);
	}
}

static void check_bits(void)
{
	uint64_t word[100] = {0}, summary[2] = {0};
	unsigned wrong = 0;
	bits = (struct gm_bits){word, summary};
	for (uint32_t i = 0; i < 6400; i += 7)
		gm_bits_put(&bits, i);
	gm_simt_launch(&(struct gm_simt){4, 4, test_seed(), GM_SIMT_FAIR}, take_all, NULL);
	for (uint32_t i = 0; i < 6400; i++)
		wrong += taken[i] != (i % 7 ? 0 : i % 3 ? 1 : 2);
	TAP_IS(wrong, 0, "each granule is taken as often as it was put");
	TAP_OK(!summary[0] && !summary[1], "no summary bit remains over empty words");
}

static void check_runs(void)
{
	struct fixture f;
	test_open(&f, &gm_policies[0], 200, 200, 1);
	uint32_t a = gm_span_take_run(&f.heap, 150), b = gm_span_take_run(&f.heap, 50);
	TAP_OK(a == 50 && b == 0, "runs come from the end of the heap");
	TAP_IS(gm_span_take_run(&f.heap, 1), GM_NO_GRANULE, "no run is left");
	gm_span_give(&f.heap, 60, 130);
	TAP_IS(gm_span_take_run(&f.heap, 131), GM_NO_GRANULE,
	       "granules that are not adjacent are no run");
	TAP_IS(gm_span_take_run(&f.heap, 130), 60, "a run across words is found");
	TAP_IS(f.heap.available, 0, "all granules of runs are counted");
	test_close(&f);
}

/* The last `count` adjacent free granules, searched bit by bit. */
static uint32_t last_run(const struct gm_heap *heap, uint32_t count)
{
	for (uint32_t g = heap->capacity, run = 0; g-- > 0;) {
		run = heap->free.word[g >> 6] >> (g & 63) & 1 ? run + 1 : 0;
		if (run == count)
			return g;
	}
	return GM_NO_GRANULE;
}

static void check_fits(void)
{
	uint32_t wrong = 0, found = 0, random = test_seed();
	struct fixture f;
	test_open(&f, &gm_policies[0], 700, 700, 1);
	for (uint32_t round = 0; round < 200; round++) {
		uint32_t count = 1 + round * round % 150, expected = last_run(&f.heap, count);
		uint32_t run = gm_span_take_run(&f.heap, count);
		wrong += run != expected;
		found += run != GM_NO_GRANULE;
		if (run == GM_NO_GRANULE) { /* all but single ones return */
			for (uint32_t g = 0; g < 700; g++)
				if (!(f.heap.free.word[g >> 6] >> (g & 63) & 1) &&
				    (random = random * 1664525 + 1013904223) >> 28 > round % 4)
					gm_span_give(&f.heap, g, 1);
		}
	}
	TAP_IS(wrong, 0, "a run is the last one that is long enough");
	TAP_OK(found > 100, "%u runs were found, across words and within", found);
	test_close(&f);
}

/* Each lane takes one run, all at once. */
struct crowd {
	struct fixture f;
	uint32_t owner[1024], count, got, shared;
};

static void take_one_run(void *arg, uint32_t thread)
{
	struct crowd *c = arg;
	uint32_t first = gm_span_take_run(&c->f.heap, c->count);
	if (first == GM_NO_GRANULE)
		return;
	__atomic_fetch_add(&c->got, 1, __ATOMIC_RELAXED);
	for (uint32_t g = first; g < first + c->count; g++)
		if (__atomic_exchange_n(&c->owner[g], thread + 1, __ATOMIC_RELAXED))
			__atomic_fetch_add(&c->shared, 1, __ATOMIC_RELAXED);
}

/* Lanes that first find the same run pay a few accesses each, not one for each other lane. */
static void check_crowd(uint32_t count)
{
	static struct crowd c;
	memset(&c, 0, sizeof c);
	test_open(&c.f, &gm_policies[0], 1024, 1024, test_seed());
	c.f.mode = GM_SIMT_CROWD;
	c.count = count;
	uint64_t steps = gm_nanoseconds();
	TAP_OK(test_launch(&c.f, 4, 4, take_one_run, &c), "128 lanes take %u granules each", count);
	steps = (gm_nanoseconds() - steps) / 128;
	TAP_IS(c.got, 128, "all lanes get a run");
	TAP_IS(c.shared, 0, "no two lanes get the same run");
	TAP_OK(steps < 20, "a lane makes %lu accesses", (unsigned long)steps);
	test_close(&c.f);
}

/* Runs and single granules, taken and returned by all lanes at once, of too few. */
struct scramble {
	struct fixture f;
	uint32_t owner[100];
	uint64_t shared, runs;
};

static void scramble(void *arg, uint32_t thread)
{
	struct scramble *s = arg;
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t n = (thread + i) % 5 + 1, bad = 0;
		uint32_t first = n == 1 ? gm_span_take_one(&s->f.heap, thread)
					: gm_span_take_run(&s->f.heap, n);
		if (first == GM_NO_GRANULE)
			continue;
		for (uint32_t g = first; g < first + n; g++)
			bad += gm_cas32(&s->owner[g], 0, thread + 1) != 0;
		for (uint32_t g = first; g < first + n; g++)
			bad += gm_cas32(&s->owner[g], thread + 1, 0) != thread + 1;
		if (bad)
			test_count(&s->shared);
		if (n > 1)
			test_count(&s->runs);
		gm_span_give(&s->f.heap, first, n);
	}
}

static void check_contention(void)
{
	static struct scramble s;
	uint32_t remaining = 0;
	test_open(&s.f, &gm_policies[0], 100, 100, test_seed());
	TAP_OK(test_launch(&s.f, 3, 3, scramble, &s), "lanes take and give granules and runs");
	TAP_IS(s.shared, 0, "no granule is two lanes' at once");
	TAP_OK(s.runs > 500, "%lu runs were taken", (unsigned long)s.runs);
	TAP_IS(s.f.heap.available, 100, "all granules are counted at the end");
	while (gm_span_take_one(&s.f.heap, 0) != GM_NO_GRANULE)
		remaining++;
	TAP_IS(remaining, 100, "all granules are in the bitmap at the end");
	test_close(&s.f);
}

int main(void)
{
	static struct work work;
	for (unsigned p = 0; p < GM_POLICIES; p++) {
		check_growth(&work, &gm_policies[p], GM_SIMT_FAIR);
		if (gm_policies[p].malloc == gm_granule_malloc)
			check_growth(&work, &gm_policies[p], GM_SIMT_UNFAIR);
		if (gm_policies[p].malloc == gm_granule_malloc)
			check_passing(&work, &gm_policies[p]);
	}
	check_bits();
	check_runs();
	check_fits();
	check_crowd(1);
	check_crowd(3);
	check_contention();
	return tap_done();
}
