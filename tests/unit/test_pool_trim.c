/* SPDX-License-Identifier: BSD-3-Clause */
/* Idle memory is released after a time, by a clock that the test steps. */
#include "pool_fake.h"

#include "log/counters.h"

#define SECOND ((uint64_t)1000000000)
#define AFTER (10 * SECOND)

static uint64_t now;
static unsigned asked, idle_said, crowded_said;

static uint64_t clock_fake(void)
{
	asked++;
	return now;
}

static void idle_fake(void *arg)
{
	(void)arg;
	idle_said++;
}

static void crowded_fake(void *arg)
{
	(void)arg;
	crowded_said++;
}

/* Trim all that is due. */
static uint64_t trim(struct gm_pool *pool, uint64_t at)
{
	uint64_t given = 0, more;
	while ((more = gm_pool_trim(pool, at)))
		given += more;
	return given;
}

static struct gm_pool *open_pool(uint64_t memory, uint64_t after, uint64_t keep)
{
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = UINT64_MAX,
					.trim_after = after,
					.keep = keep,
					.clock = clock_fake,
					.idle = idle_fake,
					.crowded = crowded_fake};
	fake_open(memory);
	now = 1000 * SECOND;
	asked = idle_said = crowded_said = 0;
	gm_pool_create(&config, &pool);
	return pool;
}

static void after_a_time(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB, AFTER, 0);
	struct gm_block a = fake_alloc(pool, 64 * GM_MIB), b = fake_alloc(pool, 64 * GM_MIB);
	TAP_IS(trim(pool, now + 100 * AFTER), 0, "memory in use stays");
	gm_pool_free(pool, a.base, NULL, NULL);
	TAP_IS(gm_pool_trim_next(pool), now + AFTER, "a free says when its chunk would be due");
	now += SECOND;
	gm_pool_free(pool, b.base, NULL, NULL);
	now += AFTER - SECOND - 1;
	TAP_IS(trim(pool, now), 0, "nothing goes before its time");
	now += 1;
	TAP_IS(trim(pool, now), 64 * GM_MIB, "the first chunk goes when its time has come");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_IS(gm_pool_trim_next(pool), now + SECOND, "the second chunk is due later");
	TAP_IS(trim(pool, now + SECOND), 64 * GM_MIB, "the second chunk is returned when due");
	TAP_IS(gm_pool_trim_next(pool), UINT64_MAX, "no further trim is due");
	TAP_OK(fake_stats(pool).mapped == 0 && fake_valid(pool), "nothing is mapped, all valid");
	TAP_IS(gm_counter_get(0, GM_C_trim_calls), 2, "two trimmed chunks are counted");
	TAP_IS(gm_counter_get(0, GM_C_trim_bytes), 128 * GM_MIB, "the trimmed bytes are counted");
	TAP_IS(gm_pool_given(pool), 128 * GM_MIB, "the bytes returned are counted");
	fake_end(pool, "trim");
}

static void sooner(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB, AFTER, 0);
	struct gm_block a = fake_alloc(pool, 64 * GM_MIB), b = fake_alloc(pool, 64 * GM_MIB);
	uint64_t early = gm_counter_get(0, GM_C_trim_early);
	gm_pool_free(pool, a.base, NULL, NULL);
	now += 2 * SECOND;
	gm_pool_free(pool, b.base, NULL, NULL);
	gm_pool_trim_sooner(pool, SECOND);
	TAP_IS(gm_pool_trim_next(pool), now - SECOND, "sooner: a chunk is due after less time");
	TAP_IS(trim(pool, now), 64 * GM_MIB, "sooner: that chunk goes, not the younger one");
	TAP_IS(gm_counter_get(0, GM_C_trim_early) - early, 64 * GM_MIB,
	       "sooner: the early return is counted");
	gm_pool_trim_sooner(pool, UINT64_MAX);
	TAP_IS(gm_pool_trim_next(pool), now + AFTER, "sooner ends: the other has its old time");
	TAP_IS(trim(pool, now + AFTER), 64 * GM_MIB,
	       "sooner ends: the other chunk goes at its time");
	TAP_IS(gm_counter_get(0, GM_C_trim_early) - early, 64 * GM_MIB,
	       "a return at its time does not count as early");
	fake_end(pool, "sooner");
}

