#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Contexts that are taken over: each has a heap of its own, which ends with the context. Kernels are emulated.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	grep -q '^#define GM_HELPERS 1' config.h || skip 'this build has no code for GPUs'
	[[ $SANITIZE_LIB != *asan* ]] || skip 'AddressSanitizer prints a line about makecontext, which emulates kernels'
	export SIM_MEMORY=512M
}

# prints PART LINE...: the program prints the LINEs under the preload.
prints() {
	local status=0
	SIM_LEAKS=1 preloaded "$PROGRAMS/taken" "$1" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
	cat "$BATS_TEST_TMPDIR/err"
	[ "$status" -eq 0 ]
	printf '%s\n' "${@:2}" | diff -u - "$BATS_TEST_TMPDIR/out"
}

@test "two contexts of a device have heaps of their own" {
	prints contexts 'two contexts: its own heap, apart' 'two contexts: its own heap, apart' \
		"two contexts: the first after the second's end: goes on, 0 strangers"
}

@test "contexts of two devices have heaps of their own" {
	SIM_DEVICES=2 prints devices 'two devices: its own heap, apart' 'two devices: its own heap, apart' \
		"two devices: the first after the second's end: goes on, 0 strangers"
}

@test "kernels of code that launches graphs or kernels, with another malloc of the driver, use the same heap" {
	prints second "the second set: the heap's" '0 strangers'
}

@test "the log and findings say why the malloc of code that launches graphs or kernels stayed the driver's" {
	local nth
	KNOBS=(GPUMEM_LOG=small "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/log.gml")
	for nth in {1..20}; do
		rm -f "$BATS_TEST_TMPDIR/log.gml"
		SIM_FAIL=cuModuleLoadData:$nth:999 preloaded "$PROGRAMS/taken" second >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || true
		if grep -q 'in code that launches graphs or kernels, stays' "$BATS_TEST_TMPDIR/err"; then break; fi
	done
	cat "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/err"
	grep -x "the second set: the driver's" "$BATS_TEST_TMPDIR/out"
	./gpumemstat --json "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/json"
	jq -e --arg why 'in code that launches graphs or kernels: the driver refused the helper module' '.logs[0] |
		(.devices[0].contexts | length == 2 and .[0].taken_over and (.[1] | (.taken_over | not) and (.text | startswith($why))))
		and .devices[0].counters.takeovers == 1 and .devices[0].counters.takeovers_native == 1
		and any(.findings[]; .rule == "kernels_native" and (.text | contains($why)))' "$BATS_TEST_TMPDIR/json" ||
		{ jq '.logs[0] | .findings, .devices[0].contexts' "$BATS_TEST_TMPDIR/json"; return 1; }
}

# The device's pool keeps one reservation. Each heap has its own: forty of them exceed the memory.
one_reservation() {
	grep -x 'gpumem: sim: 1 leaked reservation(s)' "$BATS_TEST_TMPDIR/err"
}

@test "the memory of a heap is idle again after its context was destroyed" {
	prints ends 'one after the other: 40'
	one_reservation
}

@test "a context that was reset is taken over again, with another heap" {
	prints resets 'reset: 40'
	one_reservation
}

@test "a heap ends with the last release of its primary context" {
	prints releases 'released while a kernel runs: 0 waits' 'released twice: grows on' \
		'released by all: another heap'
}

@test "each context keeps the heap limit that the program set there" {
	prints limits 'limits: 32 64'
}

