#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# A pool's idle memory makes no call run out of memory: each row of hooks.def with RETRY.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	export SIM_MEMORY=256M
}

@test "each RETRY row of hooks.def has a case" {
	run native "$PROGRAMS/retry" list
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq "$(grep -c '^GM_HOOK(.*RETRY' "$BATS_TEST_DIRNAME/../../src/driver/hooks.def")" ]
}

# Refused for a symbol that an old driver lacks: the native run shows it.
is_newer() {
	[ "${SIM_DRIVER:-13.4}" != 13.4 ] && grep -qx "$1: CUDA_ERROR_NOT_FOUND" "$BATS_TEST_TMPDIR/native"
}

# calls_of KIND: the expected number of calls in the driver.
calls_of() {
	if [ "$1" = pool ]; then echo 0; else echo 2; fi
}

@test "each RETRY call takes 90% of a device that was 95% full and is idle" {
	native "$PROGRAMS/retry" list >"$BATS_TEST_TMPDIR/rows"
	while read -r symbol kind; do
		native "$PROGRAMS/retry" take "$symbol" >"$BATS_TEST_TMPDIR/native" 2>"$BATS_TEST_TMPDIR/native.calls" || is_newer "$symbol"
		if is_newer "$symbol"; then continue; fi
		preloaded "$PROGRAMS/retry" take "$symbol" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/calls"
		diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
		[ "$(cat "$BATS_TEST_TMPDIR/preloaded")" = "$symbol: CUDA_SUCCESS" ]
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/native.calls")" = '1 calls reached the driver' ]
		# The pool itself uses cuMemCreate, too.
		echo "$symbol: $(cat "$BATS_TEST_TMPDIR/calls")"
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/calls")" = "$(calls_of "$kind") calls reached the driver" ]
	done <"$BATS_TEST_TMPDIR/rows"
}

@test "each RETRY call fails as natively when memory is too small, and writes the same bytes" {
	native "$PROGRAMS/retry" list >"$BATS_TEST_TMPDIR/rows"
	while read -r symbol kind; do
		native "$PROGRAMS/retry" fail "$symbol" >"$BATS_TEST_TMPDIR/native" 2>/dev/null || is_newer "$symbol"
		if is_newer "$symbol"; then continue; fi
		preloaded "$PROGRAMS/retry" fail "$symbol" >"$BATS_TEST_TMPDIR/preloaded" 2>/dev/null
		diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
		grep -qx "$symbol: CUDA_ERROR_OUT_OF_MEMORY" "$BATS_TEST_TMPDIR/preloaded"
	done <"$BATS_TEST_TMPDIR/rows"
}

@test "a call that a capture forbids is not retried, an allowed one is" {
	same retry capture
	grep -qx 'take_cuMemCreate(): CUDA_SUCCESS' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx 'take_cuMemAllocManaged(): CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx '1 call reached the driver' "$BATS_TEST_TMPDIR/preloaded"
}

@test "launches are retried even if only a pool needs them to be hooked" {
	export GPUMEM_HEAP=off
	for symbol in cuLaunchKernel cuGraphLaunch; do
		preloaded "$PROGRAMS/retry" take "$symbol" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/calls"
		[ "$(cat "$BATS_TEST_TMPDIR/preloaded")" = "$symbol: CUDA_SUCCESS" ]
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/calls")" = '2 calls reached the driver' ]
	done
}
