#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The allocator for PyTorch that gpumem(3) shows, tests/gpu/torch_adapter.cc. By itself and under the preload.

setup() {
	. "$BATS_TEST_DIRNAME/../preload/behaviour.bash"
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	ADAPTER=$TOP/tests/gpu/torch_adapter.cc
}

@test "gpumem(3) shows the allocator for PyTorch that the tests use" {
	sed -n '/^#include <cuda.h>/,$p' "$ADAPTER" | expand >"$BATS_TEST_TMPDIR/used"
	sed -n '/^#include <cuda.h>/,/^\.Ed/p' "$TOP/man/gpumem.3" | sed '$d' | diff -u "$BATS_TEST_TMPDIR/used" -
}

@test "the allocator for PyTorch: exceptions, reuse at once, and a block that another stream uses" {
	[ -z "$SANITIZE_LIB$TEST_UNDER$COVERAGE" ] || skip "compiled without a sanitizer's runtime"
	needs_driver 12.0
	export GPUMEM_VERBOSE=0
	PROGRAMS=$BATS_TEST_TMPDIR
	local flags
	flags=$(sed -n 's/^CUDA_CPPFLAGS = //p' Makefile)
	${CXX:-c++} -std=c++11 -Wall -Wextra -Werror $flags -I"$TOP/api" -shared -fPIC "$ADAPTER" -o "$PROGRAMS/adapter.so" \
		-L.libs -lgpumem-core -Ltests/sim/lib -l:libcuda.so.1 -Wl,-rpath,"$PWD/.libs:$PWD/tests/sim/lib"
	${CXX:-c++} -std=c++11 -Wall -Wextra -Werror $flags -I"$TOP" "$BATS_TEST_DIRNAME/torch.cc" -o "$PROGRAMS/torch" \
		"$PROGRAMS/adapter.so" -L.libs -lgpumem-core -Ltests/sim/lib -l:libcuda.so.1 -ldl \
		-Wl,-rpath,"$PWD/.libs:$PWD/tests/sim/lib"
	same torch
	diff -u - "$BATS_TEST_TMPDIR/native" <<-'END'
	1000 bytes: memory
	no bytes: NULL
	too much: CUDA out of memory
	in a capture: no memory in a stream capture
	after it: memory
	a free waits: no
	reused at once: yes
	written behind the other stream's work: yes
	NULL is the legacy stream: yes
	END
}
