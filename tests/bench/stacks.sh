#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cost of an event, and of a call stack, on the simulated driver: make bench-stacks.
top=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

# pair LOG STACKS PROGRAM...: ns of a warm pair, the minimum of three runs.
pair() {
	log=$1 stacks=$2 && shift 2
	for _ in 1 2 3; do
		env LD_LIBRARY_PATH="$PWD/tests/sim/lib" LD_PRELOAD="$PWD/.libs/libgpumem.so" GPUMEM_LOG="$log" \
			GPUMEM_LOG_LIMIT=64M GPUMEM_LOG_NAME="$folder/" GPUMEM_STACKS="$stacks" "$@"
		rm -f "$folder"/*
	done | sort -n | head -n 1
}

python=$(python3 -c 'import sys; print(sys.executable)') || python=
off=$(pair off off tests/bench/stacks 0)
events=$(pair events off tests/bench/stacks 0)
echo "pair without a log                      $off ns"
echo "an event without a stack                $(((events - off) / 2)) ns"
low=$(pair events large tests/bench/stacks 0)
high=$(pair events large tests/bench/stacks 40)
echo "a stack, known again, of main           $((low - events)) ns"
echo "each further C frame, known again       $(((high - low) / 40)) ns"
events=$(pair events off tests/bench/stacks 40 512)
ways=$(pair events large tests/bench/stacks 40 512)
echo "a stack of 44, one of 512 of that depth $((ways - events)) ns"
if [ -n "$python" ]; then
	low=$(pair events large "$python" "$top/tests/bench/stacks.py" 1)
	high=$(pair events large "$python" "$top/tests/bench/stacks.py" 31)
	echo "30 further frames of Python             $((high - low)) ns"
	low=$(pair events large "$python" "$top/tests/bench/stacks.py" 1 released)
	high=$(pair events large "$python" "$top/tests/bench/stacks.py" 31 released)
	echo "the same, where it gave the lock up     $((high - low)) ns"
	# A tensor of PyTorch's cache: its birth with a stack of 20 frames of C and 15 of Python, and its end.
	tensor="$python $top/tests/bench/stacks_tensor.py $PWD/tests/preload/libtensors_cuda.so 15 20"
	off=$(pair off off $tensor 1048576)
	small=$(pair events large $tensor 512)
	stack=$(pair events large $tensor 1048576)
	echo "a tensor's birth and end, no stack      $((small - off)) ns"
	echo "the same with a stack of 35 frames      $((stack - off)) ns"
fi
