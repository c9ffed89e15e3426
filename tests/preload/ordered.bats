#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_FREE=ordered: while only one stream has unfinished work, a freed block is used again at once, in the
# order of that stream.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	export GPUMEM_FREE=ordered
}

# early CASE AGAIN WAITED: contents as natively; AGAIN 1: blocks are used again at once; WAITED 1: the program
# waited.
early() {
	same ordered "$1"
	preloaded "$PROGRAMS/ordered" "$1" show >"$BATS_TEST_TMPDIR/shown"
	refute grep -qx "  used again: $((1 - $2))" "$BATS_TEST_TMPDIR/shown"
	grep -qx "  used again: $2" "$BATS_TEST_TMPDIR/shown"
	refute grep -qx "  waited: $((1 - $3))" "$BATS_TEST_TMPDIR/shown"
	grep -qx "  waited: $3" "$BATS_TEST_TMPDIR/shown"
}

# counted CASE COUNTER VALUE...: values in the log.
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

@test "ordered: memory of freed blocks moves to make room for a longer block, and late writes to the old addresses still arrive" {
	same ordered moved
	preloaded "$PROGRAMS/ordered" moved show >"$BATS_TEST_TMPDIR/shown"
	grep -qx "  waited: 0" "$BATS_TEST_TMPDIR/shown"
	counted moved ordered_early 3 ordered_refused 0 allocate_driver 0
	jq -e '.logs[0].devices[0].counters | .ordered_moves >= 3 and .mapped_peak == 6 * 8388608' "$BATS_TEST_TMPDIR/json"
}

@test "ordered: another stream waits for the work that was ordered before, by each kind of call (R2)" {
	for case in other other_copy other_kernel other_graph other_word other_batch; do
		early $case 1 0
	done
}

@test "ordered: a staged line of a batch waits for the work that was ordered before (R2)" {
	needs_driver 12.8
	export GPUMEM_COPY=4
	early other_lines 1 1 # for the pageable memory, in the driver
}

@test "ordered: another stream does not wait for work that has ended (R3)" {
	early other_later 1 0
	counted other_later ordered_early 1 ordered_waits 0
}

@test "ordered: the default streams wait for the work that was ordered before (R2, R4)" {
	early other_default 1 0
	early other_own 1 0
	early other_thread 1 0
}

@test "ordered: a block is not used again at once after another stream got work (R1)" {
	early between 0 0
	early told 0 0
}

@test "ordered: a block is not used again at once while another stream has work (R1)" {
	early before 0 0
}

@test "ordered: blocks are used again at once when the work of other streams has ended" {
	early again 1 0
}

@test "ordered: a block is used again at once though another context has ended" {
	early context_ends 1 0
}

@test "ordered: a kernel that may start ahead of its stream waits (R5)" {
	early programmatic 1 0
}

@test "ordered: a capture that begins after the reuse of a block stays valid (R6)" {
	same ordered capture
	grep -qx 'intact: 1' "$BATS_TEST_TMPDIR/preloaded"
}

@test "ordered: memory that work still uses is neither moved nor returned (R7)" {
	export SIM_MEMORY=170M
	same ordered trim
	export GPUMEM_TRIM_AFTER=0
	same ordered trim
}

@test "ordered: a block whose new use is in no stream is made idle first (R8)" {
	early pinned 1 1
	early known 0 0
}

