#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_COPY: large copies of pageable memory go through pinned slots, and nobody notices.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	KNOBS=(GPUMEM_COPY=4)
}

# How often pieces went to the device, and from it: pieces PROGRAM COMMAND
pieces() {
	rm -f "$BATS_TEST_TMPDIR/trace"
	SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/$1" "$2" >/dev/null
	echo "$(grep -cx 'cuMemcpyHtoDAsync_v2 0' "$BATS_TEST_TMPDIR/trace")" \
		"$(grep -cx 'cuMemcpyDtoHAsync_v2 0' "$BATS_TEST_TMPDIR/trace")"
}

# The kernel of the tests has MADV_POPULATE_READ.
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

@test "off, trace mode, and auto with few cores leave all copies to the driver" {
	for knob in GPUMEM_COPY=off GPUMEM_MODE=trace; do
		KNOBS=(GPUMEM_COPY=4 $knob)
		[ "$(pieces staged lines)" = "0 0" ]
	done
	KNOBS=(GPUMEM_COPY=auto)
	[ "$(LOCAL_WORLD_SIZE=100000 pieces staged lines)" = "0 0" ]
	# Devices that use the host's page tables.
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

@test "errors come at the same call, and a copy that fails changes nothing" {
	for program in staged staged_ptds; do
		same $program errors
		grep -qx 'the host is unchanged' "$BATS_TEST_TMPDIR/preloaded"
	done
}

@test "a page that is not there, or may not be written, ends the process as natively" {
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

@test "while a capture is open copies are the driver's" {
	for program in staged staged_ptds; do
		same $program captures
	done
}

@test "pinned, registered and managed memory, and asynchronous rectangles, are the driver's" {
	for program in staged staged_ptds; do
		same $program kinds
		[ "$(pieces $program kinds)" = "0 0" ]
		[ "$(calls cuMemHostRegister_v2 $program kinds)" -eq 1 ]
		same $program unstaged
		[ "$(pieces $program unstaged)" = "0 0" ]
	done
}

@test "asynchronous copies are staged behind the work of their stream, and complete when they return" {
	for program in staged staged_ptds; do
		same $program async
		[ "$(cut -d: -f2 "$BATS_TEST_TMPDIR/preloaded" | sort -u | wc -l)" -eq 1 ]
	done
	needs_populate
	[ "$(pieces staged async)" = "75 75" ] # 15 pieces of 640 KiB, five times
}

@test "stream-ordered memory takes part" {
	export ORDERED=1
	same staged kinds
	needs_populate
	[ "$(calls cuMemHostRegister_v2 staged kinds)" -eq 2 ]
}

@test "a fork, an exit amid copies, and the end of main are as natively" {
	same staged forks
	# A thread of ThreadSanitizer's own never ends.
	[[ $SANITIZE_LIB == *tsan* ]] || same staged ends
	for i in 1 2 3; do
		same staged exits
	done
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

@test "slots that nobody uses go back to the system" {
	needs_populate
	for after in 0 1s; do
		KNOBS=(GPUMEM_COPY=4 GPUMEM_TRIM_AFTER=$after)
		preloaded "$PROGRAMS/staged" idle >"$BATS_TEST_TMPDIR/out"
		grep -qx equal "$BATS_TEST_TMPDIR/out"
	done
}

# figure FILTER: jq's answer about the log
figure() { "$TOOL" --json "$BATS_TEST_TMPDIR/log.gml" | jq -c ".logs[0] | $1"; }

@test "counters say what was staged, what was pageable, and how long the host waited" {
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
	preloaded "$PROGRAMS/staged" kinds # two of 9 MiB each way of pageable memory, if ordered memory is left out
	[ "$(figure '.copy_kinds | [.d2h_pageable.calls, .d2h_pinned.calls]')" = '[1,3]' ]
}

@test "small copies are counted, and one in 17 says what its memory is" {
	command -v jq >/dev/null || skip "jq is not installed"
	TOOL=$PWD/gpumemstat
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	preloaded "$PROGRAMS/staged" small
	[ "$(figure '.counters.copy_small_calls')" = 170 ]
	[ "$(figure '.copy_kinds.h2d_pageable | [.calls, .bytes]')" = '[170,170000]' ]
}

@test "nothing of the slots leaks" {
	SIM_LEAKS=1 preloaded "$PROGRAMS/staged" forks 2>"$BATS_TEST_TMPDIR/err" >/dev/null
	refute grep -i 'host' "$BATS_TEST_TMPDIR/err"
}
