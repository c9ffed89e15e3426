# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_share tests/unit/test_crew tests/unit/test_move tests/unit/test_ring tests/unit/test_ring_random
tests_unit_test_share_SOURCES = tests/unit/test_share.c
tests_unit_test_share_LDADD = $(UNIT_LDADD)
tests_unit_test_crew_SOURCES = tests/unit/test_crew.c
tests_unit_test_crew_LDADD = $(UNIT_LDADD)
tests_unit_test_move_SOURCES = tests/unit/test_move.c
tests_unit_test_move_LDADD = $(UNIT_LDADD)
tests_unit_test_ring_SOURCES = tests/unit/test_ring.c tests/unit/ring_help.h tests/unit/on_sim.h
tests_unit_test_ring_LDFLAGS = -Wl,--wrap=madvise,--wrap=gm_move_checked
tests_unit_test_ring_LDADD = $(UNIT_LDADD)
tests_unit_test_ring_random_SOURCES = tests/unit/test_ring_random.c tests/unit/ring_help.h tests/unit/on_sim.h
tests_unit_test_ring_random_LDADD = $(UNIT_LDADD)
