#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The shared object: a missing library or symbol would end every process of a container, the shell first.

setup() {
	. "$BATS_TEST_DIRNAME/resolve.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	LIBRARY=$PWD/.libs/libgpumem.so
	HOOKS=$BATS_TEST_DIRNAME/../../src/driver/hooks.def
}

symbols() {
	sed -n 's/^GM_HOOK(\([A-Za-z0-9_]*\),.*/\1/p' "$HOOKS"
}

@test "exports are dlsym, gm_preload_core, la_version and the hooks, without versions" {
	nm -D --defined-only "$LIBRARY" | awk '{ print $3 }' | LC_ALL=C sort >"$BATS_TEST_TMPDIR/exports"
	{
		echo dlsym
		echo gm_preload_core # libgpumem-core looks this symbol up
		echo la_version # the loader asks for it under LD_AUDIT
		# Of PyTorch: shim/torch/tensors.h, shim/torch/sequence.h.
		echo _ZN2at15sequence_number17get_and_incrementEv
		echo _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
		echo _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
		symbols
		if grep -q '^#define GM_DEBUG 1' config.h; then echo gm_lock_none_held; fi # the simulator looks this symbol up
	} | LC_ALL=C sort | diff -u - "$BATS_TEST_TMPDIR/exports"
	grep -qx cuGetProcAddress "$BATS_TEST_TMPDIR/exports"
	grep -qx cuGetProcAddress_v2 "$BATS_TEST_TMPDIR/exports"
	readelf -W --version-info "$LIBRARY" | refute grep 'Version definition'
}

@test "rows of hooks.def are sorted, each symbol once" {
	[ "$(symbols | wc -l)" -eq "$(grep -c '^GM_HOOK(' "$HOOKS")" ]
	symbols | LC_ALL=C sort -uc
}

# VERSION KIND SYMBOL, one a line, of the kept list.
kept() {
	awk '!/^#/ {for (i = 3; i <= NF; i++) print $1, $2, $i}' "$BATS_TEST_DIRNAME/../../src/driver/exports.txt"
}

# unlisted FILE: the symbols of FILE that the kept list lacks.
unlisted() {
	LC_ALL=C sort -u "$1" | LC_ALL=C comm -23 - <(kept | cut -d' ' -f3 | LC_ALL=C sort)
}

@test "each export of a driver up to 13.4 is hooked or listed as passed, once" {
	kept | cut -d' ' -f3 | LC_ALL=C sort | uniq -d | refute grep .
	kept | refute grep -vE '^[0-9]+\.[0-9] (submits|names|hooked|none|address|kernel|managed|others|array|host|code|graph|graphics|unnamed|old) cu[A-Z]'
	# The version of a hook is that of its type.
	diff <(kept | awk '$2 ~ /^(submits|names|hooked)$/ {print $3, $1}' | LC_ALL=C sort) \
		<(sed -nE 's/^GM_HOOK\((\w+), PFN_\w*_v([0-9]+)(_pt[ds][sz])?,.*/\1 \2/p' "$HOOKS" |
			awk '{print $1, int($2 / 1000) "." int($2 % 1000 / 10)}' | LC_ALL=C sort)
}

@test "each export of the simulated driver is in the list, with the same version" {
	sed -nE 's/^SIM_CALL\((\w+), \w+, ([0-9]+),.*/\1 \2/p; s/^SIM_BOTH\((\w+), \w+, \w+, ([0-9]+),.*/\1 \2/p' \
		"$BATS_TEST_DIRNAME/../../src/sim/exports.def" |
		awk '{print $1, int($2 / 1000) "." int($2 % 1000 / 10)}' | LC_ALL=C sort >"$BATS_TEST_TMPDIR/sim"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/sim")" -gt 200 ]
	kept | awk '{print $3, $1}' | LC_ALL=C sort | LC_ALL=C comm -13 - "$BATS_TEST_TMPDIR/sim" | refute grep .
}

