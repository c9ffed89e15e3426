# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/soak tests/unit/test_alias tests/unit/test_alias_model \
	tests/unit/test_extent tests/unit/test_hot tests/unit/test_limbo \
	tests/unit/test_limbo_shelf tests/unit/test_patience tests/unit/test_pool \
	tests/unit/test_pool_access tests/unit/test_pool_beside tests/unit/test_pool_claim \
	tests/unit/test_pool_export tests/unit/test_pool_faults tests/unit/test_pool_fence \
	tests/unit/test_pool_host tests/unit/test_pool_lend tests/unit/test_pool_log \
	tests/unit/test_pool_random tests/unit/test_pool_sim tests/unit/test_pool_stats \
	tests/unit/test_pool_threads tests/unit/test_pool_trim tests/unit/test_pool_valid \
	tests/unit/test_range tests/unit/test_remap tests/unit/test_shelf tests/unit/test_shift \
	tests/unit/test_slab tests/unit/test_streams tests/unit/test_traces tests/unit/test_vacant
tests_unit_test_pool_host_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=mmap,--wrap=munmap
tests_unit_test_pool_log_LDFLAGS = -Wl,--wrap=gm_log_put,--wrap=gm_log_put_sample,--wrap=clock_gettime
tests_unit_test_pool_claim_LDFLAGS = -Wl,--wrap=gm_lock_take
tests_unit_test_streams_LDFLAGS = -Wl,--wrap=gm_lock_wait
# Random operations: some in every run, ten million by `make soak SEED=...`.
.PHONY: soak
soak: tests/unit/soak
	tests/unit/soak --seed $${SEED:-$$$$} --operations 10000000
