#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Memory that libgpumem-core keeps for streams is cut, merged and bounded; blocks of several streams;
# PyTorch's exceptions. By itself and under the preload.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	PROGRAMS=$PWD/tests/core
	export GPUMEM_VERBOSE=0
	needs_driver 12.0
}

# both CASE LINE...: its output, natively and preloaded.
both() {
	same cuts "$1"
	printf '%s\n' "${@:2}" | diff -u - "$BATS_TEST_TMPDIR/native"
}

@test "record_stream: a block is reused after the other stream has completed, and its free does not wait" {
	both record 'the free waits: no' 'used again while t uses it: no' 'what s wrote is there: yes' \
		'used again once t is through: yes' 'of its own stream: at once: yes'
}

@test "record_stream of an address that is no block is reported" {
	unset GPUMEM_VERBOSE
	native "$PROGRAMS/cuts" record 2>&1 >/dev/null | grep -qxE 'gpumem: libgpumem-core: record_stream of 0x[0-9a-f]+: error 1: no block of it is in use there'
}

@test "a block that a capture uses is unavailable until its context has completed, and a capture gets no memory" {
	both record_in_capture 'used again, though a capture has it: no' 'memory in a capture: no' \
		'cuStreamEndCapture(t, &graph): CUDA_SUCCESS' '1 blocks are left'
}

@test "a kept block is cut for its stream, freed parts are merged, and a part is freed once" {
	both cut 'another stream gets a part before the first is through: no' 'cut for a request of a thirtieth: no' \
		'part 0 of the block: yes' 'part 1 of the block: yes' 'part 2 of the block: yes' 'part 3 of the block: yes' \
		'3 blocks, 0 bytes kept' '33554432 bytes kept' 'two neighbours are one part: yes' 'and all the block again: yes' \
		'0 bytes are left'
}

@test "neighbours that two streams have freed are merged only after both have completed" {
	both cut_apart 'both are one for the first stream: no' 'its own part: at once: yes' '0 bytes are left'
}

@test "a block stays while a part of it is in use" {
	both cut_kept 'a part in use is there after trimming: yes' '0 blocks, 0 bytes are left'
}

@test "kept memory is bounded by memory in use, and no free waits for that" {
	export SIM_MEMORY=8G
	both bound 'a free waits: no' 'all is kept while the stream is busy: yes' '128 MiB are kept at most then: yes' \
		'an eighth of what is in use: yes'
}

@test "random sizes, streams and users: no memory is handed out twice, and all is returned" {
	export SIM_MEMORY=8G
	both soak '0 blocks overlap; 0 bytes are left'
}

@test "with PyTorch loaded, out of memory and a capture raise an exception; otherwise the result is NULL" {
	[ -z "$SANITIZE_LIB$TEST_UNDER$COVERAGE" ] || skip "compiled without a sanitizer's runtime"
	local top
	top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	PROGRAMS=$BATS_TEST_TMPDIR
	mkdir "$PROGRAMS/lib"
	echo 'int loaded;' | ${CC:-cc} -shared -fPIC -x c - -Wl,-soname,libc10.so -o "$PROGRAMS/lib/libc10.so"
	${CXX:-c++} -std=c++14 -Wall -Wextra -Werror -I"$top" "$BATS_TEST_DIRNAME/throws.cc" -o "$PROGRAMS/throws" \
		-L.libs -lgpumem-core -Ltests/sim/lib -l:libcuda.so.1 -ldl -Wl,-rpath,"$PWD/.libs:$PWD/tests/sim/lib"
	same throws "$PROGRAMS/lib/libc10.so"
	printf '%s\n' '1000 bytes: memory' \
		'too much: CUDA out of memory: gpumem_torch_alloc has no 1099511627776 bytes on device 0' \
		'in a capture: gpumem_torch_alloc: 1000 bytes in a stream capture: a CUDA graph would keep the memory, and this allocator would hand it out again' \
		'after it: memory' | diff -u - "$BATS_TEST_TMPDIR/native"
	same throws
	printf '%s\n' '1000 bytes: memory' 'too much: NULL' 'in a capture: NULL' 'after it: memory' |
		diff -u - "$BATS_TEST_TMPDIR/native"
}
