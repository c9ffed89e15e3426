#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Before cuInit has succeeded, gpumem has no thread, file, output or allocation.

setup() {
	. "$BATS_TEST_DIRNAME/resolve.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
}

@test "before cuInit the state of a process is the same as natively" {
	needs_driver 12.0
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer has its own malloc"
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=events GPUMEM_VERBOSE=4)
	for level in O0 O2; do
		same sim "$PROGRAMS/quiet-$level"
		same plain "$PROGRAMS/quiet-$level"
	done
	run over sim "$PROGRAMS/quiet-O2"
	[[ $output == 'found 7, '* ]]
}

@test "a program that does not use CUDA notices nothing" {
	needs_own_machine
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=events GPUMEM_VERBOSE=4 GPUMEM_NO_SUCH_KNOB=1)
	same nowhere sh -c 'echo hello; echo there >&2'
	[ -z "$(ls)" ]
}

@test "a cuInit that fails starts nothing" {
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=events GPUMEM_VERBOSE=4 SIM_FAIL=cuInit:1:100)
	same sim "$PROGRAMS/linked-O2"
	[ -z "$(ls)" ]
}
