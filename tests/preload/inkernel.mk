# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/preload/inkernel tests/preload/unread
dist_check_SCRIPTS += tests/preload/inkernel.bats
TESTS += tests/preload/inkernel.bats
tests_preload_inkernel_SOURCES = tests/preload/inkernel.c tests/preload/program.h
tests_preload_inkernel_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_unread_SOURCES = tests/preload/unread.c tests/preload/program.h tests/preload/steer.h tests/image_make.h
tests_preload_unread_LDADD = $(BEHAVIOUR_LDADD)
