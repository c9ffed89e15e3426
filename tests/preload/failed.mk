# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += %D%/failed
tests_preload_failed_LDADD = $(BEHAVIOUR_LDADD)
dist_check_SCRIPTS += %D%/failed.bats
TESTS += %D%/failed.bats
