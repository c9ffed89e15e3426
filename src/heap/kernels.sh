#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile the heap's own kernels: kernels.sh NVCC SRC OUT. NVCC is the compiler, SRC the folder src/, OUT the fatbin: code
# for one GPU of each generation, which runs on the later ones of it, too, and PTX of the least, for what this nvcc does
# not know.
set -eu
nvcc=$1 src=$2 out=$3
known=" $("$nvcc" --list-gpu-code | tr '\n' ' ') " code=() least=
for sm in 75 80 90 100 110 120; do
	[ "${known/ sm_$sm /}" != "$known" ] || continue
	least=${least:-$sm}
	code+=(-gencode "arch=compute_$sm,code=sm_$sm")
done
[ -n "$least" ] || { echo "kernels.sh: $nvcc compiles for no GPU that is supported" >&2; exit 1; }
"$nvcc" -std=c++17 -I "$src" -Wno-deprecated-gpu-targets -Xfatbin=-compress-all "${code[@]}" \
	-gencode "arch=compute_$least,code=compute_$least" -fatbin -o "$out-t" "$src/heap/kernels.cu"
mv "$out-t" "$out"
