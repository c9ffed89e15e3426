# SPDX-License-Identifier: BSD-3-Clause
# The cores of copy threads.
check_PROGRAMS += tests/preload/cores
dist_check_SCRIPTS += tests/preload/cores.bats
TESTS += tests/preload/cores.bats

tests_preload_cores_LDADD = $(BEHAVIOUR_LDADD) -lpthread
