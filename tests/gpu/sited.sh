#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sited.sh NAME: run the program NAME. Under the preload, compare the calls in its log with those that its
# source NAME.cu marks by "sites:". Prints the marked lines that are right: natively all of them.
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${LD_PRELOAD-}" ]; then
	"$here/$1" && python3 "$here/sited.py" "$here/$1.cu"
	exit
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
GPUMEM_HEAP_SITES=1 GPUMEM_LOG=events GPUMEM_LOG_NAME=$folder/log "$here/$1" wrong || exit
unset LD_PRELOAD
"$here/gpumemstat" leaks --json "$folder/log" >"$folder/json" && python3 "$here/sited.py" "$here/$1.cu" "$folder/json"
