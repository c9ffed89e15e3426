#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_COPY: large copies of pageable memory go through pinned slots; results are the same.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	KNOBS=(GPUMEM_COPY=4)
}

# pieces PROGRAM COMMAND: prints the numbers of pieces copied to the device and from it.
pieces() {
	rm -f "$BATS_TEST_TMPDIR/trace"
	SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/$1" "$2" >/dev/null
	echo "$(grep -cx 'cuMemcpyHtoDAsync_v2 0' "$BATS_TEST_TMPDIR/trace")" \
		"$(grep -cx 'cuMemcpyDtoHAsync_v2 0' "$BATS_TEST_TMPDIR/trace")"
}

# Skip if the kernel lacks MADV_POPULATE_READ.
needs_populate() {
	[ "$(printf '%s\n' 5.14 "$(uname -r)" | sort -V | head -n 1)" = 5.14 ] || skip "needs Linux 5.14"
}

@test "lines of all sizes hold the same bytes, in both kinds of default stream" {
	for program in staged staged_ptds; do
		same $program lines
		grep -q '^10000001 bytes at 1717: equal' "$BATS_TEST_TMPDIR/preloaded"
	done
}

@test "copies of 8 MiB and more are staged, by the table of thresholds" {
	needs_populate
	for program in staged staged_ptds; do
		[ "$(pieces $program repeat)" = "90 0" ] # 9 MiB in pieces of 640 KiB, six times
		read -r to from <<<"$(pieces $program lines)"
		[ "$to" -gt 100 ]
		[ "$from" -gt 100 ]
	done
	KNOBS=(GPUMEM_COPY=2)
	[ "$(pieces staged repeat | cut -d' ' -f1)" -gt 0 ]
	read -r to from <<<"$(pieces staged lines)"
	[ "$to" -gt 0 ]
	[ "$from" -gt 0 ]
	KNOBS=(GPUMEM_COPY=1)
	[ "$(pieces staged lines)" = "0 0" ]
}

# The driver's copy returns before its DMA has ended, which beside staged copies takes longer than natively.
@test "a copy by the driver beside staged ones is complete when it returns" {
	needs_populate
	for program in staged staged_ptds; do
		pieces $program beside
		[ "$(awk '/^cuStreamSynchronize/ && before ~ /^cuMemcpyHtoD_v2/ {n++} {before = $0} END {print n + 0}' "$BATS_TEST_TMPDIR/trace")" -eq 5 ]
		KNOBS=(GPUMEM_COPY=off)
		pieces $program beside
		refute grep -q '^cuStreamSynchronize' "$BATS_TEST_TMPDIR/trace"
		KNOBS=(GPUMEM_COPY=4)
	done
}

@test "off, trace mode, and auto with few cores leave all copies to the driver" {
	for knob in GPUMEM_COPY=off GPUMEM_MODE=trace; do
		KNOBS=(GPUMEM_COPY=4 $knob)
		[ "$(pieces staged lines)" = "0 0" ]
	done
	KNOBS=(GPUMEM_COPY=auto)
	[ "$(LOCAL_WORLD_SIZE=100000 pieces staged lines)" = "0 0" ]
	# Devices that use the host's page tables need no staging.
	[ "$(SIM_ATTRIBUTE=100:1 pieces staged lines)" = "0 0" ]
}

@test "auto makes slots for programs that copy much" {
	needs_populate
	[ "$(nproc)" -ge 16 ] || skip "auto has no four threads here"
	KNOBS=(GPUMEM_COPY=auto)
	[ "$(pieces staged repeat)" = "0 0" ]
	[ "$(pieces staged lines)" != "0 0" ]
}

@test "rectangles hold the same bytes" {
	for program in staged staged_ptds; do
		same $program rectangles
	done
	needs_populate
	[ "$(calls cuMemcpy2DAsync_v2 staged rectangles)" -gt 0 ]
}

@test "the same calls fail as natively, and a failed copy changes no bytes" {
	for program in staged staged_ptds; do
		same $program errors
		grep -qx 'the host is unchanged' "$BATS_TEST_TMPDIR/preloaded"
	done
}

@test "a page that is unmapped, or write-protected, ends the process as natively" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer handles the signal"
	[ -z "$TEST_UNDER" ] || skip "valgrind handles the signal"
	for what in hole readonly; do
		run native "$PROGRAMS/staged" $what
		there=$status
		run preloaded "$PROGRAMS/staged" $what
		[ "$status" -eq "$there" ]
		[ "$status" -eq 139 ]
	done
}

@test "the driver makes all copies while a capture is open" {
	for program in staged staged_ptds; do
		same $program captures
	done
}

