#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Two processes share memory by cuIpcGetMemHandle. The simulated driver shares its own memory between
# processes, too.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	export SIM_MEMFD=1
}

# Standard output must be EXPECTED; gpumem's messages are in the file `said`.
prints() {
	preloaded "${@:2}" >"$BATS_TEST_TMPDIR/preloaded" 2>"$BATS_TEST_TMPDIR/said"
	diff -u <(printf '%s\n' "$1") "$BATS_TEST_TMPDIR/preloaded"
}

# The one line on standard error matches PATTERN.
said() {
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 1 ]
	grep -qE "^gpumem: $1\$" "$BATS_TEST_TMPDIR/said"
}

# Leaks of both processes in the driver, without events.
leaks() {
	grep '^gpumem: sim:.*leaked' "$BATS_TEST_TMPDIR/said" | grep -v 'event(s)' | sort
}

OPENED='cuIpcGetMemHandle(&b.handle, p): CUDA_SUCCESS
OPEN(&p, b.handle): CUDA_SUCCESS
read: 1'
UNOPENED='cuIpcGetMemHandle(&b.handle, p): CUDA_SUCCESS
OPEN(&p, b.handle): CUDA_ERROR_INVALID_HANDLE'
NOBODY='memory was exported by cuIpcGetMemHandle, and no process under gpumem has opened it; for processes without gpumem set GPUMEM_IPC=native'

@test "blocks of all sizes are shared: both sides write, and opens are counted" {
	same ipc bytes
}

@test "a block is shared that has more chunks than a reply can hold" {
	export SIM_MEMORY=256M # chunks of 2 MiB
	same ipc bytes
}

@test "wrong calls, opens by the exporter itself and handles of freed blocks answer as natively" {
	same ipc wrong
}

@test "tensors are shared as PyTorch does it, by offsets in segments" {
	same ipc tensors
	grep -qx '2 handles, 12 tensors right' "$BATS_TEST_TMPDIR/preloaded"
}

@test "an open block outlives its exporter; an unopened one cannot be opened any more" {
	same ipc exit
}

@test "exporters that are killed at any moment leave no process waiting, and answers are native ones" {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		same ipc killed
	done
}

@test "an importer that is killed leaves the exporter's memory alone" {
	same ipc dead
}

@test "forks of either side change nothing, and a child does not answer for its parent" {
	same ipc forks
}

@test "after a reset of either side's device, and in other contexts, answers are native ones" {
	same ipc reset
}

@test "a block is opened in a context of another device, which has access to it" {
	SIM_DEVICES=2 same ipc elsewhere
}

@test "a close during a capture, where a wait is impossible, unmaps later" {
	prints 'cuIpcGetMemHandle(&b.handle, p): CUDA_SUCCESS
cuIpcCloseMemHandle(p): CUDA_SUCCESS
read: 1
cuStreamEndCapture(stream, &graph): CUDA_SUCCESS
OPEN(&p, b.handle): CUDA_SUCCESS
cuIpcCloseMemHandle(p): CUDA_SUCCESS' "$PROGRAMS/ipc" capture
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
}

@test "an exporter without the preload: its handles go to the driver" {
	IPC_PLAIN=exporter prints "$OPENED" "$PROGRAMS/ipc" one
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
}

@test "an importer without the preload gets the native error, and the exporter names the reason" {
	IPC_PLAIN=importer prints "$UNOPENED" "$PROGRAMS/ipc" one
	said "$NOBODY"
}

@test "GPUMEM_IPC=native leaves blocks from 2 MiB on to the driver, for importers without the preload" {
	KNOBS=(GPUMEM_IPC=native)
	IPC_PLAIN=importer IPC_SIZE=2097152 prints "$OPENED" "$PROGRAMS/ipc" one
	[ ! -s "$BATS_TEST_TMPDIR/said" ]
	IPC_PLAIN=importer IPC_SIZE=2097151 prints "$UNOPENED" "$PROGRAMS/ipc" one
	said "$NOBODY"
	same ipc bytes
	# Such a block is not refused for the pool's idle memory, and GPUMEM_LIMIT holds for it.
	same pressure
	KNOBS=(GPUMEM_IPC=native GPUMEM_LIMIT=15M)
	prints 'cuMemAlloc(&p, 8 * MIB): CUDA_SUCCESS
cuMemAlloc(&p, 8 * MIB): CUDA_ERROR_OUT_OF_MEMORY' "$PROGRAMS/ipc" idle
	KNOBS=(GPUMEM_IPC=native GPUMEM_LIMIT=20M)
	prints 'cuMemAlloc(&p, 4 * MIB): CUDA_SUCCESS
cuMemAlloc(&p, 4 * MIB): CUDA_ERROR_OUT_OF_MEMORY' "$PROGRAMS/ipc" live
	KNOBS=(GPUMEM_IPC=native GPUMEM_LIMIT=3M)
	run preloaded "$PROGRAMS/ipc" one
	[ "$status" -ne 0 ]
	[[ "$output" == *"gpumem: out of memory on device 0: cuMemAlloc_v2 asked 4.00 MiB, limit 2.00 MiB"* ]]
}

