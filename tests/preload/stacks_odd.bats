#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Call stacks of allocations where a walk up the stack ends oddly, or has little stack itself.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	record_events all
}

# odd WAY [NUMBER]: the program ends as natively; functions of its only stack in one line.
odd() {
	rm -f log
	same stacks_odd "$@"
	"$TOOL" live --json log >json
	jq -e '.logs[0].devices[0].groups | length == 1' json
	jq -r '.logs[0].devices[0].groups[0].frames | map(.function // "?") | join(" ")' json >functions
}

made_at_run_time() {
	[ "$(uname -m)" = x86_64 ] || skip "code of x86-64"
	command -v addr2line >/dev/null || skip "no addr2line"
	[ -z "$TEST_UNDER" ] || skip "memcheck does not know the coroutine's stack"
}

@test "a stack ends at the first frame of a coroutine, which returns to any number" {
	made_at_run_time
	for number in 0 1 0x41414141 0xdeaddeaddeaddead 0xdeadc0c0deadc0c0 0xfffffffffffffffe; do
		odd coroutine $number
		[ "$(<functions)" = "odd_leaf coroutine_body" ]
	done
}

@test "a stack ends at code without frame information, whose address it shows" {
	made_at_run_time
	odd made
	[ "$(<functions)" = "odd_leaf ?" ]
	jq -e '.logs[0].devices[0].groups[0].frames[1].object == null' json
}

@test "a stack ends at code that cannot be read" {
	made_at_run_time
	odd unreadable
	[ "$(<functions)" = "odd_leaf ?" ]
}

@test "a stack goes on above code whose frame information is registered" {
	made_at_run_time
	odd registered
	[[ $(<functions) == "odd_leaf ? way_made main "* ]]
}

# stacks WAY: the program ends as natively; blocks and functions of each of its stacks, a line each, sorted.
stacks() {
	rm -f log
	same stacks_odd "$@"
	"$TOOL" live --json log >json
	jq -r '.logs[0].devices[0].groups[] | "\(.blocks) " + (.frames | map(.function // "?") | join(" "))' json | sort >functions
	cat functions
}

@test "frames of one function with different lengths, where old return addresses lie around, are told apart" {
	command -v addr2line >/dev/null || skip "no addr2line"
	stacks lengths
	[ "$(wc -l <functions)" -eq 2 ]
	grep -q '^2 odd_leaf length_inner length_first way_lengths main ' functions
	grep -q '^2 odd_leaf length_inner length_second way_lengths main ' functions
}

@test "a stack that was known deeper is not read beyond its end" {
	command -v addr2line >/dev/null || skip "no addr2line"
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "a tool that does not know the coroutine's stack"
	stacks shorter
	refute grep -v '^[12] odd_leaf length_inner length_run' functions
}

@test "a stack that ends at the fault of a call of NULL does not shorten those of later faults" {
	command -v addr2line >/dev/null || skip "no addr2line"
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "a tool that handles faults"
	stacks faults
	[ "$(grep -c '^[12] odd_leaf fault_handle .*fault_make way_faults main' functions)" -ge 1 ]
	[ "$(awk '/fault_make way_faults/ {n += $1} END {print n + 0}' functions)" -eq 2 ]
}

@test "a thread with a stack of 16 KiB allocates with stacks" {
	[ -z "$SANITIZE_LIB$COVERAGE$TEST_UNDER" ] || skip "frames of such a build are larger"
	odd thread 16
	jq -e '.logs[0].devices[0].groups[0].blocks == 100' json
}

@test "a signal handler on a stack of 8 KiB allocates with stacks" {
	[ -z "$SANITIZE_LIB$COVERAGE$TEST_UNDER" ] || skip "frames of such a build are larger"
	odd signal 8
	jq -e '.logs[0].devices[0].groups[0].blocks == 100' json
}

# used: KNOBS: bytes of stack of each allocation of small_stack, a line each. Its functions are bound when it
# starts: the dynamic linker needs much stack for that.
used() {
	"$@" "$PROGRAMS/small_stack" 0 2>/dev/null | sed -n 's/^cuMemAlloc(&block, \(SIZE\|1000\)): \([0-9]*\) bytes.*/\2/p'
}

@test "an allocation with a call stack takes at most 3 KiB of its thread's stack beside the driver's, 2 KiB of it for the call stack" {
	[ -z "$SANITIZE_LIB$COVERAGE$TEST_UNDER" ] || skip "frames of such a build are larger"
	export LD_BIND_NOW=1
	used native >natively || true
	used preloaded >stacks || true
	KNOBS+=(GPUMEM_STACKS=off)
	used preloaded >none || true
	[ "$(cat natively stacks none | wc -l)" -eq 6 ]
	paste natively none stacks
	paste natively none stacks | awk '$3 - $1 > 3072 || $3 - $2 > 2048 { exit 1 }'
}
