#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What call stacks cost, on the simulated driver: make bench-stacks.
top=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

# pair STACKS PROGRAM...: ns of a warm pair.
pair() {
	stacks=$1 && shift
	env LD_LIBRARY_PATH="$PWD/tests/sim/lib" LD_PRELOAD="$PWD/.libs/libgpumem.so" GPUMEM_LOG=events \
		GPUMEM_LOG_LIMIT=64M GPUMEM_LOG_NAME="$folder/" GPUMEM_STACKS="$stacks" "$@"
}

python=$(python3 -c 'import sys; print(sys.executable)') || python=
off=$(pair off tests/bench/stacks 0)
low=$(pair large tests/bench/stacks 0)
high=$(pair large tests/bench/stacks 40)
echo "pair with events, without stacks     $off ns"
echo "with stacks, C frames of main        $((low - off)) ns more"
echo "each further C frame                 $(((high - low) / 40)) ns"
if [ -n "$python" ]; then
	low=$(pair large "$python" "$top/tests/bench/stacks.py" 1)
	high=$(pair large "$python" "$top/tests/bench/stacks.py" 31)
	echo "30 further frames of Python          $((high - low)) ns"
fi
