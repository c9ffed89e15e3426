#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Idle memory of a pool is nobody's out-of-memory: each row of hooks.def with RETRY.

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

# Of a symbol: an old driver lacks it, as the native run says.
is_newer() {
	[ "${SIM_DRIVER:-13.4}" != 13.4 ] && grep -qx "$1: CUDA_ERROR_NOT_FOUND" "$BATS_TEST_TMPDIR/native"
}

# of a symbol: how often it is to reach the driver
calls_of() {
	if [ "$1" = pool ]; then echo 0; else echo 2; fi
}

@test "each RETRY call takes 90% of a device that was 95% full and is idle" {
	native "$PROGRAMS/retry" list >"$BATS_TEST_TMPDIR/rows"
	while read -r symbol kind; do
		native "$PROGRAMS/retry" take "$symbol" >"$BATS_TEST_TMPDIR/native" 2>"$BATS_TEST_TMPDIR/native.calls" || is_newer "$symbol"
		! is_newer "$symbol" || continue
		preloaded "$PROGRAMS/retry" take "$symbol" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/calls"
		diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
		[ "$(cat "$BATS_TEST_TMPDIR/preloaded")" = "$symbol: CUDA_SUCCESS" ]
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/native.calls")" = '1 calls reached the driver' ]
		# cuMemCreate is the pool's own means, too.
		echo "$symbol: $(cat "$BATS_TEST_TMPDIR/calls")"
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/calls")" = "$(calls_of "$kind") calls reached the driver" ]
	done <"$BATS_TEST_TMPDIR/rows"
}

@test "each RETRY call fails as natively when memory is too little, and writes as much" {
	native "$PROGRAMS/retry" list >"$BATS_TEST_TMPDIR/rows"
	while read -r symbol kind; do
		native "$PROGRAMS/retry" fail "$symbol" >"$BATS_TEST_TMPDIR/native" 2>/dev/null || is_newer "$symbol"
		! is_newer "$symbol" || continue
		preloaded "$PROGRAMS/retry" fail "$symbol" >"$BATS_TEST_TMPDIR/preloaded" 2>/dev/null
		diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
		grep -qx "$symbol: CUDA_ERROR_OUT_OF_MEMORY" "$BATS_TEST_TMPDIR/preloaded"
	done <"$BATS_TEST_TMPDIR/rows"
}

@test "a call that a capture forbids is not retried, one that it allows is" {
	same retry capture
	grep -qx 'take_cuMemCreate(): CUDA_SUCCESS' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx 'take_cuMemAllocManaged(): CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx '1 call reached the driver' "$BATS_TEST_TMPDIR/preloaded"
}
