#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Frames of Python that are read without its lock are those of its own account, on each Python of this machine.
# PYTHONS names others; FRAMES_CAPTURES is the number of captures beside busy threads.

setup_file() {
	local python
	# ThreadSanitizer cannot follow the interpreter's locks.
	[[ ${SANITIZE_LIB:-} != *tsan* ]] || skip "not under ThreadSanitizer"
	[ -z "$TEST_UNDER" ] || skip "not under memcheck"
	PYTHON_LIST=
	for python in ${PYTHONS:-python3 /usr/bin/python3 ~/.pyenv/versions/*/bin/python3}; do
		python=$("$python" -c 'import sys; print((3, 9) <= sys.version_info[:2] <= (3, 14) and sys.executable)' 2>/dev/null) || continue
		[[ ! -x $python || " $PYTHON_LIST " == *" $python "* ]] || PYTHON_LIST+="$python "
	done
	[ -n "$PYTHON_LIST" ] || skip "no Python of 3.9 to 3.14"
	export PYTHON_LIST
	FRAMES_LIB=$PWD/tests/frames/libframes.so
	export FRAMES_LIB
	ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
	export ASAN_OPTIONS
	SOURCES=$BATS_TEST_DIRNAME
	export SOURCES
}

# frames PYTHON WAY [COUNT]: its last line.
frames() {
	local python=$1
	shift
	LD_PRELOAD=${SANITIZE_LIB:-} timeout 300 "$python" "$SOURCES/frames.py" "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || {
		cat "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/err"
		return 1
	}
	cat "$BATS_TEST_TMPDIR/out"
	tail -n 1 "$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/last"
}

# equal LEAST WAY [COUNT]: on each Python at least so many stacks are compared, and none differs.
equal() {
	local least=$1 python last
	shift
	for python in $PYTHON_LIST; do
		echo "$python $*"
		frames "$python" "$@"
		last=$(<"$BATS_TEST_TMPDIR/last")
		[[ $last =~ ^([0-9]+)\ stacks,\ [0-9]+\ frames,\ 0\ different$ ]]
		[ "${BASH_REMATCH[1]}" -ge "$least" ]
	done
}

@test "calls, generators, classes, texts, coroutines and callbacks of C, with and without the lock" {
	equal 500 everything
}

@test "the same under settrace, setprofile and sys.monitoring" {
	equal 1000 traced
}

@test "the same in three threads, and no frame in a thread of C" {
	equal 1500 threads
}

@test "the same in a thread, while the main thread waits from the start on" {
	equal 600 waits
}

@test "audit hooks and profilers of the program see nothing of the self-check" {
	equal 600 unseen
}

@test "the same in a forked child and its threads" {
	equal 500 fork
}

@test "the same after subinterpreters, whose own frames are read from 3.12 on" {
	equal 500 subinterpreters
}

@test "captures in four threads, while three others compile, collect, trace and look at frames" {
	equal "${FRAMES_CAPTURES:-5000}" busy "${FRAMES_CAPTURES:-5000}"
}

@test "the interpreter ends while three threads capture" {
	local i
	for ((i = 0; i < 3; i++)); do
		equal 0 ends
	done
}

# Member 7, the owner of a frame, only decides whether a frame that has not begun, or is of no function, is hidden.
@test "a layout that differs in one member is refused by the self-check, or gives the same frames" {
	local python member by refused=0
	[ -z "${SANITIZE_LIB:-}" ] || skip "a wrong layout reads past objects"
	for python in $PYTHON_LIST; do
		for member in 0 1 2 3 4 5 6 8 9 10 11; do
			by=$((member % 2 ? 8 : -4))
			echo "$python: member $member wrong by $by"
			FRAMES_WRONG=$member:$by frames "$python" everything
			case $(<"$BATS_TEST_TMPDIR/last") in
			refused)
				grep -q '^stacks: this Python is not laid out as its version says, so threads that released its lock have C frames only$' \
					"$BATS_TEST_TMPDIR/err"
				refused=$((refused + 1))
				;;
			*", 0 different") ;;
			*) return 1 ;;
			esac
		done
	done
	[ "$refused" -ge $((7 * $(wc -w <<<"$PYTHON_LIST"))) ]
}
