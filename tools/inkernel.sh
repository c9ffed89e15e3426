#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a build does with malloc in kernels, in one line: inkernel.sh BUILD-FOLDER. The code that was compiled says it: a
# policy has code for fewer architectures than empty.fatbin where its malloc needs too much stack (src/takeover/helper.sh).
set -eu
cd "$1"
unset GPUMEM_LOG_NAME LD_PRELOAD
grep -q '^#define GM_HELPERS 1' config.h || {
	echo "malloc in kernels stays the driver's: no nvcc, nvlink and fatbinary were found for this build"
	exit
}

architectures() {
	./gpumemstat image --width=500 "$1" | sed -n 's/^code for *//p' | tr -d , | tr ' ' '\n' | grep '^sm_' | sort -V
}

all=$(architectures src/takeover/empty.fatbin)
has=() none=()
for file in src/takeover/*.fatbin; do
	policy=$(basename "$file" .fatbin | tr _ -)
	[ "$policy" != empty ] || continue
	missing=$(comm -23 <(sort <<<"$all") <(architectures "$file" | sort) | sort -V | tr '\n' ' ')
	if [ -z "$missing" ]; then
		has+=("$policy")
	elif [ "$(wc -w <<<"$missing")" -eq "$(wc -w <<<"$all")" ]; then
		none+=("$policy")
	else
		has+=("$policy (not on ${missing% })")
	fi
done
join() { local IFS=,; sed 's/,/, /g' <<<"$*"; }
echo "malloc in kernels can be taken over by $(join "${has[@]}")${none[*]:+; left out, for want of stack: $(join "${none[@]}")}"
