# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += %D%/ipc %D%/ipc_slow
dist_check_SCRIPTS += %D%/ipc.bats
TESTS += %D%/ipc.bats
tests_preload_ipc_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_ipc_slow_LDADD = libgm.la $(BEHAVIOUR_LDADD)
