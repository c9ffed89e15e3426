#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Tables of functions that cuGetExportTable returns, and calls of their functions.

setup() {
	. "$BATS_TEST_DIRNAME/sleep.bash"
	sleep_setup
	needs_driver 12.5
	unset GPUMEM_FREE # check-defer and check-ordered set it
	KNOBS=()
}

teardown() {
	sleep_teardown
}

ALL=(init 'get 00000001' values threads signals jumps leaves forks hot)
TOOLS_MEMORY=bfdb432dbf3c5a4a945eb34029e81e75

# wraps: only where gpumem copies tables.
wraps() {
	[ "$(uname -m)" = x86_64 ] || skip 'tables are not copied on this processor'
}

# asked KIND ANSWER [KNOB=VALUE]...: whose table a program with these knobs gets.
asked() {
	preloaded env "${@:3}" "$PROGRAMS/tables" init "ask $1" >"$BATS_TEST_TMPDIR/asked" 2>"$BATS_TEST_TMPDIR/said"
	cat "$BATS_TEST_TMPDIR/asked"
	[ "$(cat "$BATS_TEST_TMPDIR/asked")" = "ask $1: $2" ]
}

# early COMMAND...: after these commands, blocks are used again in the order of one stream, and another one waits.
early() {
	preloaded "$PROGRAMS/tables" init 'get 00000001' "$@" shown >"$BATS_TEST_TMPDIR/shown"
	cat "$BATS_TEST_TMPDIR/shown"
	[ "$(tail -n 1 "$BATS_TEST_TMPDIR/shown")" = 'used again: 1, waited: 1' ]
}

@test "an unknown table is the driver's own unless GPUMEM_FREE=ordered or GPUMEM_SLEEP=1" {
	asked 00000001 'its own'
	asked 00000001 'its own' GPUMEM_FREE=defer
	asked 00000001 'its own' GPUMEM_SLEEP=1 GPUMEM_MODE=trace
	wraps
	asked 00000001 'a copy' GPUMEM_FREE=ordered
	asked 00000001 'a copy' GPUMEM_SLEEP=1
}

@test "known tables, and those for the driver's own libraries, are the driver's own" {
	local id ids
	ids=$(sed -n 's/^GM_TABLE("\([^"]*\)".*/\1/p' "$BATS_TEST_DIRNAME/../../src/driver/tables.def" | tr -d 'x\\')
	[ "$(wc -l <<<"$ids")" -ge 11 ]
	for id in $ids; do
		asked "$id" 'its own' GPUMEM_SLEEP=1 GPUMEM_FREE=ordered
		[ ! -s "$BATS_TEST_TMPDIR/said" ]
	done
	cp "$PROGRAMS/libprivate.so" "$BATS_TEST_TMPDIR/libnvidia-ml.so.1"
	KNOBS=(GPUMEM_SLEEP=1)
	preloaded "$PROGRAMS/tables" init "library $BATS_TEST_TMPDIR/libnvidia-ml.so.1" 'through 00000001' >"$BATS_TEST_TMPDIR/asked"
	grep -qx 'through 00000001: its own' "$BATS_TEST_TMPDIR/asked"
}

@test "a known table of another size is an unknown one; three that the driver hashes or gives early are never copied" {
	local id
	export SIM_TABLES=8
	for id in 6bd5fb6c5bf4e74a8987d93912fd9df9 d4082055bde6704b8d34ba123c66e1f2 f8cff95121468b4eb9e2fb469e7c0dd9; do
		asked $id 'its own' GPUMEM_FREE=ordered
		[ "$(cat "$BATS_TEST_TMPDIR/said")" = "gpumem: GPUMEM_FREE=ordered acts as defer: $id of the program is a table of functions (cuGetExportTable) that may launch work past gpumem" ]
	done
	wraps
	asked 21318c60971432488ca641ff7324c8f2 'a copy' GPUMEM_FREE=ordered
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
}

@test "a table that does not begin with its size is not copied, and switches GPUMEM_FREE=ordered off" {
	local kind
	for kind in 00000000 00000003 00000004; do
		asked $kind 'its own' GPUMEM_FREE=ordered
		[ "$(grep -c "GPUMEM_FREE=ordered acts as defer: ${kind}0* of the program" "$BATS_TEST_TMPDIR/said")" -eq 1 ]
	done
}

@test "threads that ask for a table at the same time get the same one" {
	local knobs
	for knobs in GPUMEM_FREE=sync GPUMEM_FREE=ordered; do
		KNOBS=("$knobs")
		same tables init 'race 00000001' 'race 00000002' 'get 00000002' values
	done
}

@test "functions of a copied table have the driver's arguments and results, in threads, in signal handlers, and if they do not return" {
	local knobs
	export SIM_MEMORY=2G
	same tables "${ALL[@]}"
	for knobs in GPUMEM_FREE=ordered GPUMEM_SLEEP=1 'GPUMEM_FREE=ordered GPUMEM_SLEEP=1'; do
		read -ra KNOBS <<<"$knobs"
		same tables "${ALL[@]}"
	done
	same tables 'get 00000001' values init values
}

@test "ordered: a private function submits to an unknown stream: it waits for the work before the reuse of a block" {
	wraps
	KNOBS=(GPUMEM_FREE=ordered)
	early
	grep -qx 'first byte: 7' "$BATS_TEST_TMPDIR/shown"
}

@test "ordered: calls that ended without a return are not taken for submissions that go on" {
	wraps
	KNOBS=(GPUMEM_FREE=ordered)
	early values settle
	early jumps settle
	early leaves settle
	early signals settle
}

