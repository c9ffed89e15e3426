# SPDX-License-Identifier: BSD-3-Clause
# Resources that containers and batch systems remove, and processes that they start at once.
CONTAINERS_BATS = tests/preload/containers.bats tests/preload/commands.bats tests/preload/filters.bats tests/preload/ranks.bats
check_PROGRAMS += tests/preload/containers_confine tests/preload/filtered
tests_preload_containers_confine_LDADD =
tests_preload_filtered_LDADD = $(BEHAVIOUR_LDADD) -lpthread
dist_check_SCRIPTS += $(CONTAINERS_BATS)
TESTS += $(CONTAINERS_BATS)
EXTRA_DIST += tests/preload/commands.sh tests/preload/containers_musl.c tests/preload/containers_witness.c tests/preload/ranks.sh

check_DATA += tests/preload/libwitness.so
tests/preload/libwitness.so: tests/preload/containers_witness.c
	$(PRELOAD_SHARED) $<
