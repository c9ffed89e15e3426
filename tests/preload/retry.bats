#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# A pool's idle memory makes no call run out of memory: each row of hooks.def with RETRY.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	export SIM_MEMORY=256M
}

@test "each RETRY row of hooks.def has a case" {
	run native "$PROGRAMS/retry" list
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq "$(grep -c '^GM_HOOK(.*RETRY' "$BATS_TEST_DIRNAME/../../src/driver/hooks.def")" ]
}

# Refused for a symbol that an old driver lacks: the native run shows it.
is_newer() {
	[ "${SIM_DRIVER:-13.4}" != 13.4 ] && grep -qx "$1: CUDA_ERROR_NOT_FOUND" "$BATS_TEST_TMPDIR/native"
}

# calls_of KIND: the expected number of calls in the driver.
calls_of() {
	if [ "$1" = pool ]; then echo 0; else echo 2; fi
}

@test "each RETRY call takes 90% of a device that was 95% full and is idle" {
	native "$PROGRAMS/retry" list >"$BATS_TEST_TMPDIR/rows"
	while read -r symbol kind; do
		native "$PROGRAMS/retry" take "$symbol" >"$BATS_TEST_TMPDIR/native" 2>"$BATS_TEST_TMPDIR/native.calls" || is_newer "$symbol"
		if is_newer "$symbol"; then continue; fi
		preloaded "$PROGRAMS/retry" take "$symbol" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/calls"
		diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
		[ "$(cat "$BATS_TEST_TMPDIR/preloaded")" = "$symbol: CUDA_SUCCESS" ]
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/native.calls")" = '1 calls reached the driver' ]
		# The pool itself uses cuMemCreate, too.
		echo "$symbol: $(cat "$BATS_TEST_TMPDIR/calls")"
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/calls")" = "$(calls_of "$kind") calls reached the driver" ]
	done <"$BATS_TEST_TMPDIR/rows"
}

@test "each RETRY call fails as natively when memory is too small, and writes the same bytes" {
	native "$PROGRAMS/retry" list >"$BATS_TEST_TMPDIR/rows"
	while read -r symbol kind; do
		native "$PROGRAMS/retry" fail "$symbol" >"$BATS_TEST_TMPDIR/native" 2>/dev/null || is_newer "$symbol"
		if is_newer "$symbol"; then continue; fi
		preloaded "$PROGRAMS/retry" fail "$symbol" >"$BATS_TEST_TMPDIR/preloaded" 2>/dev/null
		diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
		grep -qx "$symbol: CUDA_ERROR_OUT_OF_MEMORY" "$BATS_TEST_TMPDIR/preloaded"
	done <"$BATS_TEST_TMPDIR/rows"
}

@test "a call that a capture forbids is not retried, an allowed one is" {
	same retry capture
	grep -qx 'take_cuMemCreate(): CUDA_SUCCESS' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx 'take_cuMemAllocManaged(): CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED' "$BATS_TEST_TMPDIR/preloaded"
	grep -qx '1 call reached the driver' "$BATS_TEST_TMPDIR/preloaded"
}

@test "launches are retried even if only a pool needs them to be hooked" {
	export GPUMEM_HEAP=off
	for symbol in cuLaunchKernel cuGraphLaunch; do
		preloaded "$PROGRAMS/retry" take "$symbol" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/calls"
		[ "$(cat "$BATS_TEST_TMPDIR/preloaded")" = "$symbol: CUDA_SUCCESS" ]
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/calls")" = '2 calls reached the driver' ]
	done
}

# The size that the row asks for where the driver's call names one; 0: it names none.
asked_of() {
	case $1 in
	cuMemHostAlloc | cuMemAllocHost_v2 | cuMemHostRegister_v2 | cuImportExternalMemory | *MappedBuffer) echo 1048576 ;;
	cuMemAlloc* | cuMemCreate | cuArray* | cuMipmappedArrayCreate | cuGraphAddMemAllocNode) echo 314572800 ;;
	cuMemMap) echo 2097152 ;;
	*) echo 0 ;;
	esac
}

