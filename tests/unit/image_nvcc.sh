#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat image over the output of nvcc: every architecture that it has, every mode of compression, debug
# code, relocatable code, intermediate code, programs. Prints TAP; $NVCC is the compiler, $srcdir the source
# folder; run in the build folder.
top=${srcdir:-.}
source=$top/tests/unit/image_kernels.cu

[ -x "$NVCC" ] || { echo '1..0 # SKIP configure found no nvcc'; exit 0; }
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT

n=0 bad=0
check() { # check NAME STATUS
	n=$((n + 1))
	if [ "$2" = 0 ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		sed 's/^/# /' "$out/said" 2>/dev/null
		bad=1
	fi
}

compile() { # compile FILE DEFINE OPTION...
	"$NVCC" -w -D"$2" "${@:3}" -o "$out/$1" "$source" >"$out/said" 2>&1 || check "$1 compiles" 1
}

rows() { # rows FILE: code, architecture, compression, answer and calls of each part
	./gpumemstat image --width=200 "$out/$1" >"$out/said" 2>&1
	sed '1,/^container /d; /^$/,$d' "$out/said" | sed -E 's/^ *([0-9]+|-) +//; s/ [0-9.]+ ([KMG]i)?B//g'
}

# says FILE PARTS ANSWER: the file has PARTS parts, and each gets ANSWER.
says() {
	local answers
	answers=$(rows "$1" | awk '{print $4}' | sort | uniq -c | awk '{print $1, $2}')
	[ "$answers" = "$2 $3" ]
	check "$1: all $2 say $3" $?
}

architectures=
codes=$("$NVCC" --list-gpu-code)
for number in 75 80 86 89 90 90a 100 100a 103 110 120 120a 121; do
	grep -qx "sm_${number%[af]}" <<<"$codes" && architectures+=" $number"
done
each=() count=0
for number in $architectures; do
	each+=(-gencode "arch=compute_$number,code=sm_$number")
	count=$((count + 1))
done
newest=${architectures##* }
each+=(-gencode "arch=compute_$newest,code=compute_$newest")
one=(-gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90)

# Every architecture, and PTX.
for what in MALLOC:yes NEW:yes ALIGNED:yes VIRTUAL:no PRINT:no NOTHING:no; do
	compile "${what%:*}.fatbin" "GM_${what%:*}" -fatbin "${each[@]}"
	says "${what%:*}.fatbin" $((count + 1)) "${what#*:}"
done
got=$(rows MALLOC.fatbin | awk '{print $2}' | sort)
want=$({ for number in $architectures; do echo "sm_$number"; done; echo "compute_$newest"; } | sort)
[ "$got" = "$want" ]
check "MALLOC.fatbin has the architectures that were asked for" $?
[ "$(rows MALLOC.fatbin | grep -c ' malloc, free$')" = $((count + 1)) ]
check "MALLOC.fatbin calls malloc and free everywhere" $?
[ "$(rows ALIGNED.fatbin | grep -c ' __cuda_syscall_aligned_malloc$')" = $((count + 1)) ]
check "new of an over-aligned type has an allocator of its own" $?

if "$NVCC" -w -DGM_MALLOC -fatbin -gencode arch=compute_100f,code=sm_100f -o "$out/family.fatbin" "$source" 2>/dev/null; then
	[ "$(rows family.fatbin | awk '{print $2, $4}')" = 'sm_100f yes' ]
	check "family.fatbin is for a family" $?
fi

# Bare code.
for number in 75 90 "$newest"; do
	compile "$number.cubin" GM_NEW -cubin "-arch=sm_$number"
	says "$number.cubin" 1 yes
	[ "$(rows "$number.cubin" | awk '{print $1, $2}')" = "cubin sm_$number" ] ||
		[ "$(rows "$number.cubin" | awk '{print $2}')" = "sm_${number%[af]}" ]
	check "$number.cubin is of that architecture" $?
done
for what in MALLOC:yes ALIGNED:yes PRINT:no; do
	compile "${what%:*}.ptx" "GM_${what%:*}" -ptx -arch=compute_90
	says "${what%:*}.ptx" 1 "${what#*:}"
done

# Debug, relocatable and intermediate code, and the runtime on the device.
compile debug.fatbin GM_MALLOC -fatbin -G "${one[@]}"
says debug.fatbin 2 yes
compile debug_print.fatbin GM_PRINT -fatbin -G "${one[@]}"
says debug_print.fatbin 2 no
compile relocatable.fatbin GM_MALLOC -fatbin -rdc=true "${one[@]}"
says relocatable.fatbin 2 yes
[ "$(rows relocatable.fatbin | grep -c '^object ')" = 1 ]
check "relocatable.fatbin has an object" $?
compile relocatable_print.fatbin GM_PRINT -fatbin -rdc=true "${one[@]}"
says relocatable_print.fatbin 2 no
compile runtime.fatbin GM_DEVICE_RUNTIME -fatbin -rdc=true "${one[@]}"
says runtime.fatbin 2 yes
if "$NVCC" --help | grep -q 'lto_'; then
	compile lto.fatbin GM_MALLOC -fatbin -rdc=true -gencode arch=compute_90,code=lto_90
	says lto.fatbin 1 unknown
	[ "$(rows lto.fatbin | awk '{print $1}')" = LTO ]
	check "lto.fatbin has intermediate code" $?
fi

# Every mode of compression that this nvcc has.
packings() { rows "$1" | awk '{print $3}' | sort -u | tr '\n' ' '; }
modes=$("$NVCC" --help | sed -n 's/^--compress-mode \[\([a-z,]*\)\].*/\1/p' | tr , ' ')
for mode in $modes; do
	compile "$mode.fatbin" GM_MALLOC -fatbin "--compress-mode=$mode" "${one[@]}"
	says "$mode.fatbin" 2 yes
	compile "${mode}_print.fatbin" GM_PRINT -fatbin "--compress-mode=$mode" "${one[@]}"
	says "${mode}_print.fatbin" 2 no
done
if [ -n "$modes" ]; then
	[ "$(packings none.fatbin)" = 'none ' ]
	check "mode none compresses nothing" $?
	[ "$(packings size.fatbin)" = 'zstd ' ]
	check "mode size compresses everything by zstd" $?
	packings speed.fatbin | grep -q LZ4
	check "mode speed compresses by LZ4" $?
fi

# Damage to each kind of output.
for file in 90.cubin relocatable.fatbin debug.fatbin; do
	tests/unit/test_image_damage "$out/$file" >"$out/said" 2>&1
	check "$file damaged" $?
done

# A program can load linked parts as a module: linked by nvlink, or by nvJitLink, which the driver contains
# for cuLinkComplete. The linked cubin calls the functions that its parts call.
compile part.cubin GM_MALLOC -cubin -rdc=true -arch=sm_90
compile other.cubin GM_PRINT -cubin -rdc=true -arch=sm_90
"$(dirname "$NVCC")/nvlink" -arch=sm_90 "$out/part.cubin" "$out/other.cubin" -o "$out/nvlink.cubin" 2>"$out/said" &&
	says nvlink.cubin 1 yes
if "$NVCC" -Xcompiler -D_GNU_SOURCE -o "$out/link" "$top/tests/unit/image_link.c" -lnvJitLink 2>/dev/null; then
	libraries=$(dirname "$NVCC")/../lib64
	for kind in cubin ptx ltoir; do
		for part in part:GM_MALLOC other:GM_PRINT; do
			case $kind in
			cubin) ;;
			ptx) compile "${part%:*}.ptx" "${part#*:}" -ptx -rdc=true -arch=compute_90 ;;
			ltoir) compile "${part%:*}.ltoir" "${part#*:}" -dc -ltoir -gencode arch=compute_90,code=lto_90 ;;
			esac
		done
		for parts in "part other:yes" "other:no"; do
			read -ra files <<<"${parts%:*}"
			files=("${files[@]/%/.$kind}")
			LD_LIBRARY_PATH=$libraries "$out/link" "$out/linked.cubin" "${files[@]/#/$out/}" 2>"$out/said"
			check "${parts%:*} link, as $kind" $?
			says linked.cubin 1 "${parts#*:}"
		done
	done
