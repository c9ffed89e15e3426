# SPDX-License-Identifier: BSD-3-Clause
# Processes that sleep and wake.
check_PROGRAMS += tests/preload/names tests/preload/sleep_asker tests/preload/sleep_crowd tests/preload/sleeps tests/preload/turns
dist_check_SCRIPTS += tests/preload/sleep.bats tests/preload/sleep_managed.bats tests/preload/sleep_refused.bats tests/preload/sleep_crowd.bats tests/preload/sleep_chosen.bats tests/preload/sleep_job.bats tests/preload/sleep_shared.bats tests/preload/turns.bats
EXTRA_DIST += tests/preload/sleep.bash
TESTS += tests/preload/sleep.bats tests/preload/sleep_managed.bats tests/preload/sleep_refused.bats tests/preload/sleep_crowd.bats tests/preload/sleep_chosen.bats tests/preload/sleep_job.bats tests/preload/sleep_shared.bats tests/preload/turns.bats

tests_preload_sleeps_SOURCES = tests/preload/ahead.h tests/preload/apart.h tests/preload/private.h tests/preload/sleeps.c tests/preload/program.h tests/preload/steer.h
tests_preload_sleeps_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
tests_preload_sleeps_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_sleeps_LDFLAGS = -Wl,--export-dynamic
tests_preload_sleep_asker_SOURCES = tests/preload/sleep_asker.c
tests_preload_sleep_asker_LDADD = libgm.la
tests_preload_sleep_crowd_SOURCES = tests/preload/sleep_crowd.c tests/preload/taken_helper.h tests/preload/program.h tests/preload/steer.h tests/unit/takeover_help.h
tests_preload_sleep_crowd_LDADD = libgmtakeover.la src/sim/libgmsim_la-kernels.lo src/sim/libgmsim_la-simt.lo libgm.la $(BEHAVIOUR_LDADD)
tests_preload_names_SOURCES = tests/preload/names.c
tests_preload_turns_SOURCES = tests/preload/turns.c tests/preload/program.h
tests_preload_turns_LDADD = $(BEHAVIOUR_LDADD)
