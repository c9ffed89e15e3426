# SPDX-License-Identifier: BSD-3-Clause
# Green contexts, host functions, graphs that kernels launch.
check_PROGRAMS += %D%/launched
tests_preload_launched_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_launched_LDFLAGS = -Wl,--export-dynamic
dist_check_SCRIPTS += %D%/launched.bats
TESTS += %D%/launched.bats
