# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_heap_simt tests/unit/test_heap_random
tests_unit_test_heap_simt_SOURCES = tests/unit/test_heap_simt.c
tests_unit_test_heap_simt_LDADD = $(UNIT_LDADD)
tests_unit_test_heap_random_SOURCES = tests/unit/test_heap_random.c tests/unit/heap_help.h
tests_unit_test_heap_random_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_full tests/unit/test_heap_span
tests_unit_test_heap_full_SOURCES = tests/unit/test_heap_full.c tests/unit/heap_help.h
tests_unit_test_heap_full_LDADD = $(UNIT_LDADD)
tests_unit_test_heap_span_SOURCES = tests/unit/test_heap_span.c tests/unit/heap_help.h
tests_unit_test_heap_span_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_ouro
tests_unit_test_heap_ouro_SOURCES = tests/unit/test_heap_ouro.c tests/unit/heap_help.h
tests_unit_test_heap_ouro_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_grow
tests_unit_test_heap_grow_SOURCES = tests/unit/test_heap_grow.c tests/unit/heap_help.h tests/unit/heap_host_help.h
tests_unit_test_heap_grow_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_host
tests_unit_test_heap_host_SOURCES = tests/unit/test_heap_host.c tests/unit/heap_help.h tests/unit/heap_host_help.h
tests_unit_test_heap_host_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_idle
tests_unit_test_heap_idle_SOURCES = tests/unit/test_heap_idle.c tests/unit/heap_help.h tests/unit/heap_host_help.h
tests_unit_test_heap_idle_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_api
tests_unit_test_heap_api_SOURCES = tests/unit/test_heap_api.c tests/unit/heap_help.h
tests_unit_test_heap_api_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_phases
tests_unit_test_heap_phases_SOURCES = tests/unit/test_heap_phases.c tests/unit/heap_help.h
tests_unit_test_heap_phases_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_granule
tests_unit_test_heap_granule_SOURCES = tests/unit/test_heap_granule.c tests/unit/heap_help.h
tests_unit_test_heap_granule_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_heap_aligned
tests_unit_test_heap_aligned_SOURCES = tests/unit/test_heap_aligned.c tests/unit/heap_help.h
tests_unit_test_heap_aligned_LDADD = $(UNIT_LDADD)

# Compiled for the GPU where there is an nvcc.
EXTRA_DIST += tests/unit/heap_policies.cu
dist_check_SCRIPTS += tests/unit/heap_nvcc.sh
TESTS += tests/unit/heap_nvcc.sh
AM_TESTS_ENVIRONMENT += NVCC='$(NVCC)'; export NVCC;
UNIT_TESTS += tests/unit/test_heap_log
tests_unit_test_heap_log_SOURCES = tests/unit/test_heap_log.c tests/unit/heap_help.h tests/unit/heap_host_help.h tests/unit/log_help.h
tests_unit_test_heap_log_LDADD = $(UNIT_LDADD)
