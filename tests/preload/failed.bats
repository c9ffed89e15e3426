#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Calls that the driver refuses: their outputs are undefined, and gpumem must not read them.

setup() {
	. "$BATS_TEST_DIRNAME/resolve.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
}

@test "outputs of a refused call are not read" {
	symbols=$(sed -n 's/^	{"\(cu[A-Za-z0-9_]*\)", .*/\1/p' "$BATS_TEST_DIRNAME/failed.c" | sort -u)
	[ "$(wc -w <<<"$symbols")" -ge 8 ]
	for mode in trace pool; do
		for symbol in $symbols; do
			KNOBS=(GPUMEM_MODE=$mode GPUMEM_VERBOSE=0)
			native=$(on sim "$PROGRAMS/failed" "$symbol")
			[[ $native == "$symbol: "* ]]
			[[ $native != *SUCCESS* ]]
			says "$native" over sim "$PROGRAMS/failed" "$symbol" || { echo "$mode, $symbol"; return 1; }
		done
	done
}
