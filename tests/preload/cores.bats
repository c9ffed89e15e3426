#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The cores of copy threads are those of the process, not of the thread that copies first.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	KNOBS=(GPUMEM_COPY=2)
	[ "$(printf '%s\n' 5.14 "$(uname -r)" | sort -V | head -n 1)" = 5.14 ] || skip "needs Linux 5.14"
	[ "$(nproc)" -ge 2 ] || skip "needs two cores"
	mapfile -t CORES < <(cores)
}

# The numbers of the cores of this process, one a line.
cores() {
	sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr ',' '\n' |
		while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done
}

@test "a thread that is bound to one core makes copy threads with all cores of the process" {
	for when in bound later; do
		[ "$(preloaded taskset -c "${CORES[0]},${CORES[1]}" "$PROGRAMS/cores" $when)" = "2 threads, 4 cores" ]
	done
}

@test "copy threads have no core that the process was not given" {
	for when in bound later; do
		[ "$(preloaded taskset -c "${CORES[1]}" "$PROGRAMS/cores" $when)" = "2 threads, 2 cores" ]
	done
}

@test "the cores of every thread of the process count" {
	[ "$(preloaded taskset -c "${CORES[0]}" "$PROGRAMS/cores" widened)" = "2 threads, $((2 * $(nproc))) cores" ]
}
