#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile a module that a takeover loads. NVCC is the compiler, SRC the folder src/, NAME `empty` or a policy of the heap.
#   helper.sh compile NVCC SRC FOLDER/NAME.ARCH.cubin           the code of one generation of GPUs, not linked; NAME.ARCH.ptx beside it
#   helper.sh bind NVCC SRC FOLDER/NAME.fatbin OLDEST ARCH...   link them; NAME.fatbin.ptx beside it is PTX of OLDEST for other GPUs
# A generation on which the policy needs too much stack is left out.
# Functions have the 24 registers that every kernel which calls malloc has. Relocatable device code, linked: without it a
# function has no address.
set -eu
step=$1 nvcc=$2 src=$3 out=$4 folder=$(dirname "$4") name=$(basename "$4")
shift 4
name=${name%%.*}
bin=$(dirname "$nvcc")
flags=(-I "$src" -rdc=true -maxrregcount=24 -Wno-deprecated-gpu-targets "-DGM_HELPER_POLICY=$name")
source=$src/takeover/helper.cu
[ "$name" != empty ] || source=$src/takeover/empty.cu

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

if [ "$step" = compile ]; then
	arch=${out%.cubin} arch=${arch##*.}
	"$nvcc" -arch="sm_$arch" "${flags[@]}" -cubin --keep --keep-dir "$work" -o "$out-t" "$source"
	mv -f "$work"/*.ptx "${out%.cubin}.ptx"
	mv -f "$out-t" "$out"
	exit
fi

most=512 # bytes of stack: that of the driver's malloc

functions() {
	grep -ao '\.text\.[A-Za-z0-9_]*' "$1" | sort -u
}

oldest=$1 images=() fits=yes ptx=$folder/$name.$1.ptx
shift
for sm; do
	"$bin/nvlink" -v -arch="sm_$sm" "$folder/$name.$sm.cubin" -o "$work/$sm.cubin" >"$work/said" 2>&1 || {
		cat "$work/said" >&2
		exit 1
	}
	# What nvlink thinks unreachable it drops, and calls of that go to address 0.
	[ "$(functions "$folder/$name.$sm.cubin")" = "$(functions "$work/$sm.cubin")" ] || {
		echo "helper.sh: nvlink dropped functions of $out for sm_$sm" >&2
		exit 1
	}
	# gm_helper_addresses calls malloc and free directly.
	stack=$(sed -n '/gm_helper_addresses/{n;s/.* \([0-9]*\) stack.*/\1/p;}' "$work/said")
	[ "$name" = empty ] || [ "$stack" -le $most ] || {
		echo "helper.sh: malloc of $name takes $stack bytes of stack on sm_$sm: left out" >&2
		fits=
		continue
	}
	images+=("--image3=kind=elf,sm=$sm,file=$work/$sm.cubin")
done
# Nor may the driver compile what is too much on some GPU: it then finds a module without functions.
[ "$fits" ] || ptx=$folder/empty.$oldest.ptx source=$src/takeover/empty.cu
[[ " $* " == *" $oldest "* ]] || {
	ptx=$work/ptx
	"$nvcc" -arch="compute_$oldest" "${flags[@]}" -ptx -o "$ptx" "$source"
}
"$bin/fatbinary" -64 --compress-all --create="$work/ptx.fatbin" "--image3=kind=ptx,sm=$oldest,file=$ptx"
[ ${#images[@]} -gt 0 ] || images=("--image3=kind=ptx,sm=$oldest,file=$ptx")
"$bin/fatbinary" -64 --compress-all --create="$work/fatbin" "${images[@]}"
mv -f "$work/ptx.fatbin" "$out.ptx"
mv -f "$work/fatbin" "$out"