fi

# A program and an object have the containers of all architectures.
compile object.o GM_MALLOC -c "${one[@]}"
says object.o 2 yes
if "$NVCC" -w -DGM_MALLOC -DGM_MAIN "${one[@]}" -o "$out/program" "$source" 2>/dev/null; then # where it can link
	rows program | grep -q '^cubin *sm_90 .* yes  *malloc, free$'
	check "program has the kernels" $?
	grep -q '^malloc  *yes: calls an allocator: malloc, free$' "$out/said"
	check "program may call malloc" $?
fi

# Such programs give the driver a wrapper of version 1 or, if linked from relocatable code, of version 2.
# (Libraries of a sanitizer do not link this way.)
wrapper() { # wrapper NAME DEFINE OPTION WANT...
	"$NVCC" -I"$top/src" -Xcompiler -D_GNU_SOURCE -c "$top/tests/unit/image_wrapper.c" -o "$out/wrapper.o" &&
		compile kernels.o "$2" "$3" "${one[@]}" && "$NVCC" -dlink "${one[@]}" -o "$out/link.o" "$out/kernels.o" || return
	if ! "$NVCC" -cudart=none -o "$out/registers" "$out/wrapper.o" "$out/kernels.o" "$out/link.o" .libs/libgmimage.a \
		.libs/libgm.a -ldl -lpthread 2>/dev/null; then
		n=$((n + 1))
		echo "ok $n - $1 # SKIP does not link here"
		return
	fi
	"$out/registers" | sort >"$out/said"
	grep -qx "$4" "$out/said"
	check "$1" $?
}
wrapper "a program with malloc" GM_MALLOC -c '1 yes .*'
wrapper "a program without" GM_PRINT -c '1 no .*compute_90.* no .*compute_90.*'
wrapper "a linked program with malloc" GM_MALLOC -dc '2 yes .*'
wrapper "a linked one without, and what it was linked from" GM_PRINT -dc '2 no sm_90 compute_90 no sm_90'

echo "1..$n"
exit $bad
