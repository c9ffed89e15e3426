# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/preload/inkernel tests/preload/taken tests/preload/unread
dist_check_SCRIPTS += tests/preload/inkernel.bats tests/preload/taken.bats
TESTS += tests/preload/inkernel.bats tests/preload/taken.bats
tests_preload_inkernel_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_unread_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_taken_LDADD = libgmtakeover.la src/sim/libgmsim_la-kernels.lo src/sim/libgmsim_la-simt.lo libgm.la $(BEHAVIOUR_LDADD)
