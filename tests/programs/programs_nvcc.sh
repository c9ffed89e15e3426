#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The programs compile with nvcc, with warnings as errors, and start; the kernels round each product and each
# sum as the CPU does, with which --verify compares. Prints TAP; $NVCC is the compiler, $srcdir the source
# folder. Run in the build folder.
top=${srcdir:-.}
[ -x "$NVCC" ] || { echo '1..0 # SKIP configure found no nvcc'; exit 0; }
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL

n=0 bad=0
check() { # check NAME STATUS
	n=$((n + 1))
	if [ "$2" = 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; bad=1; fi
}

make programs PROGRAMS_TO="$out" PROGRAMS_ARCH=sm_80 >"$out/log" 2>&1
check "make programs" $?
[ $bad = 0 ] || sed 's/^/# /' "$out/log"
for program in oocmap oocstencil spgemm hashjoin pagesteps smallnodes barneshut arraylist expressions hostarrays dyngraph; do
	[[ $("$out/$program" --help) == "Usage: $program "* ]]
	check "$program --help, without a driver" $?
done
"$NVCC" -arch=sm_80 -O2 -ptx "$top/programs/ooc/kernels.cu" -o "$out/kernels.ptx"
check "the kernels as PTX" $?
grep -q 'mul\.rn\.f32' "$out/kernels.ptx" && grep -q 'add\.rn\.f32' "$out/kernels.ptx"
check "they multiply and add" $?
[ "$(grep -cE '\bfma\.' "$out/kernels.ptx")" = 0 ]
check "and fuse neither" $?
"$NVCC" -arch=sm_80 -O2 -std=c++17 -Wno-deprecated-gpu-targets -I"$top/api" -c "$top/tests/bench/growth.cu" -o "$out/growth.o" \
	>"$out/log" 2>&1
check "gpumem::vector, and thrust::device_vector with gpumem::allocator" $?
[ $bad = 0 ] || sed 's/^/# /' "$out/log"
echo "1..$n"
exit $bad
