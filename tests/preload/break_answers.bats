#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Queries that other libraries between programs and the driver answered wrongly: see BREAKAGE.md.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
}

# Standard output must be EXPECTED; gpumem's messages are in the file `said`.
prints() {
	preloaded "${@:2}" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/said"
	diff -u <(printf '%s\n' "$1") "$BATS_TEST_TMPDIR/preloaded"
}

@test "attributes, ranges and ids are those of the block; outputs of failed calls stay as they were" {
	same break_pointers
	# The driver writes NULL for an absent HOST_POINTER, attribute 4.
	! grep -v 'attribute 4:' "$BATS_TEST_TMPDIR/preloaded" | grep 'untouched 0'
}

@test "a dma-buf of a block, and of the pages around it, is exported as natively" {
	needs_driver 11.7
	same break_pointers exports
	[ "$(grep -c ': CUDA_SUCCESS, a file$' "$BATS_TEST_TMPDIR/preloaded")" -eq 10 ]
}

@test "frees of every kind of memory, odd sizes, and calls without a valid context answer as natively" {
	same break_frees
	[ "${GPUMEM_FREE:-sync}" != ordered ] || export GPUMEM_FREE=defer # ordered prints a line with this driver
	SIM_DRIVER=12.2 same break_frees
	[ "$(grep -c '^all back: 1$' "$BATS_TEST_TMPDIR/preloaded")" -eq 2 ]
}

REFUSED='cuIpcGetMemHandle(&name, p + MIB): CUDA_ERROR_INVALID_VALUE
written: 0
cuMemRetainAllocationHandle(&physical, (void *)(uintptr_t)p): CUDA_ERROR_INVALID_VALUE'
SHARED=${REFUSED/CUDA_ERROR_INVALID_VALUE
written: 0/CUDA_SUCCESS
written: 1}

@test "memory of the pool can be shared like that of cuMemAlloc: all answers agree" {
	prints "legacy 1, handle types 0
$SHARED
$SHARED
$SHARED
cuIpcGetMemHandle(NULL, p): CUDA_ERROR_INVALID_VALUE
cuIpcGetMemHandle(&name, managed): CUDA_ERROR_INVALID_VALUE
cuIpcGetMemHandle(&name, p): CUDA_ERROR_INVALID_VALUE" "$PROGRAMS/break_share"
	KNOBS=(GPUMEM_VERBOSE=0) # no message about exports that are never opened
	same break_share
	KNOBS+=(GPUMEM_MODE=trace)
	same break_share
}

@test "where memory of the pool cannot be shared, every answer agrees, and one line reports it" {
	export SIM_ATTRIBUTE=103:0
	prints "legacy 0, handle types 0
$REFUSED
$REFUSED
$REFUSED
cuIpcGetMemHandle(NULL, p): CUDA_ERROR_INVALID_VALUE
cuIpcGetMemHandle(&name, managed): CUDA_ERROR_INVALID_VALUE
cuIpcGetMemHandle(&name, p): CUDA_ERROR_INVALID_VALUE" "$PROGRAMS/break_share"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 1 ]
	grep -q '^gpumem: cuIpcGetMemHandle is refused: ' "$BATS_TEST_TMPDIR/said"
}

@test "a library that falls back to a slower way of sharing is named in one line" {
	[ "${GPUMEM_FREE:-sync}" != ordered ] || export GPUMEM_FREE=defer # ordered prints a line of its own here
	SIM_ATTRIBUTE=103:0 preloaded "$PROGRAMS/break_share" "$PROGRAMS/libucp.so.0" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/said"
	[ "$(grep -c '^gpumem: libucp\.so\.0 cannot share memory of the pool' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 2 ] # the second line is the refusal
	# No line where memory can be shared, nor for a program that never asks.
	preloaded "$PROGRAMS/break_share" "$PROGRAMS/libucp.so.0" >/dev/null 2>"$BATS_TEST_TMPDIR/said"
	refute grep libucp "$BATS_TEST_TMPDIR/said"
	SIM_ATTRIBUTE=103:0 preloaded env LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$LIBRARY:$PROGRAMS/libucp.so.0" "$PROGRAMS/contexts" >/dev/null 2>"$BATS_TEST_TMPDIR/said"
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
}

@test "peer access covers present and future blocks, one way, until the last context disables it" {
	export SIM_DEVICES=3
	prints 'cuCtxEnablePeerAccess(context[2], 0): CUDA_SUCCESS
enabled before the first allocation: 1 0 1
at first: 11 00 00
cuCtxEnablePeerAccess(context[0], 0): CUDA_SUCCESS
enabled after the allocation: 11 11 00
and what came later: 1111 1111 0000
not the other way: 0
cuCtxEnablePeerAccess(context[1], 0): CUDA_SUCCESS
now: 1
cuCtxEnablePeerAccess(context[0], 0): CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
cuCtxEnablePeerAccess(context[0], 0): CUDA_SUCCESS
cuCtxDisablePeerAccess(context[0]): CUDA_SUCCESS
another context of the device has access still: 1111 1111 0000
cuCtxDisablePeerAccess(context[0]): CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
cuCtxDisablePeerAccess(context[0]): CUDA_SUCCESS
none has: 1111 0000 0000
nor to what came later: 111111 000000 000000
cuCtxEnablePeerAccess(context[0], 0): CUDA_ERROR_OUT_OF_MEMORY
the driver could not open all blocks: 111111 000000 000000
cuCtxEnablePeerAccess(context[0], 0): CUDA_SUCCESS
the third device: 111111 000000 111111' "$PROGRAMS/break_peers"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 1 ]
	grep -q '^gpumem: out of memory on device 2: cuCtxEnablePeerAccess failed, ' "$BATS_TEST_TMPDIR/said"
}
