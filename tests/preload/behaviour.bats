#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Answers to programs under the preload equal the native ones.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
}

@test "allocations, frees and queries answer as natively" {
	same answers
}

@test "attributes of pointers are those of cuMemAlloc memory" {
	same attributes
	SIM_ATTRIBUTE=136:1 same attributes
	SIM_DEVICES=2 same attributes access
	grep -qx 'after a copy: CUDA_SUCCESS, 0x1111111100000000' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx 'enabled: CUDA_SUCCESS, 0x1111111100000003' "$BATS_TEST_TMPDIR/preloaded"
}

@test "copies and memsets are refused at the same byte as natively" {
	same bounds
	! grep -v 'exact CUDA_SUCCESS, from within CUDA_SUCCESS, a unit too far CUDA_ERROR_INVALID_VALUE, a byte too few CUDA_ERROR_INVALID_VALUE' "$BATS_TEST_TMPDIR/preloaded" | grep exact
}

@test "copies on per-thread default streams are refused at the same byte as natively" {
	same bounds_ptds
}

@test "a refused copy does not reach the driver" {
	SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/bounds" >/dev/null
	# Two calls of each form fit. The others pass the end of a block or use a freed one.
	[ "$(grep -cw cuMemsetD2D16Async "$BATS_TEST_TMPDIR/trace")" -eq 2 ]
	[ "$(grep -cw cuMemcpyHtoDAsync_v2 "$BATS_TEST_TMPDIR/trace")" -eq 2 ]
}

@test "memory ends with its context" {
	same contexts
}

@test "memory ends with its context, on a driver that does not number contexts" {
	SIM_DRIVER=11.4 same contexts
}

@test "copies between two devices without peer access work as natively" {
	SIM_DEVICES=2 same peers
}

@test "copies between two devices with peer access work as natively, by the program's own calls" {
	export SIM_DEVICES=2
	same peers enable
	[ "$(calls cuMemcpy3D_v2 peers enable)" -gt 0 ]
	[ "$(calls cuMemcpy3DPeer peers enable)" -eq 0 ]
}

@test "copies between two devices that cannot reach each other work as natively" {
	export SIM_DEVICES=2 SIM_PEER=0
	for program in peers peers_ptds; do
		same $program
		grep -qx "to the driver's: 7 7" "$BATS_TEST_TMPDIR/preloaded"
	done
	[ "$(calls cuMemcpyPeer peers)" -gt 0 ]
	[ "$(calls cuMemcpyPeer_ptds peers_ptds)" -gt 0 ]
	[ "$(calls cuMemcpy3DPeer peers)" -gt 0 ]
	[ "$(calls cuMemcpy3DPeerAsync peers)" -gt 0 ]
}

@test "a free waits for the kernels of its context" {
	frees_wait
	same held
	grep -q '^freed under the kernel: 0$' "$BATS_TEST_TMPDIR/preloaded"
	grep -q '^the kernel saw 42$' "$BATS_TEST_TMPDIR/preloaded"
}

@test "SYNC_MEMOPS waits for a synchronous memset that is pending, and for nothing else" {
	same memops
	grep -q '^a memset pending: returned before it was complete 0$' "$BATS_TEST_TMPDIR/preloaded"
	grep -q '^nothing pending: returned before it was complete 1$' "$BATS_TEST_TMPDIR/preloaded"
}

@test "cuMemFreeAsync of a block waits for its stream" {
	frees_wait
	run preloaded "$PROGRAMS/held" async
	[ "$status" -eq 0 ]
	[[ $output = *'freed under the kernel: 0'* ]]
	[[ $output = *'the kernel saw 42'* ]]
}

@test "cuMemFreeAsync of a block waits for no other stream" {
	run preloaded "$PROGRAMS/held" other
	[ "$status" -eq 0 ]
	[[ $output = *'freed under the kernel: 1'* ]]
	same held other
}

@test "a full device holds as much as natively, and recovers" {
	SIM_MEMORY=256M same pressure fill
}

@test "idle memory of the pool makes no other call fail" {
	for entry in cuMemCreate cuMemAllocManaged cuMemAllocAsync cuArrayCreate cuArray3DCreate; do
		SIM_MEMORY=256M same pressure take $entry
		grep -q "^$entry: CUDA_SUCCESS$" "$BATS_TEST_TMPDIR/preloaded"
	done
}

@test "the pool serves allocations without cuMemAlloc" {
	[ "$(calls cuMemAlloc_v2 contexts)" -eq 0 ]
	[ "$(calls cuMemCreate contexts)" -gt 0 ]
}

@test "MODE=trace changes no allocation" {
	KNOBS=('GPUMEM_MODE=trace')
	same answers
	[ "$(calls cuMemCreate contexts)" -eq 0 ]
	[ "$(calls cuMemAddressReserve contexts)" -eq 0 ]
	[ "$(calls cuMemAlloc_v2 contexts)" -gt 0 ]
}

@test "ENABLE=0 leaves the program alone" {
	KNOBS=('GPUMEM_ENABLE=0')
	same answers
	[ "$(calls cuMemCreate contexts)" -eq 0 ]
}

@test "PROGRAM picks programs by their base name" {
	KNOBS=('GPUMEM_PROGRAM=cont*')
	[ "$(calls cuMemCreate contexts)" -gt 0 ]
	KNOBS=('GPUMEM_PROGRAM=python*')
	[ "$(calls cuMemCreate contexts)" -eq 0 ]
	same contexts
}

@test "the driver serves where no pool can be made, and one line reports it" {
	native "$PROGRAMS/contexts" >"$BATS_TEST_TMPDIR/native"
	SIM_FAIL=cuMemGetAllocationGranularity:1:801 preloaded "$PROGRAMS/contexts" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/said"
	diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
	[ "$(grep -c '^gpumem: no pool on device 0' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
}

@test "LIMIT bounds the program's memory and the answer of cuMemGetInfo" {
	KNOBS=('GPUMEM_LIMIT=64M' 'GPUMEM_VERBOSE=0')
	SIM_MEMORY=256M run preloaded "$PROGRAMS/pressure" fill
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = 'at first: 64 MiB of 64 are free' ]
	[ "${lines[1]}" = '4 blocks of 16 MiB, then CUDA_ERROR_OUT_OF_MEMORY' ]
	[ "${lines[2]}" = 'full: 0 MiB of 64 are free' ]
	[ "${lines[5]}" = 'empty: 64 MiB of 64 are free' ]
}

@test "LIMIT in percent of the device" {
	KNOBS=('GPUMEM_LIMIT=25%' 'GPUMEM_VERBOSE=0')
	SIM_MEMORY=256M run preloaded "$PROGRAMS/pressure" fill
	[ "${lines[1]}" = '4 blocks of 16 MiB, then CUDA_ERROR_OUT_OF_MEMORY' ]
}
