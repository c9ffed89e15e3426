#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The table of wrong and odd calls: tests/gpu/odd_*.def, a row a line, and the products of odd_tables.c.
# tests/gpu/run.sh compares the same lines on a GPU. All rows are the same natively and preloaded; a justified
# difference would be left out here by name.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 13.0
	TOOL=$PWD/gpumemstat
	KNOBS=(GPUMEM_VERBOSE=0) # no message about exports that are never opened
}

@test "wrong and odd calls, over 200, are answered as natively" {
	KNOBS+=(GPUMEM_FREE=sync)
	same odd
	[ "$(grep -c ': ' "$BATS_TEST_TMPDIR/native")" -ge 200 ]
	[ "$(sed 's/: .*//' "$BATS_TEST_TMPDIR/native" | sort | uniq -d | wc -l)" -eq 0 ]
}

@test "wrong and odd calls, over 200, are answered as natively with GPUMEM_FREE=defer" {
	KNOBS+=(GPUMEM_FREE=defer)
	same odd
}

@test "the pool serves each process of the table of odd calls" {
	mkdir "$BATS_TEST_TMPDIR/logs"
	for free in sync defer; do
		KNOBS=(GPUMEM_VERBOSE=0 GPUMEM_FREE=$free GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/logs/$free.%p.gml")
		preloaded "$PROGRAMS/odd" >/dev/null
		env ASAN_OPTIONS=detect_leaks=0 "$TOOL" summary --json "$BATS_TEST_TMPDIR/logs/$free".* >"$BATS_TEST_TMPDIR/json"
		# The number that tests/gpu/run.sh expects.
		jq -e --argjson n "$(awk '$1 == "odd" {print $3}' "$BATS_TEST_DIRNAME/../gpu/run.sh")" '.logs | length == $n' "$BATS_TEST_TMPDIR/json"
		jq -e '[.logs[].devices[0].counters | .allocate_pool >= 19 and .allocate_driver == 0] | all' "$BATS_TEST_TMPDIR/json"
		jq -e '[.logs[].contradiction == null] | all' "$BATS_TEST_TMPDIR/json"
	done
}
