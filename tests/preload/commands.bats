#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# A thousand commands that do not use CUDA: the preload does nothing in them. Run in the build folder.

setup() {
	[ -z "$SANITIZE_LIB$COVERAGE" ] || skip "a sanitizer's runtime is not silent, nor is gcov's"
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	CONFINE=$PROGRAMS/containers_confine
	WITNESS=$PROGRAMS/libwitness.so
	COMMANDS=$BATS_TEST_DIRNAME/commands.sh
	# No command may make a thread, or an object that we make only after a successful cuInit.
	WATCHED=("$CONFINE" threads=0 trap=memfd_create,io_uring_setup,perf_event_open,pidfd_open,userfaultfd --)
	export WITNESS_COUNT=$BATS_TEST_TMPDIR/count TMPDIR=$BATS_TEST_TMPDIR/tmp HOME=$BATS_TEST_TMPDIR/home
	mkdir "$TMPDIR" "$HOME" "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
	: >"$WITNESS_COUNT"
	printf '%s\n' one two three >words
	KNOBS=(GPUMEM_LOG=events GPUMEM_VERBOSE=4 GPUMEM_NO_SUCH_KNOB=1)
}

# All logs and messages that the preload could have written.
under() {
	env LD_LIBRARY_PATH="$SIM" "${KNOBS[@]}" LD_PRELOAD="$1" "${@:2}" 2>&1
}

@test "commands without CUDA: the preload has no output, file, thread, or call" {
	"${WATCHED[@]}" "$COMMANDS" >"$BATS_TEST_TMPDIR/native" 2>&1
	under "$WITNESS:$LIBRARY" "${WATCHED[@]}" "$COMMANDS" >"$BATS_TEST_TMPDIR/preloaded"
	diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
	[ "$(wc -c <"$WITNESS_COUNT")" -ge 1000 ]
	[ "$(ls -A "$BATS_TEST_TMPDIR/work" "$TMPDIR" "$HOME")" = "$(printf '%s\n' "$HOME:" '' "$TMPDIR:" '' "$BATS_TEST_TMPDIR/work:" words)" ]
}

@test "the watch on commands catches the calls of a CUDA program" {
	under "$WITNESS:$LIBRARY" "$PROGRAMS/answers" >"$BATS_TEST_TMPDIR/said"
	# open, write and similar calls are direct system calls (base/sys.h), so the check is on their files
	# and lines.
	for call in calloc dlopen malloc memfd_create mmap secure_getenv; do
		grep -qx "libgpumem.so calls $call" "$BATS_TEST_TMPDIR/said"
	done
	run under "$LIBRARY" "$CONFINE" threads=0 -- "$PROGRAMS/race"
	[ "$status" -eq 159 ]
	run under "$LIBRARY" "$CONFINE" trap=memfd_create -- "$PROGRAMS/answers"
	[ "$status" -eq 159 ]
}
