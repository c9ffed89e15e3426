#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# All features at once, for a while: threads, contexts, resets, captures, children, heaps, failures of the
# driver.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	needs_driver 12.0
	export SIM_DEVICES=2 SIM_MEMORY=512M SIM_MEMFD=1 STRESS_SEED=${STRESS_SEED:-$RANDOM}
	PROGRAM=$PWD/tests/stress/stress
	echo "STRESS_SEED=$STRESS_SEED"
}

# stress N [KNOB]...
stress() {
	KNOBS=("${@:2}")
	preloaded "$PROGRAM" operations "$1" "$STRESS_SEED" 4 >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || {
		cat "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/err"
		return 1
	}
	cat "$BATS_TEST_TMPDIR/out"
	# A run this short may use no heap; make stress requires kernels served.
	grep -qE '^the pool served blocks, heaps served (kernels|nothing)$' "$BATS_TEST_TMPDIR/out"
	refute grep '^stress:' "$BATS_TEST_TMPDIR/err"
}

@test "frees that wait" {
	stress 1000 GPUMEM_FREE=sync
}

@test "frees that are deferred" {
	stress 1000 GPUMEM_FREE=defer
}

@test "frees in the order of streams" {
	needs_driver 12.5
	stress 1000 GPUMEM_FREE=ordered
}

@test "frees with a small bound of retired memory" {
	stress 1000 GPUMEM_FREE=defer GPUMEM_RETIRE=64K
}

@test "memory that is returned at once, and a limit" {
	stress 1000 GPUMEM_TRIM_AFTER=0 GPUMEM_LIMIT=200M
}

@test "failures of the driver" {
	STRESS_FAILURES=1 stress 1000 GPUMEM_TRIM_AFTER=1ms
}

# proves N SETTING...: the logs show that the run used the feature of the setting.
proves() {
	stress "$1" "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/%p.gml" GPUMEM_LOG=small "${@:2}"
	. "$BATS_TEST_DIRNAME/stress.bash"
	stress_proved "${*:2}" "$BATS_TEST_TMPDIR"/*.gml
}

@test "large copies of pageable memory through slots" {
	proves 4000 GPUMEM_COPY=4
}

@test "sleep and wake between all other operations" {
	proves 2000 GPUMEM_SLEEP=1
}

@test "call stacks of all allocations" {
	proves 1000 GPUMEM_LOG=events GPUMEM_STACKS=all
}
