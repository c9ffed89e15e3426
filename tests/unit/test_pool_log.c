/* SPDX-License-Identifier: BSD-3-Clause */
/* The records that a pool writes into the log. Linked with --wrap for the log's entry points and
 * the clock. */
#include "log/log.h"
#include "pool_fake.h"

static struct gm_record records[16];
static unsigned n_records;
static struct gm_sample last_sample;
static long nanoseconds;

void __wrap_gm_log_put(const struct gm_record *record);
void __wrap_gm_log_put_sample(const struct gm_record *record, const struct gm_sample *sample);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

void __wrap_gm_log_put(const struct gm_record *record)
{
	records[n_records++ % 16] = *record;
}

void __wrap_gm_log_put_sample(const struct gm_record *record, const struct gm_sample *sample)
{
	records[n_records++ % 16] = *record;
	last_sample = *sample;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){.tv_nsec = nanoseconds};
	return 0;
}

static const struct gm_record *last(void)
{
	return &records[(n_records - 1) % 16];
}

static CUresult later(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg, (void)context;
	*fenced = native ? GM_FENCED_LATER : GM_FENCED_PASSED;
	return CUDA_SUCCESS;
}

static CUresult ask(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return CUDA_SUCCESS;
}

static const struct gm_fence_ops fences = {.ask = ask, .wait = later};

/* Deferred frees enter the pool's lists in groups. */
static void retires(void)
{
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = UINT64_MAX,
					.fences = &fences,
					.defer = true,
					.retire = 64 * GM_MIB};
	atomic_store(&gm_log_wanted, UINT32_MAX);
	fake_open(GM_GIB);
	gm_pool_create(&config, &pool);
	for (unsigned i = 0; i < 3; i++) {
		struct gm_block block = fake_alloc(pool, 1000);
		unsigned before = n_records;
		gm_pool_free(pool, block.base, NULL, NULL);
		TAP_OK(n_records == before + 1 && last()->kind == GM_RECORD_RETIRE &&
			       last()->id == block.id && last()->size == 1000,
		       "each is written when it is freed");
	}
	unsigned before = n_records;
	fake_stats(pool);
	TAP_IS(n_records, before, "no free is written again");
	fake_end(pool, "retirements");
}

static void take_time(enum fake_call call)
{
	nanoseconds += call == FAKE_CREATE ? 1000 : 10;
}

/* One growth makes a chunk and moves another one. */
static void times(void)
{
	struct gm_pool *pool = fake_pool(64 * GM_GIB, UINT64_MAX);
	struct gm_block first = fake_alloc(pool, 64 * GM_MIB);
	fake_alloc(pool, 64 * GM_MIB);
	gm_pool_free(pool, first.base, NULL, NULL);
	n_records = 0;
	fake.visit = take_time;
	fake_alloc(pool, 100 * GM_MIB);
	TAP_OK(n_records == 2 && records[0].kind == GM_RECORD_REMAP &&
		       records[1].kind == GM_RECORD_MAP,
	       "a growth moves a chunk, and makes one");
	TAP_IS(records[0].duration, 30, "a move takes the time from unmapping to access");
	TAP_IS(records[1].duration, 1020, "the rest of a growth takes the time of a new chunk");
	fake_end(pool, "times");
}

int main(void)
{
	struct gm_pool *pool = NULL;
	struct gm_pool_config config = {
		.driver = &fake_driver, .ordinal = 3, .limit = 64 * GM_MIB, .fences = &fences};
	atomic_store(&gm_log_wanted, UINT32_MAX);
	fake_open(GM_GIB);
	gm_pool_create(&config, &pool);
	gm_pool_prewarm(pool, 32 * GM_MIB);
	struct gm_block block = fake_alloc(pool, 1000);
	TAP_IS(n_records, 1, "a first growth writes one record");
	TAP_OK(last()->kind == GM_RECORD_MAP && last()->size == 32 * GM_MIB && last()->id == 1 &&
		       last()->device == 3,
	       "the record has the chunk mapped");
	uint64_t chunk = last()->address;
	gm_pool_free(pool, block.base, NULL, NULL);
	TAP_OK(last()->kind == GM_RECORD_RETIRE && last()->address == block.base &&
		       last()->size == 1000 && last()->held == 1024 && last()->id == block.id &&
		       last()->context == 1,
	       "a free without a fence writes that the block was retired");
	gm_pool_sample(pool, &last_sample);
	TAP_OK(last_sample.mapped == 32 * GM_MIB && last_sample.retired == 1024 &&
		       last_sample.idle == 32 * GM_MIB - 1024 && last_sample.chunks == 1 &&
		       last_sample.limit == 64 * GM_MIB && last_sample.device_total == GM_GIB &&
		       last_sample.device_free == 0,
	       "the sample has the state of the pool");
	TAP_OK(last_sample.idle_extents == 1 && last_sample.idle_runs[9] == 1 &&
		       last_sample.idle_units[9] == (32 * GM_MIB - 128 * GM_KIB) / GM_SAMPLE_UNIT,
	       "the sample has the idle memory beside the slab, by size");
	gm_pool_drain(pool);
	gm_pool_lend(pool, (CUdeviceptr)1 << 46, 32 * GM_MIB);
	TAP_OK(last()->kind == GM_RECORD_REMAP && last()->address == (CUdeviceptr)1 << 46 &&
		       last()->held == chunk && last()->id == 1,
	       "a loan of an idle chunk writes that it moved");
	gm_pool_take_back(pool, (CUdeviceptr)1 << 46, 32 * GM_MIB);
	TAP_OK(last()->kind == GM_RECORD_REMAP && last()->address == chunk,
	       "a second record has the chunk's return");
	gm_pool_give_back(pool, 0, false);
	TAP_OK(last()->kind == GM_RECORD_UNMAP && last()->address == chunk &&
		       last()->size == 32 * GM_MIB && last()->id == 1,
	       "a release records the unmapped chunk");
	TAP_IS(gm_counter_get(3, GM_C_fences), 1, "one fence was waited for");
	unsigned before = n_records;
	atomic_store(&gm_log_wanted, 0);
	fake_alloc(pool, 1000);
	TAP_IS(n_records, before, "nothing is written when nothing is wanted");
	fake_end(pool, "log");
	retires();
	times();
	return tap_done();
}
