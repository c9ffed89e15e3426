# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_heap_aligned tests/unit/test_heap_api tests/unit/test_heap_between \
	tests/unit/test_heap_classes tests/unit/test_heap_foreign tests/unit/test_heap_full \
	tests/unit/test_heap_granule tests/unit/test_heap_grow tests/unit/test_heap_host \
	tests/unit/test_heap_idle tests/unit/test_heap_lanes tests/unit/test_heap_log \
	tests/unit/test_heap_names tests/unit/test_heap_ouro tests/unit/test_heap_phases \
	tests/unit/test_heap_random tests/unit/test_heap_shed tests/unit/test_heap_simt \
	tests/unit/test_heap_sites tests/unit/test_heap_slack tests/unit/test_heap_span \
	tests/unit/test_heap_stats tests/unit/test_heap_walk tests/unit/test_service

# Compiled for the GPU where there is an nvcc.
EXTRA_DIST += tests/unit/heap_masks.cu tests/unit/heap_masks.py tests/unit/heap_policies.cu
dist_check_SCRIPTS += tests/unit/heap_nvcc.sh
NVCC_TESTS += tests/unit/heap_nvcc.sh
AM_TESTS_ENVIRONMENT += NVCC='$(NVCC)'; export NVCC;
