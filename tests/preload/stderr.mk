# SPDX-License-Identifier: BSD-3-Clause
# Messages on standard error.
check_PROGRAMS += tests/preload/stderr
dist_check_SCRIPTS += tests/preload/stderr.bats
TESTS += tests/preload/stderr.bats
tests_preload_stderr_LDADD = $(BEHAVIOUR_LDADD)
