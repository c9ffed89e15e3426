#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile a module that a takeover loads. NVCC is the compiler, SRC the folder src/, NAME `empty`, `runtime` or a policy of the
# heap.
#   helper.sh compile NVCC SRC FOLDER/NAME.ARCH.cubin           the code of one generation of GPUs, not linked; NAME.ARCH.ptx beside it
#   helper.sh bind NVCC SRC FOLDER/NAME.fatbin OLDEST ARCH...   link them; NAME.fatbin.ptx beside it is PTX of OLDEST for other GPUs
# Functions have 24 registers, as every kernel that calls malloc, the stack of the driver's malloc, and no
# constant bank: bind fails if the calls of a policy need more. Relocatable device code, linked: else it has
# no addresses.
set -eu
step=$1 nvcc=$2 src=$3 out=$4 folder=$(dirname "$4") name=$(basename "$4")
shift 4
name=${name%%.*}
bin=$(dirname "$nvcc")
flags=(-I "$src" -rdc=true -maxrregcount=24 -Wno-deprecated-gpu-targets "-DGM_HELPER_POLICY=$name")
[ "$name" != granule ] || flags+=(-DGM_HELPER_SITES)
[ "$name" != runtime ] || flags+=(-DGM_HELPER_RUNTIME)
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

# The call chain with the most stack, with frame sizes: gm_helper_aligned 16, gm_helper_malloc 64, ...
deepest() { # deepest PTX SM
	{
		"$bin/ptxas" -v -c -arch="sm_$2" -maxrregcount=24 -o "$work/again" "$1" 2>&1
		cat "$1"
	} | awk '
		function deepest(f, i, callee, most) {
			if (f in depth)
				return depth[f]
			depth[f] = most = 0 # a function that calls itself has no depth
			for (i = 0; i < calls[f]; i++) {
				callee = call[f, i]
				if (deepest(callee) > most) {
					most = depth[callee]
					next_of[f] = callee
				}
			}
			return depth[f] = frame[f] + most
		}
		/Function properties for/ { name = $NF }
		/bytes stack frame/ { frame[name] = $1 }
		is_call { call[caller, calls[caller]++] = substr($1, 1, length($1) - 1) }
		/^\.[a-z. ]*(func|entry) / && match($0, /[A-Za-z0-9_$]+\($/) { caller = substr($0, RSTART, RLENGTH - 1) }
		{ is_call = /call\.uni/ }
		END {
			deepest("gm_helper_run")
			for (f = "gm_helper_run"; f; f = next_of[f]) {
				match(f, /gm_[a-z0-9_]*/) # a static one has a name around its own
				if (frame[f])
					said = said (said ? ", " : "") substr(f, RSTART, RLENGTH) " " frame[f]
			}
			print said
		}'
}

functions() {
	grep -ao '\.text\.[A-Za-z0-9_]*' "$1" | sort -u
}

oldest=$1 images=() ptx=$folder/$name.$1.ptx
shift
for sm; do
	"$bin/nvlink" -v -arch="sm_$sm" "$folder/$name.$sm.cubin" -o "$work/$sm.cubin" >"$work/said" 2>&1 || {
		cat "$work/said" >&2
		exit 1
	}
	# nvlink drops functions that it finds unreachable; calls of them then go to address 0.
	[ "$(functions "$folder/$name.$sm.cubin")" = "$(functions "$work/$sm.cubin")" ] || {
		echo "helper.sh: nvlink dropped functions of $out for sm_$sm" >&2
		exit 1
	}
	# Jump tables lie in a constant bank, and a kernel of another module that calls the function has its own.
	table=$(grep -aoE '\.nv\.constant[1-9]\.[A-Za-z0-9_]+' "$folder/$name.$sm.cubin" | grep -v '\.gm_helper_run$' | sort -u)
	[ -z "$table" ] || {
		echo "helper.sh: functions of ${name//_/-} need a constant bank on sm_$sm:" $table >&2
		exit 1
	}
	# gm_helper_run calls malloc and free directly. On recursion nvlink warns, and prints 0.
	stack=$(sed -n '/gm_helper_run/{n;s/.* \([0-9]*\) stack.*/\1/p;}' "$work/said")
	! grep -q "'gm_helper_run' cannot be" "$work/said" || stack=
	[ "$name" = empty ] || [ "$name" = runtime ] || [ "${stack:-$((most + 1))}" -le $most ] || {
		echo "helper.sh: malloc and free of ${name//_/-} take ${stack:-an unknown number of} bytes of stack on sm_$sm," \
			"and have $most: $(deepest "$folder/$name.$sm.ptx" "$sm")" >&2
		exit 1
	}
	images+=("--image3=kind=elf,sm=$sm,file=$work/$sm.cubin")
done
[[ " $* " == *" $oldest "* ]] || {
	ptx=$work/ptx
	"$nvcc" -arch="compute_$oldest" "${flags[@]}" -ptx -o "$ptx" "$source"
}
"$bin/fatbinary" -64 --compress-all --create="$work/ptx.fatbin" "--image3=kind=ptx,sm=$oldest,file=$ptx"
# Compression would double the time of a load.
compress=(--compress-all)
[ "$name" != granule ] || compress=()
"$bin/fatbinary" -64 "${compress[@]}" --create="$work/fatbin" "${images[@]}"
mv -f "$work/ptx.fatbin" "$out.ptx"
mv -f "$work/fatbin" "$out"
