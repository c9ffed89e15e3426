#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_LEND: parts of PyTorch's cached segments that no tensor uses serve other allocations.
# LEND_OPERATIONS: of the soak's runs, 4,000.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	ulimit -c 0
	# A tensor that is refused stays allocated in the cache for ever, as in PyTorch.
	export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
	export SIM_MEMORY=256M
	cd "$BATS_TEST_TMPDIR"
	TOOL=$OLDPWD/gpumemstat
	OPERATIONS=${LEND_OPERATIONS:-4000}
}

# lends PROGRAM ARGUMENT...: its output is in `out`, gpumem's lines in `said`, the counters in `counts`.
lends() {
	needs_driver 12.5
	local status=0
	rm -f log out said counts
	KNOBS=(GPUMEM_LEND=1 GPUMEM_LOG=small GPUMEM_LOG_NAME=log)
	preloaded "$PROGRAMS/$1" "${@:2}" >out 2>said || status=$?
	drop_notices said
	"$TOOL" summary --json log | jq '.logs[0] | .devices[0].counters + .counters' >counts
	return "$status"
}

counted() {
	jq -e "$1" counts >/dev/null || { grep '"lend_' counts; return 1; }
}

printed() {
	grep -qx -- "$1" out || { cat out; return 1; }
}

# The memory that a case looked at has the contents that were written there.
intact() {
	grep -q ': 0 pages are wrong$' out
	refute grep ': [1-9][0-9]* pages are wrong$' out
}

# soaks ARGUMENT...: without wrong contents, while memory was lent.
soaks() {
	lends lend_soak "$@" || { cat out said; return 1; }
	grep -qx '0 words were wrong, 0 captures were lost' out
	counted '.lend_bytes > 0 and .lend_returned > 0 and .lend_off == 0'
}

@test "the cache of these tests: contents are intact natively and without lending, also while memory is short" {
	same lend_soak 1 4 "$OPERATIONS" graphs
	same lend_soak 2 1 "$OPERATIONS" graphs runtime
}

@test "the cache of these tests: a cache that forgets recordStream is noticed" {
	run native "$PROGRAMS/lend_soak" 3 4 4000 forgets
	[ "$status" -ne 0 ]
}

@test "lend: random tensors in threads, streams and graphs are intact" {
	soaks 4 4 "$OPERATIONS"
	soaks 5 4 "$OPERATIONS" graphs
	soaks 6 1 "$OPERATIONS" graphs runtime
}

@test "lend: the cache frees no segment, and tensors are intact" {
	soaks 7 4 "$OPERATIONS" kept
	soaks 8 3 "$OPERATIONS" kept graphs
}

@test "lend: random tensors are intact however threads take turns" {
	export SIM_YIELD=1
	soaks 9 4 "$OPERATIONS" graphs
}

# dies OPTION: without lending the program succeeds; with it, it faults or has wrong contents.
dies() {
	local seed
	preloaded "$PROGRAMS/lend_soak" 1 4 4000 graphs kept "$1" >/dev/null 2>&1
	for seed in 1 2 3 4 5; do
		lends lend_soak "$seed" 4 20000 graphs kept "$1" || return 0
	done
	return 1
}

@test "lend: without a fence the soak faults" {
	dies unfenced
}

@test "lend: with a fence of all streams but one the soak faults" {
	dies unfenced1
}

@test "lend: if captures are not seen the soak faults" {
	dies unseen
}

@test "lend: an unused segment serves a block of the program, and has memory again for tensors" {
	for runtime in '' libcudart.so.13; do
		lends lend_cases lent $runtime
		printed 'block, 160 MiB: CUDA_SUCCESS'
		printed 'tensor beside it, 64 MiB: made'
		printed 'the rest of the segment, 96 MiB: made'
		printed 'segments freed: 1'
		intact
		counted '.lend_calls >= 1 and .lend_bytes == 167772160 and .lend_returned == 80'
		counted '.lend_vacant == 0 and .lend_host == 0 and .lend_refused == 0'
		[ ! -s said ]
	done
}

@test "lend: an unused segment serves other tensors" {
	lends lend_cases cached
	printed 'larger tensor, 180 MiB: made'
	printed 'tensor, 40 MiB: made'
	intact
	counted '.lend_returned == 20 and .lend_refused == 0'
}

@test "lend: memory that work still uses is awaited" {
	lends lend_cases late
	printed 'block, 160 MiB: CUDA_SUCCESS'
	intact
}

@test "lend: without GPUMEM_LEND nothing is lent" {
	preloaded "$PROGRAMS/lend_cases" lent >out 2>said
	printed 'block, 160 MiB: CUDA_ERROR_OUT_OF_MEMORY'
}

@test "lend: nothing is lent when NCCL registers the segments of PyTorch, and one line says so" {
	export TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=1
	lends lend_cases lent
	printed 'block, 160 MiB: CUDA_ERROR_OUT_OF_MEMORY'
	counted '.lend_bytes == 0'
	[ "$(grep -c "GPUMEM_LEND has no effect: NCCL registers segments" said)" -eq 1 ]
	export TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=0
	lends lend_cases lent
	counted '.lend_bytes > 0'
	refute grep 'has no effect' said
}

