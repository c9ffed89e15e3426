# SPDX-License-Identifier: BSD-3-Clause
# Deferred reuse: work that overwrites blocks late.
check_PROGRAMS += tests/preload/defer
dist_check_SCRIPTS += tests/preload/defer.bats
TESTS += tests/preload/defer.bats

tests_preload_defer_LDADD = $(BEHAVIOUR_LDADD)
