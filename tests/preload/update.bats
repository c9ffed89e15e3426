#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Updates of instantiated graphs, before and after a sleep.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	export SIM_MEMORY=256M
	LOG=$BATS_TEST_TMPDIR/log.gml
}

# updates COUNT [refused]: as natively; the log counts COUNT refused updates.
updates() {
	rm -f "$LOG"
	native env -u TOOL "$PROGRAMS/update" "${@:2}" >"$BATS_TEST_TMPDIR/native"
	preloaded "$PROGRAMS/update" "${@:2}" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/said"
	diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
	[ "$(grep -cx 'update: 910' "$BATS_TEST_TMPDIR/native")" -eq $(($# - 1)) ]
	./gpumemstat summary --json "$LOG" | jq -e --argjson n "$1" '.logs[0].counters.graph_updates_refused == $n'
}

@test "an instantiated graph is updated as natively" {
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$LOG")
	updates 0
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
	updates 0 refused
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
}

@test "an update that the driver refuses after a sleep is counted, and one line reports it" {
	export TOOL=$PWD/gpumemstat
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_LOG=small GPUMEM_LOG_NAME="$LOG")
	updates 0
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
	updates 1 refused
	[ "$(<"$BATS_TEST_TMPDIR/said")" = 'gpumem: the driver refused to update a graph; it refuses each that fills memory and was instantiated before a sleep' ]
}