@test "lend: a block of the program's own is not lent" {
	lends lend_cases own
	printed 'another one, 160 MiB: CUDA_ERROR_OUT_OF_MEMORY'
	intact
}

@test "lend: a segment that was named to another process is not lent" {
	export SIM_MEMFD=1
	lends lend_cases named
	printed 'block, 160 MiB: CUDA_ERROR_OUT_OF_MEMORY'
	intact
	counted '.lend_bytes == 0'
}

@test "lend: what a capture touched stays until the segment is freed" {
	lends lend_cases captured
	[ "$(grep -c '^block, 160 MiB: CUDA_ERROR_OUT_OF_MEMORY$' out)" -eq 1 ]
	[ "$(grep -c '^block, 160 MiB: CUDA_SUCCESS$' out)" -eq 1 ]
	intact
	counted '.lend_bytes == 0'
}

@test "lend: without memory of the device a tensor gets memory of the host, then PyTorch's own error" {
	lends lend_cases host
	printed 'tensor, 6 MiB: made'
	printed 'larger tensor, 32 MiB: refused'
	printed '1 were thrown'
	printed 'larger tensor, 32 MiB: made' # once the block was freed
	intact
	counted '.lend_refused == 1 and .lend_host_peak == 8388608'
	[ "$(wc -l <said)" -eq 1 ]
}

@test "lend: memory of the host below a graph stays when another graph gets it" {
	lends lend_cases graphs
	printed 'the same memory: 1'
	intact
	counted '.lend_host_peak == 8388608'
}

@test "lend: a new segment's memory is not taken before the work of its former block has ended" {
	GPUMEM_FREE=ordered lends lend_cases hot
	printed 'the same memory: 1'
	printed 'block, 248 MiB: CUDA_SUCCESS'
	intact
}

@test "lend: a lack of memory of the host, or of another device, takes nothing" {
	SIM_DEVICES=2 lends lend_cases elsewhere
	printed 'host: CUDA_ERROR_OUT_OF_MEMORY'
	printed 'device 1: CUDA_ERROR_OUT_OF_MEMORY'
	counted '.lend_bytes == 0'
}

@test "lend: a tensor in memory of the host is not shared with another process" {
	export SIM_MEMFD=1
	lends lend_cases shared
	printed 'handle: CUDA_ERROR_OUT_OF_MEMORY'
	intact
}

@test "lend: a segment that is named while its memory is taken has all of it afterwards" {
	export SIM_MEMFD=1
	for first in 0 64 120 144 150 170 200; do
		LEND_UNMAPS=$first lends lend_cases naming
		intact
	done
}

# ends WHY CASE: lending ends with one line, and contents are intact, also in memory of the host.
ends() {
	lends lend_cases "$2"
	printed 'small tensor, 2 MiB: made'
	printed 'third tensor, 32 MiB: made'
	intact
	counted '.lend_off == 1 and .lend_refused == 0'
	[ "$(grep -c "GPUMEM_LEND ends on device 0: .*$1" said)" -eq 1 ]
	lends lend_soak 10 4 4000 graphs "${2#ends_}" || { cat out said; return 1; }
	counted '.lend_bytes > 0 and .lend_off == 1'
	[ "$(grep -c "GPUMEM_LEND ends on device 0: .*$1" said)" -eq 1 ]
}

@test "lend: another sum of tensors ends it" {
	ends 'its own sum of tensors differs' ends_sum
}

@test "lend: a tensor that nobody has, taken back, ends it" {
	ends 'it took back a tensor that it had not handed out' ends_free
}

@test "lend: a tensor that is handed out twice ends it" {
	ends 'it handed out memory twice' ends_twice
}

# fails OPTION...: calls of the driver fail, one in each run: some 20 of each kind, 3 under a slow sanitizer.
fails() {
	needs_driver 12.5
	local call n i most=${SANITIZE_LIB:+3}
	KNOBS=(GPUMEM_LEND=1)
	rm -f trace
	SIM_TRACE=trace preloaded "$PROGRAMS/lend_soak" 3 2 600 calm "$@" >out 2>said || { cat out said; return 1; }
	for call in cuMemUnmap cuMemMap cuMemSetAccess cuMemCreate cuMemRelease cuCtxRecordEvent cuEventCreate \
		cuEventQuery; do
		n=$(grep -c "^$call " trace) || [ "$n" = 0 ] # such as cuMemRelease, by turns of threads
		for ((i = 1; i <= n; i += (n + ${most:-20} - 1) / ${most:-20})); do
			SIM_FAIL=$call:$i preloaded "$PROGRAMS/lend_soak" 3 2 600 calm "$@" >out 2>said ||
				{ echo "$call:$i"; cat out said; return 1; }
		done
	done
}

@test "lend: any call of the driver may fail" {
	fails
	fails kept graphs budget=85
}
