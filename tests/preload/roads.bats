#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# GPUMEM_LIMIT, cuMemGetInfo and refusals, on each road by which a process takes memory of a device.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	TOOL=$PWD/gpumemstat
	export SIM_MEMORY=256M LC_ALL=C
	cd "$BATS_TEST_TMPDIR" || return 1
	KNOBS=(GPUMEM_LIMIT=64M GPUMEM_LOG=events GPUMEM_LOG_NAME=run.gml)
}

# Road, the call, the owner of its memory in the log, that owner on standard error.
LIMITED='alloc cuMemAlloc_v2 live live
create cuMemCreate created cuMemCreate
mapped cuMemCreate created cuMemCreate
async cuMemAllocAsync async async
pool cuMemAllocFromPoolAsync async async
array cuArrayCreate_v2 arrays arrays
mipmap cuMipmappedArrayCreate arrays arrays'

# roads ROAD [PIECES]
roads() {
	rm -f run.gml
	preloaded "$PROGRAMS/roads" "$@" >out 2>err
}

@test "each road is in a table here" {
	[ "$(native "$PROGRAMS/roads" list | sort | paste -sd' ')" = "$(echo "$LIMITED" | awk '{ print $1 } END { print "managed"; print "graph" }' | sort |
		paste -sd' ')" ]
}

@test "limit and cuMemGetInfo: each road gets what is free, and no more; what is given back is free again" {
	while read -r road rest; do
		roads "$road"
		echo "$road: $(paste -sd, out)"
		diff -u out - <<-'END'
			begin: 64 of 64
			took: 54 of 64
			took: 44 of 64
			took: 34 of 64
			took: 24 of 64
			took: 14 of 64
			took: 4 of 64
			6 pieces, then CUDA_ERROR_OUT_OF_MEMORY
			gave one: 14 of 64
			cuMemAlloc: CUDA_SUCCESS
			gave all: 54 of 64
		END
	done <<<"$LIMITED"
}

@test "refusal: each road has a counter, a record with its owner, a line, a cause, and check sees it" {
	while read -r road call owner text; do
		roads "$road"
		cat err
		grep -qxE "gpumem: out of memory on device 0: $call asked 10.0 MiB, limit 64.0 MiB, free [0-9]+ MiB of 256 MiB; of this process: .*\b$text 60\.0 MiB.*; of others [^;]*(; largest live: .*)?" err
		[ "$(wc -l <err)" -eq 1 ]
		"$TOOL" --json run.gml >json
		jq -e '.logs[0].devices[0].counters | .allocate_failed + .refused_calls == 1' json
		jq -e --arg call "$call" --arg owner "$owner" '.logs[0].out_of_memory | length == 1 and (.[0] | .call == $call and
			.asked == 10485760 and .limit == 67108864 and .owners[$owner] == 62914560 and
			([.owners[]] | add) + .device_free == 268435456)' json
		[ "$(jq -r '.logs[0].findings[].rule' json | grep '^oom_')" = oom_limit ]
		"$TOOL" live --at=oom --json run.gml >live
		jq -e --arg call "$call" --arg owner "$owner" '.logs[0].devices[0].refusal | .call == $call and .owners[$owner] == 62914560' live
		"$TOOL" live --at=oom --width=200 run.gml | grep -qE "^ +$call, 10.0 MiB asked; .*60.0 MiB $text\b.*; .* of others, [0-9]+ MiB free$"
		run "$TOOL" check --max failed=0 run.gml
		[ "$status" -eq 3 ]
	done <<<"$LIMITED"
}

@test "memory of graphs is counted, and not refused; managed memory is named" {
	roads graph 8
	[ "$(sed -n '2p;7,9p' out | paste -sd,)" = 'took: 54 of 64,took: 4 of 64,took: 0 of 64,took: 0 of 64' ]
	grep -qx '8 pieces, then CUDA_SUCCESS' out
	grep -qx 'gave one: 64 of 64' out
	roads managed 8
	[ "$(grep -c '^took: 64 of 64$' out)" -eq 8 ]
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=run.gml)
	roads managed
	grep -qE '; managed [0-9]+ MiB, anywhere' err
}

@test "each road without a limit is as natively: no pool is sought, and an async allocation asks for its context once" {
	local road
	KNOBS=()
	for road in $(native "$PROGRAMS/roads" list); do
		native "$PROGRAMS/roads" "$road" 20 >native
		rm -f trace
		SIM_TRACE=trace roads "$road" 20
		[ "$road" = alloc ] || diff -u native out
		refute grep -q cuMemPoolGetAttribute trace
		refute grep -q cuDeviceGetDefaultMemPool trace
		[ "$(grep -c "^cuStreamGetCtx" trace)" -le "$(grep -c "^cuMemAlloc.*Async" trace)" ]
	done
}

@test "an odd limit is a whole number of granules, all of which can be had" {
	KNOBS=(GPUMEM_LIMIT=25000000 GPUMEM_LOG=off)
	roads alloc
	[ "$(paste -sd, out)" = 'begin: 22 of 22,took: 12 of 22,took: 2 of 22,2 pieces, then CUDA_ERROR_OUT_OF_MEMORY,gave one: 12 of 22,cuMemAlloc: CUDA_SUCCESS,gave all: 12 of 22' ]
}

