# SPDX-License-Identifier: BSD-3-Clause
# Processes that sleep and wake.
check_PROGRAMS += tests/preload/names tests/preload/sleep_asker tests/preload/sleep_crowd tests/preload/sleeps tests/preload/turns
SLEEP_BATS = tests/preload/sleep.bats tests/preload/sleep_chosen.bats \
	tests/preload/sleep_crowd.bats tests/preload/sleep_job.bats \
	tests/preload/sleep_managed.bats tests/preload/sleep_refused.bats \
	tests/preload/sleep_shared.bats tests/preload/turns.bats
dist_check_SCRIPTS += $(SLEEP_BATS)
EXTRA_DIST += tests/preload/sleep.bash
TESTS += $(SLEEP_BATS)

tests_preload_sleeps_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
tests_preload_sleeps_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_sleeps_LDFLAGS = -Wl,--export-dynamic
tests_preload_sleep_asker_LDADD = libgm.la
tests_preload_sleep_crowd_LDADD = libgmtakeover.la src/sim/libgmsim_la-kernels.lo src/sim/libgmsim_la-simt.lo libgm.la $(BEHAVIOUR_LDADD)
tests_preload_names_LDADD =
tests_preload_turns_LDADD = $(BEHAVIOUR_LDADD)
