#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Messages on standard error: their destination, and that none stops, delays or ends the program.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LIMIT=much)
	BAD='^gpumem: GPUMEM_LIMIT=much: '
	SHORT='^gpumem: out of memory on device 0'
}

# goes_on CASE [FILE]: the program goes on with this state of descriptor 2; the file err gets its standard
# error.
goes_on() {
	rm -f file
	preloaded "$PROGRAMS/stderr" "$@" >out 2>err
	cat out err
	[ "$(cat out)" = "$1: goes on" ]
}

@test "a bad knob and a lack of memory are reported on standard error" {
	goes_on plain
	[ "$(grep -c "$BAD" err)" -eq 1 ]
	[ "$(grep -c "$SHORT" err)" -eq 1 ]
}

@test "standard error is a pipe without a reader: no SIGPIPE" {
	goes_on no_reader
}

@test "standard error is a full pipe: the line is dropped" {
	goes_on full
}

@test "standard error is a file at the limit of file size: no SIGXFSZ" {
	goes_on limit file
	[ -f file ]
	[ ! -s file ]
}

@test "standard error is a terminal that stops writers: no SIGTTOU" {
	[ -z "$TEST_UNDER" ] || skip "valgrind writes to the terminal itself"
	goes_on background
}

@test "standard error closed at the start: a file that the program opens as descriptor 2 stays its own" {
	[ -z "$TEST_UNDER" ] || skip "valgrind does not start without standard error"
	for when in opened then_opened; do
		rm -f file
		preloaded "$PROGRAMS/stderr" $when file >out 2>&-
		[ "$(cat out)" = "$when: goes on" ]
		[ -f file ]
		[ ! -s file ]
	done
}

@test "standard error closed by the program: a later file as descriptor 2 gets no line" {
	goes_on closed file
	[ -f file ]
	[ ! -s file ]
	goes_on then_reopened file
	[ -f file ]
	[ ! -s file ]
	grep -q "$BAD" err
}

@test "lines follow a redirection before cuInit, and a redirection of both outputs after it" {
	goes_on redirected file
	[ ! -s err ]
	grep -q "$BAD" file
	grep -q "$SHORT" file
	goes_on then_both file
	grep -q "$BAD" err
	grep -q "$SHORT" file
}
