#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Every request that NVIDIA's runtime makes at start-up.

setup() {
	. "$BATS_TEST_DIRNAME/resolve.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	needs_driver 12.0
	REQUESTS=$GPUMEM_TEST_DATA/cudart13_getprocaddress.csv
	[ -n "$GPUMEM_TEST_DATA" ] || skip "GPUMEM_TEST_DATA is not set"
	[ -r "$REQUESTS" ] || skip "no $REQUESTS"
}

@test "each request: ours where the driver's answer is a hooked symbol, its own pointer otherwise" {
	for level in O0 O2; do
		run over sim "$PROGRAMS/sweep-$level" "$REQUESTS" preloaded
		echo "$output"
		[ "$status" -eq 0 ]
		[[ $output =~ ^440\ requests,\ ([0-9]+)\ ours,\ ([0-9]+)\ of ]]
		[ "${BASH_REMATCH[1]}" -gt 90 ]
		[ "${BASH_REMATCH[2]}" -gt 30 ]
	done
}

@test "an older driver's answers, likewise" {
	KNOBS=(SIM_DRIVER=11.4)
	run over sim "$PROGRAMS/sweep-O2" "$REQUESTS" preloaded
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "GPUMEM_ENABLE=0: the driver's own pointers, all of them" {
	KNOBS=(GPUMEM_ENABLE=0)
	run over sim "$PROGRAMS/sweep-O2" "$REQUESTS" native
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == '440 requests, 0 ours, '* ]]
}

@test "what is not hooked is said once, and only after cuInit" {
	KNOBS=(GPUMEM_VERBOSE=4)
	run over sim "$PROGRAMS/ask-O2" open libcuda.so.1 proc cuDriverGetVersion 2020 0 proc cuCtxGetDevice 2000 0
	[[ $output != *'not hooked'* ]]
	run over sim "$PROGRAMS/ask-O2" open libcuda.so.1 proc cuDriverGetVersion 2020 0 use proc cuDriverGetVersion 2020 0 \
		proc cuCtxGetDevice 2000 0 proc cuMemAlloc 3020 0
	[ "$(grep -c '^gpumem: not hooked: cuDriverGetVersion$' <<<"$output")" -eq 1 ]
	[ "$(grep -c '^gpumem: not hooked: cuCtxGetDevice$' <<<"$output")" -eq 1 ]
	[[ $output != *'not hooked: cuMemAlloc'* ]]
}
