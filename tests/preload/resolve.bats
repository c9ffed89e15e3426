#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Every way to the driver, and look-ups that must stay unchanged.

setup() {
	. "$BATS_TEST_DIRNAME/resolve.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
}

# each EXPECTED DRIVER STEP...: run the steps at -O0 and at -O2.
each() {
	says "$1" over "$2" "$PROGRAMS/ask-O0" "${@:3}"
	says "$1" over "$2" "$PROGRAMS/ask-O2" "${@:3}"
}

each_same() {
	same "$1" "$PROGRAMS/ask-O0" "${@:2}"
	same "$1" "$PROGRAMS/ask-O2" "${@:2}"
}

@test "dlsym with a handle of libcuda: hooked symbols are ours, other symbols the driver's" {
	each $'sym cuInit: gpumem\nsym cuMemAlloc_v2: gpumem\nsym cuDriverGetVersion: driver\nsym cuGetProcAddress: gpumem' \
		sim open libcuda.so.1 sym cuInit sym cuMemAlloc_v2 sym cuDriverGetVersion sym cuGetProcAddress
}

@test "libcuda opened by its path, by its other name, and globally is hooked" {
	each 'sym cuMemAlloc_v2: gpumem' sim open "$SIM/libcuda.so.1" sym cuMemAlloc_v2
	ln -s "$SIM/libcuda.so.1" "$BATS_TEST_TMPDIR/libcuda.so"
	each 'sym cuMemAlloc_v2: gpumem' nowhere open libcuda.so sym cuMemAlloc_v2
	cp "$SIM/libcuda.so.1" "$BATS_TEST_TMPDIR/driver.bin"
	each 'sym cuMemAlloc_v2: gpumem' nowhere open "$BATS_TEST_TMPDIR/driver.bin" sym cuMemAlloc_v2
	each $'sym cuMemAlloc_v2: gpumem\ndefault cuMemAlloc_v2: gpumem\ndefault cuCtxGetDevice: driver' \
		sim global libcuda.so.1 sym cuMemAlloc_v2 default cuMemAlloc_v2 default cuCtxGetDevice
}

@test "dlsym with a handle of a library that depends on libcuda is hooked" {
	each 'sym cuMemAlloc_v2: gpumem' plain open "$PROGRAMS/libneeds.so" sym cuMemAlloc_v2
}

@test "dlsym with the program's handle, RTLD_DEFAULT and RTLD_NEXT is hooked, every time" {
	each $'sym cuInit: gpumem\ndefault cuInit: gpumem\nnext cuInit: gpumem\nnext cuInit: gpumem\nnext cuInit: gpumem' \
		sim global libcuda.so.1 self sym cuInit default cuInit next cuInit next cuInit next cuInit
}

@test "RTLD_NEXT from a library in front of the driver is hooked" {
	each $'next cuInit: gpumem\nnext cuMemFree_v2: gpumem' \
		plain library "$PROGRAMS/libneeds.so" next cuInit next cuMemFree_v2
}

@test "RTLD_NEXT from a library loaded after its driver is hooked" {
	each $'next cuInit: gpumem\nsym cuInit: gpumem' \
		plain open libcuda.so.1 library "$PROGRAMS/libneeds.so" next cuInit sym cuInit
}

@test "cuGetProcAddress in both forms, and through itself, is hooked" {
	needs_driver 12.0
	each $'0/0 proc cuMemAlloc: gpumem\n0/0 proc cuMemAlloc: gpumem\n0/0 proc cuGetProcAddress: gpumem\n0/0 proc cuGetProcAddress: gpumem\n0/0 proc cuDriverGetVersion: driver' \
		sim open libcuda.so.1 proc cuMemAlloc 3020 0 proc1 cuMemAlloc 3020 0 proc cuGetProcAddress 11030 0 \
		proc cuGetProcAddress 12000 0 proc cuDriverGetVersion 2020 0
}

@test "invalid requests to cuGetProcAddress are answered by the driver alone" {
	each_same sim open libcuda.so.1 odd
}

