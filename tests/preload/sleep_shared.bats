#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Blocks that were exported by cuIpcGetMemHandle stay on the device during a sleep only while another process has them
# open. `one` exports its last block, of 7 MiB; `two` opens it.

setup() {
	. "$BATS_TEST_DIRNAME/several.bash"
	several_setup
	needs_driver 12.5
	export SIM_MEMFD=1 # processes share the simulated memory
	KNOBS=(GPUMEM_SLEEP=1)
}

teardown() {
	several_teardown
}

# exports NAME: $HANDLE becomes the handle of its last block.
exports() {
	echo export >&"${TO[$1]}"
	read -r HANDLE <&"${FROM[$1]}"
	[ ${#HANDLE} -eq 128 ]
}

# asleep FILTER: `one` sleeps, and the tool's report satisfies FILTER.
asleep() {
	"$TOOL" sleep --json "${PID[one]}" >report
	cat report
	jq -e ".processes[0] | .state == \"asleep\" and ($1)" report
}

NONE='.stays.pinned == 0'
SOME='.stays.pinned >= 7340032'

# begin: `one` has exported, `two` is there.
begin() {
	start one
	start two
	exports one
}

# The end of both, without a message.
both_end() {
	ends one
	ends two
	cat one.said two.said
	[ ! -s one.said ] && [ ! -s two.said ]
}

@test "a block that was exported and never opened moves, and can be opened awake and asleep" {
	begin
	asleep "$NONE"
	says one where asleep
	says one check right
	says one where awake
	says two "import $HANDLE" right
	asleep "$NONE"
	says one where asleep
	says two "import $HANDLE" right
	says one where awake
	says one check right
	both_end
}

@test "a block that is open stays, and is named; after the close it moves" {
	begin
	says two "attach $HANDLE" right
	asleep "$SOME"
	says one check right
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	asleep "$NONE"
	says one where asleep
	says one check right
	both_end
}

@test "a block that two processes have open stays until both have closed it, however one of them ends" {
	begin
	start three
	says two "attach $HANDLE" right
	says three "attach $HANDLE" right
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	asleep "$SOME"
	says one check right
	says two "import $HANDLE" right
	asleep "$SOME"
	says one check right
	kill -9 "${PID[three]}"
	wait "${JOB[three]}" || true
	unset 'PID[three]'
	asleep "$NONE"
	says one check right
	both_end
}

@test "a block whose importer is killed while it is open moves" {
	begin
	says two "attach $HANDLE" right
	asleep "$SOME"
	kill -9 "${PID[two]}"
	wait "${JOB[two]}" || true
	unset 'PID[two]'
	says one check right
	asleep "$NONE"
	says one where asleep
	says one check right
	ends one
}

@test "an importer that closed all its descriptors keeps the block, and says when it has closed it" {
	begin
	says two "attach $HANDLE" right
	says two shutall 'syscall: CUDA_SUCCESS'
	asleep "$SOME"
	says one check right
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	asleep "$NONE"
	says one where asleep
	says one check right
	both_end
}

@test "a block that was exported twice, and opened twice by a process, moves after the last close" {
	local first
	begin
	first=$HANDLE
	exports one
	says two "attach $first" right
	says two "attach $HANDLE" right
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	asleep "$SOME"
	says one check right
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	asleep "$NONE"
	says one check right
	both_end
}

@test "a block that is freed while the process sleeps is gone, and an open of it wakes nobody" {
	begin
	asleep "$NONE"
	says one drop 'cuMemFree_v2(blocks[BLOCKS - 1]): CUDA_SUCCESS'
	says one check right
	asleep "$NONE"
	says two "import $HANDLE" CUDA_ERROR_INVALID_HANDLE
	"$TOOL" top --json | jq -e ".processes[] | select(.pid == ${PID[one]}) | .away > 0"
	says one check right
	ends one
	ends two
}

@test "a block that is freed while it is open keeps its memory only until then" {
	begin
	says two "attach $HANDLE" right
	asleep "$SOME"
	says one drop 'cuMemFree_v2(blocks[BLOCKS - 1]): CUDA_SUCCESS'
	says one check right
	asleep "$NONE"
	says one check right
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	both_end
}

@test "a call of the driver that fails, in a sleep or a wake, harms neither the block nor its handle" {
	local call
	begin
	for call in cuMemUnmap cuMemCreate cuMemMap cuMemSetAccess cuMemcpyDtoHAsync_v2 cuMemcpyHtoDAsync_v2; do
		says one "fail $call 1" done
		"$TOOL" sleep "${PID[one]}" || true
		says two "import $HANDLE" right || says two "import $HANDLE" right
		says one "fail $call 0" done
		says one check right
		says two "import $HANDLE" right
	done
	says one 'fail cuMemExportToShareableHandle 1' done
	says two "import $HANDLE" CUDA_ERROR_INVALID_HANDLE
	asleep "$NONE"
	says one check right
	ends one
	ends two
}

@test "a forked child of the importer neither keeps the block nor says that it is closed" {
	begin
	says two "attach $HANDLE" right
	says two fork 'child: CUDA_ERROR_NOT_INITIALIZED'
	asleep "$SOME"
	says one check right
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	asleep "$NONE"
	says one check right
	both_end
}

@test "a block that is pinned for another reason as well stays after the close" {
	begin
	says one pin pinned
	says two "import $HANDLE" right
	asleep "$SOME"
	says one check right
	says two "attach $HANDLE" right
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	asleep "$SOME"
	says one check right
	both_end
}

@test "opens in a row, without a sleep between, leave no mapping in either process" {
	local i maps
	begin
	for ((i = 0; i < 40; i++)); do
		says two "import $HANDLE" right
	done
	maps=$(grep -c gpumem-open "/proc/${PID[one]}/maps")
	echo "$maps pages"
	[ "$maps" -le 16 ]
	refute grep -q gpumem-open "/proc/${PID[two]}/maps"
	asleep "$NONE"
	refute grep -q gpumem-open "/proc/${PID[one]}/maps"
	both_end
}

@test "an importer without GPUMEM_SLEEP wakes its exporter, too, and says when it has closed the block" {
	start one
	KNOBS=()
	start two
	exports one
	asleep "$NONE"
	says two "attach $HANDLE" right
	says one where awake
	asleep "$SOME"
	says two detach 'cuIpcCloseMemHandle(attached): CUDA_SUCCESS'
	says one check right
	asleep "$NONE"
	both_end
}

@test "an open while the exporter falls asleep and wakes, again and again, reads the right bytes" {
	local i
	begin
	for i in 1 2 3 4 5 6 7 8 9 10; do
		"$TOOL" sleep "${PID[one]}" >/dev/null 2>&1 &
		says two "import $HANDLE" right
		wait $!
	done
	says one check right
	both_end
}

@test "an exporter that lacks memory to wake: the open ends after 10 s, as for a block that is gone" {
	begin
	asleep "$NONE"
	start native full
	says full full full
	says two "import $HANDLE" CUDA_ERROR_INVALID_HANDLE
	grep -qE '^gpumem: cuIpcOpenMemHandle: no memory from process [0-9]+: it sleeps, and did not wake in time$' two.said
	says one where asleep
	ends full
	says two "import $HANDLE" right
	says one check right
	ends one
	ends two
}
