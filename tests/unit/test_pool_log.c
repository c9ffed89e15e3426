/* SPDX-License-Identifier: BSD-3-Clause */
/* What a pool writes into the log. Linked with --wrap for the log's entry points. */
#include "log/log.h"
#include "pool_fake.h"

static struct gm_record records[16];
static unsigned n_records;
static struct gm_sample last_sample;

void __wrap_gm_log_put(const struct gm_record *record);
void __wrap_gm_log_put_sample(const struct gm_record *record, const struct gm_sample *sample);

void __wrap_gm_log_put(const struct gm_record *record)
{
	records[n_records++ % 16] = *record;
}

void __wrap_gm_log_put_sample(const struct gm_record *record, const struct gm_sample *sample)
{
	records[n_records++ % 16] = *record;
	last_sample = *sample;
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

/* Deferred frees go to the pool's lists many at a time. */
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
	TAP_IS(n_records, before, "and not again");
	fake_end(pool, "retirements");
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
	       "of the chunk mapped");
	uint64_t chunk = last()->address;
	gm_pool_free(pool, block.base, NULL, NULL);
	TAP_OK(last()->kind == GM_RECORD_RETIRE && last()->address == block.base &&
		       last()->size == 1000 && last()->held == 1024 && last()->id == block.id &&
		       last()->context == 1,
	       "a free without a fence writes that the block was retired");
	gm_pool_snapshot(pool, 12345, 77 * GM_MIB);
	TAP_OK(last()->kind == GM_RECORD_OUT_OF_MEMORY && last()->size == 12345 &&
		       last()->device == 3,
	       "a snapshot says what was asked");
	TAP_OK(last_sample.mapped == 32 * GM_MIB && last_sample.retired == 1024 &&
		       last_sample.idle == 32 * GM_MIB - 1024 && last_sample.chunks == 1 &&
		       last_sample.limit == 64 * GM_MIB && last_sample.device_total == GM_GIB &&
		       last_sample.device_free == 77 * GM_MIB,
	       "and how it stood");
	TAP_OK(last_sample.idle_extents == 1 && last_sample.idle_runs[9] == 1 &&
		       last_sample.idle_units[9] == (32 * GM_MIB - 128 * GM_KIB) / GM_SAMPLE_UNIT,
	       "and what was idle beside the slab, by size");
	gm_pool_drain(pool);
	gm_pool_lend(pool, (CUdeviceptr)1 << 46, 32 * GM_MIB);
	TAP_OK(last()->kind == GM_RECORD_REMAP && last()->address == (CUdeviceptr)1 << 46 &&
		       last()->held == chunk && last()->id == 1,
	       "a loan of an idle chunk writes that it moved");
	gm_pool_take_back(pool, (CUdeviceptr)1 << 46, 32 * GM_MIB);
	TAP_OK(last()->kind == GM_RECORD_REMAP && last()->address == chunk, "and that it is back");
	gm_pool_give_back(pool, 0, false);
	TAP_OK(last()->kind == GM_RECORD_UNMAP && last()->address == chunk &&
		       last()->size == 32 * GM_MIB && last()->id == 1,
	       "giving back writes what was unmapped");
	TAP_IS(gm_counter_get(3, GM_C_fences), 1, "one fence was waited for");
	unsigned before = n_records;
	atomic_store(&gm_log_wanted, 0);
	fake_alloc(pool, 1000);
	gm_pool_snapshot(pool, 1, 0);
	TAP_IS(n_records, before, "nothing is written when nothing is wanted");
	fake_end(pool, "log");
	retires();
	return tap_done();
}
