# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_residency
tests_unit_test_residency_SOURCES = tests/unit/test_residency.c tests/unit/moved.h tests/unit/on_sim.h
tests_unit_test_residency_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_door
tests_unit_test_door_SOURCES = tests/unit/test_door.c
tests_unit_test_door_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_opened
tests_unit_test_opened_SOURCES = tests/unit/test_opened.c
tests_unit_test_opened_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_store
tests_unit_test_store_SOURCES = tests/unit/test_store.c tests/unit/moved.h tests/unit/on_sim.h
tests_unit_test_store_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_folder
tests_unit_test_folder_SOURCES = tests/unit/test_folder.c tests/unit/moved.h tests/unit/on_sim.h
tests_unit_test_folder_LDADD = $(UNIT_LDADD)
