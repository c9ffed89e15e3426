#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Records of malloc in kernels in the log. The simulated driver refuses the module that begins a takeover, so
# each takeover ends there (tests/preload/inkernel.c).

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
	preloaded "$PROGRAMS/${PROGRAM:-inkernel}" "$1" >"$BATS_TEST_TMPDIR/out"
	"$TOOL" --json "$LOG" >"$BATS_TEST_TMPDIR/json"
}

# holds EXPRESSION: true for the log
holds() {
	jq -e ".logs[0] | $1" "$BATS_TEST_TMPDIR/json" >/dev/null || { echo "$1"; jq .logs[0] "$BATS_TEST_TMPDIR/json"; return 1; }
}

@test "each context that is not taken over is counted once" {
	for part in modules:1 libraries:2 resets:3 captured:1; do
		logged "${part%:*}"
		holds ".contradiction == null and .devices[0].counters.takeovers_native == ${part#*:}"
		holds '.devices[0].counters | .takeovers == 0 and .takeover_ns > 0 and .heaps == 0'
	done
}

@test "the log has the reason for each context that is not taken over, at every level" {
	for LEVEL in events small; do
		logged libraries
		holds '.devices[0].contexts | length == 2 and .[0].context != .[1].context'
		holds '[.devices[0].contexts[] | .taken_over == false and .status == 200 and .heap == null and .took_ns > 0
			and .text == "the driver refused the helper module (CUDA_ERROR_INVALID_IMAGE)"] | all'
		holds '[.findings[].rule] | index("kernels_native") != null'
	done
}

@test "the log has each image and its verdict, with events only" {
	logged libraries
	holds '.images | length == 1 and .[0].malloc == "unknown" and .[0].address > 0 and .[0].device == 0
		and .[0].text == "is no device code of a known format"'
	LEVEL=small
	logged libraries
	holds '.images == [] and .counters.images == 1'
}

@test "images that were read are counted, and so are those that cannot be judged" {
	logged modules
	holds '.counters | .images == 2 and .images_malloc == 2 and .images_unknown == 2'
}

@test "no image is counted with GPUMEM_HEAP=off" {
	KNOBS=(GPUMEM_HEAP=off)
	logged modules
	holds '.counters.images == 0 and .devices[0].counters.takeovers_native == 0'
}

@test "the log has a context that is taken over, and its heap until the context ends" {
	[ -x "$PROGRAMS/taken" ] || skip 'no program here is taken over'
	[[ $SANITIZE_LIB != *asan* ]] || skip 'AddressSanitizer prints a line about makecontext, which emulates kernels'
	export SIM_MEMORY=512M
	LEVEL=events,0
	PROGRAM=taken
	logged resets
	holds '.contradiction == null and (.devices[0].counters | .takeovers == 40 and .takeovers_native == 0 and .heaps == 40)'
	holds '[.devices[0].contexts[] | .taken_over and .heap != null and .limit == 268435456] | all and length == 40'
	local steps='making the heap N, loading the helper N, reading calls N, reading malloc and free N'
	local ours="malloc and free of kernels are gpumem's"
	holds "[.devices[0].contexts[].text | gsub(\"[0-9]+\"; \"N\")] | .[0] == \"$ours; us: $steps, writing N, testing N\"
		and (.[1:] | unique) == [\"$ours\"]"
	"$TOOL" summary -v "$LOG" | grep -Eq "^in kernels +context [0-9]+: malloc and free of kernels are gpumem's, in [0-9.]+ [mu]s$"
	holds '.devices[0].contexts[0] | (([.text | scan("[0-9]+") | tonumber] | add) * 1000) as $sum | $sum > 0 and $sum <= .took_ns'
	holds '[.devices[0].heaps[] | .ended and (.own | not) and .sizes == {"128": 1}] | all and length == 40'
	holds '.devices[0].counters | .heap_live == 0 and .heap_live_peak == 112 and .heap_mapped == 0 and .heap_foreign_frees == 0'
	# Chunks of heaps are marked when they come and when they go; columns 2, 6 and 13 are event, bytes and flags.
	"$TOOL" export --format=csv "$LOG" | awk -F, '$2 ~ /^(map|remap)$/ && $13 == "lent" { lent += $6; n++ }
		$2 ~ /^(unmap|remap)$/ && $13 == "returned" { lent -= $6 } END { exit !(n >= 40 && lent == 0) }'
}

@test "a heap is read before its context ends, without a wait of the program for its last kernel" {
	[ -x "$PROGRAMS/taken" ] || skip 'no program here is taken over'
	[[ $SANITIZE_LIB != *asan* ]] || skip 'as above'
	PROGRAM=taken
	for LEVEL in events,0 small,0; do
		logged unread
		holds '.contradiction == null and (.devices[0].heaps | length == 1 and .[0].ended and .[0].live == 112)'
		holds '.devices[0].heaps[0].sizes == {"128": 1} and .devices[0].counters.heap_live_peak == 112'
	done
}
