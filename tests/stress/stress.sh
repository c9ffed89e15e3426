#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# stress.sh SECONDS SEED [FILE], in a build folder: the stress for SECONDS in total, in each setting by turns, for at
# least 20 s each, each time with a seed of its own. Prints a line for each run, and stops at the first failure.
# FILE gets a line for each run, "commit seconds seed operations setting". With lines in it, and an empty SEED,
# the next run has the next seed and the next setting. The last lines of output sum its runs, by commit.
set -u
seconds=$1 seed=$2 runs=${3:-/dev/null}
here=$PWD
. "${BASH_SOURCE%/*}/stress.bash"
export SIM_DEVICES=2 SIM_MEMORY=512M SIM_MEMFD=1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stress.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
settings=("GPUMEM_FREE=sync" "GPUMEM_FREE=defer" "GPUMEM_TRIM_AFTER=0 GPUMEM_LIMIT=200M" "GPUMEM_FREE=defer GPUMEM_TRIM_AFTER=1ms"
	"GPUMEM_FREE=ordered" "GPUMEM_FREE=ordered GPUMEM_TRIM_AFTER=1ms GPUMEM_RETIRE=64K" "GPUMEM_FREE=defer GPUMEM_RETIRE=64K"
	"STRESS_FAILURES=1 GPUMEM_FREE=sync GPUMEM_TRIM_AFTER=1ms" "STRESS_FAILURES=1 GPUMEM_FREE=defer" "SIM_YIELD=1 GPUMEM_FREE=defer"
	"GPUMEM_LOG=events GPUMEM_FREE=sync" "GPUMEM_COPY=4 GPUMEM_FREE=sync" "GPUMEM_COPY=4 GPUMEM_FREE=ordered"
	"GPUMEM_SLEEP=1 GPUMEM_FREE=sync" "GPUMEM_SLEEP=1 GPUMEM_FREE=defer" "GPUMEM_LOG=events GPUMEM_STACKS=all GPUMEM_FREE=ordered")
turn=$((seconds / (2 * ${#settings[@]})))
[ "$turn" -ge 20 ] || turn=20 # shorter ones may use no heap under a sanitizer
number=0
if [ -z "$seed" ] && [ -s "$runs" ]; then
	number=$(wc -l <"$runs")
	seed=$(($(tail -n 1 "$runs" | cut -d' ' -f3) + 1))
fi
seed=${seed:-1}
commit=$(git -C "${BASH_SOURCE%/*}" describe --always --dirty 2>/dev/null) || commit=unknown
while [ $SECONDS -lt "$seconds" ]; do
	setting=${settings[number % ${#settings[@]}]}
	began=$SECONDS
	# shellcheck disable=SC2086 # several variables
	env LD_LIBRARY_PATH="$here/tests/sim/lib" GPUMEM_LOG_NAME="$scratch/%p.gml" $setting \
		LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$here/.libs/libgpumem.so" \
		tests/stress/stress seconds "$turn" "$seed" 8 >"$scratch/out" 2>"$scratch/err"
	status=$?
	printf '%4d s  seed %d  %s: %s\n' $((SECONDS - began)) "$seed" "$setting" "$(head -n 1 "$scratch/out")"
	if [ $status != 0 ] || ! grep -qx 'the pool served blocks, heaps served kernels' "$scratch/out"; then
		echo "stress: it ended with $status"
		cat "$scratch/err"
		exit 1
	fi
	stress_proved "$setting" "$scratch"/*.gml || exit 1
	echo "$commit $((SECONDS - began)) $seed $(cut -d' ' -f1 "$scratch/out" | head -n 1) $setting" >>"$runs"
	rm -f "$scratch"/*.gml
	seed=$((seed + 1)) number=$((number + 1))
done
echo "stress: $SECONDS s without a fault"
[ "$runs" = /dev/null ] || awk '{s[$1] += $2; o[$1] += $4; n[$1]++; last[$1] = $3} END {
	for (c in s)
		printf "stress: at %s %d s in total, %d runs, %d operations, seeds to %d\n", c, s[c], n[c], o[c], last[c]}' "$runs"
