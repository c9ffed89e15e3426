#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumem_sleep and gpumem_wake: a program's own sleep.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	needs_driver 12.5
	PROGRAMS=$PWD/tests/core
}

@test "a program puts itself to sleep, and wakes, with all bytes" {
	KNOBS=(GPUMEM_SLEEP=1)
	run preloaded "$PROGRAMS/nap" nap
	[ "$output" = $'sleep: 0\nsleep: 0\nit sleeps: yes\nwake: 0\nwake: 0\nit is awake: yes\nsleep: 0\nit sleeps: yes\nall bytes are there: yes' ]
	run preloaded "$PROGRAMS/nap" alone # before its first allocation
	[ "$output" = 'sleep: 0, wake: 0' ]
}

@test "threads put their process to sleep and wake it, while others submit work" {
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_VERBOSE=0)
	run preloaded "$PROGRAMS/nap" threads
	[[ $output = *' 0 wrong' ]]
}

@test "gpumem_sleep says why not: no preload, no GPUMEM_SLEEP, a capture, a child, memory that stays, a bad folder" {
	run native "$PROGRAMS/nap" alone
	[ "$output" = 'sleep: 801, wake: 801' ]
	run preloaded "$PROGRAMS/nap" alone
	[ "$output" = 'sleep: 801, wake: 801' ]
	KNOBS=(GPUMEM_SLEEP=1)
	run preloaded "$PROGRAMS/nap" in_capture
	[ "$output" = $'sleep: 600\nit sleeps: no\nsleep: 0\nit sleeps: yes' ]
	run preloaded "$PROGRAMS/nap" in_child
	[ "$output" = $'sleep: 3, wake: 3\nchild: status 0' ]
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_REMAP=off GPUMEM_VERBOSE=2)
	run preloaded "$PROGRAMS/nap" alone
	grep -qx 'gpumem: does not sleep: memory keeps its addresses, by GPUMEM_REMAP=off' <<<"$output"
	grep -qx 'sleep: 801, wake: 0' <<<"$output"
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_SLEEP_STORE=/none GPUMEM_VERBOSE=0)
	run preloaded "$PROGRAMS/nap" alone
	[ "$output" = 'sleep: 999, wake: 0' ]
}
