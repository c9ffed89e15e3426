#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Other libraries between the program and the driver, and look-ups that bypass the hooks.

setup() {
	. "$BATS_TEST_DIRNAME/resolve.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	ASAN=${SANITIZE_LIB:+$SANITIZE_LIB:}
	OURS=$PWD/.libs/libgpumem.so
	TRACE=$BATS_TEST_TMPDIR/trace
}

# beside LIBRARY PROGRAM...: outputs with LIBRARY alone, with us before it and with us behind it, in $alone,
# $front and $behind. The calls of the driver are in $TRACE.{alone,front,behind}.
beside() {
	local other=$PROGRAMS/$1
	rm -f "$TRACE".*
	shift
	alone=$(PRELOAD=$ASAN$other SIM_TRACE=$TRACE.alone on sim "$@" 2>&1)
	front=$(PRELOAD=$ASAN$OURS:$other SIM_TRACE=$TRACE.front on sim "$@" 2>&1)
	behind=$(PRELOAD=$ASAN$other:$OURS SIM_TRACE=$TRACE.behind on sim "$@" 2>&1)
	printf '%s\n--\n%s\n--\n%s\n' "$alone" "$front" "$behind"
	[[ $alone == *'other: '*' allocated, '* ]]
	# The library may see all calls or none: the program's output stays the same.
	[ "$(grep -v '^other: ' <<<"$front")" = "$(grep -v '^other: ' <<<"$alone")" ]
	[ "$(grep -v '^other: ' <<<"$behind")" = "$(grep -v '^other: ' <<<"$alone")" ]
}

served() { # served WHERE: the pool served the run
	grep -qx 'cuMemCreate 0' "$TRACE.$1" && ! grep -qx 'cuMemAlloc_v2 0' "$TRACE.$1"
}

@test "a library before us that defines the driver's calls sees them all, and the pool serves them" {
	beside libother-calls.so "$PROGRAMS/linked-O2"
	[ "$behind" = "$alone" ]
	served behind
	served front
}

@test "a library that hooks dlsym and asks the next dlsym sees the calls, and so do we" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer asks dlsym before it has set itself up"
	for level in O0 O2; do
		beside libother-dlsym.so "$PROGRAMS/ask-$level" open libcuda.so.1 use
		[ "$behind" = "$alone" ]
		[ "$front" = "$alone" ]
		served behind
	done
}

@test "calls taken over by a library that asks libc's dlsym never reach us, frees included" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer asks dlsym before it has set itself up"
	for level in O0 O2; do
		beside libother-around.so "$PROGRAMS/ask-$level" open libcuda.so.1 use
		[ "$behind" = "$alone" ]
		[ "$(grep -cx 'cuMemAlloc_v2 0' "$TRACE.behind")" -eq 1 ]
		[ "$(grep -cx 'cuMemFree_v2 0' "$TRACE.behind")" -eq 1 ]
	done
}

@test "our dlsym calls no malloc, for a malloc may ask dlsym" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer has its own malloc"
	beside libother-malloc.so "$PROGRAMS/ask-O2" open libcuda.so.1 sym cuDriverGetVersion use
	[ "$behind" = "$alone" ]
	served front
	served behind
}

@test "a library opened with RTLD_DEEPBIND finds the driver itself, and its program finds us" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer refuses RTLD_DEEPBIND"
	for level in O0 O2; do
		says $'sym cuMemAlloc_v2: driver\nsym cuMemFree_v2: driver\ninit 0 retain 0 current 0 alloc 0 free 0' \
			over sim "$PROGRAMS/ask-$level" open libcuda.so.1 deep "$PROGRAMS/libsecond.so" sym cuMemAlloc_v2 sym cuMemFree_v2 use
	done
}

@test "libcuda is found under its versioned name, and under two names at once" {
	cp "$SIM/libcuda.so.1" "$BATS_TEST_TMPDIR/libcuda.so.580.95.05"
	for level in O0 O2; do
		says $'sym cuMemAlloc_v2: gpumem\ninit 0 retain 0 current 0 alloc 0 free 0' \
			over nowhere "$PROGRAMS/ask-$level" open libcuda.so.580.95.05 sym cuMemAlloc_v2 use
		ln -sf libcuda.so.580.95.05 "$BATS_TEST_TMPDIR/libcuda.so.1"
		says $'sym cuMemAlloc_v2: gpumem\nsym cuMemAlloc_v2: gpumem\ninit 0 retain 0 current 0 alloc 0 free 0' \
			over nowhere "$PROGRAMS/ask-$level" open "$BATS_TEST_TMPDIR/libcuda.so.580.95.05" sym cuMemAlloc_v2 \
			open libcuda.so.1 sym cuMemAlloc_v2 use
		rm "$BATS_TEST_TMPDIR/libcuda.so.1"
	done
}

@test "a driver that the program closes stays loaded" {
	# This driver can be unloaded natively.
	says 'closed: 0, mapped: 0' on plain "$PROGRAMS/ask-O2" open libcuda.so.1 close
	for level in O0 O2; do
		says $'sym cuMemAlloc_v2: gpumem\nclosed: 0, mapped: 1\nsym cuMemAlloc_v2: gpumem\ninit 0 retain 0 current 0 alloc 0 free 0' \
			over plain env GPUMEM_VERBOSE=0 "$PROGRAMS/ask-$level" open libcuda.so.1 sym cuMemAlloc_v2 close \
			open libcuda.so.1 sym cuMemAlloc_v2 use
	done
}

@test "programs run natively under LD_AUDIT, a wrong use, and one line says so" {
	[ -z "$SANITIZE_LIB" ] || skip "the loader does not find a sanitizer's runtime"
	env LD_AUDIT="$OURS" true 2>"$BATS_TEST_TMPDIR/said"
	[ "$(cat "$BATS_TEST_TMPDIR/said")" = 'gpumem: libgpumem.so has no effect in LD_AUDIT; put it into LD_PRELOAD' ]
	alone=$(PRELOAD=$ASAN SIM_TRACE=$TRACE.alone on sim "$PROGRAMS/linked-O2" 2>/dev/null)
	audited=$(PRELOAD=$ASAN SIM_TRACE=$TRACE.audited on sim env LD_AUDIT="$OURS" "$PROGRAMS/linked-O2" 2>/dev/null)
	[ -n "$alone" ]
	[ "$audited" = "$alone" ]
	diff "$TRACE.alone" "$TRACE.audited"
}