/* A program that needs its memory again after each early return. */
static void sooner_in_vain(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB, AFTER, 0);
	uint64_t waits[6];
	gm_pool_trim_sooner(pool, SECOND);
	for (unsigned i = 0; i < 6; i++) {
		struct gm_block a = fake_alloc(pool, 64 * GM_MIB);
		gm_pool_trim_sooner(pool, SECOND);
		gm_pool_free(pool, a.base, NULL, NULL);
		waits[i] = gm_pool_trim_next(pool) - now;
		now += waits[i];
		trim(pool, now);
	}
	TAP_IS(waits[0], SECOND, "the first early return comes after the short time");
	TAP_IS(waits[1], 2 * SECOND, "memory that was needed again returns after twice that");
	TAP_IS(waits[3], 8 * SECOND, "the time before an early return doubles again");
	TAP_IS(waits[5], AFTER, "the time before an early return ends at that of the knob");
	gm_pool_trim_sooner(pool, UINT64_MAX);
	gm_pool_trim_sooner(pool, SECOND);
	gm_pool_free(pool, fake_alloc(pool, 64 * GM_MIB).base, NULL, NULL);
	TAP_IS(gm_pool_trim_next(pool) - now, SECOND, "other processes that come later begin anew");
	fake_end(pool, "sooner, in vain");
}

static void a_steady_loop(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB, AFTER, 0);
	struct gm_block other = fake_alloc(pool, 96 * GM_MIB);
	gm_pool_free(pool, other.base, NULL, NULL);
	uint64_t given = 0;
	unsigned mapped = 0;
	for (unsigned i = 0; i < 100; i++) {
		struct gm_block a = fake_alloc(pool, 40 * GM_MIB), b = fake_alloc(pool, 700);
		gm_pool_free(pool, a.base, NULL, NULL);
		gm_pool_free(pool, b.base, NULL, NULL);
		if (i == 0)
			mapped = fake.calls[FAKE_MAP];
		now += SECOND;
		given += trim(pool, now);
	}
	TAP_IS(fake.calls[FAKE_MAP], mapped, "memory that a loop reuses stays mapped");
	TAP_IS(given, 0, "no memory of a chunk used every second is returned");
	now += AFTER;
	TAP_OK(trim(pool, now) > 0 && !fake_stats(pool).mapped,
	       "the chunk is returned when the loop has ended");
	fake_end(pool, "a loop");
}

/* Each chunk of an extent has an age of its own. */
static void by_chunk(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, AFTER, 0);
	struct gm_block b[4];
	for (unsigned i = 0; i < 4; i++)
		b[i] = fake_alloc(pool, 32 * GM_MIB);
	for (unsigned i = 0; i < 4; i++)
		gm_pool_free(pool, b[i].base, NULL, NULL);
	now += AFTER / 2;
	struct gm_block again = fake_alloc(pool, 20 * GM_MIB), found;
	TAP_IS(again.base, b[0].base, "idle memory of four chunks is used from its beginning");
	now += AFTER / 2;
	TAP_IS(trim(pool, now), 96 * GM_MIB, "three chunks were idle all the time");
	TAP_OK(gm_pool_find(pool, again.base, &found) && found.live && fake_valid(pool),
	       "the one in use stays");
	gm_pool_free(pool, again.base, NULL, NULL);
	TAP_IS(trim(pool, now), 0, "the age of a used chunk restarts when it is idle");
	TAP_IS(trim(pool, now + AFTER), 32 * GM_MIB, "the used chunk is returned in the end");
	fake_end(pool, "by chunk");
}

