#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sites_cost.sh [TIMES]: malloc(64) and free by a million threads (least and median us) without and with
# counts by call, in turn.
here=$(cd "$(dirname "$0")" && pwd)
for ((i = 0; i < ${1:-5}; i++)); do
	for sites in 0 1; do
		GPUMEM_LOG=off GPUMEM_HEAP_SITES=$sites LD_PRELOAD="$here/libgpumem.so" "$here/sites_cost" | sed "s/^/sites=$sites /"
	done
done | sort | awk '{
	key = $1 " " $2
	if (!(key in least) || $3 < least[key])
		least[key] = $3
	median[key, ++n[key]] = $4
}
END {
	for (key in least) {
		sum = 0
		for (i = 1; i <= n[key]; i++)
			sum += median[key, i]
		printf "%s: least %.2f us, mean of the medians %.2f us\n", key, least[key], sum / n[key]
	}
}' | sort
