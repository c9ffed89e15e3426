# SPDX-License-Identifier: BSD-3-Clause
# The bugs of other libraries that get between programs and CUDA: BREAKAGE.md lists them.
BREAK_BATS = %D%/break_answers.bats %D%/break_device.bats
BREAK_TESTS = %D%/break_frees %D%/break_peers %D%/break_pointers %D%/break_share
check_PROGRAMS += $(BREAK_TESTS)
dist_check_SCRIPTS += $(BREAK_BATS)
TESTS += $(BREAK_BATS)

tests_preload_break_frees_SOURCES = %D%/break_frees.c %D%/program.h
tests_preload_break_frees_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_peers_SOURCES = %D%/break_peers.c %D%/program.h
tests_preload_break_peers_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_pointers_SOURCES = %D%/break_pointers.c %D%/program.h
tests_preload_break_pointers_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_share_SOURCES = %D%/break_share.c %D%/program.h
tests_preload_break_share_LDADD = $(BEHAVIOUR_LDADD)
