#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Device heaps of programs, by libgpumem-core alone and under the preload.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	PROGRAMS=$PWD/tests/core
	export SIM_MEMORY=1G
}

# both CASE LINE...: its output, natively and preloaded.
both() {
	grep -q 'define GM_HELPERS' config.h || skip "no nvcc: this build has no heaps"
	[[ $SANITIZE_LIB != *asan* ]] || skip "AddressSanitizer prints a line about makecontext, which emulates kernels"
	needs_driver 12.0
	same heap "$1"
	printf '%s\n' "${@:2}" | diff -u - "$BATS_TEST_TMPDIR/native"
}

@test "a heap grows while a kernel runs, is used, and is returned" {
	export GPUMEM_TRIM_AFTER=0 # no slack is mapped, so a trim during a kernel releases nothing
	both life 'made: 0' 'empty: limit 256 MiB, 1 chunks, 32 MiB, grown 1, shrunk 0, used 0 MiB, live 0' \
		'while a kernel runs: statistics 600, trim 0' \
		'grown: limit 256 MiB, 4 chunks, 122 MiB, grown 4, shrunk 0, used 0 MiB, live 0' \
		'used: limit 256 MiB, 4 chunks, 122 MiB, grown 4, shrunk 0, used 6 MiB, live 4194416' 'trimmed: 90 MiB' \
		'trimmed: limit 256 MiB, 1 chunks, 32 MiB, grown 4, shrunk 3, used 0 MiB, live 0' 'left: 0 MiB'
}

@test "wrong arguments of heap calls are refused" {
	both wrong 'no place: 1' 'no device: 101' 'no heap: 1 1 0' 'statistics of none: 1' 'made: 0' \
		'statistics without a size: 1' 'some of them: 0, 16 bytes, 256 MiB, and 0'
}

@test "a device that was reset: its heap's memory is returned, and another heap is not affected" {
	both reset 'made: 0' 'made: 0' 'another: limit 256 MiB, 1 chunks, 32 MiB, grown 1, shrunk 0, used 0 MiB, live 0' \
		'still: limit 256 MiB, 1 chunks, 32 MiB, grown 1, shrunk 0, used 0 MiB, live 0'
}

@test "a process exits while a kernel of a heap is in flight" {
	both leave 'made: 0' 'grown'
}

@test "a child does not touch its parent's heap" {
	# In a child the leak checker waits for threads of the parent, which do not exist there.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
	both fork 'made: 0' 'child: trim 0' 'child: status 0' \
		'parent: limit 256 MiB, 2 chunks, 56 MiB, grown 2, shrunk 0, used 0 MiB, live 0'
}

@test "GPUMEM_HEAP=off refuses, GPUMEM_HEAP_LIMIT bounds" {
	export GPUMEM_HEAP=off
	both leave 'gpumem: no device heap on device 0: GPUMEM_HEAP=off' 'made: 801'
	export GPUMEM_HEAP=auto GPUMEM_HEAP_LIMIT=8M
	both wrong 'no place: 1' 'no device: 101' 'no heap: 1 1 0' 'statistics of none: 1' 'made: 0' \
		'statistics without a size: 1' 'some of them: 0, 16 bytes, 8 MiB, and 0'
}

# logged CASE LEVEL: its log as JSON, to $BATS_TEST_TMPDIR/json
logged() {
	rm -f "$BATS_TEST_TMPDIR/log.gml"
	KNOBS=(GPUMEM_LOG="$2,0" GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	preloaded "$PROGRAMS/heap" "$1" >"$BATS_TEST_TMPDIR/out"
	"$PWD/gpumemstat" --json "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/json"
}

# holds EXPRESSION: true of the log's first device
holds() {
	jq -e ".logs[0].devices[0] | $1" "$BATS_TEST_TMPDIR/json" >/dev/null ||
		{ echo "$1"; jq .logs[0] "$BATS_TEST_TMPDIR/json"; return 1; }
}

@test "the log has each heap, its growth, and its live bytes" {
	grep -q 'define GM_HELPERS' config.h || skip "no nvcc: this build has no heaps"
	[[ $SANITIZE_LIB != *asan* ]] || skip "as above"
	needs_driver 12.0
	export GPUMEM_TRIM_AFTER=0 # no slack is mapped, so each growth is a quarter of the heap and 16 MiB
	for level in events small; do
		logged life $level
		jq -e '.logs[0].contradiction == null' "$BATS_TEST_TMPDIR/json"
		holds '.counters | .heaps == 1 and .heap_growths == 3 and .heap_growth_bytes == 94371840 and .heap_growth_ns > 0'
		holds '.counters | .heap_mapped == 0 and .heap_mapped_peak == 127926272 and .heap_live == 0 and .heap_live_peak == 4194416'
		holds '.heaps | length == 1 and .[0].own and .[0].ended and .[0].policy == "granule" and .[0].limit == 268435456'
		holds '.heaps[0] | .grown == 4 and .shrunk == 3 and .live_peak == 4194416 and ([.growths[]] | add) == 3'
	done
	# A kernel is in flight at exit, so the heap was never read; the log has the host's figures.
	logged leave small
	holds '.heaps[0] | .ended and .mapped == 58720256 and .live == 0'
	holds '.counters | .heap_samples == 0 and .heap_growths == 1'
}

@test "a heap is read when the program has waited for its work, and otherwise at its calls" {
	grep -q 'define GM_HELPERS' config.h || skip "no nvcc: this build has no heaps"
	[[ $SANITIZE_LIB != *asan* ]] || skip "as above"
	needs_driver 12.0
	for case in wait calls; do
		both $case 'made: 0'
		for level in events small; do
			logged $case $level
			holds '.counters | .heap_samples == 1 and .heap_live == 112'
			holds '.heaps | length == 1 and .[0].live == 112 and .[0].used == 2097152 and .[0].sizes == {"128": 1}'
			holds '.heap_sizes == [{size: 128, live: 1, bytes: 128}]'
		done
	done
}
