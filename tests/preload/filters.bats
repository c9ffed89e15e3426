#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Filters of system calls that know the program, and not the library. gpumem-programs(7) lists what the library calls.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	MANUAL=$BATS_TEST_DIRNAME/../../man/gpumem-programs.7
	HEADER=$(ls /usr/include/*/asm/unistd_64.h /usr/include/asm/unistd_64.h 2>/dev/null | head -n 1)
	[ "$(uname -m)" = x86_64 ] || skip "numbers of x86-64"
	[ -n "$HEADER" ] || skip "no header with the numbers of calls"
	[ -z "$SANITIZE_LIB$COVERAGE$TEST_UNDER" ] || skip "a tool with calls of its own"
	cd "$BATS_TEST_TMPDIR"
	# What the program, the C library and the simulated driver call.
	NATIVE=$(numbers brk clock_nanosleep clone3 close exit exit_group ftruncate futex getpid getrandom madvise memfd_create mmap \
		mprotect munmap newfstatat prctl pwrite64 rseq rt_sigaction rt_sigprocmask seccomp set_robust_list write)
	native "$PROGRAMS/filtered" before kill $NATIVE >native || skip "no filters here"
	[ -s native ]
}

# numbers CALL...: of these calls, in one line.
numbers() {
	local call
	for call; do
		awk -v name="__NR_$call" '$2 == name { print $3; found = 1 } END { exit !found }' "$HEADER"
	done | sort -nu | tr '\n' ' '
}

# listed WHEN: the calls in the manual that are made in cuInit, or afterwards.
listed() {
	awk -v when="^[.]It $1" '/^[.](It|El)/ { on = $0 ~ when } on && sub("^[.]Li ", "")' "$MANUAL"
}

# alike WHEN ANSWER NUMBER...: the output is the native one, but for messages.
alike() {
	local sleep
	for sleep in 0 1; do
		rm -f ./*.gml
		env LD_LIBRARY_PATH="$SIM" LD_PRELOAD="$LIBRARY" GPUMEM_SLEEP=$sleep "$PROGRAMS/filtered" "$@" >preloaded
		diff -u native preloaded
	done
}

@test "the manual lists the calls of cuInit, and those afterwards" {
	[ "$(listed 'in Fn cuInit' | wc -w)" -gt 20 ]
	[ "$(listed afterwards | wc -w)" -gt 40 ]
	alike before kill $NATIVE $(numbers $(listed 'in Fn cuInit') $(listed afterwards))
	alike after kill $NATIVE $(numbers $(listed afterwards))
}

@test "the program goes on where all other calls are refused" {
	alike before EPERM $NATIVE
	alike after EPERM $NATIVE
}
