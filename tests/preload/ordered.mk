# SPDX-License-Identifier: BSD-3-Clause
# Memory that is used again in the order of a stream.
check_PROGRAMS += tests/preload/ordered tests/preload/ordered_soak tests/preload/ordered_waits
dist_check_SCRIPTS += tests/preload/ordered.bats tests/preload/ordered_waits.bats
TESTS += tests/preload/ordered.bats tests/preload/ordered_waits.bats

tests_preload_ordered_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_ordered_LDFLAGS = -Wl,--export-dynamic
tests_preload_ordered_soak_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_ordered_waits_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_ordered_waits_LDFLAGS = -Wl,--export-dynamic
