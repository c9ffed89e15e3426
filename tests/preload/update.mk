# SPDX-License-Identifier: BSD-3-Clause
# Updates of instantiated graphs.
check_PROGRAMS += tests/preload/update
dist_check_SCRIPTS += tests/preload/update.bats
TESTS += tests/preload/update.bats

tests_preload_update_LDADD = $(BEHAVIOUR_LDADD)
