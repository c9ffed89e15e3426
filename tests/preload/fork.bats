#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Children, with and without a cuInit of their own.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	# In a child the leak checker waits for threads of the parent, which do not exist there, and prints a line.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
}

@test "forked children get native answers" {
	same forks
	KNOBS=(GPUMEM_SLEEP=1)
	same forks
}

@test "a forked child has a log of its own" {
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=%p.gml)
	preloaded "$PROGRAMS/forks" >out
	# Logs of the parent, and of the only child that was forked before the parent's cuInit and called
	# cuInit.
	[ "$(ls | grep -c 'gml$')" -eq 2 ]
}
