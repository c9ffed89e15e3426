#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_FILL: the contents of a new block.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	[ "${GPUMEM_FREE:-sync}" != ordered ] || export GPUMEM_FREE=defer # GPUMEM_FILL turns ordered into defer, with a line
	export GPUMEM_RETIRE=0 # where frees do not wait: the next allocation finds the freed block
}

# filled KNOB LINE...: the program prints the LINEs with GPUMEM_FILL=KNOB.
filled() {
	KNOBS+=("GPUMEM_FILL=$1")
	preloaded "$PROGRAMS/fill" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	printf '%s\n' "${@:2}" | diff -u - "$BATS_TEST_TMPDIR/out"
}

CAPTURE=('cuMemAlloc(&block, size): CUDA_SUCCESS' 'cuStreamEndCapture(stream, &graph): CUDA_SUCCESS')

@test "GPUMEM_FILL=off: blocks hold the bytes that were there" {
	filled off 'fresh, 1000 bytes: mixed' "fresh, 1048575 bytes: mixed" 'fresh, 1048576 bytes: mixed' \
		'fresh, 3145728 bytes: mixed' "${CAPTURE[@]}" 'captured, 2097152 bytes: mixed' \
		'pitched, 2048000 bytes: mixed' 'another context, 1048576 bytes: mixed' 'fresh, 1048576 bytes: mixed'
	[ ! -s "$BATS_TEST_TMPDIR/err" ]
	[ "$(calls cuMemAlloc_v2 fill)" -eq 0 ]
	[ "$(calls cuMemCreate fill)" -gt 0 ]
	[ "$(calls cuMemsetD8Async fill)" -eq 0 ]
}

@test "GPUMEM_FILL=zero: blocks from 1 MiB on are zero" {
	filled zero 'fresh, 1000 bytes: mixed' "fresh, 1048575 bytes: mixed" 'fresh, 1048576 bytes: 00' \
		'fresh, 3145728 bytes: 00' "${CAPTURE[@]}" 'captured, 2097152 bytes: 00' \
		'pitched, 2048000 bytes: 00' 'another context, 1048576 bytes: 00' 'fresh, 1048576 bytes: 00'
	[ ! -s "$BATS_TEST_TMPDIR/err" ]
}

@test "GPUMEM_FILL=BYTE: every block, in every context" {
	for byte in 0xa5 165; do
		filled $byte 'fresh, 1000 bytes: a5' "fresh, 1048575 bytes: a5" 'fresh, 1048576 bytes: a5' \
			'fresh, 3145728 bytes: a5' "${CAPTURE[@]}" 'captured, 2097152 bytes: a5' \
			'pitched, 2048000 bytes: a5' 'another context, 1048576 bytes: a5' 'fresh, 1048576 bytes: a5'
		[ ! -s "$BATS_TEST_TMPDIR/err" ]
	done
	# One fill stream a context: an allocation makes no stream of its own.
	with=$(calls cuStreamCreate fill)
	KNOBS=()
	[ "$with" -eq "$(($(calls cuStreamCreate fill) + 2))" ]
}

@test "GPUMEM_FILL: a fill that fails leaves the block unchanged, and is reported in one line" {
	export SIM_FAIL=cuMemsetD8Async:0:1
	filled 0xa5 'fresh, 1000 bytes: mixed' "fresh, 1048575 bytes: mixed" 'fresh, 1048576 bytes: mixed' \
		'fresh, 3145728 bytes: mixed' "${CAPTURE[@]}" 'captured, 2097152 bytes: mixed' \
		'pitched, 2048000 bytes: mixed' 'another context, 1048576 bytes: mixed' 'fresh, 1048576 bytes: mixed'
	[ "$(cat "$BATS_TEST_TMPDIR/err")" = \
		'gpumem: GPUMEM_FILL: CUDA_ERROR_INVALID_VALUE: a block of 1000 bytes is handed out as it was' ]
}