@test "ordered: frees are deferred, and one line reports it, once work may bypass the hooks (R9)" {
	preloaded "$PROGRAMS/ordered" tables show >"$BATS_TEST_TMPDIR/shown" 2>"$BATS_TEST_TMPDIR/said"
	refute grep -q 'intact: 0\|used again: 1' "$BATS_TEST_TMPDIR/shown"
	[ "$(grep -c 'intact: 1' "$BATS_TEST_TMPDIR/shown")" -eq 4 ]
	grep -q 'GPUMEM_FREE=ordered acts as defer: 0\{32\} of the program is a table of functions' "$BATS_TEST_TMPDIR/said"
	[ "$(grep -c 'GPUMEM_FREE=ordered acts as defer: ' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
}

@test "ordered: a library that uses memory in no order of streams makes frees deferred, with one line (R9)" {
	local name
	for name in libgdrapi.so.2 libucp.so.0 libnvoptix.so.1 libnvcuvid.so.1 libnvidia-encode.so.1; do
		cp "$PROGRAMS/libucp.so.0" "$BATS_TEST_TMPDIR/$name"
		preloaded env LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$LIBRARY:$BATS_TEST_TMPDIR/$name" "$PROGRAMS/ordered" reuse show \
			>"$BATS_TEST_TMPDIR/shown" 2>"$BATS_TEST_TMPDIR/said"
		refute grep -q 'intact: 0\|used again: 1' "$BATS_TEST_TMPDIR/shown"
		[ "$(grep -c 'intact: 1' "$BATS_TEST_TMPDIR/shown")" -eq 4 ]
		[ "$(cat "$BATS_TEST_TMPDIR/said")" = "gpumem: GPUMEM_FREE=ordered acts as defer: $name uses memory in no order of streams" ]
	done
}

@test "ordered: libibverbs, which NCCL loads, makes frees deferred on machines with a device of it alone" {
	cp "$PROGRAMS/libucp.so.0" "$BATS_TEST_TMPDIR/libibverbs.so.1"
	preloaded env LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$LIBRARY:$BATS_TEST_TMPDIR/libibverbs.so.1" "$PROGRAMS/ordered" reuse show \
		>"$BATS_TEST_TMPDIR/shown" 2>"$BATS_TEST_TMPDIR/said"
	refute grep -q 'intact: 0' "$BATS_TEST_TMPDIR/shown"
	if compgen -G '/dev/infiniband/uverbs*' >/dev/null; then
		refute grep -q 'used again: 1' "$BATS_TEST_TMPDIR/shown"
		grep -q 'acts as defer: libibverbs.so.1 uses memory in no order of streams' "$BATS_TEST_TMPDIR/said"
	else
		grep -q 'used again: 1' "$BATS_TEST_TMPDIR/shown"
		[ ! -s "$BATS_TEST_TMPDIR/said" ]
	fi
}

@test "ordered: the function tables that NVIDIA's libraries request leave the mode on" {
	early tables_known 1 0
}

@test "ordered: frees are deferred beside GPUMEM_FILL" {
	GPUMEM_FILL=0xa5 preloaded "$PROGRAMS/ordered" other show >"$BATS_TEST_TMPDIR/shown" 2>"$BATS_TEST_TMPDIR/said"
	grep -qx '  used again: 0' "$BATS_TEST_TMPDIR/shown"
	grep -qx 'first byte: 7' "$BATS_TEST_TMPDIR/shown"
	grep -q 'GPUMEM_FREE=ordered acts as defer: GPUMEM_FILL' "$BATS_TEST_TMPDIR/said"
	GPUMEM_FILL=0xa5 GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/fill.gml" preloaded "$PROGRAMS/ordered" other 2>/dev/null
	"$TOOL" summary --json "$BATS_TEST_TMPDIR/fill.gml" |
		jq -e '.logs[0].devices[0].counters | .ordered_off > 0 and .ordered_off == .free_calls and .ordered_early == 0'
}

@test "ordered: a stream that has waited for 10 s is reported, with the stream that it waits for (R3)" {
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

@test "ordered: the log counts ordered frees, and the reasons why other frees were not ordered" {
	counted reuse ordered_early 8 ordered_streams 0 ordered_refused 0
	counted other ordered_early 2 ordered_streams 0 ordered_waits 1
	counted before ordered_early 0 ordered_streams 1 ordered_refused 0
	counted between ordered_early 1 ordered_refused 1
	counted known ordered_early 0 ordered_pinned 1
	counted tables ordered_early 0 ordered_off 8
}

# SOAK_OPERATIONS=10000000 is the long form: 3 minutes for each mode and number of threads.
@test "ordered: random streams, threads, captures and frees, in each mode" {
	seed=${TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
	echo "seed $seed"
	for mode in sync defer ordered 'defer 64K' 'ordered 64K'; do
		for threads in 1 3; do
			# From 64K of retired bytes on, allocations wait for the GPU before the pool grows.
			read -r free retire <<<"$mode"
			GPUMEM_FREE=$free GPUMEM_RETIRE=${retire:-5%} GPUMEM_COPY=2 \
				preloaded "$PROGRAMS/ordered_soak" "$seed" $threads ${SOAK_OPERATIONS:-} >"$BATS_TEST_TMPDIR/soak"
			cat "$BATS_TEST_TMPDIR/soak"
			grep -qx '0 blocks were not intact' "$BATS_TEST_TMPDIR/soak"
		done
	done
}

# Chunks are returned to the driver while memory beside them is hot.
@test "ordered: random streams, captures and frees of large blocks, while idle memory is returned at once" {
	seed=${TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
	echo "seed $seed"
	for threads in 1 3; do
		GPUMEM_TRIM_AFTER=0 GPUMEM_LIMIT=96M preloaded "$PROGRAMS/ordered_soak" "$seed" $threads ${SOAK_OPERATIONS:-8000} large \
			>"$BATS_TEST_TMPDIR/soak"
		cat "$BATS_TEST_TMPDIR/soak"
		grep -qx '0 blocks were not intact' "$BATS_TEST_TMPDIR/soak"
	done
}
