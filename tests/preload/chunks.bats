#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Physical memory: creation, moves and refusals.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	# The device has 16 GiB, as much as memcheck has addresses for; its handles would be longer than 64
	# MiB. Retired memory is bounded as on a device of 1 GiB. The handles of the program are counted, without
	# the one of a first context.
	export SIM_MEMORY=16G GPUMEM_RETIRE=51M GPUMEM_PREWARM=0
	HANDLES=1 # of a block of 64 MiB; ordered has short ones, and shorter ones where less than 32 GiB are left
	[ "${GPUMEM_FREE:-}" != ordered ] || { HANDLES=4; export SIM_MEMORY=64G; }
}

@test "idle chunks are moved where a longer block needs them" {
	same stripes
	[ "$(calls cuMemCreate stripes)" -eq $((6 * HANDLES)) ]
	[ "$(calls cuMemUnmap stripes)" -eq $((3 * HANDLES)) ]
}

@test "idle chunks stay in place beside a library that caches registrations" {
	beside() {
		rm -f "$BATS_TEST_TMPDIR/trace"
		env LD_LIBRARY_PATH="$SIM" GPUMEM_LOG=off GPUMEM_REMAP="$1" SIM_TRACE="$BATS_TEST_TMPDIR/trace" \
			LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$LIBRARY$2" $TEST_UNDER "$PROGRAMS/stripes" >/dev/null
		[ "$(grep -cx 'cuMemUnmap 0' "$BATS_TEST_TMPDIR/trace" || true)" -eq "$3" ]
	}
	beside auto ":$PROGRAMS/libucp.so.0" 0
	beside auto '' $((3 * HANDLES))
	beside off '' 0
}

same_but_said() {
	native "$PROGRAMS/stripes" >"$BATS_TEST_TMPDIR/native"
	preloaded "$PROGRAMS/stripes" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/said"
	diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
	[ "$(<"$BATS_TEST_TMPDIR/said")" = "$1" ]
}

@test "GPUMEM_PREWARM maps memory before the first allocation, or reports that there is none" {
	export SIM_MEMORY=1G
	KNOBS=(GPUMEM_PREWARM=60%)
	[ "$(calls cuMemCreate stripes)" -eq $((HANDLES == 1 ? 20 : 308)) ] # 615 MiB, in handles of 32; ordered: of 2
	KNOBS=(GPUMEM_PREWARM=2G)
	same_but_said 'gpumem: GPUMEM_PREWARM: device 0 has no 2.00 GiB, none is mapped (CUDA_ERROR_OUT_OF_MEMORY)'
	KNOBS=(GPUMEM_PREWARM=512M GPUMEM_LIMIT=500M)
	same_but_said 'gpumem: GPUMEM_PREWARM: device 0 has no 512 MiB, none is mapped (CUDA_ERROR_OUT_OF_MEMORY)'
}

@test "a first context has 2 MiB mapped by default; a failure of that is not reported" {
	[ "$(calls cuMemCreate stripes)" -eq $((6 * HANDLES)) ]
	unset GPUMEM_PREWARM
	[ "$(calls cuMemCreate stripes)" -eq $((6 * HANDLES + 1)) ]
	KNOBS=(GPUMEM_LIMIT=1M)
	preloaded "$PROGRAMS/pressure" fill >/dev/null 2>"$BATS_TEST_TMPDIR/said"
	grep -q 'out of memory' "$BATS_TEST_TMPDIR/said"
	! grep PREWARM "$BATS_TEST_TMPDIR/said"
}

@test "a refused allocation is reported in one line, later ones more and more rarely" {
	KNOBS=('GPUMEM_LIMIT=64M')
	SIM_MEMORY=256M preloaded "$PROGRAMS/pressure" fill >/dev/null 2>"$BATS_TEST_TMPDIR/said"
	diff -u "$BATS_TEST_TMPDIR/said" - <<-'END'
		gpumem: out of memory on device 0: cuMemAlloc_v2 asked 16.0 MiB, limit 64.0 MiB, free 192 MiB of 256 MiB; of this process: live 64.0 MiB, idle 0 B (largest 0 B); of others 0 B; largest live: 64.0 MiB in 4 blocks of 16.0 MiB
		gpumem: out of memory on device 0 (failure 2): cuMemAlloc_v2 asked 16.0 MiB, limit 64.0 MiB, free 192 MiB of 256 MiB; of this process: live 64.0 MiB, idle 0 B (largest 0 B); of others 0 B; largest live: 64.0 MiB in 4 blocks of 16.0 MiB
	END
	# Blocks from the driver count too.
	KNOBS=(GPUMEM_IPC=native)
	SIM_MEMORY=64M preloaded "$PROGRAMS/pressure" fill 2>&1 >/dev/null | grep -q '; largest live: 64.0 MiB in 4 blocks of 16.0 MiB$'
	KNOBS=()
	SIM_MEMORY=64M preloaded "$PROGRAMS/refused" 100 2>"$BATS_TEST_TMPDIR/said"
	local state='cuMemAlloc_v2 asked 50.0 MiB, free 24.0 MiB of 64.0 MiB; of this process: live 27.0 MiB, idle 13.0 MiB (largest 13.0 MiB); of others 0 B'
	state+='; largest live: 20.0 MiB in 1 block of 20.0 MiB, 7.00 MiB in 1 block of 7.00 MiB'
	{
		echo "gpumem: out of memory on device 0: $state"
		printf 'gpumem: out of memory on device 0 (failure %s): '"$state"'\n' 2 4 8 16 32 64
	} | diff -u "$BATS_TEST_TMPDIR/said" -
}
