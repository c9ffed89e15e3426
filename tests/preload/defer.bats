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
	! grep -qx "  waited: ${2:-1}" "$BATS_TEST_TMPDIR/shown"
	grep -qx "  waited: $((1 - ${2:-1}))" "$BATS_TEST_TMPDIR/shown"
}

@test "a block is not used again while a stream is yet to write to it, whatever its size" {
	late plain
}

@test "nor is any of many that one fence covers" {
	late many
}

@test "nor one that was freed after the fence" {
	late order
}

@test "nor by another context" {
	late contexts
}

@test "nor while a capture is open, which is none the worse" {
	late capture
}

@test "nor one that was freed in the order of another context's stream" {
	late async
}

@test "what was freed goes with its context" {
	late gone
	same defer reset
}

@test "at the device's limit an allocation waits" {
	late full 0
	KNOBS=(GPUMEM_LIMIT=64M)
	preloaded "$PROGRAMS/defer" full show >"$BATS_TEST_TMPDIR/shown"
	grep -qx '  waited: 1' "$BATS_TEST_TMPDIR/shown"
	grep -qx '1 of 1 blocks are intact' "$BATS_TEST_TMPDIR/shown"
}

@test "all of it where every free looks what has passed" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip "many minutes under ThreadSanitizer"
	needs_driver 12.5
	export GPUMEM_RETIRE=0
	for case in plain many order contexts capture async gone; do
		late $case
	done
}

@test "all of it on drivers that cannot record a fence" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip "many minutes under ThreadSanitizer"
	for SIM_DRIVER in 11.4 12.0; do
		export SIM_DRIVER
		for case in plain many order contexts capture gone; do
			late $case
		done
		late full 0
		same defer reset
		# Past the bound an allocation waits there before it takes new memory.
		KNOBS=(GPUMEM_RETIRE=0)
		late order 0
		KNOBS=()
	done
}

@test "contexts end while other threads look for what has passed, or wait" {
	SIM_YIELD=1 same defer ends
	SIM_DRIVER=12.0 same defer ends
}

@test "on an idle GPU memory is used again, and 64 frees share a fence" {
	needs_driver 12.5
	KNOBS=(GPUMEM_TRIM_AFTER=off) # which looks what has passed, too, where 10 s go by
	[ "$(calls cuMemCreate defer cycle)" -eq 1 ]
	[ "$(calls cuCtxRecordEvent defer cycle)" -eq 100 ]
	[ "$(calls cuEventQuery defer cycle)" -eq 100 ]
	[ "$(calls cuEventSynchronize defer cycle)" -eq 0 ]
}
