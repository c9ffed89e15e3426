#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Stream captures: allowed calls, and calls that invalidate a capture.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
}

@test "captures: all cases of mode, thread and exchange answer as natively" {
	same captures
	[ "$(grep -c '^cuMemFree,' "$BATS_TEST_TMPDIR/preloaded")" -eq 12 ]
}

@test "captures on a driver without cuCtxRecordEvent: all cases answer as natively" {
	SIM_DRIVER=12.0 same captures
}

@test "frees of other threads never invalidate a relaxed capture" {
	SIM_YIELD=1 same race
	[ "$(cat "$BATS_TEST_TMPDIR/preloaded")" = '0 captures invalidated, 0 calls refused' ]
}

@test "frees of other threads never invalidate a relaxed capture, without cuCtxRecordEvent" {
	SIM_YIELD=1 SIM_DRIVER=12.0 same race
}
