#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# System calls of the preload fail, one place and one errno at a time: faulty.py. By default each 24th of them does;
# FAULTY_EVERY=1 has all.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	[ -z "$TEST_UNDER" ] || skip "takes hours under valgrind"
	export LD_LIBRARY_PATH=$SIM SIM_MEMORY=256M SIM_SHARE=$BATS_TEST_TMPDIR/device EVERY=${FAULTY_EVERY:-24}
}

# The printed numbers of failures are shown, whether the test passes or not.
fail_in_turn() {
	run python3 "$BATS_TEST_DIRNAME/faulty.py" "$1"
	echo "$output"
	sed 's/^/# /' <<<"$output" >&3
	[ "$status" -eq 0 ]
}

@test "system calls of a start fail in turn: the program runs, and sleeps or has said why not" {
	fail_in_turn join
}

@test "system calls of a sleep and a wake with host memory fail in turn: all bytes are there, and the next one works" {
	fail_in_turn sleep
}

@test "system calls of a sleep and a wake with a folder fail in turn: all bytes are there, and the next one works" {
	fail_in_turn folder
}

@test "system calls of a staged copy fail in turn: all bytes are there" {
	fail_in_turn copy
}

@test "system calls for the idle memory of another process fail in turn, and the next request works" {
	fail_in_turn ask
}

@test "system calls of a process that exports memory fail in turn: it is opened or refused, and the next open works" {
	fail_in_turn exporter
}

@test "system calls of a process that opens memory fail in turn: it is opened or refused, and the next open works" {
	fail_in_turn importer
}

@test "a process is killed at each system call of the beginning of its log: one line says so, and other logs are read" {
	fail_in_turn kills
}
