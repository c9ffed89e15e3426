#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Contexts that are taken over: each has a heap of its own, which ends with it. Kernels are emulated.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	grep -q '^#define GM_HELPERS 1' config.h || skip 'this build has no code for GPUs'
	[[ $SANITIZE_LIB != *asan* ]] || skip 'AddressSanitizer prints a line about makecontext, which emulates kernels'
	[ -z "$TEST_UNDER" ] || skip 'memcheck takes the lanes of an emulated kernel for one thread with a broken stack'
	export SIM_MEMORY=512M
}

# prints PART LINE...: what it prints under the preload.
prints() {
	SIM_LEAKS=1 preloaded "$PROGRAMS/taken" "$1" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	cat "$BATS_TEST_TMPDIR/err"
	printf '%s\n' "${@:2}" | diff -u - "$BATS_TEST_TMPDIR/out"
}

@test "two contexts of a device" {
	prints contexts 'two contexts: its own heap, apart' 'two contexts: its own heap, apart' \
		"two contexts: the first after the second's end: goes on, 0 strangers"
}

@test "contexts of two devices" {
	SIM_DEVICES=2 prints devices 'two devices: its own heap, apart' 'two devices: its own heap, apart' \
		"two devices: the first after the second's end: goes on, 0 strangers"
}

# The pool of the device keeps one reservation; a heap has one of its own, and forty of them more memory than there is.
one_reservation() {
	grep -x 'gpumem: sim: 1 leaked reservation(s)' "$BATS_TEST_TMPDIR/err"
}

@test "the memory of a heap is there again when its context was destroyed" {
	prints ends 'one after the other: 40'
	one_reservation
}

@test "a context that was reset is taken over again, with another heap" {
	prints resets 'reset: 40'
	one_reservation
}

@test "the heap ends with the last release of a primary context" {
	prints releases 'released once: goes on' 'released twice: another heap'
}

@test "each context keeps the limit that the program set there" {
	prints limits 'limits: 32 64'
}