/* Slots at the end of a chunk, and a next chunk without used blocks. */
static void slots_beside(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, AFTER, 0);
	struct gm_block large = fake_alloc(pool, 8 * GM_MIB - 256 * GM_KIB);
	struct gm_block slot = fake_alloc(pool, 31504), idle = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, idle.base, NULL, NULL);
	now += AFTER;
	trim(pool, now);
	TAP_OK(fake_valid(pool), "the pool is valid");
	gm_pool_free(pool, slot.base, NULL, NULL);
	now += AFTER;
	trim(pool, now);
	TAP_IS(fake_stats(pool).mapped, 8 * GM_MIB, "the chunk of the live block alone remains");
	gm_pool_free(pool, large.base, NULL, NULL);
	now += AFTER;
	trim(pool, now);
	TAP_OK(!fake_stats(pool).mapped && fake_valid(pool),
	       "no chunk remains without a live block");
	fake_end(pool, "slots beside");
}

static void small_blocks(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, AFTER, 0);
	struct gm_block a = fake_alloc(pool, 1000), b = fake_alloc(pool, 5000);
	gm_pool_free(pool, a.base, NULL, NULL);
	TAP_IS(trim(pool, now + AFTER), 0, "a block of 5000 bytes holds its chunk");
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(trim(pool, now + AFTER), 2 * GM_MIB, "empty slabs hold no chunk");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_OK(fake_alloc(pool, 1000).base, "slabs are made again after a trim");
	fake_end(pool, "small blocks");
}

static void keep(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, AFTER, 80 * GM_MIB);
	struct gm_block b[4];
	for (unsigned i = 0; i < 4; i++)
		b[i] = fake_alloc(pool, 32 * GM_MIB);
	unsigned said = idle_said;
	gm_pool_free(pool, b[0].base, NULL, NULL);
	gm_pool_free(pool, b[1].base, NULL, NULL);
	TAP_IS(idle_said, said, "the trim thread is not told of idle memory within the kept size");
	TAP_IS(gm_pool_trim_next(pool), UINT64_MAX,
	       "no trim is due for idle memory within the kept size");
	gm_pool_free(pool, b[2].base, NULL, NULL);
	gm_pool_free(pool, b[3].base, NULL, NULL);
	TAP_OK(idle_said > said, "beyond the kept size the trim thread is told");
	TAP_IS(trim(pool, now + AFTER), 32 * GM_MIB, "a trim leaves the kept size");
	TAP_IS(fake_stats(pool).idle, 96 * GM_MIB, "a trim leaves whole chunks");
	TAP_OK(gm_pool_trim_next(pool) <= now + AFTER,
	       "memory that cannot go is due with its chunk");
	TAP_IS(gm_pool_give_back(pool, 0, false), 96 * GM_MIB,
	       "an explicit release ignores the kept size");
	fake_end(pool, "keep");
}

static void at_once_and_never(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 0, 0);
	struct gm_block b = fake_alloc(pool, 100 * GM_MIB);
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(trim(pool, now), 100 * GM_MIB, "GPUMEM_TRIM_AFTER of 0 returns memory at once");
	fake_end(pool, "at once");

	pool = open_pool(GM_GIB, UINT64_MAX, 0);
	b = fake_alloc(pool, 100 * GM_MIB);
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(trim(pool, UINT64_MAX), 0, "off: no memory is ever returned");
	TAP_IS(gm_pool_trim_next(pool), UINT64_MAX, "off: no trim is due");
	TAP_IS(asked, 0, "off: the clock is not read");
	fake_end(pool, "never");
}

static void faults(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, AFTER, 0);
	struct gm_block a = fake_alloc(pool, 32 * GM_MIB), b = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, b.base, NULL, NULL);
	fake.fail[FAKE_UNMAP] = 1;
	fake.with = CUDA_ERROR_NOT_PERMITTED;
	now += AFTER;
	TAP_IS(gm_pool_trim(pool, now), 0, "the driver keeps a chunk");
	TAP_OK(fake_stats(pool).idle == 64 * GM_MIB && fake_valid(pool),
	       "a chunk that the driver keeps is idle as before");
	TAP_IS(trim(pool, now), 32 * GM_MIB, "the other chunk is returned the next time");
	TAP_IS(gm_pool_trim_next(pool), now + AFTER,
	       "the kept chunk is due again after the same time");
	TAP_IS(trim(pool, now + AFTER), 32 * GM_MIB, "the kept chunk is returned when due again");
	fake_end(pool, "a fault");
}

/* --- retired memory, and allocations while memory is being released --- */