@test "ordered: the table of a tool switches the mode off at its first call, and is named" {
	wraps
	KNOBS=(GPUMEM_FREE=ordered)
	preloaded "$PROGRAMS/tables" init "ask $TOOLS_MEMORY" >"$BATS_TEST_TMPDIR/asked" 2>"$BATS_TEST_TMPDIR/said"
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
	grep -q 'a copy' "$BATS_TEST_TMPDIR/asked"
	preloaded "$PROGRAMS/tables" init "ask $TOOLS_MEMORY" values >"$BATS_TEST_TMPDIR/asked" 2>"$BATS_TEST_TMPDIR/said"
	[ "$(cat "$BATS_TEST_TMPDIR/said")" = "gpumem: GPUMEM_FREE=ordered acts as defer: $TOOLS_MEMORY of the program is a table of functions (cuGetExportTable) that may launch work past gpumem" ]
	grep -qx 'values: right' "$BATS_TEST_TMPDIR/asked"
}

@test "ordered: once a profiler's library has asked, an unknown table switches the mode off at its next call, called before or not" {
	wraps
	KNOBS=(GPUMEM_FREE=ordered)
	cp "$PROGRAMS/libprivate.so" "$BATS_TEST_TMPDIR/libcupti.so.13"
	preloaded "$PROGRAMS/tables" init 'get 00000001' values "library $BATS_TEST_TMPDIR/libcupti.so.13" values >/dev/null 2>"$BATS_TEST_TMPDIR/said"
	[ ! -s "$BATS_TEST_TMPDIR/said" ] # PyTorch loads it, too
	preloaded "$PROGRAMS/tables" init 'get 00000001' values "library $BATS_TEST_TMPDIR/libcupti.so.13" 'through 00000001' 2>"$BATS_TEST_TMPDIR/said" >/dev/null
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
	preloaded "$PROGRAMS/tables" init 'get 00000001' values "library $BATS_TEST_TMPDIR/libcupti.so.13" 'through 00000001' values \
		2>"$BATS_TEST_TMPDIR/said" >/dev/null
	[ "$(grep -c 'GPUMEM_FREE=ordered acts as defer: 0000000100000000.* of libcupti.so.13 is a table' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
}

@test "a process with a copied table sleeps, and a private function wakes it" {
	wraps
	KNOBS=(GPUMEM_SLEEP=1)
	begin
	says 'ask 00000001' 'a copy'
	says values right
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says where asleep
	says values right
	says where awake
	says check right
	ends
}

@test "a sleep waits for a thread in a private function, and is refused if that does not return" {
	wraps
	KNOBS=(GPUMEM_SLEEP=1)
	begin
	says 'ask 00000001' 'a copy'
	says enter inside
	refused 'a call of the program that submits work did not return'
	says go outside
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
}

@test "private calls that ended without a return do not refuse a sleep for ever" {
	wraps
	KNOBS=(GPUMEM_SLEEP=1)
	begin
	says 'ask 00000001' 'a copy'
	says leaves left
	says forks forked
	says signals right
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says jumps jumped
	refused 'a call of the program that submits work did not return'
	says touch 'cuMemsetD8_v2(blocks[0], byte, 1): CUDA_SUCCESS'
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
}

@test "a sleep is refused from the first call of a tool's table on, and the table is named" {
	wraps
	KNOBS=(GPUMEM_SLEEP=1)
	begin
	says "ask $TOOLS_MEMORY" 'a copy'
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says values right
	refused "a library may submit work past gpumem, by a table of cuGetExportTable: $TOOLS_MEMORY of the program"
	ends
}

# logged KNOBS COMMAND...: the tables in the log of a program, as JSON in the file tables.
logged() {
	local log=$BATS_TEST_TMPDIR/log.gml
	rm -f "$log"
	read -ra KNOBS <<<"$1"
	KNOBS+=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$log")
	preloaded "$PROGRAMS/tables" "${@:2}" >/dev/null 2>&1
	"$TOOL" check --max log_records=1000 "$log"
	"$TOOL" summary --json "$log" >"$BATS_TEST_TMPDIR/summary"
	jq -c '.logs[0].tables' "$BATS_TEST_TMPDIR/summary" | tee "$BATS_TEST_TMPDIR/tables"
}

@test "the log names each unknown table, with its library, also one from before cuInit" {
	local name='00000001000000000000000000000000 of the program'
	cp "$PROGRAMS/libprivate.so" "$BATS_TEST_TMPDIR/libask.so.1"
	logged GPUMEM_FREE=sync 'get 00000001' init 'get 00000001' 'get 00000000' "library $BATS_TEST_TMPDIR/libask.so.1" 'through 00000001' \
		'get 1734dc26800d47458726c0f1e7dd8bca' values
	jq -e --arg name "$name" '[.[] | .table] | length == 3 and .[0] == $name and .[2] == $name[:32] + " of libask.so.1"' \
		"$BATS_TEST_TMPDIR/tables"
	jq -e 'all(.fate == "the driver'"'"'s own" and .entry == null)' "$BATS_TEST_TMPDIR/tables"
	jq -e '.logs[0].counters.tables_unknown == 3' "$BATS_TEST_TMPDIR/summary"
}

@test "the log counts the calls of a copied table by function" {
	wraps
	logged GPUMEM_SLEEP=1 init 'get 00000001' leaves leaves jumps
	jq -e 'map({(.entry // 0 | tostring): .calls}) | add == {"0": null, "6": 140}' "$BATS_TEST_TMPDIR/tables"
	jq -e 'all(.fate == "a copy" and .bytes == 96)' "$BATS_TEST_TMPDIR/tables"
}
