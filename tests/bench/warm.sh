#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cost of a pair of cuMemAlloc and cuMemFree under the preload when the pool already has the memory,
# without the driver's part (warm_driver.c). Run in the build folder by make bench-warm; PAIRS, SIZE, THREADS
# and the GPUMEM_* knobs may be set. Times are valid only for a release build on a quiet machine; a time is
# never a failure.
set -eu
here=$PWD
pairs=${PAIRS:-200000}
size=${SIZE:-262144}
threads=${THREADS:-1 2 4 8}
! grep -q '^#define GM_DEBUG 1' config.h || echo 'bench-warm: a debug build: configure without --enable-debug for real numbers'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LD_LIBRARY_PATH="$here/tests/bench/lib" GPUMEM_LOG_NAME="$scratch/"

# shellcheck disable=SC2086 # several numbers
for log in ${GPUMEM_LOG:-small off events}; do
	echo "GPUMEM_LOG=$log"
	GPUMEM_LOG=$log LD_PRELOAD="$here/.libs/libgpumem.so" tests/bench/warm "$pairs" "$size" $threads
done

# Instructions of one whole run; the difference of two runs is the cost of the additional pairs.
counted_by_perf()
{
	LD_PRELOAD="$here/.libs/libgpumem.so" perf stat -x, -e instructions:u -o "$scratch/perf" tests/bench/warm "$1" "$size" 1 >/dev/null &&
		sed -n 's/^\([0-9][0-9]*\),.*instructions.*/\1/p' "$scratch/perf"
}

counted_by_valgrind()
{
	SIM_MEMFD=1 LD_PRELOAD="$here/.libs/libgpumem.so" valgrind --tool=callgrind --callgrind-out-file="$scratch/callgrind" \
		tests/bench/warm "$1" "$size" 1 >/dev/null 2>&1
	sed -n 's/^totals: \([0-9]*\).*/\1/p' "$scratch/callgrind"
}

for way in perf valgrind; do
	command -v "$way" >/dev/null 2>&1 || continue
	few=$(counted_by_$way 1000 2>/dev/null) || continue
	many=$(counted_by_$way 3000 2>/dev/null) || continue
	# Ten runs of each: one warm-up run, and nine that count.
	if [ -n "$few" ] && [ -n "$many" ]; then
		echo "$(((many - few) / 20000)) instructions a pair, counted by $way"
		break
	fi
done
