#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_FREE=ordered: what waits for work of the GPU, and for which. A stream has work on a block that is freed.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	export GPUMEM_FREE=ordered GPUMEM_TRIM_AFTER=off
}

# waits CASE N [AGAIN]: answers as natively; N waits inside the driver, and with 0 no call naps. AGAIN: the
# block is used again at once (1), or is not (0).
waits() {
	local shown=$BATS_TEST_TMPDIR/shown
	same ordered_waits "$1"
	preloaded "$PROGRAMS/ordered_waits" "$1" show >"$shown" 2>/dev/null
	cat "$shown"
	[ "$(grep '^  waits: ' "$shown")" = "  waits: $2" ]
	# A sanitizer's or valgrind's own locks put threads to sleep.
	[ "$2" != 0 ] || [ -n "$SANITIZE_LIB$TEST_UNDER" ] || refute grep '^  slept in ' "$shown"
	[ $# -lt 3 ] || [ "$(grep '^  used again: ' "$shown")" = "  used again: $3" ]
}

@test "ordered: an allocation from new memory waits for nothing while another stream has work" {
	waits grows 0
}

@test "ordered: memory whose work has ended is handed out without a wait after another stream got work" {
	SIM_MEMORY=128M waits ended 0
}

@test "ordered: the last memory of the device is waited for, and later work is not" {
	SIM_MEMORY=128M waits last_memory 1
}

@test "ordered: another stream waits for the work from before the free, and not for later work" {
	preloaded "$PROGRAMS/ordered_waits" later_work show >"$BATS_TEST_TMPDIR/shown"
	cat "$BATS_TEST_TMPDIR/shown"
	grep -qx 'cuStreamQuery(t): CUDA_SUCCESS' "$BATS_TEST_TMPDIR/shown"
	grep -qx 'cuStreamQuery(s): CUDA_ERROR_NOT_READY' "$BATS_TEST_TMPDIR/shown"
	grep -qx '  waits: 0' "$BATS_TEST_TMPDIR/shown"
}

@test "ordered: the begin of a capture waits for nothing" {
	waits capture 0
	waits capture_reused 0 1
}

@test "ordered: while a capture is open, other streams wait on the GPU for the work from before a free" {
	waits capture_beside 0 1
}

@test "ordered: SYNC_MEMOPS, IPC handles and dma-bufs of other blocks wait for nothing" {
	export GPUMEM_VERBOSE=0
	waits memops 0 1
	waits ipc 0 1
	waits dmabuf 0 1
}

@test "ordered: SYNC_MEMOPS, IPC handles and dma-bufs of a block wait for the work from before its memory was freed" {
	export GPUMEM_VERBOSE=0
	waits memops_reused 1 1
	waits ipc_reused 1 1
	waits dmabuf_reused 1 1
}

@test "ordered: a copy between contexts waits for nothing if no memory was reused" {
	waits peer_copy 0
}

@test "ordered: a stream with the handle of a destroyed one waits on the GPU" {
	waits destroyed 0 1
}

@test "ordered: a kernel that starts ahead of its stream, or lets another stream start ahead, waits on the GPU" {
	waits programmatic_event 0 1
	waits programmatic_start 0 1
}

@test "ordered: a block of another context than the stream is not used again at once, without a wait" {
	waits contexts 0 0
}

@test "ordered: copies through slots follow the work from before the free" {
	GPUMEM_COPY=2 waits staged 0 1
}

@test "ordered: streams of green contexts wait on the GPU as others" {
	waits green 0 1
}

@test "ordered: a free on an idle device is reused at once though two streams had work" {
	waits idle_device 0 1
}

@test "ordered: cudaFreeAsync of memory of cudaMalloc is reused at once in the order of its stream" {
	waits free_async 0 1
}

@test "ordered: a block of reused memory that is freed in an idle stream still waits for the work from before" {
	export GPUMEM_VERBOSE=0
	waits free_async_idle 1 1
}

@test "ordered: another context gets no memory that work of the first may still use" {
	waits other_context 0
	refute grep -qx '  used again: 1' "$BATS_TEST_TMPDIR/shown"
}

@test "ordered: if no event can be recorded, another stream waits on the host" {
	waits no_event 1 1
}