@test "two processes on one device: what the other has is neither free nor this process's" {
	local line way other
	export SIM_SHARE=$BATS_TEST_TMPDIR/device
	for way in native preloaded; do
		KNOBS=(GPUMEM_LOG=off)
		coproc OTHER { $way "$PROGRAMS/roads" create 8 hold; }
		exec 7<&"${OTHER[0]}" 8>&"${OTHER[1]}"
		other=$OTHER_PID
		until read -r line <&7 && [ "$line" = '8 pieces, then CUDA_SUCCESS' ]; do :; done
		KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=run.gml)
		roads async
		echo >&8
		exec 7<&- 8>&-
		wait "$other"
		cat err
		# The other's pool has 2 MiB when preloaded, and returns them.
		grep -qxE 'gpumem: out of memory on device 0: cuMemAllocAsync asked 10.0 MiB, free 6.00 MiB of 256 MiB; of this process: live 0 B, idle 0 B \(largest 0 B\), async 170 MiB; of others 80.0 MiB' err
		"$TOOL" --json run.gml | jq -e '.logs[0].out_of_memory[0].owners | .async == 178257920 and .others == 83886080'
		"$TOOL" run.gml | grep -q 'Out of memory: 10.0 MiB was asked for while 170 MiB was in use.'
	done
}

@test "threads race for the last bytes by different roads: none is refused if all fit, and the limit holds if not" {
	local roads
	# A block may lie in a first chunk of 2 MiB and in the next one, of 10: then 2 MiB of that one are idle,
	# and stay mapped.
	KNOBS=(GPUMEM_LIMIT=40M GPUMEM_PREWARM=0 GPUMEM_LOG=off)
	export SIM_YIELD=1
	for roads in 'create create array async' 'async async async async' 'pool async alloc create' 'alloc alloc create array'; do
		preloaded "$PROGRAMS/roads" race $roads >out 2>err
		echo "$roads: $(paste -sd, out)"
		grep -qE '^refused 0 of 800, at most ([1-3][0-9]|40) MiB$' out
		grep -qx 'end: 40 of 40' out
		[ ! -s err ]
		preloaded "$PROGRAMS/roads" race $roads $roads >out 2>err
		echo "$roads, twice: $(paste -sd, out)"
		grep -qE '^refused [0-9]+ of 1600, at most ([1-3][0-9]|40) MiB$' out
		grep -qx 'end: 40 of 40' out
	done
}

@test "what a refusal says adds up to no more than the device, also while threads race" {
	KNOBS=(GPUMEM_LIMIT=40M GPUMEM_LOG=events GPUMEM_LOG_NAME=run.gml)
	export SIM_YIELD=1
	local turn
	for turn in {1..100}; do # until a call is refused
		roads race create create array async pool alloc create alloc create async alloc pool
		"$TOOL" --json run.gml | jq '[.logs[0].out_of_memory[] | ([.owners[]] | add) + .device_free]' >sums
		[ "$(jq length sums)" -eq 0 ] || break
	done
	[ "$(jq length sums)" -gt 0 ]
	[ "$(jq 'max <= 256 * 1048576' sums)" = true ]
}

@test "an allocation by another device's stream or pool counts there; a graph's memory before the next allocation" {
	KNOBS=(GPUMEM_LIMIT=64M GPUMEM_LOG=off)
	SIM_DEVICES=2 roads elsewhere
	diff -u out - <<-'END'
		device 1: 6 pieces, then CUDA_ERROR_OUT_OF_MEMORY
		device 0: 64 of 64
		device 1: 4 of 64
	END
	grep -q '^gpumem: out of memory on device 1: cuMemAllocAsync asked 10.0 MiB, limit 64.0 MiB, free 196 MiB of 256 MiB; .*; of others 0 B$' err
	roads after_graph
	[ "$(paste -sd, out)" = 'cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY,cuMemAlloc: CUDA_SUCCESS' ]
}

@test "pools of the device that lacks memory are trimmed before a refusal: the default one and the program's" {
	KNOBS=(GPUMEM_LIMIT=64M GPUMEM_LOG=off)
	SIM_DEVICES=2 roads pools
	diff -u out - <<-'END'
		device 1: 6 pieces, then 0; trims: of both pools
		device 0: 6 pieces, then 0; trims: of both pools
	END
}

@test "a device without virtual memory management has the limit, too" {
	export SIM_ATTRIBUTE=102:0
	KNOBS=(GPUMEM_LIMIT=64M GPUMEM_LOG=events GPUMEM_LOG_NAME=run.gml)
	roads alloc
	[ "$(sed -n 8p out)" = '6 pieces, then CUDA_ERROR_OUT_OF_MEMORY' ]
	grep -q '^gpumem: out of memory on device 0: cuMemAlloc_v2 asked 10.0 MiB, limit 64.0 MiB,' err
	[ "$("$TOOL" --json run.gml | jq '.logs[0].devices[0].counters.allocate_failed')" -eq 1 ]
	roads odd # the driver takes 4 MiB for each
	[ "$(cat out)" = '16 blocks, 64 MiB of the device' ]
	grep -q 'cuMemAlloc of the driver 64.0 MiB; of others 0 B$' err
	roads rows
	cat out
	[ "$(paste -sd, out)" = 'cuMemAllocPitch: CUDA_ERROR_OUT_OF_MEMORY pitch 1048576,cuMemAllocPitch: CUDA_SUCCESS pitch 1048576' ]
	rm run.gml
	roads invalid
	native "$PROGRAMS/roads" invalid | diff -u - out
}

@test "beyond the limit, an invalid call gets the driver's answer" {
	KNOBS=(GPUMEM_LIMIT=64M GPUMEM_LOG=off)
	same roads invalid
	refute grep -q gpumem "$BATS_TEST_TMPDIR/preloaded"
}
