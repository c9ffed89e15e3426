#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Memory outside the pool: counted to the byte, and otherwise untouched.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	TOOL=$PWD/gpumemstat
	MIB=1048576
}

# logged PROGRAM [ARGUMENT]...: run it with a log. The log must not contradict itself; its JSON is in "$JSON".
logged() {
	JSON=$BATS_TEST_TMPDIR/json
	rm -f "$BATS_TEST_TMPDIR/log"
	preloaded env GPUMEM_LOG="${LEVEL:-small}" GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log" "$PROGRAMS/$1" "${@:2}" >/dev/null
	"$TOOL" --json "$BATS_TEST_TMPDIR/log" >"$JSON"
}

# kind NAME: prints "calls bytes frees freed alive peak".
kind() {
	jq -r --arg k "foreign_$1" '.logs[0] | .devices[0].counters + .counters |
		[.[$k + "_calls"], .[$k + "_bytes"], .[$k + "_frees"], .[$k + "_freed"], .[$k], .[$k + "_peak"]] | join(" ")' "$JSON"
}

counter() {
	jq -r --arg k "$1" '.logs[0] | .devices[0].counters + .counters | .[$k]' "$JSON"
}

# is NAME CALLS BYTES FREES FREED ALIVE PEAK: the counters of this kind, bytes in MiB.
is() {
	local want="$2 $(($3 * MIB)) $4 $(($5 * MIB)) $(($6 * MIB)) $(($7 * MIB))"
	[ "$(kind "$1")" = "$want" ] || { echo "$1: $(kind "$1"), not $want"; return 1; }
}

# turn KIND-OF-COUNTER KIND [PROGRAM] [TIMES-BYTES]: run natively and preloaded, then compare the counters.
turn() {
	local times=${4:-1}
	same "${3:-foreign}" "$2"
	logged "${3:-foreign}" "$2"
	is "$1" 3 $((9 * times)) 2 $((8 * times)) "$times" $((8 * times))
	[ "$(counter foreign_unknown)" -eq 0 ]
}

@test "foreign memory: calls, bytes, live and peak of each kind are counted, refused calls are not" {
	needs_driver 12.2
	turn async async
	turn async async_by_free
	turn async pool
	turn managed managed
	turn host pinned
	turn host host
	turn registered registered
	turn created created foreign 2
	turn created_host created_host foreign 2
	turn array array
	turn array array3d
	turn array mipmap
	turn external external
	turn graph graph
	KNOBS=(GPUMEM_MODE=trace)
	turn driver driver
}

@test "foreign memory of per-thread default streams is counted" {
	turn async async foreign_ptsz
	turn async async_by_free foreign_ptsz
	turn async pool foreign_ptsz
}

@test "the sum of foreign memory covers only kinds on the device" {
	for way in async created array; do
		logged foreign $way
		[ "$(counter foreign)" -eq "$(counter foreign_$way)" ]
		[ "$(counter foreign_peak)" -eq "$(counter foreign_${way}_peak)" ]
	done
	for way in managed pinned created_host graph external; do
		logged foreign $way
		[ "$(counter foreign_peak)" -eq 0 ]
	done
}

@test "eight threads lose no byte of foreign memory" {
	for way in async pool managed pinned registered created array; do
		logged foreign $way threads
		name=${way/pinned/host} name=${name/pool/async}
		times=1
		[ $way != created ] || times=2
		kind $name
		[ "$(kind $name | cut -d' ' -f1-5)" = "4000 $((8000 * times * MIB)) 4000 $((8000 * times * MIB)) 0" ]
		peak=$(kind $name | cut -d' ' -f6)
		[ "$peak" -ge $((2 * times * MIB)) ]
		[ "$peak" -le $((16 * times * MIB)) ]
	done
}

@test "physical memory is counted while it is owned or mapped" {
	same lives mappings
	logged lives mappings
	# 1 + 2 + 3 + 4 pages of 2 MiB. The second is mapped twice, the third could not be unmapped, the
	# fourth is still owned.
	is created 4 20 1 2 18 20
}

@test "an import of physical memory is not counted twice" {
	same lives shared
	logged lives shared
	is created 1 2 1 2 0 2
	[ "$(counter foreign_unknown)" -eq 0 ]
}

@test "foreign memory ends with its context, stream-ordered memory does not" {
	same lives context
	logged lives context
	is managed 1 1 1 1 0 1
	is host 1 2 1 2 0 2
	is array 1 8 1 8 0 8
	is async 1 4 0 0 4 4
}

@test "memory of a graph ends with its last instance" {
	same lives graphs
	logged lives graphs
	is graph 3 7 2 3 4 4
	is async 0 0 0 0 0 0
}

@test "a view of imported memory is neither counted nor unknown" {
	same lives views
	logged lives views
	is external 1 4 1 4 0 4
	[ "$(counter foreign_array_calls)" -eq 0 ]
	[ "$(counter foreign_unknown)" -eq 0 ]
}

@test "levels of mipmapped arrays are counted once" {
	same lives levels
	logged lives levels
	full=$((8 * (128 + 32 + 8 + 2 + 1)))
	[ "$(kind array)" = "4 $((full * 2 + 8 * 3 * (16 + 8))) 0 0 $((full * 2 + 8 * 3 * 24)) $((full * 2 + 8 * 3 * 24))" ]
}

