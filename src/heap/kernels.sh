#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile the heap's own kernels. NVCC is the compiler, SRC the folder src/, FOLDER that of the results.
# NAME is kernels, for all policies, or kernels_granule, for the default one. That is not compressed: it would take twice the
# time to load.
#   kernels.sh compile NVCC SRC FOLDER/NAME.ARCH.cubin           the code of one generation of GPUs; NAME.ARCH.ptx beside it
#   kernels.sh bind NVCC SRC FOLDER/NAME.fatbin OLDEST ARCH...   the fatbin of these, and PTX of OLDEST for all other GPUs
set -eu
step=$1 nvcc=$2 src=$3 out=$4 folder=$(dirname "$4") name=$(basename "$4")
shift 4
name=${name%%.*}
flags=(-std=c++17 -I "$src" -Wno-deprecated-gpu-targets) compress=(--compress-all)
[ "$name" != kernels_granule ] || flags+=(-DGM_KERNELS_GRANULE) compress=()

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

case $step in
compile)
	arch=${out%.cubin} arch=${arch##*.}
	"$nvcc" "${flags[@]}" -arch="sm_$arch" -cubin --keep --keep-dir "$work" -o "$out-t" "$src/heap/kernels.cu"
	mv -f "$work"/*.ptx "${out%.cubin}.ptx"
	;;
bind)
	oldest=$1 images=() ptx=$folder/$name.$1.ptx
	shift
	for arch; do images+=("--image3=kind=elf,sm=$arch,file=$folder/$name.$arch.cubin"); done
	[[ " $* " == *" $oldest "* ]] || {
		ptx=$work/ptx
		"$nvcc" "${flags[@]}" -arch="compute_$oldest" -ptx -o "$ptx" "$src/heap/kernels.cu"
	}
	"$(dirname "$nvcc")/fatbinary" -64 "${compress[@]}" --create="$out-t" "${images[@]}" \
		"--image3=kind=ptx,sm=$oldest,file=$ptx"
	;;
esac
mv -f "$out-t" "$out"
