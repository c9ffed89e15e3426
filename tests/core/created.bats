#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Memory of cuMemCreate and managed memory leave the device in a sleep, and return.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	needs_driver 12.5
	PROGRAMS=$PWD/tests/core
	export SIM_MEMORY=512M
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_VERBOSE=0)
}

@test "memory of cuMemCreate sleeps: contents, aliases, handles, access; exported memory stays" {
	run preloaded "$PROGRAMS/created" cases
	echo "$output"
	[ "$output" = $'sleeps\nbooks\nstays' ]
}

@test "managed memory goes to the host in a sleep; what the driver refuses stays, and the process sleeps" {
	run preloaded "$PROGRAMS/created" managed
	echo "$output"
	[ "$output" = 'managed: right' ]
}

@test "random calls on memory of cuMemCreate between sleeps keep all contents" {
	run preloaded "$PROGRAMS/created" random 7 800
	[ "$output" = 'random: right' ]
	KNOBS+=(GPUMEM_SLEEP_STORE=64M)
	run preloaded "$PROGRAMS/created" random 8 800
	[ "$output" = 'random: right' ]
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_SLEEP_STORE="$BATS_TEST_TMPDIR")
	run preloaded "$PROGRAMS/created" random 9 200
	[ "$output" = 'random: right' ]
}

@test "a failing call of the driver in a move of memory of cuMemCreate loses no contents" {
	run preloaded "$PROGRAMS/created" failing
	echo "$output"
	[ "${lines[-1]}" = 'failing: right' ]
	[ "$status" -eq 0 ]
}
