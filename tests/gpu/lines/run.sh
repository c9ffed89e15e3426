#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Which lines hold the memory of PyTorch and other frameworks, on a GPU: run.sh RESULTS GPUMEMSTAT PYTHON SECONDS. Parts that are
# in RESULTS are not run again; those for which no time is left are named at the end.
set -u
here=$(cd "$(dirname "$0")" && pwd)

# Losses equal to a native run's, what is named at the peak, the first stacks, the owners of all bytes, and the page.
training() {
	"$python" "${here%/*}/with_torch_lt.py" train 12 >logs/native
	"$tool" record -o logs/train.gml -- "$python" "${here%/*}/with_torch_lt.py" train 12 >logs/recorded
	[ "$(grep -c 0x logs/native)" = 12 ] && diff <(grep 0x logs/native) <(grep 0x logs/recorded) && echo "losses equal"
	"$python" "$here/named.py" training "$tool" logs/train.gml
	"$tool" live --at=peak logs/train.gml
	"$tool" record -o logs/long.gml -- "$python" "${here%/*}/with_torch_lt.py" train 150 >/dev/null
	"$tool" report -o train.html logs/long.gml
}

snapshot() {
	"$tool" record -o logs/snapshot.gml -- "$python" "$here/snapshot.py" make logs/theirs
	"$tool" export --format=pytorch -o logs/ours logs/snapshot.gml
	"$python" "$here/snapshot.py" compare logs/theirs logs/ours
}

out_of_memory() {
	"$tool" record -o "logs/oom-$1.gml" -- "$python" "$here/oom.py" "$1"
	"$tool" live --at=oom -n 4 "logs/oom-$1.gml"
}

# Pairs by turns.
cost() {
	local pair way
	for pair in 1 2 3 4 5 6 7 8 9; do
		for way in $( ((pair % 2)) && echo native record || echo record native); do
			if [ "$way" = native ]; then
				echo "$pair native $("$python" "$here/big.py")"
			else
				echo "$pair record $("$tool" record -o logs/big.gml -- "$python" "$here/big.py")"
			fi
		done
	done
}

framework() {
	"$tool" record -o "logs/$1.gml" -- "$python" "$here/frameworks.py" "$1" || exit
	"$python" "$here/named.py" "$1" "$tool" "logs/$1.gml"
	"$tool" live --at=peak -n 2 "logs/$1.gml"
}

# "run.sh -- FUNCTION ARGUMENT..." is one part, in RESULTS.
if [ "$1" = -- ]; then
	"${@:2}"
	exit
fi

results=$(realpath "$1") end=$((SECONDS + $4)) left=()
export tool python=$3
tool=$(realpath "$2")
mkdir -p "$results/logs"
cd "$results" || exit 1

# part NAME SECONDS FUNCTION ARGUMENT...: into NAME.txt, if time is left for it.
part() {
	local name=$1 limit=$2 status=0
	[ ! -e "$name.txt" ] || return 0
	if ((SECONDS + limit > end)); then
		left+=("$name")
		return 0
	fi
	echo "== $name"
	timeout -k 5 "$limit" "$here/run.sh" -- "${@:3}" >"$name.tmp" 2>&1 || status=$?
	echo "status $status" >>"$name.tmp"
	mv "$name.tmp" "$name.txt"
	tail -n 12 "$name.txt"
}

part training 90 training
part snapshot 60 snapshot
for way in device limit holes; do part "oom-$way" 60 out_of_memory "$way"; done
for name in gpt2 llama compile checkpoint function triton cupy numba jax; do part "$name" 90 framework "$name"; done
part cost 330 cost
for name in "${left[@]}"; do echo "not run: $name"; done
