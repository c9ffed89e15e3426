#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cost of the preload at the start of a program that never uses CUDA, compared with an empty library. Run
# in the build folder by make bench-exec; ROUNDS, COMMAND and REPEATS may be set. Times are valid only for a
# release build on a quiet machine; a time is never a failure.
set -eu
rounds=${ROUNDS:-2000}
repeats=${REPEATS:-3}
! grep -q '^#define GM_DEBUG 1' config.h || echo 'bench-exec: a debug build: configure without --enable-debug for real numbers'
while [ "$repeats" -gt 0 ]; do
	# shellcheck disable=SC2086 # a command and its arguments
	tests/bench/exec "$rounds" "$PWD/tests/bench/libempty.so" "$PWD/.libs/libgpumem.so" '' -- ${COMMAND:-/bin/true}
	repeats=$((repeats - 1))
done
