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
# cuBLAS, cuFFT and cuSPARSE: the toolkit's, else those of NVIDIA's Python packages.
libraries=/usr/local/cuda/lib64$(python3 -c '
import glob, site, sys
for where in site.getsitepackages() + sys.path:
    for folder in glob.glob(where + "/nvidia/*/lib") if where else ():
        print(end=":" + folder)' 2>/dev/null)
export LD_LIBRARY_PATH="$here:$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
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

wanted() { # wanted NAME
	[ "$only" = "  " ] || case "$only" in *" $1 "*) ;; *) return 1 ;; esac
}

# Every log of a case: gpumemstat reads it without complaint, and the driver was handed no allocation.
read_logs() { # read_logs NAME
	local name=$1 log driver pool
	for log in "$results/logs/$name"/*; do
		(cd "$results/logs/$name" && "$here/gpumemstat") >"$results/$name.summary.txt" 2>&1 ||
			note no "$name: gpumemstat summary: $(tail -n 1 "$results/$name.summary.txt")"
		driver=$(figure "$log" allocate_driver) pool=$(figure "$log" allocate_pool)
		if [ "$driver" = 0 ] && [ "$pool" != none ] && [ "$pool" -gt 0 ]; then
			note ok "$name: $pool allocations served by the pool, none by the driver"
		else
			note no "$name: $pool allocations served by the pool, $driver by the driver"
		fi
	done
}

compare() { # compare NAME SECONDS COMMAND...
	local name=$1 seconds=$2 status_native status_preload
	shift 2
	wanted "$name" || return
	timeout -k 5 "$seconds" "$@" >"$results/$name.native.txt" 2>"$results/$name.native.err"
	status_native=$?
	if [ $status_native = 77 ]; then
		note skip "$name: $(tail -n 1 "$results/$name.native.txt")"
		return
	fi
	rm -rf "$results/logs/$name" && mkdir -p "$results/logs/$name"
	timeout -k 5 "$seconds" "$here/gpumemstat" record -o "$results/logs/$name/" -- "$@" \
		>"$results/$name.preloaded.txt" 2>"$results/$name.preloaded.err"
	status_preload=$?
	if [ $status_native = $status_preload ] && [ $status_native = 0 ] &&
		cmp -s "$results/$name.native.txt" "$results/$name.preloaded.txt"; then
		note ok "$name: $(wc -l <"$results/$name.native.txt") lines equal, natively and preloaded"
		rm -f "$results/$name.native.err"
	else
		note no "$name: exit $status_native natively, $status_preload preloaded; see the two files"
		diff "$results/$name.native.txt" "$results/$name.preloaded.txt" | head -n 20
		tail -n 5 "$results/$name.native.err" "$results/$name.preloaded.err"
	fi
	read_logs "$name"
}

# compute-sanitizer finds in a preloaded program what it finds natively, and the program does the same.
sanitize() { # sanitize TOOL NAME
	local tool=$1 name=$2 how
	wanted "$tool" || return
	command -v compute-sanitizer >/dev/null || {
		note skip "$tool: no compute-sanitizer here"
		return
	}
	rm -rf "$results/logs/$tool" && mkdir -p "$results/logs/$tool"
	for how in native preloaded; do
		timeout -k 5 200 env ${preload[$how]:+LD_PRELOAD="${preload[$how]}" GPUMEM_LOG_NAME="$results/logs/$tool/"} \
			compute-sanitizer --tool "$tool" --report-api-errors no "./$name" >"$results/$tool.$how.txt" 2>&1
		found[$how]="exit $?, $(grep -E 'SUMMARY' "$results/$tool.$how.txt" | tail -n 1)"
		grep -v '^=========' "$results/$tool.$how.txt" >"$results/$tool.$how.out"
	done
	if grep -q 'Device not supported' "$results/$tool.native.txt"; then
		note skip "$tool: compute-sanitizer does not know this device here"
	elif [ "${found[native]}" = "${found[preloaded]}" ] && [[ ${found[native]} == *" 0 errors"* || ${found[native]} == *" 0 hazards"* ]] &&
		cmp -s "$results/$tool.native.out" "$results/$tool.preloaded.out"; then
		note ok "$tool over $name: ${found[preloaded]}, output equal"
	else
		note no "$tool over $name: natively ${found[native]}; preloaded ${found[preloaded]}"
	fi
	read_logs "$tool"
}

rm -f "$results/SUMMARY.txt"
{
	echo "# $(date -u +%F) $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1)"
	echo "# devices: $(nvidia-smi -L | wc -l), commit $(cat "$here/COMMIT" 2>/dev/null || echo unknown)"
} | tee "$results/SUMMARY.txt"

cd "$here" || exit 1 # so that results name no folder of this machine
# name, seconds, environment and command
while read -r name seconds command; do
	# shellcheck disable=SC2086
	compare "$name" "$seconds" env $command
done <<'END'
runtime             120 ./runtime
runtime_shared      120 ./runtime_shared
runtime_ptds        120 ./runtime_ptds
limits              120 ./limits
idle                300 ./idle
capture             120 ./capture
peer                120 ./peer
driver              120 ./driver kernels.cubin
many                120 ./many
blas                120 ./blas
fft                 120 ./fft
sparse              120 ./sparse
thrust              120 ./thrust
train               120 PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 train.py
train_cached        120 python3 train.py
train_expandable    120 PYTORCH_ALLOC_CONF=expandable_segments:True python3 train.py
cupy                120 python3 with_cupy.py
jax_platform        180 XLA_PYTHON_CLIENT_ALLOCATOR=platform python3 with_jax.py
jax                 180 XLA_PYTHON_CLIENT_MEM_FRACTION=.20 python3 with_jax.py
numba               120 python3 with_numba.py
END

declare -A preload=([native]= [preloaded]=$here/libgpumem.so) found
sanitize memcheck thrust
sanitize racecheck blas

echo "# warm cudaMalloc + cudaFree pair, us (size, native, preloaded with the small log, with events)" |
	tee -a "$results/SUMMARY.txt"
paste -d ' ' <("$here/pair") \
	<(cd "$results/logs" && GPUMEM_LOG=small LD_PRELOAD="$here/libgpumem.so" "$here/pair" | cut -d ' ' -f 2) \
	<(cd "$results/logs" && GPUMEM_LOG=events LD_PRELOAD="$here/libgpumem.so" "$here/pair" | cut -d ' ' -f 2) |
	tee -a "$results/SUMMARY.txt"
echo "$passed passed, $failed failed, $skipped skipped" | tee -a "$results/SUMMARY.txt"
[ $failed = 0 ]