@test "a heap has the limit that the program set, which is fixed once a kernel was launched" {
	local set
	for set in '' 64M; do # GPUMEM_HEAP_LIMIT stands over it
		KNOBS=(${set:+GPUMEM_HEAP_LIMIT=$set} GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/${set:-none}.gml")
		prints fixed 'cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 300 * MIB): CUDA_SUCCESS' \
			'cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB): CUDA_ERROR_INVALID_VALUE' 'limit: 300'
		"$PWD/gpumemstat" --json "$BATS_TEST_TMPDIR/${set:-none}.gml" |
			jq -e --arg set "$set" '[.logs[0].devices[0].contexts[].limit / 1048576] == [if $set == "" then 300 else 64 end]'
	done
}

@test "a heap serves all kernels of one call, and their freed memory is idle when they have ended" {
	KNOBS=(GPUMEM_TRIM_AFTER=off GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	prints together 'launched: CUDA_SUCCESS' 'grown: 1' 'cuMemAlloc_v2(&block, seen - USED / 2): CUDA_SUCCESS'
}

@test "every policy serves the kernels of a context that is taken over" {
	local name names
	names=$(sed -n 's/^GM_POLICY("\([^"]*\)".*/\1/p' "$BATS_TEST_DIRNAME/../../src/heap/device/policy.def")
	[ "$(wc -w <<<"$names")" -eq 12 ]
	for name in $names; do
		KNOBS=(GPUMEM_HEAP="policy:$name" GPUMEM_TRIM_AFTER=off GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/$name.gml")
		prints sizes "$name: 160 of its heap, 160 kept"
		"$PWD/gpumemstat" --json "$BATS_TEST_TMPDIR/$name.gml" >"$BATS_TEST_TMPDIR/json"
		jq -e --arg name "$name" '.logs[0].devices[0] | (.heaps | length == 1 and .[0].policy == $name)
			and .counters.takeovers == 1 and .counters.heap_growth_bytes > 0' "$BATS_TEST_TMPDIR/json" ||
			{ jq .logs[0].devices "$BATS_TEST_TMPDIR/json"; return 1; }
	done
}

# --- idle memory of heaps ---

@test "memory that kernels freed is returned without a request, to the pool and to the driver" {
	local back='back, the driver has it' after
	for after in 1ms 0; do
		KNOBS=(GPUMEM_TRIM_AFTER=$after)
		prints idle "$back" "$back" "$back" 'goes on'
	done
}

@test "a heap trims only after GPUMEM_TRIM_AFTER, and not with off; a thread trims it if necessary" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip "ThreadSanitizer has a thread of its own"
	KNOBS=(GPUMEM_TRIM_AFTER=1h GPUMEM_PREWARM=0)
	prints kept 'nothing to keep, 0 threads' 'kept, 1 threads'
	KNOBS=(GPUMEM_TRIM_AFTER=off)
	prints kept 'nothing to keep, 0 threads' 'kept, 0 threads'
}

@test "a heap does not trim while its own kernels are in flight; other contexts have no effect" {
	for after in 1ms 0; do
		KNOBS=(GPUMEM_TRIM_AFTER=$after)
		prints flight 'another: back' 'another: back' 'in flight: kept' 'ended: back'
	done
}

@test "a heap does not trim while a capture is open" {
	KNOBS=(GPUMEM_TRIM_AFTER=1ms)
	SIM_DEVICES=2 prints capture 'another: back' 'another: back' 'capture: kept' 'ended: back'
}

@test "contexts end while heaps trim" {
	KNOBS=(GPUMEM_TRIM_AFTER=0)
	SIM_YIELD=1 prints race 'one after the other: 40'
	one_reservation
}

@test "the log counts the trims of heaps" {
	KNOBS=(GPUMEM_TRIM_AFTER=1ms GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	preloaded "$PROGRAMS/taken" idle
	"$PWD/gpumemstat" --json "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/json"
	jq -e '.logs[0] | .contradiction == null and (.devices[0].heaps | length == 1 and .[0].shrunk == 3)
		and .devices[0].counters.trim_bytes >= 3 * 67108864' "$BATS_TEST_TMPDIR/json" || { jq .logs[0].devices "$BATS_TEST_TMPDIR/json"; false; }
}

@test "the log names the kernel for which a heap grew" {
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	preloaded "$PROGRAMS/taken" kept
	"$PWD/gpumemstat" --json "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/json"
	jq -e '.logs[0].devices[0].heap_kernels == [{"bytes": 67108864, "growths": 1, "kernel": "churn"}]' "$BATS_TEST_TMPDIR/json"
}

# --- sleep ---

@test "heaps sleep with their process: blocks of kernels keep addresses and bytes; one ends asleep" {
	local after
	export TOOL=$PWD/gpumemstat
	for after in off 1ms; do
		KNOBS=(GPUMEM_SLEEP=1 GPUMEM_TRIM_AFTER=$after GPUMEM_LOG=small,1ms GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
		prints sleeps '24 of its own, asleep 10 times, 0 wrong' 'ends asleep, and stays so' 'goes on'
		# the pool's, and that for questions about pointers
	grep -x 'gpumem: sim: 2 leaked reservation(s)' "$BATS_TEST_TMPDIR/err"
	done
}

# sited [KNOB...]: runs the calls of the part "sites", and writes their figures to $BATS_TEST_TMPDIR/calls
sited() {
	rm -f "$BATS_TEST_TMPDIR/log.gml"
	KNOBS=(GPUMEM_LOG="${LEVEL:-events}" GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml" "$@")
	preloaded "$PROGRAMS/taken" sites >"$BATS_TEST_TMPDIR/out"
	./gpumemstat leaks --json "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/leaks"
	./gpumemstat --json "$BATS_TEST_TMPDIR/log.gml" | jq -e '.logs[0].contradiction == null' >/dev/null
	while read -r call address; do
		jq -r --argjson call "$call" --argjson address "$address" '.logs[0].devices[0].sites[]? | select(.address == $address) |
			"\($call): \(.blocks) of \(.mallocs), \(.bytes), \(.peak); \(.nulls) \(.freed_twice) \(.invalid_frees)"' \
			"$BATS_TEST_TMPDIR/leaks"
	done <"$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/calls"
	jq -r '.logs[0].devices[0].sites[]? | select(.address == null) | "unknown: \(.blocks) of \(.mallocs), \(.bytes); \(.invalid_frees)"' \
		"$BATS_TEST_TMPDIR/leaks" >>"$BATS_TEST_TMPDIR/calls"
}

@test "the log has leaks, wrong frees and NULLs of kernels at the calls that made them" {
	LEVEL=events,0 sited GPUMEM_HEAP_SITES=1
	diff -u - "$BATS_TEST_TMPDIR/calls" <<-'END'
		1: 5 of 5, 5120, 5120; 0 0 0
		2: 0 of 1, 0, 112; 0 0 0
		3: 0 of 0, 0, 0; 0 2 0
		4: 1 of 1, 64, 64; 0 0 1
		5: 0 of 0, 0, 0; 1 0 0
		unknown: 1 of 1, 320; 0
	END
	LEVEL=small sited GPUMEM_HEAP_SITES=1 # only at the end
	./gpumemstat summary -v "$BATS_TEST_TMPDIR/log.gml" | tr -s ' \n' ' ' >"$BATS_TEST_TMPDIR/out"
	grep -q '2 frees in kernels of a block that is already free, 2 of them at 0x' "$BATS_TEST_TMPDIR/out"
	grep -q '7 blocks of malloc in kernels, 5.38 KiB in total, were never freed, most of it from 0x' "$BATS_TEST_TMPDIR/out"
}

@test "calls of kernels are not counted by place without GPUMEM_HEAP_SITES, and with policies that cannot" {
	sited
	[ ! -s "$BATS_TEST_TMPDIR/calls" ]
	sited GPUMEM_HEAP=policy:bump GPUMEM_HEAP_SITES=1
	[ ! -s "$BATS_TEST_TMPDIR/calls" ]
	GPUMEM_HEAP=policy:bump ./gpumemstat summary "$BATS_TEST_TMPDIR/log.gml" >/dev/null
}

@test "counts by place are read before the code at these places ends" {
	KNOBS=(GPUMEM_LOG=small "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/log.gml")
	prints unload 'before an unload: 0 kernels'
	KNOBS+=(GPUMEM_HEAP_SITES=1)
	prints unload 'before an unload: 1 kernels'
}

@test "heaps that count by place grow, shrink and end like others" {
	export GPUMEM_HEAP_SITES=1
	prints sizes 'granule: 160 of its heap, 160 kept'
	prints contexts 'two contexts: its own heap, apart' 'two contexts: its own heap, apart' \
		"two contexts: the first after the second's end: goes on, 0 strangers"
	prints second "the second set: the heap's" '0 strangers'
	prints ends 'one after the other: 40'
}

@test "record counts calls of kernels by place, except with GPUMEM_HEAP_SITES=0" {
	local set n
	for set in :5 GPUMEM_HEAP_SITES=0:0; do
		env ${set%:*} ./gpumemstat record -o "$BATS_TEST_TMPDIR/${set#*:}.gml" -- \
			env LD_LIBRARY_PATH="$SIM" "$PROGRAMS/taken" sites >"$BATS_TEST_TMPDIR/out"
		n=$(./gpumemstat leaks --json "$BATS_TEST_TMPDIR/${set#*:}.gml" | jq '[.logs[0].devices[0].sites[]? | select(.address)] | length')
		[ "$n" -eq "${set#*:}" ]
	done
}
