#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Devices without virtual memory management, or with less than their attributes claim: MPS, vGPU, Tegra,
# containers, WSL 2.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
}

# PROGRAM must print the same as natively. gpumem's messages are in `said`, the calls of the driver in
# `trace`.
passes() {
	native "$PROGRAMS/$1" >"$BATS_TEST_TMPDIR/native"
	rm -f "$BATS_TEST_TMPDIR/trace"
	SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/$1" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/said"
	drop_notices "$BATS_TEST_TMPDIR/said"
	[ -s "$BATS_TEST_TMPDIR/native" ]
	diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
}

count() {
	grep -cE "$1" "$BATS_TEST_TMPDIR/trace" || true
}

@test "a device that has no virtual memory is left to the driver: one line, no call of virtual memory" {
	export SIM_ATTRIBUTE=102:0
	for program in answers contexts; do
		passes $program
		[ "$(cat "$BATS_TEST_TMPDIR/said")" = 'gpumem: device 0 (Simulated GPU) has no virtual memory management: its memory is left to the driver' ]
		[ "$(count '^cuMem(Create|AddressReserve|Map) ')" -eq 0 ]
		[ "$(count '^cuMemAlloc_v2 0$')" -gt 0 ]
	done
}

@test "a device whose cuMemCreate fails is left to the driver: one line, no further attempt" {
	for code in 1 304 800 801 999; do
		export SIM_FAIL=cuMemCreate:0:$code
		for program in answers contexts; do
			passes $program
			[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 1 ]
			grep -q '^gpumem: no pool on device 0 (.*): its memory is left to the driver$' "$BATS_TEST_TMPDIR/said"
			[ "$(count "^cuMemCreate $code\$")" -gt 0 ]
			[ "$(count '^cuMemCreate ')" -le 4 ] # one for each combination of flags
			[ "$(count '^cuMemAlloc_v2 0$')" -gt 0 ]
		done
	done
}

@test "a device where nothing can be reserved or mapped is left to the driver, with one line" {
	for call in cuMemAddressReserve cuMemMap cuMemSetAccess; do
		export SIM_FAIL=$call:0:801
		passes contexts
		[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 1 ]
		grep -q '^gpumem: no pool on device 0 (.*): its memory is left to the driver$' "$BATS_TEST_TMPDIR/said"
		[ "$(count "^$call ")" -le 4 ]
	done
}

@test "each device of two is left to the driver with a line of its own" {
	export SIM_FAIL=cuMemCreate:0:801 SIM_DEVICES=2
	passes peers
	grep -q '^gpumem: no pool on device 0 ' "$BATS_TEST_TMPDIR/said"
	grep -q '^gpumem: no pool on device 1 ' "$BATS_TEST_TMPDIR/said"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 2 ]
}

@test "a lack of memory or one odd failure does not end the pool" {
	local map=cuMemMap:2:999 # whatever its flags, the second chunk fails
	for rule in cuMemCreate:1:2 cuMemCreate:2:304 $map,$map,$map,$map; do
		export SIM_FAIL=$rule
		passes answers
		[ ! -s "$BATS_TEST_TMPDIR/said" ]
		[ "$(count '^cuMemMap 0$')" -gt 1 ]
	done
	[ "$(count '^cuMemMap 999$')" -eq 4 ]
	[ "$(count '^cuMemAlloc_v2 0$')" -eq 1 ]
}

@test "the pool serves without RDMA where RDMA memory is refused at creation or at access" {
	for where in create access; do
		export SIM_RDMA=$where
		passes contexts
		passes answers
		[ ! -s "$BATS_TEST_TMPDIR/said" ]
		[ "$(count '^cuMemAlloc_v2 0$')" -eq 0 ]
		[ "$(count '^cuMemMap 0$')" -gt 2 ]
		# One refusal for each form of request: later chunks do not try again.
		[ "$(count '^cuMemCreate 801$')" -le 1 ]
		[ "$(count '^cuMemSetAccess 999$')" -le 1 ]
	done
}

@test "a device without RDMA or exportable handles has a pool, and no failed attempt" {
	for attributes in 110:0 103:0 110:0,103:0; do
		export SIM_ATTRIBUTE=$attributes SIM_RDMA=create
		[ $attributes != 103:0 ] || unset SIM_RDMA
		passes contexts
		[ ! -s "$BATS_TEST_TMPDIR/said" ]
		[ "$(count '^cuMemCreate 801$')" -eq 0 ]
		[ "$(count '^cuMemAlloc_v2 0$')" -eq 0 ]
	done
}
