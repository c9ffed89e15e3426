# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += %D%/refused %D%/stripes
tests_preload_refused_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_stripes_LDADD = $(BEHAVIOUR_LDADD)
dist_check_SCRIPTS += %D%/chunks.bats
TESTS += %D%/chunks.bats