@test "a program linked with libcuda is hooked from its first call" {
	needs_driver 12.0
	for level in O0 O2; do
		same sim "$PROGRAMS/linked-$level"
		over sim "$PROGRAMS/linked-$level" owner >"$BATS_TEST_TMPDIR/owner"
		grep -qx 'cuInit: libgpumem.so' "$BATS_TEST_TMPDIR/owner"
		grep -qx 'cuMemAlloc_v2: libgpumem.so' "$BATS_TEST_TMPDIR/owner"
		grep -qx 'cuGetProcAddress_v2: libgpumem.so' "$BATS_TEST_TMPDIR/owner"
		grep -qx 'cuDriverGetVersion: libcuda.so.1' "$BATS_TEST_TMPDIR/owner"
		grep -qx 'through the resolver 0, the same' "$BATS_TEST_TMPDIR/owner"
	done
}

@test "python's ctypes reaches the hooks" {
	needs_own_machine
	command -v python3 >/dev/null || skip "no python3"
	cat >"$BATS_TEST_TMPDIR/ask.py" <<-'END'
		import ctypes
		cuda = ctypes.CDLL("libcuda.so.1")
		a = ctypes.c_uint64()
		c = ctypes.c_void_p()
		print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0), cuda.cuCtxSetCurrent(c),
		      cuda.cuMemAlloc_v2(ctypes.byref(a), ctypes.c_size_t(1 << 20)), cuda.cuMemFree_v2(a))
		at = ctypes.cast(cuda.cuMemAlloc_v2, ctypes.c_void_p).value
		for line in open("/proc/self/maps"):
		    low, high = (int(x, 16) for x in line.split()[0].split("-"))
		    if low <= at < high:
		        print(line.split()[-1].split("/")[-1])
	END
	says $'0 0 0 0 0\nlibgpumem.so' over sim env PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
		python3 "$BATS_TEST_TMPDIR/ask.py"
}

@test "an allocation and its free through dlsym are the pool's" {
	each 'init 0 retain 0 current 0 alloc 0 free 0' sim open libcuda.so.1 use
}

@test "names that only begin like the driver's are not hooked" {
	each_same sim open libcuda.so.1 sym cublasCreate_v2 sym cudaMalloc sym cudnnCreate sym curl_easy_init sym cu sym c \
		sym '' default cudaMalloc next cudnnCreate sym cuMemAlloc_v99 default cuNoSuchCall next cuNoSuchCall
}

@test "RTLD_NEXT keeps its meaning for all other libraries" {
	for level in O0 O2; do
		first=$PROGRAMS/libfirst-$level.so
		for program in ask-O0 ask-O2; do
			ask=(nowhere "$PROGRAMS/$program" library "$first" next where default where)
			others=$first:$PROGRAMS/libsecond.so
			native=$(PRELOAD=${SANITIZE_LIB:+$SANITIZE_LIB:}$others on "${ask[@]}")
			[ "$native" = $'next where: libsecond.so\ndefault where: libfirst-'"$level.so" ]
			PRELOAD=$GPUMEM_TEST_PRELOAD:$others says "$native" on "${ask[@]}"
			PRELOAD=${SANITIZE_LIB:+$SANITIZE_LIB:}$others:$PWD/.libs/libgpumem.so says "$native" on "${ask[@]}"
		done
	done
}

@test "a program's probe finds no driver without libcuda" {
	for program in ask-O0 ask-O2; do
		run over nowhere "$PROGRAMS/$program" default cuInit self sym cuInit next cuInit sym cuGetProcAddress_v2
		[ "$status" -eq 0 ]
		[ "${#lines[@]}" -eq 4 ]
		for line in "${lines[@]}"; do
			[[ $line == *': undefined symbol: cu'* ]]
		done
	done
	run on nowhere "$PROGRAMS/ask-O2" open libcuda.so.1
	[[ $output == *libcuda.so.1* ]]
	native=$status:$output
	run over nowhere "$PROGRAMS/ask-O2" open libcuda.so.1
	[ "$status:$output" = "$native" ]
}

