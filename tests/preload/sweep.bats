#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Requests of cuGetProcAddress: all kinds, and those of NVIDIA's runtime at start-up.

setup() {
	. "$BATS_TEST_DIRNAME/resolve.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	needs_driver 12.0
	REQUESTS=$BATS_TEST_TMPDIR/requests
	requests >"$REQUESTS"
	N=$(wc -l <"$REQUESTS")
}

# Each hook's name in cuGetProcAddress, and other names, with versions and flags of every kind, also invalid
# ones.
requests() {
	awk '
		function ask(name) {
			for (v = 1; v <= n_versions; v++)
				for (flags = 0; flags < 4; flags++)
					print name "," version[v] "," flags
		}
		BEGIN {
			n_versions = split("-1 0 3020 4000 7050 11020 12000 12050 13000 13020 13040", version)
			n = split("cuDriverGetVersion cuCtxGetDevice cuNone \"\"", other)
			for (i = 1; i <= n; i++)
				ask(other[i])
		}
		/^GM_HOOK\(/ {gsub(/^GM_HOOK\(|,.*/, ""); ask($0)}' "$BATS_TEST_DIRNAME/../../src/driver/hooks.def"
}

@test "cuGetProcAddress: each request gets ours for a hooked symbol, the driver's pointer otherwise" {
	[ "$N" -gt 4000 ]
	for level in O0 O2; do
		run over sim "$PROGRAMS/sweep-$level" "$REQUESTS" preloaded
		echo "$output"
		[ "$status" -eq 0 ]
		[[ $output =~ ^$N\ requests,\ ([0-9]+)\ ours,\ ([0-9]+)\ of ]]
		[ "${BASH_REMATCH[1]}" -gt 800 ] # 840 with driver 12.2
		[ "${BASH_REMATCH[2]}" -gt 100 ]
	done
}

@test "cuGetProcAddress: each request of NVIDIA's runtime" {
	[ -n "$GPUMEM_TEST_DATA" ] || skip "GPUMEM_TEST_DATA is not set"
	REQUESTS=$GPUMEM_TEST_DATA/cudart13_getprocaddress.csv
	[ -r "$REQUESTS" ] || skip "no $REQUESTS"
	run over sim "$PROGRAMS/sweep-O2" "$REQUESTS" preloaded
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output =~ ^440\ requests,\ ([0-9]+)\ ours,\ ([0-9]+)\ of ]]
	[ "${BASH_REMATCH[1]}" -gt 90 ]
	[ "${BASH_REMATCH[2]}" -gt 30 ]
}

@test "cuGetProcAddress of older drivers: each request gets ours for a hooked symbol" {
	KNOBS=(SIM_DRIVER=11.4)
	run over sim "$PROGRAMS/sweep-O2" "$REQUESTS" preloaded first
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output =~ ^$N\ requests,\ ([0-9]+)\ ours,\ ([0-9]+)\ of ]]
	[ "${BASH_REMATCH[1]}" -gt 500 ]
	[ "${BASH_REMATCH[2]}" -gt 100 ]
}

@test "cuGetProcAddress with GPUMEM_ENABLE=0: all pointers are the driver's own" {
	KNOBS=(GPUMEM_ENABLE=0)
	run over sim "$PROGRAMS/sweep-O2" "$REQUESTS" native
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == "$N requests, 0 ours, "* ]]
}

@test "a call that is not hooked is reported once, and only after cuInit" {
	KNOBS=(GPUMEM_VERBOSE=4)
	run over sim "$PROGRAMS/ask-O2" open libcuda.so.1 proc cuDriverGetVersion 2020 0 proc cuCtxGetDevice 2000 0
	[[ $output != *'not hooked'* ]]
	run over sim "$PROGRAMS/ask-O2" open libcuda.so.1 proc cuDriverGetVersion 2020 0 use proc cuDriverGetVersion 2020 0 \
		proc cuCtxGetDevice 2000 0 proc cuMemAlloc 3020 0
	[ "$(grep -c '^gpumem: not hooked: cuDriverGetVersion$' <<<"$output")" -eq 1 ]
	[ "$(grep -c '^gpumem: not hooked: cuCtxGetDevice$' <<<"$output")" -eq 1 ]
	[[ $output != *'not hooked: cuMemAlloc'* ]]
}
