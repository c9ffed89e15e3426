# SPDX-License-Identifier: BSD-3-Clause
# Copies whose pages the program's handlers repair.
check_PROGRAMS += tests/preload/faults
dist_check_SCRIPTS += tests/preload/faults.bats
TESTS += tests/preload/faults.bats

tests_preload_faults_LDADD = $(BEHAVIOUR_LDADD)
