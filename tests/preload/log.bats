#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Threads that use all features at once, and the log of a preloaded program.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	TOOL=$PWD/gpumemstat
}

# logged KNOB... -- PROGRAM [ARGUMENT]...: leaves its log in the file log, and the JSON of summary in the file
# json.
logged() {
	cd "$BATS_TEST_TMPDIR" || return 1
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=log)
	while [ "$1" != -- ]; do
		KNOBS+=("$1")
		shift
	done
	preloaded "$PROGRAMS/$2" "${@:3}" >out 2>err
	env ASAN_OPTIONS=detect_leaks=0 "$TOOL" summary --json log >json
	jq -e '.logs[0] | .contradiction == null and .closed' json
}

@test "threads that allocate and log do not disturb one another" {
	same threads 200
	grep -c ': 0 wrong$' "$BATS_TEST_TMPDIR/preloaded" | grep -qx 4
	grep -qx '0 1 2 .* 19' "$BATS_TEST_TMPDIR/preloaded"
}

@test "threads that allocate do not disturb one another, without cuCtxRecordEvent" {
	SIM_YIELD=1 SIM_DRIVER=12.0 same threads 100
	grep -c ': 0 wrong$' "$BATS_TEST_TMPDIR/preloaded" | grep -qx 4
}

@test "every event of every thread is in the log, over several segments" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	logged GPUMEM_LOG_EVENTS=all -- threads 10000
	jq -e '.logs[0].complete' json
	jq -e '.logs[0].devices[0].counters | .allocate_pool == 40020 and .live_blocks == 20' json
	jq -e '.logs[0].counters | .memset_calls == 40020 and .copy_h2d_calls == 40000 and .copy_d2d_calls == 40000 and
		.copy_d2h_calls == 80020' json
	# Each of these calls is a record. Live blocks are recorded again at the head of the second segment.
	jq -e '.logs[0].records >= 40020 * 2 + 40000 * 3 + 80020' json
	[ "$(stat -c %s log)" -gt $((16 << 20)) ]
}

@test "GPUMEM_VERBOSE=2 reports once that the pool serves a device, and the path of the log" {
	version=$(cat "$BATS_TEST_DIRNAME/../../VERSION")
	logged GPUMEM_VERBOSE=2 -- threads 1
	[ "$(grep -cxF "gpumem: version $version: pool on device 0 (Simulated GPU), log log" err)" -eq 1 ]
	KNOBS=(GPUMEM_VERBOSE=2 GPUMEM_LOG=off)
	preloaded "$PROGRAMS/threads" 1 2>&1 >/dev/null | grep -qxF "gpumem: version $version: pool on device 0 (Simulated GPU), no log"
	logged GPUMEM_VERBOSE=1 -- threads 1
	refute grep -q 'pool on device' err
	logged GPUMEM_VERBOSE=2 GPUMEM_MODE=trace -- threads 1
	refute grep -q 'pool on device' err
}

@test "the log has the command, the knobs, and refused values" {
	ln -s "$PROGRAMS/threads" "$BATS_TEST_TMPDIR/it's"
	PROGRAMS=$BATS_TEST_TMPDIR
	logged GPUMEM_TRIM_AFTER=1s GPUMEM_LIMIT=much -- "it's" 1 'a b'
	grep -q "GPUMEM_LIMIT=much" err
	jq -r '.logs[0].command' json | grep -qF "/it'\\''s' 1 'a b'"
	grep -aqF 'GPUMEM_LIMIT=100% (default; refused: much)' log
	grep -aqF 'GPUMEM_TRIM_AFTER=1s (environment)' log
}

@test "the log has the first 4 KiB of a long command, quoted" {
	logged -- threads 1 "$(printf 'a %.0s' {1..3000})"
	eval "words=($(jq -r '.logs[0].command' json))"
	[ "${#words[@]}" -eq 3 ]
	[ "${words[*]}" = "$(head -c 4095 <<<"$PROGRAMS/threads 1 $(printf 'a %.0s' {1..3000})")" ]
}

@test "a name that is a device or a FIFO, also by a link, is refused in one line, and no file is beside it" {
	cd "$BATS_TEST_TMPDIR"
	mkfifo fifo
	ln -s /dev/null null
	for name in fifo null; do
		KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME="$PWD/$name")
		preloaded "$PROGRAMS/threads" 1 >out 2>err
		diff err <(echo "gpumem: log $PWD/$name: not a regular file; the program goes on without one")
	done
	[ "$(ls | tr '\n' ' ')" = 'err fifo null out ' ]
}
