#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The policies of the device heap compile with nvcc. malloc and free of each policy fit the limits of every
# kernel that calls malloc: 24 registers, and a small stack frame. Prints TAP; $NVCC is the compiler, $srcdir
# the source folder.
top=${srcdir:-.}
most=64 # bytes of stack frame; a slow path takes more only when it is called

[ -x "$NVCC" ] || { echo '1..0 # SKIP configure found no nvcc'; exit 0; }
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT

n=0 bad=0
check() { # check NAME STATUS
	n=$((n + 1))
	if [ "$2" = 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; bad=1; fi
}

"$NVCC" -arch=sm_90 -maxrregcount=24 -rdc=true -Xptxas -v -I "$top/src" -c "$top/tests/unit/heap_policies.cu" \
	-o "$out/heap.o" >"$out/log" 2>&1
check "compiles for sm_90 with 24 registers" $?
[ $bad = 0 ] || { sed 's/^/# /' "$out/log"; echo "1..$n"; exit 1; }

frames=$(awk '/Function properties for/ {name = $NF; sub(/^.*properties for /, "", name)}
	/bytes stack frame/ {print name, $1}' "$out/log")
for policy in $(sed -n 's/^GM_POLICY("[^"]*", *\([a-z0-9_]*\),.*/\1/p' "$top/src/heap/device/policy.def"); do
	for what in malloc free; do
		frame=$(printf '%s\n' "$frames" | awk -v f="test_${what}_$policy" '$1 == f {print $2}')
		[ -n "$frame" ] && [ "$frame" -le $most ]
		check "$what of $policy: ${frame:-no} bytes of stack frame" $?
	done
done

# If ptxas does not know that an atomic's address is in global memory, the atomic becomes a test, a loop and a
# second path. An acquire in every malloc would drop the cache of the multiprocessor.
"$NVCC" -arch=sm_90 -rdc=true -I "$top/src" -ptx -o "$out/ptx" "$top/tests/unit/heap_policies.cu" >"$out/log" 2>&1 &&
	grep -q '[[:blank:]]atom\..*\.global' "$out/ptx"
check "atomics are made" $?
! grep '[[:blank:]]atom\.' "$out/ptx" | grep -qv '\.global'
check "all of them in global memory" $?
awk '/^\.[a-z. ]*(func|entry) / {ours = /test_malloc_granule/} ours' "$out/ptx" >"$out/malloc"
grep -q 'atom\.relaxed\.gpu\.global\.or' "$out/malloc" && ! grep -q 'acquire\|acq_rel' "$out/malloc"
check "a hit of granule has no acquire" $?

# No *_sync call may rest on the mask of one lane. A kernel with such a call shows that the search finds it.
masks() { # masks FLAG...: the counts of heap_masks.py for tests/unit/heap_masks.cu
	"$NVCC" -arch=sm_90 -I "$top/src" "$@" -cubin "$top/tests/unit/heap_masks.cu" -o "$out/masks" >&2 &&
		python3 "$top/tests/unit/heap_masks.py" "$out/masks" | sed 's/^.*: //'
}
said=$(masks -DBARE_MASK)
[[ $said =~ by\ all\ lanes,\ [1-9][0-9]*\ by\ one ]]
check "a bare mask is found: $said" $?
said=$(masks)
[[ $said =~ ^[1-9][0-9]*\ by\ all\ lanes,\ 0\ by\ one ]]
check "the policies have none: $said" $?

# A kernel with the header's malloc: 48 registers let five blocks of 256 threads share a multiprocessor, and
# with 49 it is four. With 80, and three, a warm malloc of all its lanes took a quarter longer.
"$NVCC" -arch=sm_90 -O2 -std=c++17 --extended-lambda -I "$top" -I "$top/src" -I api -I "$top/api" -cubin -Xptxas -v \
	-DFRESH_PEER='"tests/bench/peers/header.h"' -o "$out/fresh" "$top/tests/bench/fresh.cu" >"$out/log" 2>&1
used=$(awk '/Function properties for/ {ours = /allocate/}
	ours && /Used [0-9]+ registers/ {sub(/^.*Used /, ""); print $1; exit}' "$out/log")
[ -n "$used" ] && [ "$used" -le 48 ]
check "a kernel with the header's malloc has ${used:-no} registers, of 48" $?
echo "1..$n"
exit $bad
