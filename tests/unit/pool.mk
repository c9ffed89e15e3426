# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_range tests/unit/test_extent tests/unit/test_slab tests/unit/test_pool \
	tests/unit/test_pool_random tests/unit/test_pool_faults tests/unit/test_pool_fence \
	tests/unit/test_pool_lend tests/unit/test_pool_threads tests/unit/test_pool_host \
	tests/unit/test_pool_stats tests/unit/test_pool_sim tests/unit/test_pool_log tests/unit/test_pool_valid tests/unit/test_pool_access \
	tests/unit/test_pool_trim tests/unit/test_limbo tests/unit/test_limbo_shelf tests/unit/test_hot tests/unit/test_alias tests/unit/test_alias_model tests/unit/test_patience tests/unit/test_remap tests/unit/test_shift tests/unit/test_vacant tests/unit/test_shelf tests/unit/test_streams tests/unit/test_traces tests/unit/test_pool_beside \
	tests/unit/test_pool_claim
POOL_FAKE = tests/unit/pool_fake.h
tests_unit_test_range_SOURCES = tests/unit/test_range.c $(POOL_FAKE)
tests_unit_test_range_LDADD = $(UNIT_LDADD)
tests_unit_test_extent_SOURCES = tests/unit/test_extent.c
tests_unit_test_extent_LDADD = $(UNIT_LDADD)
tests_unit_test_slab_SOURCES = tests/unit/test_slab.c
tests_unit_test_slab_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_SOURCES = tests/unit/test_pool.c $(POOL_FAKE)
tests_unit_test_pool_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_random_SOURCES = tests/unit/test_pool_random.c $(POOL_FAKE)
tests_unit_test_pool_random_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_faults_SOURCES = tests/unit/test_pool_faults.c $(POOL_FAKE)
tests_unit_test_pool_faults_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_fence_SOURCES = tests/unit/test_pool_fence.c $(POOL_FAKE)
tests_unit_test_pool_fence_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_lend_SOURCES = tests/unit/test_pool_lend.c $(POOL_FAKE)
tests_unit_test_pool_lend_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_threads_SOURCES = tests/unit/test_pool_threads.c $(POOL_FAKE)
tests_unit_test_pool_threads_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_host_SOURCES = tests/unit/host_fails.h tests/unit/test_pool_host.c $(POOL_FAKE)
tests_unit_test_pool_host_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=mmap,--wrap=munmap
tests_unit_test_pool_host_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_stats_SOURCES = tests/unit/test_pool_stats.c $(POOL_FAKE)
tests_unit_test_pool_stats_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_sim_SOURCES = tests/unit/test_pool_sim.c
tests_unit_test_pool_sim_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_log_SOURCES = tests/unit/test_pool_log.c $(POOL_FAKE)
tests_unit_test_pool_log_LDFLAGS = -Wl,--wrap=gm_log_put,--wrap=gm_log_put_sample,--wrap=clock_gettime
tests_unit_test_pool_log_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_valid_SOURCES = tests/unit/test_pool_valid.c $(POOL_FAKE)
tests_unit_test_pool_valid_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_access_SOURCES = tests/unit/test_pool_access.c $(POOL_FAKE)
tests_unit_test_pool_access_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_trim_SOURCES = tests/unit/test_pool_trim.c $(POOL_FAKE)
tests_unit_test_pool_trim_LDADD = $(UNIT_LDADD)
tests_unit_test_limbo_SOURCES = tests/unit/test_limbo.c tests/unit/limbo_fake.h $(POOL_FAKE)
tests_unit_test_limbo_LDADD = $(UNIT_LDADD)
tests_unit_test_limbo_shelf_SOURCES = tests/unit/test_limbo_shelf.c tests/unit/limbo_fake.h $(POOL_FAKE)
tests_unit_test_limbo_shelf_LDADD = $(UNIT_LDADD)
tests_unit_test_patience_SOURCES = tests/unit/test_patience.c tests/unit/limbo_fake.h $(POOL_FAKE)
tests_unit_test_patience_LDADD = $(UNIT_LDADD)
tests_unit_test_hot_SOURCES = tests/unit/test_hot.c tests/unit/hot_fake.h tests/unit/limbo_fake.h $(POOL_FAKE)
tests_unit_test_hot_LDADD = $(UNIT_LDADD)
tests_unit_test_alias_SOURCES = tests/unit/test_alias.c tests/unit/hot_fake.h tests/unit/limbo_fake.h $(POOL_FAKE)
tests_unit_test_alias_LDADD = $(UNIT_LDADD)
tests_unit_test_alias_model_SOURCES = tests/unit/test_alias_model.c tests/unit/limbo_fake.h $(POOL_FAKE)
tests_unit_test_alias_model_LDADD = $(UNIT_LDADD)
tests_unit_test_remap_SOURCES = tests/unit/test_remap.c $(POOL_FAKE)
tests_unit_test_shift_SOURCES = tests/unit/test_shift.c $(POOL_FAKE)
tests_unit_test_shift_LDADD = $(UNIT_LDADD)
tests_unit_test_vacant_SOURCES = tests/unit/test_vacant.c $(POOL_FAKE)
tests_unit_test_vacant_LDADD = $(UNIT_LDADD)
tests_unit_test_remap_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_beside_SOURCES = tests/unit/test_pool_beside.c $(POOL_FAKE)
tests_unit_test_pool_beside_LDADD = $(UNIT_LDADD)
tests_unit_test_pool_claim_SOURCES = tests/unit/test_pool_claim.c $(POOL_FAKE)
tests_unit_test_pool_claim_LDFLAGS = -Wl,--wrap=gm_lock_take
tests_unit_test_pool_claim_LDADD = $(UNIT_LDADD)
tests_unit_test_streams_SOURCES = tests/unit/test_streams.c tests/unit/on_sim.h
tests_unit_test_streams_LDFLAGS = -Wl,--wrap=gm_lock_wait
tests_unit_test_streams_LDADD = $(UNIT_LDADD)
tests_unit_test_traces_SOURCES = tests/unit/test_traces.c $(POOL_FAKE)
tests_unit_test_traces_LDADD = $(UNIT_LDADD)
tests_unit_test_shelf_SOURCES = tests/unit/test_shelf.c $(POOL_FAKE)
tests_unit_test_shelf_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_pool_export
tests_unit_test_pool_export_SOURCES = tests/unit/test_pool_export.c tests/unit/on_sim.h
tests_unit_test_pool_export_LDADD = $(UNIT_LDADD)
# Random operations: some in every run, ten million by `make soak SEED=...`.
UNIT_TESTS += tests/unit/soak
tests_unit_soak_SOURCES = tests/unit/soak.c
tests_unit_soak_LDADD = $(UNIT_LDADD)
.PHONY: soak
soak: tests/unit/soak
	tests/unit/soak --seed $${SEED:-$$$$} --operations 10000000