# Fails for a toolkit newer than the list: add its calls to src/driver/exports.txt, hooked or with a reason.
@test "each function of this toolkit's cuda.h is hooked or listed as passed" {
	echo '#include <cuda.h>' | cc -E -P -D__CUDA_API_VERSION_INTERNAL -I"$CUDA_HOME/include" -xc - |
		grep -oE '\<cu[A-Z][A-Za-z0-9_]*\(' | tr -d '(' >"$BATS_TEST_TMPDIR/declared"
	[ "$(sort -u "$BATS_TEST_TMPDIR/declared" | wc -l)" -gt 500 ]
	unlisted "$BATS_TEST_TMPDIR/declared" | refute grep .
	echo cuNoSuchCall >>"$BATS_TEST_TMPDIR/declared"
	[ "$(unlisted "$BATS_TEST_TMPDIR/declared")" = cuNoSuchCall ]
}

# The list, not the flags, says which calls submit.
@test "a hook has SUBMITS if and only if the list says that the call submits" {
	kept | awk '$2 == "submits" {print $3}' | LC_ALL=C sort >"$BATS_TEST_TMPDIR/listed"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/listed")" -gt 150 ]
	sed -nE 's/^GM_HOOK\((\w+), \w+, [^,]*\<SUBMITS\>[^,]*,.*/\1/p' "$HOOKS" | LC_ALL=C sort | diff -u "$BATS_TEST_TMPDIR/listed" -
}

# A call with an address, a copy, a fill, a launch or an executable graph among its parameters submits, or a word of the
# list says why not.
@test "each call of this toolkit's cuda.h that takes addresses or work is listed as a call that submits, or with a reason" {
	local takes='CUdeviceptr [a-zA-Z]|CUdeviceptr \*dptrs|CUDA_MEMCPY|CUDA_LAUNCH_PARAMS|CUlaunchConfig|CUDA_MEMSET|CUgraphNodeParams|CUDA_KERNEL_NODE|CUfunction [a-z]|CUgraphExec h|CUmemcpyAttributes|CUstreamBatchMemOp|CUDA_RESOURCE_DESC|CUDA_BATCH_MEM'
	echo '#include <cuda.h>' | cc -E -P -D__CUDA_API_VERSION_INTERNAL -I"$CUDA_HOME/include" -xc - | tr '\n' ' ' |
		grep -oE 'CUresult +cu[A-Z][A-Za-z0-9_]* *\([^;]*\)' | grep -E "$takes" |
		sed -E 's/CUresult +(\w+).*/\1/' | LC_ALL=C sort -u >"$BATS_TEST_TMPDIR/takes"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/takes")" -gt 150 ]
	grep -qx cuLaunchKernel "$BATS_TEST_TMPDIR/takes"
	kept | awk '$2 ~ /^(hooked|none|host)$/ {print $3}' | LC_ALL=C sort | LC_ALL=C comm -12 - "$BATS_TEST_TMPDIR/takes" | refute grep .
}

# Questions of a stream, and attributes for NvSciSync, take no memory.
@test "each call that cuda.h says may run out of memory is hooked, so that a lack is reported" {
	awk '/^\/\*\*/ {lacks = 0} /::CUDA_ERROR_OUT_OF_MEMORY/ {lacks = 1}
		lacks && match($0, /CUDAAPI +cu[A-Za-z0-9_]+/) {print substr($0, RSTART + 8, RLENGTH - 8); lacks = 0}' \
		"$CUDA_HOME/include/cuda.h" | tr -d ' ' | LC_ALL=C sort -u >"$BATS_TEST_TMPDIR/lacking"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/lacking")" -gt 40 ]
	grep -qx cuMemCreate "$BATS_TEST_TMPDIR/lacking"
	symbols | sed -E 's/_pt[ds][sz]$//; s/_v[0-9]+$//' | LC_ALL=C sort -u | LC_ALL=C comm -13 - "$BATS_TEST_TMPDIR/lacking" |
		refute grep -vxE 'cuStreamGet(Priority|Device|Flags)|cuDeviceGetNvSciSyncAttributes'
}

@test "each export of this toolkit's stub of the driver is hooked or listed as passed" {
	stub=$CUDA_HOME/lib64/stubs/libcuda.so
	[ -e "$stub" ] || skip "this toolkit has no stub of the driver"
	nm -D --defined-only "$stub" | awk '$2 == "T" {print $3}' >"$BATS_TEST_TMPDIR/stub"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/stub")" -gt 500 ]
	unlisted "$BATS_TEST_TMPDIR/stub" | refute grep .
}

