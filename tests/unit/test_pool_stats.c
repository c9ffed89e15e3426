/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The figures of a pool, compared with a plain walk over every 512 bytes: blocks from the list of
 * allocations, chunks from the mappings requested of the driver.
 */
#include "log/counters.h"
#include "pool_fake.h"

#define BLOCKS 120
#define STEPS 800
#define MEMORY (128 * GM_MIB)
#define UNIT 512u
#define UNITS (8 * MEMORY / UNIT)

enum unit { UNMAPPED, FREE, USED };

static struct gm_block live[BLOCKS], gone[STEPS];
static unsigned n_live, n_gone;
static unsigned char units[UNITS];
static CUdeviceptr origin;
static bool retiring;

static CUresult fence(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg, (void)context, (void)native;
	*fenced = retiring ? GM_FENCED_LATER : GM_FENCED_PASSED;
	return CUDA_SUCCESS;
}

static void paint(CUdeviceptr at, uint64_t size, enum unit as)
{
	memset(&units[(at - origin) / UNIT], as, size / UNIT);
}

static uint64_t count(CUdeviceptr at, uint64_t size, enum unit which)
{
	uint64_t n = 0;
	for (uint64_t i = (at - origin) / UNIT, end = i + size / UNIT; i < end; i++)
		n += units[i] == which;
	return n * UNIT;
}

/* The figures that depend on the placement of blocks and chunks. */
static struct gm_pool_stats look(void)
{
	struct gm_pool_stats s = {0};
	uint64_t run = 0;
	memset(units, UNMAPPED, sizeof units);
	for (unsigned i = 0; i < fake.n_maps; i++)
		paint(fake.maps[i].at, fake.maps[i].size, FREE);
	for (unsigned i = 0; i < n_live; i++)
		paint(live[i].base, live[i].held, USED);
	for (unsigned i = 0; i < n_gone; i++)
		paint(gone[i].base, gone[i].held, USED);
	for (unsigned i = 0; i < fake.n_maps; i++) {
		uint64_t idle = count(fake.maps[i].at, fake.maps[i].size, FREE);
		s.mapped += fake.maps[i].size;
		s.idle += idle;
		*(idle == fake.maps[i].size ? &s.largest_after_remap : &s.unreclaimable) += idle;
	}
	for (uint64_t i = 0; i <= UNITS; i++) {
		if (i < UNITS && units[i] == FREE) {
			run += UNIT;
		} else if (run) {
			s.idle_extents++;
			s.idle_histogram[63 - __builtin_clzll(run)]++;
			s.idle_bytes[63 - __builtin_clzll(run)] += run;
			s.largest_idle = run > s.largest_idle ? run : s.largest_idle;
			run = 0;
		}
	}
	if (s.largest_after_remap < s.largest_idle)
		s.largest_after_remap = s.largest_idle;
	return s;
}

static const char *compare(const struct gm_pool *pool)
{
	struct gm_pool_stats is = fake_stats(pool), want = look();
	if (is.mapped != want.mapped || is.idle != want.idle || is.chunks != fake.n_maps)
		return "mapped and idle";
	if (is.mapped != is.handed_out + is.idle + is.retired)
		return "the sum";
	if (is.largest_idle != want.largest_idle)
		return "largest_idle";
	if (is.largest_after_remap != want.largest_after_remap)
		return "largest_after_remap";
	if (is.unreclaimable != want.unreclaimable)
		return "unreclaimable";
	if (is.idle_extents != want.idle_extents ||
	    memcmp(is.idle_histogram, want.idle_histogram, sizeof is.idle_histogram) != 0 ||
	    memcmp(is.idle_bytes, want.idle_bytes, sizeof is.idle_bytes) != 0)
		return "idle extents";
	const struct {
		enum gm_counter counter;
		uint64_t value;
	} counters[] = {
		{GM_C_requested, is.requested}, {GM_C_handed_out, is.handed_out},
		{GM_C_mapped, is.mapped},	{GM_C_idle, is.idle},
		{GM_C_retired, is.retired},	{GM_C_live_blocks, is.live_blocks},
	};
	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		if (gm_counter_get(0, counters[i].counter) != counters[i].value)
			return gm_counter_table[counters[i].counter].name;
	if (gm_counter_get(0, GM_C_map_bytes) - gm_counter_get(0, GM_C_unmap_bytes) !=
	    is.mapped + is.lent)
		return "map_bytes - unmap_bytes = mapped + lent";
	return NULL;
}

