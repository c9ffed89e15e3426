#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_FREE=defer: a free does not wait, and memory is used again only once the work submitted before has completed.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	export GPUMEM_FREE=defer
}

# late CASE: what the blocks hold is as natively, and nothing but an allocation at the device's limit has waited.
late() {
	same defer "$1"
	grep -q ' blocks are intact$' "$BATS_TEST_TMPDIR/preloaded"
	preloaded "$PROGRAMS/defer" "$1" show >"$BATS_TEST_TMPDIR/shown"
	refute grep -qx "  waited: ${2:-1}" "$BATS_TEST_TMPDIR/shown"
	grep -qx "  waited: $((1 - ${2:-1}))" "$BATS_TEST_TMPDIR/shown"
}

@test "defer: a block is not reused while a stream is yet to write to it, whatever its size" {
	late plain
}

@test "defer: none of many blocks behind one fence is reused too soon" {
	late many
}

@test "defer: a block freed after the fence is not reused too soon" {
	late order
}

@test "defer: a block is not reused too soon by another context" {
	late contexts
}

@test "defer: a block is not reused too soon while a capture is open, and the capture stays valid" {
	late capture
}

@test "defer: a block freed in the order of another context's stream is not reused too soon" {
	late async
}

@test "defer: freed blocks become idle with the end of their context" {
	late gone
	same defer reset
}

@test "defer: an allocation waits at the device's limit" {
	SIM_MEMORY=256M late full 0
	KNOBS=(GPUMEM_LIMIT=64M)
	preloaded "$PROGRAMS/defer" full show >"$BATS_TEST_TMPDIR/shown"
	grep -qx '  waited: 1' "$BATS_TEST_TMPDIR/shown"
	grep -qx '1 of 1 blocks are intact' "$BATS_TEST_TMPDIR/shown"
}

@test "defer: no block is reused too soon where every free polls (GPUMEM_RETIRE=0)" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip "many minutes under ThreadSanitizer"
	needs_driver 12.5
	export GPUMEM_RETIRE=0
	for case in plain many order contexts capture async gone; do
		late $case
	done
}

@test "defer: no block is reused too soon on drivers without cuCtxRecordEvent" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip "many minutes under ThreadSanitizer"
	for SIM_DRIVER in 11.4 12.0; do
		export SIM_DRIVER
		for case in plain many order contexts capture gone; do
			late $case
		done
		SIM_MEMORY=256M late full 0
		same defer reset
		# Past the bound an allocation waits there before it takes new memory.
		KNOBS=(GPUMEM_RETIRE=0)
		late order 0
		KNOBS=()
	done
}

@test "defer: contexts end while other threads poll or wait" {
	SIM_YIELD=1 same defer ends
	SIM_DRIVER=12.0 same defer ends
}

@test "defer: on an idle GPU memory is reused, and 64 frees share a fence" {
	needs_driver 12.5
	KNOBS=(GPUMEM_TRIM_AFTER=off GPUMEM_PREWARM=32M) # the trim polls, too, where 10 s go by
	[ "$(calls cuMemCreate defer cycle)" -eq 1 ]
	[ "$(calls cuCtxRecordEvent defer cycle)" -eq 100 ]
	[ "$(calls cuEventQuery defer cycle)" -eq 100 ]
	[ "$(calls cuEventSynchronize defer cycle)" -eq 0 ]
}
