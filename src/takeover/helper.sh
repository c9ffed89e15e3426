#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile a module that a takeover loads: helper.sh NVCC SRC OUT. NVCC is the compiler, SRC the folder src/. OUT is
# FOLDER/empty.fatbin or FOLDER/POLICY.fatbin, POLICY being one of the heap's: code for each generation of GPUs. Beside it
# goes OUT.ptx, PTX for later ones. A generation on which the policy needs too much stack is left out.
# Functions have the 24 registers that every kernel which calls malloc has. Relocatable device code, linked: without it a
# function has no address.
set -eu
nvcc=$1 src=$2 out=$3
bin=$(dirname "$nvcc")
policy=$(basename "$out" .fatbin)
flags=(-I "$src" -rdc=true -maxrregcount=24 -Wno-deprecated-gpu-targets "-DGM_HELPER_POLICY=$policy")
source=$src/takeover/helper.cu
[ "$policy" != empty ] || source=$src/takeover/empty.cu

most=512 # bytes of stack: that of the driver's malloc

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

functions() {
	grep -ao '\.text\.[A-Za-z0-9_]*' "$1" | sort -u
}

# One of each generation: its code runs on the later ones of that generation, too. What this nvcc does not know gets PTX.
known=" $("$nvcc" --list-gpu-code | tr '\n' ' ') " images=() least= ptx=$source
for sm in 75 80 90 100 110 120; do
	[ "${known/ sm_$sm /}" != "$known" ] || continue
	least=${least:-$sm}
	"$nvcc" -arch="sm_$sm" "${flags[@]}" -cubin -o "$work/$sm.o" "$source"
	"$bin/nvlink" -v -arch="sm_$sm" "$work/$sm.o" -o "$work/$sm.cubin" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
	# What nvlink thinks unreachable it drops, and calls of that go to address 0.
	[ "$(functions "$work/$sm.o")" = "$(functions "$work/$sm.cubin")" ] || {
		echo "helper.sh: nvlink dropped functions of $out for sm_$sm" >&2
		exit 1
	}
	# gm_helper_addresses calls malloc and free directly.
	stack=$(sed -n '/gm_helper_addresses/{n;s/.* \([0-9]*\) stack.*/\1/p;}' "$work/said")
	[ "$policy" = empty ] || [ "$stack" -le $most ] || {
		echo "helper.sh: malloc of $policy takes $stack bytes of stack on sm_$sm: left out" >&2
		ptx=$src/takeover/empty.cu
		continue
	}
	images+=("--image3=kind=elf,sm=$sm,file=$work/$sm.cubin")
done
[ -n "$least" ] || { echo "helper.sh: $nvcc compiles for no GPU that is supported" >&2; exit 1; }
# Nor may the driver compile what is too much on some GPU: it then finds a module without functions.
"$nvcc" -arch="compute_$least" "${flags[@]}" -ptx -o "$work/ptx" "$ptx"
"$bin/fatbinary" -64 --compress-all --create="$work/ptx.fatbin" "--image3=kind=ptx,sm=$least,file=$work/ptx"
[ ${#images[@]} -gt 0 ] || images=("--image3=kind=ptx,sm=$least,file=$work/ptx")
"$bin/fatbinary" -64 --compress-all --create="$work/fatbin" "${images[@]}"
mv "$work/ptx.fatbin" "$out.ptx"
mv "$work/fatbin" "$out"
