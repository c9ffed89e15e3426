#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_FREE=defer: a free does not wait. Memory is used again only after the work submitted before the free
# has completed.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	export GPUMEM_FREE=defer
}

# late CASE: the contents of the blocks are as natively, and only an allocation at the device's limit has
# waited.
late() {
	same defer "$1"
	grep -q ' blocks are intact$' "$BATS_TEST_TMPDIR/preloaded"
	preloaded "$PROGRAMS/defer" "$1" show >"$BATS_TEST_TMPDIR/shown"
	refute grep -qx "  waited: ${2:-1}" "$BATS_TEST_TMPDIR/shown"
	grep -qx "  waited: $((1 - ${2:-1}))" "$BATS_TEST_TMPDIR/shown"
}

@test "defer: a block of any size is not reused while a stream is yet to write to it" {
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
	KNOBS=(GPUMEM_TRIM_AFTER=off GPUMEM_PREWARM=32M) # the trim polls, too, if 10 s pass
	[ "$(calls cuMemCreate defer cycle)" -eq 1 ]
	[ "$(calls cuCtxRecordEvent defer cycle)" -eq 100 ]
	[ "$(calls cuEventQuery defer cycle)" -eq 100 ]
	[ "$(calls cuEventSynchronize defer cycle)" -eq 0 ]
}

@test "defer: on an idle GPU memory is reused though a context has ended with an open capture" {
	needs_driver 12.5
	same defer cycle_later
	KNOBS=(GPUMEM_TRIM_AFTER=off GPUMEM_PREWARM=32M)
	[ "$(calls cuMemCreate defer cycle_later)" -eq 1 ]
	[ "$(calls cuEventQuery defer cycle_later)" -eq 100 ]
}

# peaks CASE: the peaks in the log, as $mapped and $retired, MiB.
peaks() {
	local log=$BATS_TEST_TMPDIR/$1.gml
	KNOBS=(GPUMEM_LOG=small "GPUMEM_LOG_NAME=$log")
	rm -f "$log"
	SIM_MEMORY=16G preloaded "$PROGRAMS/defer" "$1" >/dev/null # as much as memcheck has addresses for
	read -r mapped retired < <(./gpumemstat summary --json "$log" |
		jq -r '.logs[0].devices[0].counters | "\(.mapped_peak / 1048576) \(.retired_peak / 1048576)"')
	echo "$1: at most $mapped MiB mapped, $retired retired"
}

@test "defer: retired memory stays in proportion to live memory" {
	needs_driver 12.5
	peaks beside
	# With 1 GiB alive, 128 MiB may be retired, so the pool grows by as much; the longest blocks have 40
	# MiB.
	[ "$mapped" -ge 1024 ]
	[ "$mapped" -le $((1024 + 2 * 128 + 2 * 40)) ]
	[ "$retired" -le $((2 * 128 + 2 * 40)) ]
	GPUMEM_RETIRE=32M peaks beside
	[ "$mapped" -le $((1024 + 128 + 3 * 40)) ]
}

@test "defer: an allocation does not wait for long for a kernel that waits for the program" {
	needs_driver 12.5
	late still
	peaks still
	[ "$mapped" -gt 1024 ]
}

@test "defer: a program that holds 1 MiB maps 2 MiB" {
	peaks small
	[ "$mapped" -eq 2 ]
}
