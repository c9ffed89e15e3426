#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# libgpumem-core and streams, by itself and under the preload.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	PROGRAMS=$PWD/tests/core
}

# both CASE LINE...: its output, natively and preloaded.
both() {
	same program "$1"
	printf '%s\n' "${@:2}" | diff -u - "$BATS_TEST_TMPDIR/native"
}

@test "a block freed on a stream is reused there at once" {
	needs_driver 12.0
	both same_stream '1000 bytes reused on the same stream at once: yes' '8000 bytes reused on the same stream at once: yes' \
		'64000 bytes reused on the same stream at once: yes' '512000 bytes reused on the same stream at once: yes' \
		'4096000 bytes reused on the same stream at once: yes' '32768000 bytes reused on the same stream at once: yes'
}

@test "a block freed on a stream is reused on another one only after the first has completed" {
	needs_driver 12.0
	both other_stream 'reused on another stream before the first is through: no' \
		'what the other stream wrote is there: yes' 'reused after the first is through: yes' \
		'an event covers another stream: no'
}

@test "small blocks share an event" {
	needs_driver 12.0
	both batch 'reused without an event: no' '1 events for 17 blocks' '16 reused behind it' \
		'the one freed later among them: no'
}

@test "a fault that the library meets first is the answer to the program's next allocation" {
	needs_driver 12.0
	both fault 'memory after a fault: no' 'cuMemAlloc(&p, 1000): CUDA_ERROR_ILLEGAL_ADDRESS'
}

@test "trim waits for the streams and returns all kept memory" {
	needs_driver 12.0
	both trim '67108864 bytes kept' 'trim waits: yes' 'and gives back as much: yes' 'nothing is left: yes' \
		'1048576 bytes kept' 'trim waits: yes' 'and gives back as much: yes' 'nothing is left: yes' 'trimmed again: 0 bytes'
}

@test "kept memory is bounded, and never causes an out-of-memory" {
	needs_driver 12.0
	export SIM_MEMORY=256M
	both memory '33554432 bytes kept' 'what was kept makes room: yes' 'and is kept no more: yes' 'more than there is: no' \
		'kept beyond an eighth: no'
}

@test "a block of a destroyed stream is not reused by a later stream, and is returned" {
	needs_driver 12.0
	both destroyed 'reused by a stream that came after: no' 'all of it back: yes'
}

@test "blocks are not reused in another context, and all are returned when the first ends" {
	needs_driver 12.0
	both contexts 'reused in another context: no' 'in use, and handed out again: no' 'all of it back: yes'
}

@test "threads of two contexts allocate and free on streams" {
	needs_driver 12.0
	both turns '0 blocks lost' 'all of it back: yes'
}

@test "no byte is wrong while contexts are made and end" {
	SIM_YIELD=1 same contexts operations 3000
	[ "$(tail -n 1 "$BATS_TEST_TMPDIR/preloaded")" = '0 bytes wrong' ]
}

@test "no block is kept after a device reset" {
	needs_driver 12.0
	both reset 'after a reset: 1 blocks, 0 bytes kept'
}

@test "a device reset while another of its contexts is in use loses no block" {
	needs_driver 12.0
	both reset_behind 'a block of the primary context: yes' 'after a reset: 2 blocks' 'all of it back: yes'
}

@test "an open capture: its graph has no node of the library" {
	needs_driver 12.0
	both capture 'reused in the capture: yes' 'reused elsewhere during it: no' \
		'cuStreamEndCapture(s, &graph): CUDA_SUCCESS' '0 nodes of ours' 'all of it back: yes'
}

@test "CuPy's calls: with a stream, and without" {
	needs_driver 12.0
	both cupy 'of a stream: reused at once: yes' 'of no stream: in use until its context is through: yes' \
		'and free then: yes'
}

@test "threads without a context allocate on four devices, and no context stays current" {
	export SIM_DEVICES=4
	both devices 'device 0: 100 MiB in 100 blocks; nothing left current: yes' \
		'device 1: 200 MiB in 100 blocks; nothing left current: yes' \
		'device 2: 300 MiB in 100 blocks; nothing left current: yes' \
		'device 3: 400 MiB in 100 blocks; nothing left current: yes' 'device 4: 101'
}

@test "threads that share streams get blocks of their own" {
	both threads '0 wrong; 0 blocks, 0 bytes left'
}

@test "wrong arguments of gpumem.h have no effect, and are reported once" {
	needs_driver 12.0
	native "$PROGRAMS/program" wrong >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	printf '%s\n' 'size 0: no' 'no such device: no' 'more than fits: no' \
		'freed twice, handed out twice: no' 'no struct: 1, no size: 1' 'an older struct: 0' 'filled that far: yes' \
		'a newer struct: 0' 'told how much was filled: yes' | diff -u - "$BATS_TEST_TMPDIR/out"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/err")" -eq 1 ]
	grep -qE '^gpumem: libgpumem-core: free of 0x[0-9a-f]+ on device 0: error 1: no block of it is in use there$' \
		"$BATS_TEST_TMPDIR/err"
	preloaded "$PROGRAMS/program" wrong 2>/dev/null | diff -u "$BATS_TEST_TMPDIR/out" -
}

@test "preloaded there is one pool for both, and a mark in the log" {
	run native "$PROGRAMS/program" shared
	[ "$output" = $'8 MiB in 1 blocks\nmarked: 0' ]
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=log)
	run preloaded "$PROGRAMS/program" shared
	[ "$output" = $'12 MiB in 2 blocks\nmarked: 1' ]
	env ASAN_OPTIONS=detect_leaks=0 "$OLDPWD/gpumemstat" export --format=csv log | grep -q ',mark,.*epoch 3'
	env ASAN_OPTIONS=detect_leaks=0 "$OLDPWD/gpumemstat" summary --json log |
		jq -e '.logs[0] | .contradiction == null and .closed and .devices[0].counters.allocate_pool == 2'
	KNOBS=(GPUMEM_MODE=trace)
	run preloaded "$PROGRAMS/program" shared
	[ "$output" = $'8 MiB in 1 blocks\nmarked: 0' ]
}

@test "GPUMEM_LIMIT holds without the preload" {
	needs_driver 12.0
	export SIM_MEMORY=512M GPUMEM_LIMIT=50%
	both memory '33554432 bytes kept' 'what was kept makes room: yes' 'and is kept no more: yes' 'more than there is: no' \
		'kept beyond an eighth: no'
}