@test "another user's import is refused, and one line reports it" {
	[ "$(id -u)" -eq 0 ] || skip "only root can be another user"
	IPC_USER=importer prints "$UNOPENED" "$PROGRAMS/ipc" one
	# The other user cannot write the counters of a coverage build, which are files.
	[ "$(grep -v '^profiling:' "$BATS_TEST_TMPDIR/said" | sort | sed 's/process [0-9][0-9]*/process N/')" = "gpumem: cuIpcOpenMemHandle: no memory from process N: it belongs to another user
gpumem: $NOBODY" ]
}

@test "imports between containers without a common network are refused, and one line reports it" {
	unshare -n true 2>/dev/null || skip "no network namespaces here"
	IPC_NET=importer prints "$UNOPENED" "$PROGRAMS/ipc" one
	[ "$(grep -c 'process [0-9]*: it is in another network namespace, as containers are; let them share one' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 2 ] # the second line is the exporter's
}

@test "where the driver gives no descriptors, exports are refused as natively for mapped memory" {
	export SIM_ATTRIBUTE=103:0
	prints 'cuIpcGetMemHandle(&b.handle, p): CUDA_ERROR_INVALID_VALUE' "$PROGRAMS/ipc" one
	said 'cuIpcGetMemHandle is refused: the driver gives no descriptors of memory here; GPUMEM_IPC=native leaves .*'
	KNOBS=(GPUMEM_IPC=native)
	prints "$OPENED" "$PROGRAMS/ipc" one
	unset SIM_ATTRIBUTE
	KNOBS=()
	SIM_FAIL=cuMemExportToShareableHandle:0:304 prints "$UNOPENED" "$PROGRAMS/ipc" one
	grep -q '^gpumem: another process cannot open a block of this one: the driver gives no descriptor (' "$BATS_TEST_TMPDIR/said"
}

@test "an import that fails at any call of the driver leaves no memory, mapping or handle" {
	local call
	export SIM_MEMORY=256M   # chunks of 2 MiB
	export GPUMEM_PREWARM=2M # one such chunk is there already, so the block lies in two
	export SIM_LEAKS=1
	prints "$OPENED" "$PROGRAMS/ipc" one
	leaks >"$BATS_TEST_TMPDIR/good"
	grep -q 'leaked mapping' "$BATS_TEST_TMPDIR/good" # reservations of the pools
	for call in cuMemImportFromShareableHandle:{1,2} cuMemAddressReserve:1 cuMemMap:{1,2} cuMemSetAccess:1; do
		IPC_FAIL=${call%:*} IPC_FAIL_AT=${call#*:} prints "${UNOPENED/INVALID_HANDLE/MAP_FAILED}" "$PROGRAMS/ipc" one
		[ "$(grep -c '^gpumem: cuIpcOpenMemHandle: ' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
		leaks | diff "$BATS_TEST_TMPDIR/good" -
	done
}

@test "exports and imports are counted" {
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=%p.gml)
	preloaded "$PROGRAMS/ipc" tensors >/dev/null
	[ "$(ls | grep -c 'gml$')" -eq 2 ]
	for log in *.gml; do
		"$OLDPWD/gpumemstat" summary --json "$log"
	done >all.json
	grep -o '"ipc_[a-z_]*": *[0-9]*' all.json | sort | uniq -c
	grep -q '"ipc_exports": *12' all.json
	grep -q '"ipc_exports_opened": *2' all.json
	grep -q '"ipc_imports": *2' all.json
	refute grep -q '"ipc_imported": *[1-9]' all.json
}

@test "a program that exports nothing and leaves no memory idle has neither thread nor socket of a node" {
	KNOBS=(GPUMEM_TRIM_AFTER=0)
	prints 'nothing exported: 0 threads, 0 sockets
the other: 0 threads, 0 sockets
opened by another: 1 threads, 1 sockets' "$PROGRAMS/ipc" node
}

@test "an exporter that is slow with each part of a block is given one time for all of them" {
	cd "$BATS_TEST_TMPDIR"
	# 40 parts, a second each; 10 s are given. A busy machine sends fewer.
	LIBRARY="${SANITIZE_LIB:+$SANITIZE_LIB:}$LIBRARY" GPUMEM_LOG=off native "$PROGRAMS/ipc_slow" >printed 2>said
	diff -u - printed <<-'END'
		cuIpcOpenMemHandle(&block, wire, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS): CUDA_ERROR_INVALID_HANDLE
		some parts were sent: 1, all: 0
	END
	grep -q '^gpumem: cuIpcOpenMemHandle: no memory from process [0-9]*: it does not answer; is it stopped?$' said
}
