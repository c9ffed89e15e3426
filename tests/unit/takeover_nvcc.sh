#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# helper.sh compiles the helper of every policy, also as the driver does for a GPU that this build has no code
# for. malloc and free fit the stack of the driver's malloc; helper.sh fails if they do not. Prints TAP; $NVCC
# is the compiler, $srcdir the source folder.
top=${srcdir:-.}
limit=512

[ -x "$NVCC" ] || { echo '1..0 # SKIP configure found no nvcc'; exit 0; }
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT

n=0 bad=0
check() { # check NAME STATUS
	n=$((n + 1))
	if [ "$2" = 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; bad=1; fi
}

helper() { # helper STEP SRC OUT [ARCH...]
	bash "$top/src/takeover/helper.sh" "$1" "$NVCC" "${@:2}" 2>"$out/said"
}

oldest=75 newest=$("$NVCC" --list-gpu-code | sed -n 's/^sm_\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
for policy in $(sed -n 's/^GM_POLICY("[^"]*", *\([a-z0-9_]*\),.*/\1/p' "$top/src/heap/device/policy.def"); do
	helper compile "$top/src" "$out/$policy.$oldest.cubin" && cp "$out/$policy.$oldest.ptx" "$out/$policy.$newest.ptx" &&
		"${NVCC%/*}/ptxas" -c -arch="sm_$newest" -maxrregcount=24 "$out/$policy.$newest.ptx" -o "$out/$policy.$newest.cubin" &&
		helper bind "$top/src" "$out/$policy.fatbin" "$oldest" "$oldest" "$newest"
	check "$policy fits on sm_$oldest, and from PTX on sm_$newest" $?
	sed 's/^/# /' "$out/said"
done

# Add that many bytes to the stack of bump's malloc, and bind; `again`: the next call of gm_bump_pile.
again=
piled() { # piled BYTES
	rm -rf "$out/src"
	mkdir -p "$out/src/heap" "$out/src/takeover"
	cp -r "$top/src/heap/device" "$top/src/heap/policies" "$out/src/heap"
	cp "$top"/src/takeover/*.{cu,h} "$out/src/takeover"
	chmod -R u+w "$out/src" # make distcheck has a source folder that cannot be written to
	sed -i -e '/^GM_DEVICE void \*gm_bump_malloc/i GM_DEVICE_SLOW size_t gm_bump_pile(size_t size)\n{\n\tvolatile char pile['"$1"'];\n\tfor (uint32_t i = 0; i < sizeof pile; i++)\n\t\tpile[i] = (char)size;\n\treturn pile[size % sizeof pile] + (size < 3 ? size : '"$again"'(size / 3));\n}\n' \
		-e 's/^\tuint32_t steps = size ? /\tsize = gm_bump_pile(size);\n&/' "$out/src/heap/policies/bump.h"
	rm -f "$out"/bump.*
	helper compile "$out/src" "$out/bump.$oldest.cubin" && helper bind "$out/src" "$out/bump.fatbin" "$oldest" "$oldest"
}

piled 4096
check "4 KiB more fail the build" $((! $?))
said=$(cat "$out/said")
[[ $said =~ ^'helper.sh: malloc and free of bump take '([0-9]+)" bytes of stack on sm_$oldest, and have $limit: gm_helper_aligned "[0-9]+', gm_helper_malloc '[0-9]+', gm_bump_pile 4'[0-9]{3}$ ]]
check "one line names them: $said" $?
rest=$((limit - BASH_REMATCH[1] + 4096)) # bytes left for the pile
piled $rest
check "$limit bytes, $rest of them for the pile, are as many as there are" $?
piled $((rest + 16))
check "16 more fail the build" $((! $?))
[ ! -e "$out/bump.fatbin" ]
check "and leave no module" $?
again=gm_bump_pile
piled 16
check "nor does one that calls itself fit" $((! $?))
[[ $(cat "$out/said") == *'of bump take an unknown number of bytes of stack on '* ]]
check "whose stack nobody knows" $?
echo "1..$n"
exit $bad
