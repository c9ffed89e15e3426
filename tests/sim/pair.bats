# SPDX-License-Identifier: BSD-3-Clause
# The pair of libraries: names, versions, and one program linked both ways. Run in the build folder.
LIB=$PWD/tests/sim/lib

dynamic() {
	readelf -dW "$1" | sed -n "s/.*($2).*\[\(.*\)\]/\1/p"
}

@test "the simulated libraries have NVIDIA's names" {
	[ "$(dynamic "$LIB/libcuda.so.1" SONAME)" = libcuda.so.1 ]
	[ "$(dynamic "$LIB/libcudart.so.13" SONAME)" = libcudart.so.13 ]
}

@test "the simulated runtime's symbols have versions, the driver's have none" {
	nm -D --with-symbol-versions "$LIB/libcudart.so.13" | grep -q ' T cudaMalloc@@libcudart.so.13$'
	nm -D --with-symbol-versions "$LIB/libcuda.so.1" | grep -q ' T cuMemAlloc_v2$'
}

@test "the simulated driver exports the driver's names and its own controls" {
	[ -z "$(nm -D --defined-only "$LIB/libcuda.so.1" | awk '{print $3}' | grep -Ev '^(cu[A-Z]|cudbg[A-Z]|gm_sim_|gm_lock_none_held$)')" ]
}

@test "the simulated runtime is not linked with the driver" {
	! dynamic "$LIB/libcudart.so.13" NEEDED | grep -q libcuda.so
}

@test "the simulated runtime asks one dlsym and cuGetProcAddress_v2" {
	SIM_TRACE=$BATS_TEST_TMPDIR/trace LD_LIBRARY_PATH=$LIB tests/workloads/demo 10
	head -n 1 "$BATS_TEST_TMPDIR/trace" | grep -qx 'cuGetProcAddress_v2 0'
	[ "$(grep -cx 'cuMemAlloc_v2 0' "$BATS_TEST_TMPDIR/trace")" -gt 0 ]
}

@test "shared and static simulated runtime give the same result" {
	LD_LIBRARY_PATH=$LIB tests/workloads/demo 500 >"$BATS_TEST_TMPDIR/shared"
	LD_LIBRARY_PATH=$LIB tests/workloads/demo_static 500 >"$BATS_TEST_TMPDIR/static"
	diff "$BATS_TEST_TMPDIR/shared" "$BATS_TEST_TMPDIR/static"
}

@test "the demo leaks no memory" {
	SIM_LEAKS=1 LD_LIBRARY_PATH=$LIB tests/workloads/demo 500 2>"$BATS_TEST_TMPDIR/err"
	[ ! -s "$BATS_TEST_TMPDIR/err" ]
}

@test "the demo reports out of memory" {
	run env SIM_MEMORY=2M LD_LIBRARY_PATH="$LIB" tests/workloads/demo 500
	[ "$status" -eq 1 ]
	[[ $output == *cudaErrorMemoryAllocation* ]]
}

@test "a file size limit does not stop the simulator" {
	[[ -z $COVERAGE && $SANITIZE_LIB != *tsan* ]] || skip "gcov and ThreadSanitizer write files"
	bash -c 'ulimit -f 0; LD_LIBRARY_PATH=$1 exec tests/workloads/demo 100' - "$LIB" >/dev/null
}
