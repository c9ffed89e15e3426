# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_sim tests/unit/test_sim_memory
tests_unit_test_sim_SOURCES = tests/unit/test_sim.c tests/unit/sim_setup.h
tests_unit_test_sim_LDADD = $(UNIT_LDADD)
tests_unit_test_sim_memory_SOURCES = tests/unit/test_sim_memory.c tests/unit/sim_setup.h
tests_unit_test_sim_memory_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_sim_capture tests/unit/test_sim_stream
tests_unit_test_sim_capture_SOURCES = tests/unit/test_sim_capture.c tests/unit/sim_setup.h
tests_unit_test_sim_capture_LDADD = $(UNIT_LDADD)
tests_unit_test_sim_stream_SOURCES = tests/unit/test_sim_stream.c tests/unit/sim_setup.h
tests_unit_test_sim_stream_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_driver tests/unit/test_null
tests_unit_test_driver_SOURCES = tests/unit/test_driver.c
tests_unit_test_driver_LDADD = $(UNIT_LDADD)
tests_unit_test_null_SOURCES = tests/unit/test_null.c
tests_unit_test_null_LDADD = $(UNIT_LDADD)
