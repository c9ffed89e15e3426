#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# stress.sh SECONDS SEED, in a build folder: the stress for SECONDS in total, in each setting by turns, each
# time with a seed of its own. Prints a line for each run, and stops at the first failure.
set -u
seconds=$1 seed=$2
here=$PWD
export SIM_DEVICES=2 SIM_MEMORY=512M SIM_MEMFD=1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stress.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
settings=("GPUMEM_FREE=sync" "GPUMEM_FREE=defer" "GPUMEM_TRIM_AFTER=0 GPUMEM_LIMIT=200M" "GPUMEM_FREE=defer GPUMEM_TRIM_AFTER=1ms"
	"GPUMEM_FREE=ordered" "GPUMEM_FREE=ordered GPUMEM_TRIM_AFTER=1ms GPUMEM_RETIRE=64K" "GPUMEM_FREE=defer GPUMEM_RETIRE=64K"
	"STRESS_FAILURES=1 GPUMEM_FREE=sync GPUMEM_TRIM_AFTER=1ms" "STRESS_FAILURES=1 GPUMEM_FREE=defer" "SIM_YIELD=1 GPUMEM_FREE=defer"
	"GPUMEM_LOG=events GPUMEM_FREE=sync")
turn=$((seconds / (2 * ${#settings[@]})))
[ "$turn" -ge 1 ] || turn=1
while [ $SECONDS -lt "$seconds" ]; do
	for setting in "${settings[@]}"; do
		[ $SECONDS -lt "$seconds" ] || break
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
		rm -f "$scratch"/*.gml
		seed=$((seed + 1))
	done
done
echo "stress: $SECONDS s without a fault"