@test "each RETRY call that lacks memory is counted, has a record with its call and size, one line and a finding" {
	local TOOL=$PWD/gpumemstat
	native "$PROGRAMS/retry" list >"$BATS_TEST_TMPDIR/rows"
	cd "$BATS_TEST_TMPDIR"
	while read -r symbol kind; do
		native "$PROGRAMS/retry" fail "$symbol" >native 2>/dev/null || is_newer "$symbol"
		if is_newer "$symbol"; then continue; fi
		rm -f run.gml
		KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=run.gml)
		preloaded "$PROGRAMS/retry" fail "$symbol" >/dev/null 2>err
		asked=$(asked_of "$symbol") where=0
		case $symbol in cuMem*Host*) where='' ;; esac
		echo "$symbol $asked $where: $(cat err)"
		[ "$(grep -c '^gpumem: out of memory ' err)" -eq 1 ]
		grep -qE "^gpumem: out of memory o[nf] [a-z 0-9]*: $symbol (asked|failed)" err
		"$TOOL" export --format=csv run.gml | awk -F, '$2 == "out_of_memory" { print $6 "," $3 "," $10 }' >records
		[ "$(cat records)" = "$asked,$where,\"$symbol\"" ]
		"$TOOL" --json run.gml >json
		failed=$([ "$kind" = pool ] && echo allocate_failed || echo refused_calls)
		[ "$(jq ".logs[0].devices[0].counters | .$failed, .allocate_failed + .refused_calls" json | paste -sd' ')" = '1 1' ]
		[ "$(jq '[.logs[0].findings[].rule | select(startswith("oom_"))] | length' json)" -eq 1 ]
		# The owners, others and free memory are the whole device.
		[ -z "$where" ] || jq -e '.logs[0].out_of_memory[0] | .call == "'"$symbol"'" and
			([.owners[]] | add) + .device_free == 256 * 1048576' json
		run "$TOOL" check --max failed=0 run.gml
		[ "$status" -eq 3 ]
	done <rows
}

@test "an image that the driver refuses does not count as loaded" {
	needs_driver 12.0
	local TOOL=$PWD/gpumemstat way
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=run.gml)
	for way in fail:3 take:4; do # three are loaded before
		rm -f run.gml
		preloaded "$PROGRAMS/retry" "${way%:*}" cuModuleLoadData >out 2>/dev/null
		"$TOOL" --json run.gml | jq -e ".logs[0].counters.images == ${way#*:}"
	done
}

@test "each other call that lacks memory is counted, and has a record with its call" {
	local TOOL=$PWD/gpumemstat
	cd "$BATS_TEST_TMPDIR"
	export SIM_DEVICES=2
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=run.gml)
	native "$PROGRAMS/lacks" >native
	preloaded "$PROGRAMS/lacks" >preloaded 2>err
	diff -u native preloaded
	grep -v ': CUDA_ERROR_OUT_OF_MEMORY$' native | refute grep .
	native "$PROGRAMS/lacks" list | sort >symbols
	[ "$(wc -l <symbols)" -ge 23 ]
	"$TOOL" export --format=csv run.gml | awk -F, '$2 == "out_of_memory" { gsub(/"/, "", $10); print $10 }' | sort | diff -u symbols -
	[ "$("$TOOL" --json run.gml | jq '.logs[0].devices[0].counters.refused_calls')" -eq "$(wc -l <symbols)" ]
	# The first, second, fourth and so on have a line; addresses are the host's.
	grep -c '^gpumem: out of memory on device 0' err
	[ "$(grep -c '^gpumem: out of memory on device 0' err)" -eq 5 ]
	grep -q '^gpumem: out of memory of the host: cuMemAddressReserve asked 64.0 MiB$' err
	run "$TOOL" check --max failed=0 run.gml
	[ "$status" -eq 3 ]
}