@test "the driver copies pinned, registered and managed memory, and asynchronous rectangles" {
	for program in staged staged_ptds; do
		same $program kinds
		[ "$(pieces $program kinds)" = "0 0" ]
		[ "$(calls cuMemHostRegister_v2 $program kinds)" -eq 1 ]
		same $program unstaged
		[ "$(pieces $program unstaged)" = "0 0" ]
	done
}

@test "the driver copies memory that is registered in part, at either end" {
	for program in staged staged_ptds; do
		same $program parts
		[ "$(pieces $program parts)" = "0 0" ]
		[ "$(calls cuMemcpy2DAsync_v2 $program parts)" -eq 0 ]
	done
}

@test "asynchronous copies are staged after the work of their stream, and are complete when they return" {
	for program in staged staged_ptds; do
		same $program async
		[ "$(cut -d: -f2 "$BATS_TEST_TMPDIR/preloaded" | sort -u | wc -l)" -eq 1 ]
	done
	needs_populate
	[ "$(pieces staged async)" = "75 75" ] # 15 pieces of 640 KiB, five times
}

@test "large copies of a batch are staged, in every order of access, and hold the same bytes" {
	needs_driver 12.8
	same staged_batch orders
	[ "$(grep -c ': CUDA_SUCCESS, ' "$BATS_TEST_TMPDIR/preloaded")" -eq 24 ]
	needs_populate
	# A batch has two copies of 9 MiB, each of 15 pieces, of 640 KiB or of 142 rows; 3 orders, 2 forms of
	# lines, 2 of boxes.
	[ "$(pieces staged_batch orders)" = "360 360" ]
	same staged_batch hints
	[ "$(pieces staged_batch hints)" = "240 240" ]
	same staged_batch streams
	[ "$(pieces staged_batch streams | cut -d' ' -f1)" -eq 60 ]
}

@test "an invalid batch fails at the same copy, after the same copies" {
	needs_driver 12.8
	same staged_batch wrong
	grep -q '^the second is bad, form 0, to the device: CUDA_ERROR_INVALID_VALUE, failed at 1:' "$BATS_TEST_TMPDIR/preloaded"
	grep -q '^the last is bad, form 0, back: CUDA_ERROR_INVALID_VALUE, failed at 3:' "$BATS_TEST_TMPDIR/preloaded"
	grep -q '^an attribute begins behind the last copy, form 0, back: CUDA_ERROR_INVALID_VALUE, failed at -1:' "$BATS_TEST_TMPDIR/preloaded"
	needs_populate
	[ "$(pieces staged_batch wrong | cut -d' ' -f1)" -gt 0 ]
}

@test "the driver copies a batch that is behind other work, captured, of pinned memory, or with unknown arguments" {
	needs_driver 12.8
	for what in busy captures pinned strange; do
		same staged_batch $what
		[ "$(pieces staged_batch $what)" = "0 0" ]
	done
}

@test "each call of the driver that fails leaves a batch to the driver" {
	needs_driver 12.8
	native "$PROGRAMS/staged_batch" streams >"$BATS_TEST_TMPDIR/native"
	for call in cuStreamGetCtx cuStreamGetFlags cuStreamQuery cuCtxGetCurrent cuStreamIsCapturing cuEventRecord \
		cuMemcpyHtoDAsync_v2 cuPointerGetAttribute; do
		for nth in 1 2 5; do
			SIM_FAIL=$call:$nth:999 preloaded "$PROGRAMS/staged_batch" streams >"$BATS_TEST_TMPDIR/preloaded"
			diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
		done
	done
}

@test "copies of stream-ordered memory are staged" {
	export ORDERED=1
	same staged kinds
	needs_populate
	[ "$(calls cuMemHostRegister_v2 staged kinds)" -eq 2 ]
}

@test "a fork, an exit during copies, and the end of main have native results" {
	same staged forks
	# A thread of ThreadSanitizer never ends.
	[[ $SANITIZE_LIB == *tsan* ]] || same staged ends
	for i in 1 2 3; do
		same staged exits
	done
}

@test "two threads make the first large copies at once" {
	same staged together
	[ "$(grep -cx equal "$BATS_TEST_TMPDIR/preloaded")" -eq 2 ]
}

@test "signals of the program are handled by its own threads" {
	same staged signals
}

@test "each call of the driver that fails leaves the copy to the driver" {
	for call in cuMemHostRegister_v2 cuEventCreate cuStreamCreate cuEventRecord cuStreamWaitEvent cuStreamSynchronize cuEventQuery \
		cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuPointerGetAttribute cuCtxGetCurrent cuStreamIsCapturing; do
		for nth in 1 2 5; do
			native "$PROGRAMS/staged" forks >"$BATS_TEST_TMPDIR/native"
			SIM_FAIL=$call:$nth:999 preloaded "$PROGRAMS/staged" forks >"$BATS_TEST_TMPDIR/preloaded"
			diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
		done
	done
}

