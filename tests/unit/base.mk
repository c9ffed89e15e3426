# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_size
tests_unit_test_size_SOURCES = tests/unit/test_size.c
tests_unit_test_size_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_base
tests_unit_test_base_SOURCES = tests/unit/test_base.c
tests_unit_test_base_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_tick tests/unit/test_timing
tests_unit_test_timing_SOURCES = tests/unit/test_timing.c
tests_unit_test_timing_LDADD = $(UNIT_LDADD)
tests_unit_test_tick_SOURCES = tests/unit/test_tick.c
tests_unit_test_tick_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_worker
tests_unit_test_worker_SOURCES = tests/unit/test_worker.c
tests_unit_test_worker_LDADD = $(UNIT_LDADD)
