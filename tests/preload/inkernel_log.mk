# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += tests/preload/inkernel_log.bats
TESTS += tests/preload/inkernel_log.bats