@test "the old 32-bit calls stay the driver's" {
	for symbol in cuMemAlloc cuMemFree cuMemGetInfo cuMemGetAddressRange cuMemAllocPitch cuMemcpyHtoD cuMemsetD8; do
		symbols | refute grep -x $symbol
	done
}

# Before 2.34 the linker names libdl and libpthread; a test would need a list of their functions.
@test "libgpumem.so depends on libc alone" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer's runtime is one more"
	[ "$(printf '%s\n' "$(getconf GNU_LIBC_VERSION)" 'glibc 2.34' | sort -V | head -n 1)" = 'glibc 2.34' ] || skip "glibc before 2.34"
	[ "$(readelf -dW "$LIBRARY" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')" = libc.so.6 ]
	readelf -dW "$LIBRARY" | refute grep -E 'RPATH|RUNPATH|TEXTREL'
	# Symbols of libc.so before 2.34 may be needed. Other symbols have a row in base/glibc.def and are
	# weak.
	nm -D --undefined-only "$LIBRARY" | grep -E ' (dl|pthread_|sem_)' >"$BATS_TEST_TMPDIR/moved"
	grep -q '^ *w dlopen' "$BATS_TEST_TMPDIR/moved"
	# A program of musl may find the preload in its environment; musl lacks only this symbol.
	nm -D --undefined-only "$LIBRARY" | grep -q '^ *w __register_atfork'
	grep ' U ' "$BATS_TEST_TMPDIR/moved" |
		refute grep -vE ' (dl_iterate_phdr|pthread_(attr_(destroy|init|setdetachstate)|cond_(broadcast|destroy|init|signal|timedwait|wait)|equal|mutex_(destroy|init|lock|unlock)|self|setcancelstate))@?'
}

@test "libgpumem.so needs no symbol version above GLIBC_2.28" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer's runtime needs more"
	newest=$(nm -D --undefined-only --with-symbol-versions "$LIBRARY" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
	nm -D --undefined-only --with-symbol-versions "$LIBRARY" | grep "$newest"
	[ -n "$newest" ]
	[ "$(printf '%s\n' "$newest" GLIBC_2.28 | sort -V | tail -n 1)" = GLIBC_2.28 ]
	nm -D --undefined-only "$LIBRARY" | refute grep -E '__isoc23_|__tls_get_addr|__stack_chk_guard'
	nm -D --undefined-only --with-symbol-versions "$LIBRARY" | refute grep GLIBC_PRIVATE
}

@test "every undefined symbol of libgpumem.so is libc's" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer's runtime has more"
	nm -D --undefined-only "$LIBRARY" | grep -v '@GLIBC_' |
		refute grep -vE '^ +w (_ITM_(de)?registerTMCloneTable|__gmon_start__)$'
}

@test "libgpumem.so has one constructor" {
	[ -z "$SANITIZE_LIB$COVERAGE" ] || skip "a sanitizer and gcov have their own"
	# the second entry is frame_dummy of the compiler's start-up files
	size=$(readelf -SW "$LIBRARY" | sed -n 's/^.* \.init_array *INIT_ARRAY *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p')
	[ -n "$size" ]
	[ $((16#$size)) -le 16 ]
	readelf -SW "$LIBRARY" | refute grep -wE '\.ctors|\.preinit_array'
}

@test "libgpumem.so is bound at load, never unloaded, and has no executable stack" {
	readelf -dW "$LIBRARY" | grep -q 'Flags:.*NOW.*NODELETE'
	readelf -lW "$LIBRARY" | grep GNU_STACK | grep -q 'RW '
}

@test "a set-group-id program is left alone" {
	needs_own_machine
	needs_driver 12.0
	[ "$(id -u)" -eq 0 ] || skip "takes root"
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer is not for such programs"
	says 'sym cuInit: gpumem' "$PROGRAMS/ask-secure" open "$SIM/libcuda.so.1" sym cuInit
	cp "$PROGRAMS/ask-secure" "$BATS_TEST_TMPDIR/ask"
	chgrp 65534 "$BATS_TEST_TMPDIR/ask"
	chmod 2755 "$BATS_TEST_TMPDIR/ask"
	says $'sym cuInit: driver\n0/0 proc cuMemAlloc: driver\ninit 0 retain 0 current 0 alloc 0 free 0' \
		"$BATS_TEST_TMPDIR/ask" open "$SIM/libcuda.so.1" sym cuInit proc cuMemAlloc 3020 0 use
}
