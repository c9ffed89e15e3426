#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Growable buffers, by libgpumem-core alone and under the preload.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	PROGRAMS=$PWD/tests/core
	export GPUMEM_HEAP=off # no memory but that of buffers
}

# both CASE LINE...: its output, natively and preloaded.
both() {
	same buffer "$1"
	printf '%s\n' "${@:2}" | diff -u - "$BATS_TEST_TMPDIR/native"
}

GROWN=('empty: size 0, capacity 0 MiB' 'resized: 0' 'grown while a kernel waits: size 201326593, capacity 194 MiB'
	'copies 0, new parts 7, waits 0' 'same address: yes' 'the kernel read its bytes: yes' 'reserved: 0, 0, 2'
	'reserved: size 201326593, capacity 256 MiB' 'smaller: 0' 'smaller: size 10, capacity 256 MiB' 'destroyed: 0')

@test "a buffer grows while a kernel reads it: no copy, no wait, the same address, and only new parts are mapped" {
	both grow "${GROWN[@]}"
}

@test "memory of the host grows likewise, from driver 12.2 on" {
	needs_driver 12.2
	both host "${GROWN[@]}"
}

@test "before driver 12.2 no memory of the host is available" {
	export SIM_DRIVER=12.0
	local status=0
	native "$PROGRAMS/buffer" host >"$BATS_TEST_TMPDIR/out" || status=$?
	[ "$status" -eq 1 ]
	[ "$(cat "$BATS_TEST_TMPDIR/out")" = 'made: 801' ]
}

@test "a resize adds an eighth, or only the missing part if there is not so much" {
	export SIM_MEMORY=256M
	both step 'an eighth more: size 167772161, capacity 180 MiB' 'more than an eighth: size 235929600, capacity 226 MiB' \
		'less than an eighth is there: size 251658240, capacity 240 MiB'
}

@test "append, insert and erase give the same contents as in plain memory" {
	needs_driver 12.2
	both content '0 wrong; destroyed: 0' '0 wrong; destroyed: 0' '0 wrong; destroyed: 0'
}

@test "a tail moves by few copies, also by a single byte, and if no addresses are left" {
	both tail 'inserted: 0' 'copies: 9' 'erased: 0' '0 bytes wrong' 'inserted: 0' 'moved: yes'
}

@test "shrink waits for the kernels, and returns whole parts to the pool" {
	both shrink 'while a kernel runs: size 20971520, capacity 64 MiB' 'shrunk: 0' 'after: size 20971520, capacity 24 MiB' \
		'again: 0' 'to nothing: 0' 'to nothing: size 0, capacity 0 MiB' 'destroyed: 0; the pool keeps 0 bytes'
}

@test "destroy waits for the kernels" {
	both destroy 'destroyed: 0' 'the kernel read its bytes: yes'
}

@test "after a failed driver call the buffer is unchanged, and the next attempt succeeds" {
	needs_driver 12.2
	local again='size 2, capacity 2 MiB; again: 0; its bytes are there'
	# The pool retries cuMemCreate with fewer properties.
	both faults 'cuMemCreate: 0, size 2, capacity 8 MiB; again: 0; its bytes are there' "cuMemMap: 800, $again" \
		"cuMemSetAccess: 800, $again" "cuMemCreate: 800, $again" "cuMemMap: 800, $again" "cuMemSetAccess: 800, $again" \
		'no addresses: 2, 1' 'a copy fails: 1, size 4' 'the driver keeps it: 999, 10 MiB' 'destroyed: 0'
}

@test "memory kept for streams is released for a buffer; beyond the device's memory no change is made" {
	needs_driver 12.0
	export SIM_MEMORY=256M
	both lack 'all but a little: 0' 'that: size 262144000, capacity 250 MiB' 'more than there is: 2' \
		'still: size 262144000, capacity 250 MiB' 'destroyed: 0'
}

@test "a buffer grows in a stream capture, which stays valid" {
	both capture 'grown in a capture: 0' 'ended: CUDA_SUCCESS' 'destroyed: 0'
}

@test "wrong arguments are refused" {
	both wrong 'no place: 1' 'no device: 101' 'no such memory: 1, 1' 'no buffer: 0 1 1 1 0' 'too much: 2' \
		'behind the end: 1 1 1' 'overflow: 2 2' 'as it was: size 100, capacity 2 MiB'
}

@test "a child of fork uses no buffer of its parent, and the parent continues" {
	# In a child the leak checker waits for threads of the parent, which do not exist there.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
	both fork 'child: 3 3 3, destroyed: 0' 'child: status 0' 'parent: 0, destroyed: 0'
}

@test "a buffer survives the reset of its device's context" {
	both reset 'after a reset: 0, destroyed: 0'
}

@test "no handle, mapping or address remains" {
	needs_driver 12.2
	local how
	export SIM_LEAKS=1
	for how in native preloaded; do
		$how "$PROGRAMS/buffer" left >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
		[ "$(cat "$BATS_TEST_TMPDIR/out")" = 'destroyed: 0 0' ]
		[ "$(grep -c 'leaked handle\|leaked mapping' "$BATS_TEST_TMPDIR/err")" -eq 0 ]
		# The pool's own range.
		grep -q 'sim: 1 leaked reservation' "$BATS_TEST_TMPDIR/err"
	done
}

@test "the log counts a buffer's memory as lent, and is consistent" {
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=log)
	preloaded "$PROGRAMS/buffer" shrink >out
	env ASAN_OPTIONS=detect_leaks=0 "$OLDPWD/gpumemstat" summary --json log >json
	jq -e '.logs[0] | .contradiction == null and .closed and .devices[0].counters.lent == 0' json
	jq -e '.logs[0].devices[0].counters | .map_bytes == 67108864 and .unmap_bytes == 67108864' json
}

@test "gpumem::vector passes its checks, natively and preloaded" {
	[ -z "$SANITIZE_LIB$TEST_UNDER$COVERAGE" ] || skip "compiled without a sanitizer's runtime"
	needs_driver 12.2
	local top=$BATS_TEST_DIRNAME/../..
	${CXX:-c++} -std=c++14 -pedantic -Wall -Wextra -Werror -I"$top/api" "$BATS_TEST_DIRNAME/vector.cc" \
		-o "$BATS_TEST_TMPDIR/vector" "$PWD/.libs/libgpumem-core.so" -Wl,-rpath-link,"$SIM"
	local preload
	for preload in '' "$LIBRARY"; do
		run env LD_LIBRARY_PATH="$PWD/.libs:$SIM" GPUMEM_LOG=off LD_PRELOAD="$preload" "$BATS_TEST_TMPDIR/vector"
		[ "$output" = '16 checks, 0 wrong' ]
	done
}
