#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The log records whether blocks are segments of PyTorch's cache.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	export SIM_MEMORY=1G LOG=$BATS_TEST_TMPDIR/a.gml
}

# cache PRELOADED VARIABLE=VALUE...: prints the counter torch_cache of such a run
cache() {
	rm -f "$LOG"
	env LD_LIBRARY_PATH="$SIM" GPUMEM_LOG=small GPUMEM_LOG_NAME="$LOG" "${@:2}" \
		LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$LIBRARY$1" $TEST_UNDER "$PROGRAMS/stripes" >/dev/null
	"$PROGRAMS/../../gpumemstat" summary --json "$LOG" | jq '[.. | .torch_cache? // empty] | add'
}

@test "PyTorch's cache is found by its library, and by the variables that turn it off" {
	torch=:$PROGRAMS/libc10_cuda.so
	[ "$(cache '')" = 0 ]
	[ "$(cache "$torch")" = 1 ]
	[ "$(cache "$torch" PYTORCH_NO_CUDA_MEMORY_CACHING=1)" = 0 ]
	[ "$(cache "$torch" PYTORCH_NO_CUDA_MEMORY_CACHING=0)" = 1 ]
	[ "$(cache "$torch" PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)" = 1 ]
	[ "$(cache "$torch" PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,backend:cudaMallocAsync)" = 0 ]
	[ "$(cache "$torch" PYTORCH_ALLOC_CONF=backend:cudaMallocAsync)" = 0 ]
}

@test "blocks of the cache are not reported as never freed" {
	[ "$(cache ":$PROGRAMS/libc10_cuda.so")" = 1 ]
	"$PROGRAMS/../../gpumemstat" summary --json "$LOG" | jq -r '.. | .rule? // empty' >"$BATS_TEST_TMPDIR/rules"
	grep -qx torch_cache "$BATS_TEST_TMPDIR/rules"
	refute grep -x never_freed "$BATS_TEST_TMPDIR/rules"
	"$PROGRAMS/../../gpumemstat" summary -v "$LOG" >"$BATS_TEST_TMPDIR/out"
	grep -qE '^  by segments +[0-9.]+ ' "$BATS_TEST_TMPDIR/out"
	! grep '^utilisation' "$BATS_TEST_TMPDIR/out"
}
