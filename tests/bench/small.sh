#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cost of the preload for a small copy, for each kind of log. Run in the build folder by make bench-small;
# COPIES, SIZES and the GPUMEM_* knobs may be set. The driver copies nothing (warm_driver.c); DRIVER names the
# folder of another one, such as a GPU's. Times are valid only for a release build on a quiet machine; a time is
# never a failure.
set -eu
here=$PWD
copies=${COPIES:-100000}
sizes=${SIZES:-1 4096 65536 1048576}
! grep -q '^#define GM_DEBUG 1' config.h || echo 'bench-small: a debug build: configure without --enable-debug for real numbers'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LD_LIBRARY_PATH="${DRIVER:-$here/tests/bench/lib}" GPUMEM_LOG_NAME="$scratch/"

for log in ${GPUMEM_LOG:-small off events}; do
	echo "GPUMEM_LOG=$log"
	# shellcheck disable=SC2086 # several numbers
	GPUMEM_LOG=$log LD_PRELOAD="$here/.libs/libgpumem.so" tests/bench/small "$copies" $sizes
done