static struct {
	struct gm_pool *pool;
	CUdeviceptr found;
	CUresult (*unmap)(CUdeviceptr address, size_t size);
} meanwhile;

static enum gm_fenced fence_answer;

static CUresult fence_fake(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg;
	(void)context;
	(void)native;
	*fenced = fence_answer;
	return CUDA_SUCCESS;
}

static void retired(void)
{
	static const struct gm_fence_ops fences = {.wait = fence_fake};
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = UINT64_MAX,
					.fences = &fences,
					.clock = clock_fake};
	fake_open(GM_GIB);
	gm_pool_create(&config, &pool);
	fence_answer = GM_FENCED_LATER;
	struct gm_block b = fake_alloc(pool, 32 * GM_MIB), c = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(fake_stats(pool).retired, 32 * GM_MIB, "a block is retired");
	TAP_IS(trim(pool, now + AFTER), 0, "a retired block keeps its chunk");
	fence_answer = GM_FENCED_PASSED;
	gm_pool_free(pool, c.base, NULL, NULL);
	TAP_IS(fake_stats(pool).retired, 0,
	       "a wait of another free of its context ends its retirement");
	TAP_IS(trim(pool, now), 64 * GM_MIB, "the chunk of a block that was retired is returned");
	b = fake_alloc(pool, 32 * GM_MIB);
	fence_answer = GM_FENCED_LATER;
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(gm_pool_context_gone(pool, 1), 0,
	       "the end of a context ends the retirement of its blocks");
	TAP_IS(trim(pool, now), 32 * GM_MIB, "the chunk of an ended context's blocks is returned");
	fake_end(pool, "retired");
}

static CUresult unmap_and_look(CUdeviceptr address, size_t size)
{
	struct gm_pool *pool = meanwhile.pool;
	meanwhile.pool = NULL;
	if (pool) { /* an allocation can use the other chunks while this one is being unmapped */
		struct gm_block b = fake_alloc(pool, 32 * GM_MIB);
		meanwhile.found = b.base;
	}
	return meanwhile.unmap(address, size);
}

static void one_at_a_time(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, AFTER, 0);
	struct gm_block a = fake_alloc(pool, 32 * GM_MIB), b = fake_alloc(pool, 32 * GM_MIB);
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, b.base, NULL, NULL);
	meanwhile.pool = pool;
	meanwhile.unmap = fake_driver.cuMemUnmap;
	fake_driver.cuMemUnmap = unmap_and_look;
	now += AFTER;
	unsigned maps = fake.calls[FAKE_MAP];
	TAP_IS(trim(pool, now), 32 * GM_MIB, "the longest idle of two chunks goes");
	TAP_IS(meanwhile.found, b.base, "the other chunk was allocated meanwhile");
	TAP_IS(fake.calls[FAKE_MAP], maps, "an allocation during a trim mapped no memory");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "one at a time");
}

/* --- an allocation that needs memory on its way back to the driver --- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned created, wanted;
	bool trimming;
	CUresult (*create)(CUmemGenericAllocationHandle *handle, size_t size,
			   const CUmemAllocationProp *prop, unsigned long long flags);
} door = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static CUresult create_and_count(CUmemGenericAllocationHandle *handle, size_t size,
				 const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult result = door.create(handle, size, prop, flags);
	pthread_mutex_lock(&door.lock);
	door.created++;
	pthread_cond_broadcast(&door.changed);
	pthread_mutex_unlock(&door.lock);
	return result;
}

/* Wait until the allocation of another thread has made all its attempts. */
static CUresult unmap_late(CUdeviceptr address, size_t size)
{
	pthread_mutex_lock(&door.lock);
	door.trimming = true;
	pthread_cond_broadcast(&door.changed);
	while (door.created < door.wanted)
		pthread_cond_wait(&door.changed, &door.lock);
	pthread_mutex_unlock(&door.lock);
	return meanwhile.unmap(address, size);
}

static void *trim_it(void *pool)
{
	trim(pool, now + AFTER);
	return NULL;
}

