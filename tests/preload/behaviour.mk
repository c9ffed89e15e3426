# SPDX-License-Identifier: BSD-3-Clause
# Programs that run natively and preloaded, on the simulated pair.
BEHAVIOUR_LDADD = tests/sim/lib/libcuda.so.1 -lpthread -ldl
BEHAVIOUR_TESTS = tests/preload/answers tests/preload/attributes tests/preload/batch \
	tests/preload/batch_ptsz tests/preload/bounds tests/preload/bounds_ptds \
	tests/preload/captures tests/preload/contexts tests/preload/foreign \
	tests/preload/foreign_ptsz tests/preload/forks tests/preload/held tests/preload/info \
	tests/preload/lives tests/preload/memops tests/preload/peers tests/preload/peers_ptds \
	tests/preload/pressure tests/preload/race tests/preload/threads
check_PROGRAMS += $(BEHAVIOUR_TESTS)
dist_check_SCRIPTS += tests/preload/behaviour.bats tests/preload/capture.bats tests/preload/foreign.bats tests/preload/fork.bats \
	tests/preload/log.bats
TESTS += tests/preload/behaviour.bats tests/preload/capture.bats tests/preload/foreign.bats tests/preload/fork.bats \
	tests/preload/log.bats
EXTRA_DIST += tests/preload/behaviour.bash tests/preload/driver.bash

tests_preload_answers_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_attributes_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_bounds_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_bounds_ptds_SOURCES = tests/preload/bounds.c tests/preload/program.h
tests_preload_bounds_ptds_CPPFLAGS = $(AM_CPPFLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM
tests_preload_bounds_ptds_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_captures_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_contexts_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_forks_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_held_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_peers_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_peers_ptds_SOURCES = tests/preload/peers.c tests/preload/program.h
tests_preload_peers_ptds_CPPFLAGS = $(AM_CPPFLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM
tests_preload_peers_ptds_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_pressure_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_race_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_batch_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_batch_ptsz_SOURCES = tests/preload/batch.c tests/preload/program.h
tests_preload_batch_ptsz_CPPFLAGS = $(AM_CPPFLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM
tests_preload_batch_ptsz_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_foreign_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_foreign_ptsz_SOURCES = tests/preload/foreign.c tests/preload/program.h tests/preload/steer.h
tests_preload_foreign_ptsz_CPPFLAGS = $(AM_CPPFLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM
tests_preload_foreign_ptsz_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_info_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_lives_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_memops_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_threads_LDADD = $(BEHAVIOUR_LDADD)