static uint64_t seed = 12345;

static uint64_t next(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 20) % below;
}

/* Only sizes that take extents: slots of slabs do not touch their neighbours. */
static void step(struct gm_pool *pool)
{
	if (next(100) == 0) {
		if (next(2) && gm_pool_drain(pool))
			n_gone = 0;
		gm_pool_give_back(pool, next(MEMORY), false);
	} else if (n_live < BLOCKS && next(2)) {
		uint64_t retired = fake_stats(pool).retired;
		struct gm_block block = fake_alloc(pool, 65537 + next((uint64_t)1 << next(24)));
		if (retired && !fake_stats(pool).retired)
			n_gone = 0;
		if (block.base)
			live[n_live++] = block;
	} else if (n_live) {
		unsigned i = (unsigned)next(n_live);
		retiring = next(8) == 0;
		gm_pool_free(pool, live[i].base, NULL, NULL);
		if (retiring)
			gone[n_gone++] = live[i];
		else
			n_gone = 0; /* its fence covers them */
		retiring = false;
		live[i] = live[--n_live];
	}
}

static void by_brute_force(void)
{
	static const struct gm_fence_ops fences = {.wait = fence};
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {
		.driver = &fake_driver, .limit = UINT64_MAX, .fences = &fences};
	const char *why = NULL;
	unsigned i;
	fake_open(MEMORY);
	gm_pool_create(&config, &pool);
	struct gm_block first = fake_alloc(pool, GM_MIB);
	origin = first.base;
	gm_pool_free(pool, first.base, NULL, NULL);
	for (i = 0; i < STEPS && !why; i++) {
		step(pool);
		why = compare(pool);
	}
	TAP_OK(!why, "%u steps: every figure equals brute force", i);
	if (why)
		printf("# differs: %s\n", why);
	TAP_OK(gm_counter_get(0, GM_C_requested_peak) == fake_stats(pool).requested_peak &&
		       gm_counter_get(0, GM_C_mapped_peak) == fake_stats(pool).mapped_peak &&
		       gm_counter_get(0, GM_C_requested_peak_time) &&
		       gm_counter_get(0, GM_C_mapped_peak_time) &&
		       gm_counter_get(0, GM_C_retired_peak),
	       "the peaks have values and times");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "figures");
}

static void of_slabs(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	gm_pool_prewarm(pool, 32 * GM_MIB);
	struct gm_block a = fake_alloc(pool, 600), b = fake_alloc(pool, 60000);
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_IS(stats.idle, 32 * GM_MIB - 1024 - 61440, "free slots are idle");
	TAP_IS(stats.largest_idle, 32 * GM_MIB - 512 * GM_KIB,
	       "free slots are no run of idle memory, beside aligned slabs");
	TAP_IS(stats.unreclaimable, stats.idle, "slots beside blocks cannot be reclaimed");
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, b.base, NULL, NULL);
	stats = fake_stats(pool);
	TAP_IS(stats.largest_idle, 32 * GM_MIB, "empty slabs are, though they stay cut");
	TAP_OK(stats.idle_extents == 1 && stats.idle_histogram[25] == 1 &&
		       stats.idle_bytes[25] == 32 * GM_MIB,
	       "two of them and the memory between make one run");
	TAP_IS(stats.largest_after_remap, 32 * GM_MIB, "the chunk is wholly idle");
	TAP_IS(stats.unreclaimable, 0, "a chunk that is wholly idle can be reclaimed");
	TAP_OK(fake_alloc(pool, 32 * GM_MIB).base && fake_stats(pool).chunks == 1,
	       "the next block uses the idle chunk");
	fake_end(pool, "slabs");
}

int main(void)
{
	by_brute_force();
	of_slabs();
	return tap_done();
}