static void on_its_way(void)
{
	struct gm_pool *pool = open_pool(128 * GM_MIB, AFTER, 0);
	pthread_t thread;
	door.create = fake_driver.cuMemCreate;
	fake_driver.cuMemCreate = create_and_count;
	struct gm_block all = fake_alloc(pool, 128 * GM_MIB);
	/* Count the driver calls of an allocation that fails. */
	door.created = 0;
	TAP_OK(all.base && !fake_alloc(pool, 128 * GM_MIB).base, "a device is full");
	door.wanted = door.created;
	TAP_OK(door.wanted > 0, "an allocation on a full device asks the driver");

	gm_pool_free(pool, all.base, NULL, NULL);
	door.created = 0;
	door.trimming = false;
	meanwhile.unmap = fake_driver.cuMemUnmap;
	fake_driver.cuMemUnmap = unmap_late;
	pthread_create(&thread, NULL, trim_it, pool);
	pthread_mutex_lock(&door.lock);
	while (!door.trimming)
		pthread_cond_wait(&door.changed, &door.lock);
	pthread_mutex_unlock(&door.lock);
	all = fake_alloc(pool, 128 * GM_MIB);
	pthread_join(thread, NULL);
	TAP_OK(all.base, "an allocation waits for memory that is on its way back");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "on its way");
}

/* Of 64 GiB, 4 GiB are left free beside managed memory, idle memory and memory in use. */
static void beside_managed(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB, AFTER, 0);
	struct gm_block used = fake_alloc(pool, 8 * GM_GIB), a = fake_alloc(pool, 16 * GM_GIB),
			b = fake_alloc(pool, 32 * GM_GIB);
	gm_pool_make_room(pool, 64);
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_OK(fake_stats(pool).idle == 32 * GM_GIB && trim(pool, now) == 0 && !crowded_said,
	       "64 bytes of managed memory need no room");
	gm_pool_make_room(pool, 4 * GM_GIB);
	TAP_IS(fake_stats(pool).idle, 32 * GM_GIB, "managed memory that fits needs no room");
	gm_pool_make_room(pool, 24 * GM_GIB);
	uint64_t idle = fake_stats(pool).idle;
	TAP_OK(idle <= 12 * GM_GIB && fake_valid(pool),
	       "more managed memory: idle memory is returned at once to the bound of 12 GiB: %llu",
	       (unsigned long long)idle);
	struct gm_block c = fake_alloc(pool, 30 * GM_GIB);
	TAP_OK(fake_stats(pool).mapped >= 54 * GM_GIB, "memory in use is not bounded");
	crowded_said = 0;
	now += SECOND;
	gm_pool_free(pool, c.base, NULL, NULL);
	TAP_OK(crowded_said > 0, "a free that leaves too much memory idle is announced");
	TAP_IS(gm_pool_trim_next(pool), now + SECOND / 10,
	       "idle memory over the bound is due soon");
	trim(pool, now);
	TAP_OK(fake_stats(pool).idle <= 12 * GM_GIB && fake_valid(pool),
	       "a trim returns idle memory over the bound");
	crowded_said = 0;
	gm_pool_make_room(pool, 0);
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, used.base, NULL, NULL);
	TAP_OK(!crowded_said && trim(pool, now) == 0,
	       "idle memory has its time when there is no managed memory");
	fake_end(pool, "beside managed memory");
}

/* The kept size holds beside managed memory, too. */
static void beside_managed_keeps(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB, AFTER, 16 * GM_GIB);
	struct gm_block a = fake_alloc(pool, 16 * GM_GIB), b = fake_alloc(pool, 32 * GM_GIB);
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, b.base, NULL, NULL);
	gm_pool_make_room(pool, 60 * GM_GIB);
	uint64_t idle = fake_stats(pool).idle;
	TAP_OK(idle > 15 * GM_GIB && idle <= 16 * GM_GIB,
	       "memory to be kept stays beside managed memory");
	fake_end(pool, "memory that is kept");
}

int main(void)
{
	gm_counters_open();
	after_a_time();
	sooner();
	sooner_in_vain();
	a_steady_loop();
	by_chunk();
	slots_beside();
	small_blocks();
	keep();
	at_once_and_never();
	faults();
	retired();
	one_at_a_time();
	on_its_way();
	beside_managed();
	beside_managed_keeps();
	return tap_done();
}
