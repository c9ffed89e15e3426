# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_crew tests/unit/test_move tests/unit/test_ring \
	tests/unit/test_ring_random tests/unit/test_share
tests_unit_test_ring_LDFLAGS = -Wl,--wrap=madvise,--wrap=gm_move_checked
