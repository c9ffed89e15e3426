#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run a suite of measurements on this machine's GPU, and report the targets that are met.
# Usage: run.sh SUITE RESULTS
# Writes RESULTS/DATE-DEVICE-SUITE.csv, after each part what is known so far. Suites: pool, heap, fresh, inkernel, programs,
# graphs, copy, residency, record, frameworks.
# Environment: BENCH_SECONDS (200), the time to take; BENCH_PRELOAD, the library (libgpumem.so beside this script);
# GPUMEM_TEST_DATA, a folder with measurements of other allocators (h200_peers_*.csv), to be shown beside those of suite heap.
# Exit status: 0 all targets met; 1 not all; 2 usage; 77 no GPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
suite=${1:-} program=$here/${1:-}.py
[ -e "$program" ] || program=$here/${suite}_suite.py
if [ $# != 2 ] || [ ! -e "$program" ]; then
	sed -n 's/^# Usage: //p' "$0" >&2
	exit 2
fi
device=$(echo device | "$here/client" | sed -n 's/^ok [0-9]* [0-9]* //p')
[ -n "$device" ] || {
	echo "run.sh: no GPU here: $here/client finds none" >&2
	exit 77
}
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
name=${device#NVIDIA }
csv=$(mkdir -p "$2" && cd "$2" && pwd)/$(date -u +%F)-${name// /-}-$suite.csv || exit 2
# cuBLAS: the toolkit's, else that of NVIDIA's Python packages.
BENCH_LIBRARIES=/usr/local/cuda/lib64$(python3 -c '
import glob, site, sys
for where in site.getsitepackages() + sys.path:
    for folder in glob.glob(where + "/nvidia/*/lib") if where else ():
        print(end=":" + folder)' 2>/dev/null)
export BENCH_LIBRARIES${LD_LIBRARY_PATH:+="$BENCH_LIBRARIES:$LD_LIBRARY_PATH"} LC_ALL=C PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit 2
python3 -u "$program" "$csv" "$work" "date: $(date -u +%F)" "device: $device" "driver: ${driver:-unknown}" \
	"commit: $(cat "$here/COMMIT" 2>/dev/null || echo unknown)" || exit 1
echo "$csv"
[ ! -e "$here/${suite}_table.py" ] || python3 "$here/${suite}_table.py" "$csv"
[ ! -e "$here/${suite}_plot.py" ] || python3 "$here/${suite}_plot.py" "$csv" "${csv%.csv}"
python3 "$here/report.py" "$csv"
