#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Children, with and without a cuInit of their own.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
}

@test "forked children get native answers" {
	same forks
}

@test "a forked child has a log of its own" {
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=%p.gml)
	preloaded "$PROGRAMS/forks" >out
	# The parent, and the one child that came before the parent's cuInit and had one.
	[ "$(ls | grep -c 'gml$')" -eq 2 ]
}
