# SPDX-License-Identifier: BSD-3-Clause
# Wrong use of commands, options, knobs, logs and the launcher.
WRONG_BATS = %D%/damage.bats %D%/knobs.bats %D%/launch_wrong.bats %D%/wrong.bats
dist_check_SCRIPTS += $(WRONG_BATS)
EXTRA_DIST += %D%/damage.py %D%/knobs.bash %D%/wrong.bash %D%/wrong.py
TESTS += $(WRONG_BATS)
check_PROGRAMS += %D%/mutate
tests_cli_mutate_LDADD = libgm.la -lpthread -ldl
