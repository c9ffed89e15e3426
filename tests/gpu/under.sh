#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run a program under a tool of the CUDA toolkit; print the program's output, then the tool's result. Usage:
# under.sh ncu|gdb|memcheck|initcheck|racecheck PROGRAM... Exit status 77: the tool is missing, or does not
# support this device.
set -u
tool=$1
shift
said=$(mktemp) && trap 'rm -f "$said" "$said.out"' EXIT || exit 1
case $tool in
gdb) set -- cuda-gdb -nx -batch -ex "run ${*:2} >'$said.out'" "$1" ;;
ncu) set -- ncu --clock-control none --launch-count 12 --log-file "$said" "$@" ;;
*) set -- compute-sanitizer --tool "$tool" --report-api-errors no --log-file "$said" "$@" ;;
esac
PATH=$PATH:/usr/local/cuda/bin
command -v "$1" >/dev/null || {
	echo "no $1 here"
	exit 77
}
if [ "$tool" = gdb ]; then
	"$@" >"$said" 2>&1
else
	"$@"
fi
status=$?
if grep -qE 'Device not supported|Failed to initialize the profiler|ERR_NVGPUCTRPERM' "$said"; then
	echo "$1 does not know this device here"
	exit 77
fi
if [ "$tool" = ncu ]; then
	echo "kernels profiled: $(grep -c ', Device [0-9]' "$said")"
elif [ "$tool" = gdb ]; then
	cat "$said.out"
	grep -o 'exited normally' "$said" || cat "$said"
else
	grep -oE '(ERROR|RACECHECK) SUMMARY: .*' "$said" || echo "$tool says nothing"
fi
exit $status
