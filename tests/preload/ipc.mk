# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += %D%/ipc %D%/ipc_slow
dist_check_SCRIPTS += %D%/ipc.bats
TESTS += %D%/ipc.bats
tests_preload_ipc_SOURCES = %D%/ipc.c %D%/ipc_turns.h %D%/program.h %D%/steer.h
tests_preload_ipc_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_ipc_slow_SOURCES = %D%/ipc_slow.c %D%/program.h
tests_preload_ipc_slow_LDADD = libgm.la $(BEHAVIOUR_LDADD)
