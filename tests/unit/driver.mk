# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_sim
tests_unit_test_sim_SOURCES = tests/unit/test_sim.c tests/unit/sim_setup.h
tests_unit_test_sim_LDADD = $(UNIT_LDADD)
