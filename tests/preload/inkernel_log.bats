#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# What the log says of malloc in kernels. The simulated driver refuses the module with which a takeover begins, so that
# each ends there (tests/preload/inkernel.c).

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	grep -q '^#define GM_HELPERS 1' config.h || skip 'this build has no code for GPUs'
	TOOL=$PWD/gpumemstat
	LOG=$BATS_TEST_TMPDIR/log.gml
}

# logged PART: runs it, and writes its log as JSON to $BATS_TEST_TMPDIR/json
logged() {
	rm -f "$LOG"
	KNOBS+=(GPUMEM_LOG="${LEVEL:-events}" GPUMEM_LOG_NAME="$LOG")
	preloaded "$PROGRAMS/inkernel" "$1" >"$BATS_TEST_TMPDIR/out"
	"$TOOL" --json "$LOG" >"$BATS_TEST_TMPDIR/json"
}

# holds EXPRESSION: of the log
holds() {
	jq -e ".logs[0] | $1" "$BATS_TEST_TMPDIR/json" >/dev/null || { echo "$1"; jq .logs[0] "$BATS_TEST_TMPDIR/json"; return 1; }
}

@test "each context that is not taken over is counted, once" {
	for part in modules:1 libraries:2 resets:3 captured:1; do
		logged "${part%:*}"
		holds ".contradiction == null and .devices[0].counters.takeovers_native == ${part#*:}"
		holds '.devices[0].counters | .takeovers == 0 and .takeover_ns > 0 and .heaps == 0'
	done
}

@test "images are counted that were looked at, and those that nobody can tell" {
	logged modules
	holds '.counters | .images == 2 and .images_malloc == 2 and .images_unknown == 2'
}

@test "nothing is counted with GPUMEM_HEAP=off" {
	KNOBS=(GPUMEM_HEAP=off)
	logged modules
	holds '.counters.images == 0 and .devices[0].counters.takeovers_native == 0'
}
