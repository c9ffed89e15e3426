# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat as its users meet it.
CLI_BATS = %D%/completion.bats %D%/damage.bats %D%/exact.bats %D%/launch.bats %D%/launch_wrong.bats %D%/options.bats %D%/knobs.bats %D%/summary.bats %D%/wrong.bats
dist_check_SCRIPTS += $(CLI_BATS)
EXTRA_DIST += %D%/cli.bash %D%/knobs.bash %D%/wrong.bash
TESTS += $(CLI_BATS)
check_PROGRAMS += %D%/mklog %D%/mutate
tests_cli_mklog_SOURCES = %D%/mklog.c
tests_cli_mklog_LDADD = libgm.la -lpthread -ldl
tests_cli_mutate_SOURCES = %D%/mutate.c
tests_cli_mutate_LDADD = libgm.la -lpthread -ldl
