# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_COPY.
check_PROGRAMS += tests/preload/staged tests/preload/staged_ptds tests/preload/staged_batch tests/preload/readings
dist_check_SCRIPTS += tests/preload/staged.bats
TESTS += tests/preload/staged.bats

tests_preload_staged_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_staged_ptds_SOURCES = tests/preload/staged.c tests/preload/program.h tests/preload/releases.h tests/preload/steer.h
tests_preload_staged_ptds_CPPFLAGS = $(AM_CPPFLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM
tests_preload_staged_ptds_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_staged_batch_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_readings_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_readings_LDFLAGS = -rdynamic
