# SPDX-License-Identifier: BSD-3-Clause
# Processes that give each other idle memory.
dist_check_SCRIPTS += tests/preload/give.bats
TESTS += tests/preload/give.bats
EXTRA_DIST += tests/preload/several.bash