@test "a wrapper that is called without a driver answers that there is no device" {
	says 'absent' on nowhere "$PROGRAMS/weak"
	says $'init: 100\nlaunch: 100\nresolver: 100 (nil)' over nowhere "$PROGRAMS/weak"
}

@test "dlerror has a message after a look-up that fails, and none after one that succeeds" {
	each_same sim open libcuda.so.1 sym cuMemAlloc_v99 sym cuNoSuchCall sym cuDriverGetVersion
	each $'sym cuNoSuchCall: libcuda.so.1: undefined symbol: cuNoSuchCall\nsym cuInit: gpumem' \
		sim open libcuda.so.1 sym cuNoSuchCall sym cuInit
	each 'sym cuLaunchKernel: libcuda.so.1: undefined symbol: cuLaunchKernel' \
		plain open libcuda.so.1 sym cuLaunchKernel
	each_same sim open libcuda.so.1 proc cuNoSuchCall 13000 0 proc cuMemAlloc 1000 0
}

@test "a symbol that this driver does not have is not invented" {
	run over plain "$PROGRAMS/ask-O2" global libcuda.so.1 default cuLaunchKernel next cuLaunchKernel
	[[ ${lines[0]} == *'undefined symbol: cuLaunchKernel' ]]
	[[ ${lines[1]} == *'undefined symbol: cuLaunchKernel' ]]
}

@test "another namespace of dlmopen is not hooked" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer's runtime cannot be loaded twice"
	each 'sym cuInit: driver' plain apart libcuda.so.1 sym cuInit
}

@test "an address from cuGetProcAddress that no export has stays the driver's" {
	each $'0/0 proc cuBefore: driver\n0/0 proc cuMemAlloc: gpumem' \
		plain open libcuda.so.1 proc cuBefore 3020 0 proc cuMemAlloc 3020 0
}

@test "an address that several exports share is hooked only if all of them are" {
	each $'sym cuMemFree_v2: driver\nsym cuMemFree: driver\n0/0 proc cuMemFree: driver\nsym cuMemcpy: gpumem\nsym cuMemcpy_ptds: gpumem\nsym cuMemAlloc_v2: gpumem' \
		shared open libcuda.so.1 sym cuMemFree_v2 sym cuMemFree proc cuMemFree 3020 0 sym cuMemcpy sym cuMemcpy_ptds \
		sym cuMemAlloc_v2
}

@test "a driver that loads another one does not find us between the two" {
	KNOBS=(GPUMEM_VERBOSE=0)
	each $'sym cuInit: gpumem\ninit 0 retain 0 current 0 alloc 0 free 0' loader open libcuda.so.1 sym cuInit use
}

@test "the driver itself does not find the hooks" {
	each $'sym cuInit: driver\nnext cuInit: libcuda.so.1: undefined symbol: cuInit' \
		plain library libcuda.so.1 open libcuda.so.1 sym cuInit next cuInit
}

@test "a second driver is not hooked" {
	each $'sym cuMemAlloc_v2: gpumem\nsym cuMemAlloc_v2: driver\nsym cuMemAlloc_v2: gpumem' \
		sim open "$SIM/libcuda.so.1" sym cuMemAlloc_v2 open "$PROGRAMS/shared/libcuda.so.1" sym cuMemAlloc_v2 \
		open "$SIM/libcuda.so.1" sym cuMemAlloc_v2
}

@test "GPUMEM_ENABLE=0 leaves every pointer the driver's own" {
	needs_driver 12.0
	for value in 0 off no; do
		KNOBS=(GPUMEM_ENABLE=$value)
		each $'sym cuInit: driver\ndefault cuInit: driver\nnext cuInit: driver\n0/0 proc cuMemAlloc: driver\n0/0 proc cuGetProcAddress: driver\ninit 0 retain 0 current 0 alloc 0 free 0' \
			sim global libcuda.so.1 sym cuInit default cuInit next cuInit proc cuMemAlloc 3020 0 \
			proc cuGetProcAddress 12000 0 use
		same sim "$PROGRAMS/linked-O2"
	done
	KNOBS=(GPUMEM_ENABLE=1)
	each 'sym cuInit: gpumem' sim open libcuda.so.1 sym cuInit
}