@test "unused slots are returned to the system" {
	needs_populate
	for after in 0 1s; do
		KNOBS=(GPUMEM_COPY=4 GPUMEM_TRIM_AFTER=$after)
		preloaded "$PROGRAMS/staged" idle >"$BATS_TEST_TMPDIR/out"
		grep -qx equal "$BATS_TEST_TMPDIR/out"
	done
}

# figure FILTER: the value of the jq filter in the log
figure() { "$TOOL" --json "$BATS_TEST_TMPDIR/log.gml" | jq -c ".logs[0] | $1"; }

@test "the log counts staged copies, pageable copies, and the time of the host's waits" {
	command -v jq >/dev/null || skip "jq is not installed"
	needs_populate
	TOOL=$PWD/gpumemstat
	KNOBS=(GPUMEM_COPY=4 GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	preloaded "$PROGRAMS/staged" repeat
	[ "$(figure '.copy_kinds.h2d_staged | [.calls, .bytes]')" = '[6,56623104]' ]
	[ "$(figure '.copy_kinds.h2d_pageable.calls')" = 0 ]
	[ "$(figure '.copies.h2d | [.calls, .bytes]')" = '[6,56623104]' ]
	[ "$(figure '.counters.copy_wait_ns == .copies.h2d.ns')" = true ]
	rm "$BATS_TEST_TMPDIR/log.gml"
	KNOBS+=(GPUMEM_COPY=off)
	preloaded "$PROGRAMS/staged" repeat
	[ "$(figure '.copy_kinds | [.h2d_staged.calls, .h2d_pageable.calls, .h2d_pageable.bytes, .h2d_pinned.calls]')" = '[0,6,56623104,0]' ]
	rm "$BATS_TEST_TMPDIR/log.gml"
	preloaded "$PROGRAMS/staged" kinds # two copies of 9 MiB each way are pageable, without those of stream-ordered memory
	[ "$(figure '.copy_kinds | [.d2h_pageable.calls, .d2h_pinned.calls]')" = '[1,3]' ]
}

@test "copies of a batch are counted one by one, staged or not" {
	command -v jq >/dev/null || skip "jq is not installed"
	needs_driver 12.8
	needs_populate
	TOOL=$PWD/gpumemstat
	KNOBS=(GPUMEM_COPY=4 GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	preloaded "$PROGRAMS/staged_batch" streams
	[ "$(figure '.copy_kinds.h2d_staged | [.calls, .bytes]')" = '[4,37748736]' ]
	[ "$(figure '.counters | [.copy_other_calls, .copy_other_bytes]')" = '[2,131072]' ]
}

@test "small copies are counted, and of each direction one in 17, later one in 251, is queried for the kind of its memory" {
	command -v jq >/dev/null || skip "jq is not installed"
	TOOL=$PWD/gpumemstat
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	preloaded "$PROGRAMS/staged" small
	[ "$(figure '.counters.copy_small_calls')" = 900 ]
	[ "$(figure '.copy_kinds.h2d_pageable | [.calls, .bytes]')" = '[523,523000]' ]
	[ "$(figure '.copy_kinds.d2h_pageable | [.calls, .bytes]')" = '[272,272000]' ]
}

@test "each small asynchronous copy to the host is timed: it may wait" {
	command -v jq >/dev/null || skip "jq is not installed"
	TOOL=$PWD/gpumemstat
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	whole=$(preloaded "$PROGRAMS/staged" waits)
	figure '.copies | [.h2d, .d2h]'
	[ "$(figure ".copies | .d2h.calls == 300 and .h2d.calls == 300 and .d2h.ns <= $whole * 1.2 and .d2h.ns >= $whole * 0.8")" = true ]
}

@test "small copies are timed by the processor's counter, not by the clock" {
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "sanitizers and valgrind have their own clock_gettime"
	grep -qx tsc /sys/devices/system/clocksource/clocksource0/current_clocksource || skip "the clock is not the counter"
	for log in off small; do
		KNOBS=(GPUMEM_LOG=$log GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
		[ "$(preloaded "$PROGRAMS/readings")" = 'few readings' ]
	done
}

@test "slots leak no memory" {
	SIM_LEAKS=1 preloaded "$PROGRAMS/staged" forks 2>"$BATS_TEST_TMPDIR/err" >/dev/null
	refute grep -i 'host' "$BATS_TEST_TMPDIR/err"
}
