# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_FILL.
check_PROGRAMS += tests/preload/fill
dist_check_SCRIPTS += tests/preload/fill.bats
TESTS += tests/preload/fill.bats

tests_preload_fill_LDADD = $(BEHAVIOUR_LDADD)
