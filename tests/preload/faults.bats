#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Copies of pages that a program protects, or of a file that it cuts, and repairs in its handler of the signal.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
}

@test "the handler of a page that became inaccessible during a staged copy runs on the program's thread" {
	[ -z "$TEST_UNDER" ] || skip "valgrind does not restart a copy"
	KNOBS=(GPUMEM_COPY=2)
	for kind in segv bus; do
		for way in to from; do
			same faults $kind $way
			grep -qx '100 copies are right, 100 pages repaired, 0 on other threads' "$BATS_TEST_TMPDIR/native"
		done
	done
}
