#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPU architectures of the device code: those of --with-gpu-archs; make install compiles for all of them.
source "$BATS_TEST_DIRNAME/cli.bash"
SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
BUILD=$PWD
FATBINS=(src/heap/kernels{,_granule}.fatbin src/takeover/{empty,granule}.fatbin)

# A fake CUDA Toolkit that records its calls, and a machine with GPUs of the compute capabilities in the file
# `gpus`.
fake_toolkit() {
	mkdir -p bin
	echo >ptx
	echo >cubin
	echo 8 >stack
	stub nvcc 'case "$*" in *--list-gpu-code*) printf "sm_%s\n" 75 80 86 89 90 100 120; exit ;; esac
		echo "$*" >>'"$PWD"'/called
		while [ $# -gt 0 ]; do case $1 in -o) out=$2 ;; --keep-dir) cp '"$PWD"'/ptx "$2/x.ptx" ;; esac; shift; done
		cat '"$PWD"'/cubin >"$out"'
	stub nvlink 'echo "gm_helper_run"; echo "used 24 registers, $(cat '"$PWD"'/stack) stack"
		while [ $# -gt 0 ]; do [ "$1" != -o ] || echo >"$2"; shift; done'
	stub fatbinary 'words=
		for a; do case $a in --create=*) out=${a#*=} ;; esac; [[ $a == *file=* ]] && [ ! -f "${a##*file=}" ] && exit 1
			[[ $a =~ kind=(elf|ptx),sm=([0-9]+) ]] && words+=" ${BASH_REMATCH[1]/elf/cubin}:${BASH_REMATCH[2]}"; done
		exec '"$MKIMAGE"' "$out" fatbin $words'
	stub nvidia-smi 'cat '"$PWD"'/gpus'
}

stub() { # stub COMMAND COMMANDS
	printf '#!/bin/bash\n%s\n' "$2" >"bin/$1"
	chmod +x "bin/$1"
}

configure() { # configure OPTION...
	cuda=$(sed -n 's/^CUDA_HOME = //p' "$BUILD/Makefile")
	NVCC=$PWD/bin/nvcc PATH=$PWD/bin:$PATH "$SOURCE/configure" --quiet --with-cuda="$cuda" "$@" >out 2>&1
}

build() { # build MAKE'S ARGUMENTS...
	: >called
	env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory "$@" >made 2>&1 || { cat made; return 1; }
}

has() { # has FATBIN ARCHITECTURES: FATBIN has code for exactly these
	[ "$("$TOOL" image --json "$1" | jq -r '.files[0].architectures')" = "$2" ] || { "$TOOL" image "$1"; return 1; }
}

@test "the build has code for the GPUs of src/gpu_archs, and PTX" {
	grep -q '^#define GM_HELPERS 1' "$BUILD/config.h" || skip 'no nvcc: this build has no code for GPUs'
	cd "$BUILD"
	oldest=$(sed -n 's/^GPU_ARCHS_ALL = \([0-9]*\).*/\1/p' Makefile)
	code=$(sed 's/[0-9][0-9]*/sm_&/g; s/ /, /g' src/gpu_archs)
	for name in kernels kernels_granule; do has src/heap/$name.fatbin "$code, compute_$oldest"; done
	policies=$(sed -n 's/^GM_POLICY("[^"]*", *\([a-z0-9_]*\),.*/\1/p' "$SOURCE/src/heap/device/policy.def")
	[ "$(wc -w <<<"$policies")" = 12 ]
	for name in empty $policies; do
		has src/takeover/$name.fatbin "$code"
		has src/takeover/$name.fatbin.ptx "compute_$oldest"
	done
}

@test "code for the GPUs of this machine; more on request, and only the missing code is compiled" {
	[ ! -f "$SOURCE/config.status" ] || skip "the source folder is configured itself"
	fake_toolkit
	printf '%s\n' 8.6 8.9 9.0 >gpus
	configure || { cat out; return 1; }
	build "${FATBINS[@]}"
	[ "$(grep -c -- -cubin called)" = 8 ]
	for name in kernels kernels_granule; do has src/heap/$name.fatbin 'sm_80, sm_90, compute_75'; done
	has src/takeover/granule.fatbin 'sm_80, sm_90'
	has src/takeover/granule.fatbin.ptx compute_75
	build "${FATBINS[@]}"
	[ ! -s called ]
	for goal in install gpu-bundle bench-bundle; do
		build -n $goal
		grep -q 'kernels.sh compile .*/kernels.120.cubin' made
		grep -q 'helper.sh compile .*/granule.120.cubin' made
	done
	build -n all
	refute grep -q 'compile .*\.120.cubin' made

	build GPU_ARCHS=all "${FATBINS[@]}"
	[ "$(grep -c -- -cubin called)" = 12 ]
	has src/heap/kernels.fatbin 'sm_75, sm_80, sm_90, sm_100, sm_120, compute_75'
	has src/takeover/granule.fatbin 'sm_75, sm_80, sm_90, sm_100, sm_120'
	build "${FATBINS[@]}" # code that is installed is not compiled again
	[ ! -s called ]
	rm src/*/*.cubin src/*/*.ptx # the folders of check-sanitize have none either
	build src/heap/kernels.fatbin
	[ ! -s called ]
	run build GPU_ARCHS=70 all
	[ "$status" = 1 ]
	[[ $output == *'GPU_ARCHS: 70: none of all, 75 80 90 100 120'* ]]
}

@test "--with-gpu-archs, and machines without a known GPU" {
	[ ! -f "$SOURCE/config.status" ] || skip "the source folder is configured itself"
	fake_toolkit
	echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.' >gpus
	configure || { cat out; return 1; }
	grep -qx 'GPU_ARCHS = 75' Makefile
	grep -qx 'GPU_ARCHS_INSTALL = all' Makefile
	build src/heap/kernels.fatbin
	has src/heap/kernels.fatbin 'sm_75, compute_75'
	refute configure --with-gpu-archs=80,70
	grep -q -- '--with-gpu-archs: 70 is none of native, all, 75 80 90 100 120' out
	configure --with-gpu-archs=90,80
	grep -qx 'GPU_ARCHS_INSTALL = *' Makefile
	rm src/gpu_archs
	build src/heap/kernels.fatbin
	has src/heap/kernels.fatbin 'sm_80, sm_90, compute_75'
	configure --with-gpu-archs=all
	grep -qx 'GPU_ARCHS = 75 80 90 100 120' Makefile
}

@test "a policy that needs more stack than available fails the build, with one line" {
	[ ! -f "$SOURCE/config.status" ] || skip "the source folder is configured itself"
	fake_toolkit
	echo 9.0 >gpus
	configure || { cat out; return 1; }
	echo 512 >stack
	build src/takeover/granule.fatbin
	# A calls B or C; C needs more stack, and calls itself.
	cat >ptx <<-'END'
		.visible .func  (.param .b64 func_retval0) gm_helper_malloc(
		)
			call.uni (retval0),
			_ZN3_cu5gm_abEv,
			call.uni
			_ZN3_cu5gm_acEP7gm_heap,
		.func  (.param .b32 func_retval0) _ZN3_cu5gm_acEP7gm_heap(
			call.uni (retval0),
			_ZN3_cu5gm_acEP7gm_heap,
		.visible .entry gm_helper_run(
			call.uni (retval0),
			gm_helper_malloc,
	END
	stub ptxas 'while read -r f n; do echo "ptxas info    : Function properties for $f"; echo "    $n bytes stack frame, 0 bytes"; done <<-END
		gm_helper_malloc 120
		_ZN3_cu5gm_abEv 392
		_ZN3_cu5gm_acEP7gm_heap 400
		gm_helper_run 0
	END'
	echo 520 >stack
	run build src/takeover/corw.fatbin
	[ "$status" = 1 ]
	grep -qx "helper.sh: malloc and free of corw take 520 bytes of stack on sm_90, and have 512: \
gm_helper_malloc 120, gm_ac 400" made || { cat made; return 1; }
	[ ! -e src/takeover/corw.fatbin ]
}

@test "a policy with a function that needs a constant bank fails the build, with one line" {
	[ ! -f "$SOURCE/config.status" ] || skip "the source folder is configured itself"
	fake_toolkit
	echo 9.0 >gpus
	configure || { cat out; return 1; }
	printf '.nv.constant0.gm_helper_run\0.nv.constant2.gm_helper_run\0' >cubin
	build src/takeover/granule.fatbin
	printf '.nv.constant2._ZN3_cu5gm_abEv\0' >>cubin
	run build src/takeover/corw.fatbin
	[ "$status" = 1 ]
	grep -qx "helper.sh: functions of corw need a constant bank on sm_90: .nv.constant2._ZN3_cu5gm_abEv" made || { cat made; return 1; }
	[ ! -e src/takeover/corw.fatbin ]
}
