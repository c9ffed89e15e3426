#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cost of the preload for a small copy, without the driver's part (warm_driver.c): natively, then
# preloaded, for each kind of log. Run in the build folder by make bench-small; COPIES and the GPUMEM_* knobs
# may be set. Times are valid only for a release build on a quiet machine; a time is never a failure.
set -eu
here=$PWD
copies=${COPIES:-100000}
! grep -q '^#define GM_DEBUG 1' config.h || echo 'bench-small: a debug build: configure without --enable-debug for real numbers'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LD_LIBRARY_PATH="$here/tests/bench/lib" GPUMEM_LOG_NAME="$scratch/"

echo natively
tests/bench/small "$copies"
for log in ${GPUMEM_LOG:-small off events}; do
	echo "GPUMEM_LOG=$log"
	GPUMEM_LOG=$log LD_PRELOAD="$here/.libs/libgpumem.so" tests/bench/small "$copies"
done
