#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_FREE=ordered: while one stream alone has unfinished work, a freed block is used again at once, in its order.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	export GPUMEM_FREE=ordered
}

# early CASE AGAIN WAITED: as natively; blocks are used again at once, and the program waits, or not.
early() {
	same ordered "$1"
	preloaded "$PROGRAMS/ordered" "$1" show >"$BATS_TEST_TMPDIR/shown"
	refute grep -qx "  used again: $((1 - $2))" "$BATS_TEST_TMPDIR/shown"
	grep -qx "  used again: $2" "$BATS_TEST_TMPDIR/shown"
	refute grep -qx "  waited: $((1 - $3))" "$BATS_TEST_TMPDIR/shown"
	grep -qx "  waited: $3" "$BATS_TEST_TMPDIR/shown"
}

# counted CASE COUNTER VALUE...: of the log.
counted() {
	local log=$BATS_TEST_TMPDIR/$1.gml json=$BATS_TEST_TMPDIR/json
	KNOBS=(GPUMEM_LOG=small "GPUMEM_LOG_NAME=$log")
	preloaded "$PROGRAMS/ordered" "$1" >/dev/null 2>&1
	./gpumemstat summary --json "$log" >"$json"
	shift
	while [ $# -gt 0 ]; do
		jq -e --argjson n "$2" ".logs[0] | .devices[0].counters + .counters | .$1 == \$n" "$json" ||
			{ grep ordered_ "$json"; return 1; }
		shift 2
	done
}

@test "ordered: a block of any size is used again at once in the order of its stream" {
	early reuse 1 0
}

@test "ordered: blocks are split and joined again in the order of their stream" {
	early split 1 0
}

@test "ordered: another stream waits for the work that was ordered before, by each kind of call (R2)" {
	for case in other other_copy other_word other_batch; do
		early $case 1 0
	done
}

@test "ordered: the default streams wait likewise (R2, R4)" {
	early other_default 1 0
	early other_own 1 0
}

@test "ordered: a block is not used again at once once another stream came (R1)" {
	early between 0 0
	early told 0 0
}

@test "ordered: a block is not used again at once while another stream has work (R1)" {
	early before 0 0
}

@test "ordered: blocks are used again at once when the work of other streams has ended" {
	early again 1 0
}

@test "ordered: a kernel that may start ahead of its stream waits (R5)" {
	early programmatic 1 0
}

@test "ordered: a capture stays valid that begins behind such a block (R6)" {
	same ordered capture
	grep -qx 'intact: 1' "$BATS_TEST_TMPDIR/preloaded"
}

@test "ordered: memory that work still uses is neither moved nor returned (R7)" {
	export SIM_MEMORY=170M
	same ordered trim
	export GPUMEM_TRIM_AFTER=0
	same ordered trim
}

@test "ordered: a block that no stream orders is idle when that is asked for (R8)" {
	early pinned 1 1
}

@test "ordered: frees are deferred, and one line says so, once work may pass by the hooks (R9)" {
	preloaded "$PROGRAMS/ordered" tables show >"$BATS_TEST_TMPDIR/shown" 2>"$BATS_TEST_TMPDIR/said"
	refute grep -q 'intact: 0\|used again: 1' "$BATS_TEST_TMPDIR/shown"
	[ "$(grep -c 'intact: 1' "$BATS_TEST_TMPDIR/shown")" -eq 4 ]
	grep -q 'GPUMEM_FREE=ordered acts as defer: 0\{32\} of the program is a table of functions' "$BATS_TEST_TMPDIR/said"
	[ "$(grep -c 'GPUMEM_FREE=ordered acts as defer: ' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
}

@test "ordered: tables of functions that NVIDIA's libraries ask for forbid nothing" {
	early tables_known 1 0
}

@test "ordered: frees are deferred beside GPUMEM_FILL" {
	GPUMEM_FILL=0xa5 preloaded "$PROGRAMS/ordered" other show >"$BATS_TEST_TMPDIR/shown" 2>"$BATS_TEST_TMPDIR/said"
	grep -qx '  used again: 0' "$BATS_TEST_TMPDIR/shown"
	grep -qx 'first byte: 7' "$BATS_TEST_TMPDIR/shown"
	grep -q 'GPUMEM_FREE=ordered acts as defer: GPUMEM_FILL' "$BATS_TEST_TMPDIR/said"
}

@test "ordered: a stream that has waited for 10 s is reported, with the one that it waits for (R3)" {
	mkfifo "$BATS_TEST_TMPDIR/in"
	preloaded "$PROGRAMS/ordered" hang <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/said" 3>&- &
	exec 9>"$BATS_TEST_TMPDIR/in"
	until grep -q 'stream 0x[0-9a-f]* has waited 10 s for stream 0x[0-9a-f]*;' "$BATS_TEST_TMPDIR/said"; do
		kill -0 $!
		sleep 0.1
	done
	exec 9>&-
	wait $!
	grep -qx ended "$BATS_TEST_TMPDIR/out"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 1 ]
}

@test "ordered: the log counts frees that were ordered, and why others were not" {
	counted reuse ordered_early 4 ordered_streams 4 ordered_refused 0
	counted other ordered_early 1 ordered_streams 1 ordered_waits 1
	counted before ordered_early 0 ordered_streams 1 ordered_refused 0
	counted between ordered_early 1 ordered_refused 1
	counted tables ordered_early 0 ordered_off 8
}

@test "ordered: random streams, threads, captures and frees, in each mode" {
	seed=${TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
	echo "seed $seed"
	for mode in sync defer ordered; do
		for threads in 1 3; do
			GPUMEM_FREE=$mode preloaded "$PROGRAMS/ordered_soak" "$seed" $threads >"$BATS_TEST_TMPDIR/soak"
			cat "$BATS_TEST_TMPDIR/soak"
			grep -qx '0 blocks were not intact' "$BATS_TEST_TMPDIR/soak"
		done
	done
}