@test "frees of unknown addresses are counted as unknown" {
	same lives unknown
	logged lives unknown
	[ "$(counter foreign_unknown)" -eq 2 ]
	is async 0 0 0 0 0 0
}

@test "memory of an address that the driver gives again, after a free that was missed, is counted once" {
	same lives missed
	grep -qx 'the same address: 1' "$BATS_TEST_TMPDIR/preloaded"
	logged lives missed
	is managed 2 2 2 2 0 1
}

@test "stream-ordered memory is counted on the device of its stream" {
	export SIM_DEVICES=2
	same lives elsewhere
	logged lives elsewhere
	is async 1 1 0 0 1 1
}

@test "pools of the driver are not asked before the program has memory of one" {
	same lives unpooled
	grep -qx 'pools of the driver: asked 0, trimmed 0' "$BATS_TEST_TMPDIR/preloaded"
}

@test "overhead is the used memory of the device minus the accounted memory" {
	logged lives overhead
	jq -e '.logs[0].devices[0] | .overhead.bytes == 64 * 1048576 and .overhead.used == .overhead.accounted + .overhead.bytes' "$JSON"
	jq -e '.logs[0].devices[0] | .overhead.accounted == .counters.mapped + 16 * 1048576' "$JSON"
	"$TOOL" -v "$BATS_TEST_TMPDIR/log" | grep -q '^overhead *64.0 MiB for driver, contexts and other processes: '
	"$TOOL" -v "$BATS_TEST_TMPDIR/log" | grep -qE '^stream-ordered +16.0 MiB +16.0 MiB +16.0 MiB +1 +0$'
}

@test "the device's used memory is read with each sample, also without a pool" {
	KNOBS=(GPUMEM_MODE=trace)
	LEVEL=small,0
	logged foreign async
	[ "$(counter device_asked)" -ge 3 ]
	KNOBS=()
	LEVEL=small,1h
	logged foreign async
	[ "$(counter device_asked)" -eq 1 ]
}

@test "the device's used memory is read once a context exists" {
	LEVEL=small,1h
	logged lives nothing
	[ "$(counter device_asked)" -eq 1 ]
	[ "$(counter samples)" -eq 2 ] # the second one at the end
}

@test "pools of stream-ordered memory are counted" {
	logged foreign async
	[ "$(counter async_pools)" -eq 1 ]
	[ "$(counter async_pools_gone)" -eq 0 ]
}

@test "a sticky error is repeated by allocations" {
	same lives fault
	[ "$(grep -c 'cuMemAlloc.*ILLEGAL_ADDRESS' "$BATS_TEST_TMPDIR/preloaded")" -eq 3 ]
}

@test "memory of a green context is the primary context's" {
	needs_driver 12.4
	same lives green
	SIM_DRIVER=12.4 same lives green
}

@test "events of driver memory that ends with its context agree with the counters" {
	KNOBS=(GPUMEM_MODE=trace)
	LEVEL=events logged contexts
	[ "$(counter free_driver)" -gt 50 ]
}

@test "batches of copies answer as natively" {
	needs_driver 12.8
	for program in batch batch_ptsz; do
		same $program
		grep -q '^the second too long: CUDA_ERROR_INVALID_VALUE, failed at 1, arrived 10 0 0$' "$BATS_TEST_TMPDIR/preloaded"
		grep -q '^the second too high: CUDA_ERROR_INVALID_VALUE, failed at -1, arrived 100 0 0$' "$BATS_TEST_TMPDIR/preloaded"
		grep -q '^the second too wide: CUDA_ERROR_INVALID_VALUE, failed at 1, arrived 0 0 0$' "$BATS_TEST_TMPDIR/preloaded"
	done
}

@test "batches of copies between two devices answer as natively" {
	needs_driver 12.8
	SIM_DEVICES=2 same batch peers
	grep -q '^lines that fit: CUDA_SUCCESS, failed at -1, arrived 1000 1000 1000$' "$BATS_TEST_TMPDIR/preloaded"
}

@test "batches of copies between two devices answer as natively for foreign memory" {
	needs_driver 12.8
	SIM_DEVICES=2 same batch foreign
	SIM_DEVICES=2 same batch_ptsz foreign
}

@test "batches of copies between devices that cannot reach each other answer as natively" {
	needs_driver 12.8
	SIM_DEVICES=2 same batch peers
	export SIM_FAIL=$(yes cuDeviceCanAccessPeer:1:101 | head -n 400 | paste -sd,)
	SIM_DEVICES=2 same batch peers
	SIM_DEVICES=2 SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/batch" peers >/dev/null
	[ "$(grep -cx 'cuMemcpyPeerAsync 0' "$BATS_TEST_TMPDIR/trace")" -gt 6 ]
}

@test "each copy of a batch is counted, copies of a refused batch are not" {
	needs_driver 12.8
	logged batch
	# Lines: 6 batches of 3, and in 6 batches the first copy before a bad one. Boxes: 2 of 3, in 2 batches
	# the first; 6 around an array.
	[ "$(counter copy_d2d_calls)" -eq $((18 + 6 + 6 + 2 + 6)) ]
	[ "$(counter copy_other_calls)" -eq 2 ]
	[ "$(counter copy_d2d_bytes)" -eq $((18000 + 60 + 4200 + 200 + 600)) ]
	[ "$(counter bounds_refused)" -eq 16 ]
}
