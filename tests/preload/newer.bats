#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Graph nodes that copy or fill memory, and calls of drivers after 13.0 that can get memory of the pool.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	TOOL=$PWD/gpumemstat
}

says() {
	grep -qxF "$1" "$BATS_TEST_TMPDIR/preloaded"
}

@test "nodes that copy or fill blocks answer as natively" {
	same nodes
	says 'make(ADD, &a): CUDA_ERROR_INVALID_VALUE'
	says 'changed before: 1000 bytes arrived'
	[ "$(grep -c ': CUDA_ERROR_INVALID_VALUE$' "$BATS_TEST_TMPDIR/preloaded")" -eq $((2 * 3 + 3)) ]
}

@test "nodes made by the generic node calls answer as natively" {
	needs_driver 13.4
	same nodes every
	says 'nodes of any kind, 13.4, fills'
	says 'nodes of any kind, copies, no context then a'
	[ "$(grep -cx 'executable: 20 bytes arrived' "$BATS_TEST_TMPDIR/preloaded")" -eq 16 ]
	[ "$(grep -c ': CUDA_ERROR_INVALID_VALUE$' "$BATS_TEST_TMPDIR/preloaded")" -eq $((6 * 3 + 3)) ]
	[ "$(grep -cx 'changed before: 1000 bytes arrived' "$BATS_TEST_TMPDIR/preloaded")" -eq 6 ]
}

# For mapped memory the driver would refuse both fills, and the copy that gets a context.
@test "nodes need no context, and an executable one may get one later, as natively" {
	same nodes
	says 'nodes of one kind, copies, no context then a'
	[ "$(grep -cx 'executable: 20 bytes arrived' "$BATS_TEST_TMPDIR/preloaded")" -eq 8 ]
	[ "$(grep -cx 'parameters: as set, as set, 10 bytes' "$BATS_TEST_TMPDIR/preloaded")" -eq 4 ]
	[ "$(grep -cx 'parameters: as set, as set, 30 bytes' "$BATS_TEST_TMPDIR/preloaded")" -eq 4 ]
}

@test "nodes that copy between two devices answer as natively" {
	SIM_DEVICES=2 same nodes peers
	says 'as added: 10 bytes arrived'
}

@test "nodes made by the generic node calls that copy between two devices answer as natively" {
	needs_driver 13.4
	SIM_DEVICES=2 same nodes peers every
	[ "$(grep -cx 'as added: 10 bytes arrived' "$BATS_TEST_TMPDIR/preloaded")" -eq 6 ]
}

@test "a node whose copy runs past its block never reaches the driver" {
	needs_driver 13.4
	SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/nodes" every >/dev/null
	for call in cuGraphAddMemcpyNode cuGraphAddMemsetNode; do
		[ "$(grep -cx "$call 0" "$BATS_TEST_TMPDIR/trace")" -eq $((1 + 4)) ]
	done
	# the driver refuses NULL
	[ "$(grep -c '^cuGraph.*Node.* 1$' "$BATS_TEST_TMPDIR/trace")" -eq 2 ]
}

@test "copies with attributes answer as natively" {
	needs_driver 13.2
	same newer copies
	says 'a line: CUDA_SUCCESS, 1000 bytes arrived'
	says 'a byte too long, own stream: CUDA_ERROR_INVALID_VALUE, 0 bytes arrived'
	says 'a box too high, own stream: CUDA_ERROR_INVALID_VALUE, 0 bytes arrived'
}

@test "copies with attributes between two devices answer as natively" {
	needs_driver 13.2
	SIM_DEVICES=2 same newer peers
	says 'a box, own stream: CUDA_SUCCESS, 1000 bytes arrived'
	SIM_DEVICES=2 SIM_PEER=0 same newer peers
	says 'a box, own stream: CUDA_SUCCESS, 1000 bytes arrived'
}

@test "copies with attributes are counted, refused ones are not" {
	needs_driver 13.2
	preloaded env GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log" "$PROGRAMS/newer" copies >/dev/null
	"$TOOL" --json "$BATS_TEST_TMPDIR/log" >"$BATS_TEST_TMPDIR/json"
	counter() { jq -r --arg k "$1" '.logs[0] | .devices[0].counters + .counters | .[$k]' "$BATS_TEST_TMPDIR/json"; }
	[ "$(counter copy_d2d_calls)" -eq 4 ]
	[ "$(counter copy_d2d_bytes)" -eq 4000 ]
	[ "$(counter bounds_refused)" -eq 5 ]
}

@test "calls for mapped or managed memory alone are refused for blocks, as natively" {
	needs_driver 13.4
	same newer bind
	[ "$(grep -c ': CUDA_SUCCESS$' "$BATS_TEST_TMPDIR/preloaded")" -eq 4 ]
	SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/newer" bind >/dev/null
	for call in cuMemGetLocationInfo cuMulticastBindAddr cuMulticastBindAddr_v2 cuLogicalEndpointBindAddr; do
		[ "$(grep -c "^$call " "$BATS_TEST_TMPDIR/trace")" -eq 2 ]
	done
}

@test "a free during a second capture into a graph leaves the capture valid" {
	needs_driver 13.3
	same newer capture
	[ "$(grep -cx 'captured anew: CUDA_SUCCESS, 20 bytes arrived' "$BATS_TEST_TMPDIR/preloaded")" -eq 2 ]
}

# A free polls, by a record and a query, only if every capture is counted.
@test "all captures are counted up to driver 13.4, but not with a newer driver" {
	needs_driver 12.5
	frees_wait
	for version in "${SIM_DRIVER:-13.4}" 13.5; do
		SIM_DRIVER=$version SIM_TRACE=$BATS_TEST_TMPDIR/trace.$version preloaded "$PROGRAMS/answers" >/dev/null
	done
	[ "$(grep -cx 'cuEventQuery 0' "$BATS_TEST_TMPDIR/trace.${SIM_DRIVER:-13.4}")" -gt 10 ]
	[ "$(grep -cx 'cuCtxRecordEvent 0' "$BATS_TEST_TMPDIR/trace.13.5")" -gt 10 ]
	refute grep '^cuEventQuery' "$BATS_TEST_TMPDIR/trace.13.5"
}
