# SPDX-License-Identifier: BSD-3-Clause
# Idle memory: how it is returned, and to which process.
check_PROGRAMS += tests/preload/idle tests/preload/lacks tests/preload/retry tests/preload/roads
dist_check_SCRIPTS += tests/preload/idle.bats tests/preload/retry.bats tests/preload/roads.bats
TESTS += tests/preload/idle.bats tests/preload/retry.bats tests/preload/roads.bats

tests_preload_idle_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_lacks_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_retry_CFLAGS = $(AM_CFLAGS) -Wno-deprecated-declarations
tests_preload_retry_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_roads_LDADD = $(BEHAVIOUR_LDADD)
