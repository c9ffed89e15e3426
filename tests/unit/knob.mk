# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_knob
tests_unit_test_knob_SOURCES = tests/unit/test_knob.c
tests_unit_test_knob_LDADD = $(UNIT_LDADD)
