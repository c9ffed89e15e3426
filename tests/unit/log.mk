# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_counters tests/unit/test_frag tests/unit/test_log tests/unit/test_log_limits tests/unit/test_log_read
EXTRA_DIST += tests/unit/log_help.h
tests_unit_test_counters_SOURCES = tests/unit/test_counters.c
tests_unit_test_counters_LDADD = $(UNIT_LDADD)
tests_unit_test_frag_SOURCES = tests/unit/test_frag.c
tests_unit_test_frag_LDADD = $(UNIT_LDADD)
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_log_LDADD = $(UNIT_LDADD)
tests_unit_test_log_limits_SOURCES = tests/unit/test_log_limits.c
tests_unit_test_log_limits_LDADD = $(UNIT_LDADD)
tests_unit_test_log_read_SOURCES = tests/unit/test_log_read.c
tests_unit_test_log_read_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_log_mutate
EXTRA_DIST += tests/mutate.h
tests_unit_test_log_mutate_SOURCES = tests/unit/test_log_mutate.c
tests_unit_test_log_mutate_LDADD = $(UNIT_LDADD)
