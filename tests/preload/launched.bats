#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Green contexts, host functions and graphs that kernels launch, in each mode of GPUMEM_FREE: contents and
# answers as natively. Memory with such work pending is not handed out so that the work spoils its contents.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
}

# modes CASE: as natively in each mode.
modes() {
	local free
	for free in sync defer ordered; do
		echo "$1 $free"
		GPUMEM_FREE=$free same launched "$1"
	done
	refute grep -q 'intact: 0' "$BATS_TEST_TMPDIR/preloaded"
}

@test "work in green contexts spoils no memory that is handed out again" {
	for case in green green_same green_into green_current; do
		modes $case
	done
}

@test "work of a green context that was destroyed spoils no memory that is handed out again" {
	modes green_destroy
}

@test "calls in host functions are refused as natively, and damage nothing" {
	modes hosted
	grep -qx 'cuMemAlloc(&at, MIB): CUDA_ERROR_NOT_PERMITTED' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx 'cuMemFree(the_block): CUDA_ERROR_NOT_PERMITTED' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx 'cuMemFree(the_block): CUDA_SUCCESS' "$BATS_TEST_TMPDIR/preloaded"
	for free in sync defer ordered; do
		KNOBS=(GPUMEM_FREE=$free GPUMEM_LOG=small "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/$free.gml")
		preloaded "$PROGRAMS/launched" hosted >/dev/null
		env ASAN_OPTIONS=detect_leaks=0 ./gpumemstat summary --json "$BATS_TEST_TMPDIR/$free.gml" >"$BATS_TEST_TMPDIR/json"
		jq -e '.logs[0].devices[0].counters | .allocate_pool == 2 and .free_calls == 2 and .allocate_driver == 0' "$BATS_TEST_TMPDIR/json"
		jq -e '.logs[0].contradiction == null' "$BATS_TEST_TMPDIR/json"
	done
}

@test "the pool serves a process whose first call for memory is in a host function" {
	modes hosted_first
	KNOBS=(GPUMEM_LOG=small "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/log.gml")
	preloaded "$PROGRAMS/launched" hosted_first >/dev/null
	env ASAN_OPTIONS=detect_leaks=0 ./gpumemstat summary --json "$BATS_TEST_TMPDIR/log.gml" |
		jq -e '.logs[0].devices[0].counters | .allocate_pool == 1 and .allocate_driver == 0'
}

@test "a process that sleeps wakes when a host function is launched" {
	export TOOL=$PWD/gpumemstat ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_LOG=small "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/log.gml")
	same launched hosted_asleep
	"$TOOL" summary --json "$BATS_TEST_TMPDIR/log.gml" | jq -e '.logs[0].counters | .sleeps == 1 and .wakes == 1'
}

@test "a process that sleeps wakes when a host function is launched by the call of driver 13.1" {
	needs_driver 13.1
	export TOOL=$PWD/gpumemstat ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_LOG=small "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/log.gml")
	same launched hosted_asleep_newer
	"$TOOL" summary --json "$BATS_TEST_TMPDIR/log.gml" | jq -e '.logs[0].counters | .sleeps == 1 and .wakes == 1'
}

@test "a host function that lets another thread launch spoils no memory that is handed out again" {
	modes hosted_tells
}

@test "work that a host function or a callback submits waits for work that used its memory before" {
	modes hosted_fills
	modes callback_fills
}

@test "graphs that a kernel launches spoil no memory that is handed out again" {
	for case in graph_fire graph_tail graph_sibling; do
		modes $case
		modes ${case}_other
	done
	refute grep -q 'from a kernel' "$BATS_TEST_TMPDIR/preloaded"
}
