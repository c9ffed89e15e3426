#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run every program beside this script natively and under the preload, and compare what they print.
# Usage: run.sh RESULTS [NAME]...   A program that cannot run here (77: needs two GPUs, no PyTorch) is counted as skipped;
# with GPU_STRICT=1 a skip is a failure. Ends with a line "N passed, N failed, N skipped"; exit status 1 if any failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=$(mkdir -p "$1" && cd "$1" && pwd) || exit 1
shift
only=" $* "
passed=0 failed=0 skipped=0
export LD_LIBRARY_PATH="$here${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export GPUMEM_LIBRARY_PATH="$here/libgpumem.so" LC_ALL=C

note() { # note ok|no|skip TEXT
	case $1 in
	ok) passed=$((passed + 1)) ;;
	no) failed=$((failed + 1)) ;;
	skip) if [ "${GPU_STRICT:-0}" = 1 ]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi ;;
	esac
	printf '%-5s %s\n' "$1" "$2" | tee -a "$results/SUMMARY.txt"
}

# A figure of a log, summed over devices.
figure() { # figure LOG NAME
	"$here/gpumemstat" summary --json "$1" | python3 -c '
import json, sys
name = sys.argv[1]
def walk(x):
    if isinstance(x, dict):
        for key, value in x.items():
            if key == name and isinstance(value, (int, float)):
                yield value
            else:
                yield from walk(value)
    elif isinstance(x, list):
        for value in x:
            yield from walk(value)
found = list(walk(json.load(sys.stdin)))
print(sum(found) if found else "none")' "$2"
}

compare() { # compare NAME COMMAND...
	local name=$1 status_native status_preload log
	shift
	[ "$only" = "  " ] || case "$only" in *" $name "*) ;; *) return ;; esac
	"$@" >"$results/$name.native.txt" 2>"$results/$name.native.err"
	status_native=$?
	rm -rf "$results/logs/$name" && mkdir -p "$results/logs/$name"
	"$here/gpumemstat" record -o "$results/logs/$name/" -- "$@" \
		>"$results/$name.preloaded.txt" 2>"$results/$name.preloaded.err"
	status_preload=$?
	if [ $status_native = 77 ]; then
		note skip "$name: $(tail -n 1 "$results/$name.native.txt")"
		return
	fi
	if [ $status_native = $status_preload ] && [ $status_native = 0 ] &&
		cmp -s "$results/$name.native.txt" "$results/$name.preloaded.txt"; then
		note ok "$name: $(wc -l <"$results/$name.native.txt") lines equal, natively and preloaded"
		rm -f "$results/$name.native.err"
	else
		note no "$name: exit $status_native natively, $status_preload preloaded; see the two files"
		diff "$results/$name.native.txt" "$results/$name.preloaded.txt" | head -n 20
		tail -n 5 "$results/$name.preloaded.err"
	fi
	for log in "$results/logs/$name"/*; do
		(cd "$results/logs/$name" && "$here/gpumemstat") >"$results/$name.summary.txt" 2>&1 ||
			note no "$name: gpumemstat summary: $(tail -n 1 "$results/$name.summary.txt")"
		local driver pool
		driver=$(figure "$log" allocate_driver) pool=$(figure "$log" allocate_pool)
		if [ "$driver" = 0 ] && [ "$pool" != none ] && [ "$pool" -gt 0 ]; then
			note ok "$name: $pool allocations served by the pool, none by the driver"
		else
			note no "$name: $pool allocations served by the pool, $driver by the driver"
		fi
	done
}

rm -f "$results/SUMMARY.txt"
{
	echo "# $(date -u +%F) $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1)"
	echo "# devices: $(nvidia-smi -L | wc -l), commit $(cat "$here/COMMIT" 2>/dev/null || echo unknown)"
} | tee "$results/SUMMARY.txt"

cd "$here" || exit 1 # so that results name no folder of this machine
for variant in runtime runtime_shared runtime_ptds limits idle capture peer; do
	compare "$variant" "./$variant"
done
compare driver ./driver kernels.cubin
if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
	PYTORCH_NO_CUDA_MEMORY_CACHING=1 compare train python3 train.py
else
	note skip "train: no PyTorch with CUDA here"
fi

echo "# warm cudaMalloc + cudaFree pair, us (size, native, preloaded with the small log, with events)" |
	tee -a "$results/SUMMARY.txt"
paste -d ' ' <("$here/pair") \
	<(cd "$results/logs" && GPUMEM_LOG=small LD_PRELOAD="$here/libgpumem.so" "$here/pair" | cut -d ' ' -f 2) \
	<(cd "$results/logs" && GPUMEM_LOG=events LD_PRELOAD="$here/libgpumem.so" "$here/pair" | cut -d ' ' -f 2) |
	tee -a "$results/SUMMARY.txt"
echo "$passed passed, $failed failed, $skipped skipped" | tee -a "$results/SUMMARY.txt"
[ $failed = 0 ]
