#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Threads that work while their process is put to sleep again and again. CROWD_MOVES=10000 takes half an hour.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	export SIM_DEVICES=2 SIM_MEMORY=512M
	TOOL=$PWD/gpumemstat
	MOVES=${CROWD_MOVES:-25}
}

# crowd KNOB... -- [kernels]: all contents were right, and the process slept each time; the pool served it.
crowd() {
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	while [ "$1" != -- ]; do
		KNOBS+=("$1")
		shift
	done
	preloaded "$PROGRAMS/sleep_crowd" "$PROGRAMS/sleep_asker" "$MOVES" 100 "${@:2}" >"$BATS_TEST_TMPDIR/out" 2>&1 || {
		cat "$BATS_TEST_TMPDIR/out"
		return 1
	}
	diff -u - "$BATS_TEST_TMPDIR/out" <<<"enough operations, $MOVES moves, 0 wrong"
	"$TOOL" summary --json "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/summary"
	jq -e --argjson moves "$MOVES" '.logs[0].counters | .sleeps == $moves and .wakes >= $moves - 1' "$BATS_TEST_TMPDIR/summary"
	jq -e '[.logs[0].devices[].counters] | (map(.allocate_pool) | add) > 100 and (map(.allocate_driver) | add) == 0' "$BATS_TEST_TMPDIR/summary"
}

@test "four threads in three contexts on two devices, put to sleep again and again, keep all bytes" {
	crowd --
}

@test "four threads, frees in the order of streams and copying threads: all bytes stay across sleeps" {
	crowd GPUMEM_FREE=ordered GPUMEM_COPY=2 --
}

@test "four threads whose kernels call malloc, put to sleep again and again, keep all bytes" {
	grep -q '^#define GM_HELPERS 1' config.h || skip 'this build has no code for GPUs'
	[[ $SANITIZE_LIB != *asan* ]] || skip 'AddressSanitizer prints a line about makecontext, which emulates kernels'
	MOVES=$(((MOVES + 1) / 2))
	crowd -- kernels
}
