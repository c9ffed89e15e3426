#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat sleep and wake, and what the program notices: nothing, but for the time.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	needs_driver 12.5
	export TOOL=$PWD/gpumemstat SIM_MEMORY=256M SIM_SHARE=$BATS_TEST_TMPDIR/device
	KNOBS=(GPUMEM_SLEEP=1)
	SLEEPER=
}

teardown() {
	[ -z "$SLEEPER" ] || kill -9 "$SLEEPER" 2>/dev/null || true
}

# Start the program; its process is $SLEEPER.
begin() {
	local line
	mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	preloaded "$PROGRAMS/sleeps" hold <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/said" 3>&- &
	JOB=$!
	exec 7>"$BATS_TEST_TMPDIR/in" 8<"$BATS_TEST_TMPDIR/out"
	read -r line SLEEPER <&8
	[ "$line" = ready ]
}

# The program's answer to a command.
says() {
	local line
	echo "$1" >&7
	read -r line <&8
	echo "$1: $line"
	[ "$line" = "$2" ]
}

# The program ends, and leaves nothing in the driver that it does not leave awake.
ends() {
	exec 7>&-
	wait "$JOB" || {
		cat "$BATS_TEST_TMPDIR/said"
		return 1
	}
	SLEEPER=
}

tool() {
	run "$TOOL" "$@" 7>&- 8<&-
	echo "$output"
}

@test "a process sleeps on request, and wakes by itself at its next use, with all bytes" {
	begin
	says where awake
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	grep -qE "^$SLEEPER: asleep, [0-9.]+ MiB moved in .*; [0-9.]+ MiB in host memory" <<<"$output"
	says where asleep
	says ask 'the same'
	says where asleep
	says check right
	says where awake
	tool sleep "$SLEEPER"
	says point device
	says where awake
	says fill filled
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says where asleep
	says check right
	ends
}

@test "top says which process is asleep, and the summary of its log what is in host memory" {
	KNOBS+=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	begin
	"$TOOL" top --json | jq -e ".processes[] | select(.pid == $SLEEPER) | .away == 0 and .memory >= .pool"
	tool sleep "$SLEEPER"
	"$TOOL" top --json >"$BATS_TEST_TMPDIR/top"
	jq -e ".processes[] | select(.pid == $SLEEPER) | .away > 0 and .away <= .pool and .memory < .pool" "$BATS_TEST_TMPDIR/top"
	jq -e '[.devices[].away] | add >= 33554432' "$BATS_TEST_TMPDIR/top"
	"$TOOL" top -o | grep -qE "^ *$SLEEPER .* away +[^ ]"
	COLUMNS=200 "$TOOL" summary "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/summary"
	cat "$BATS_TEST_TMPDIR/summary"
	grep -qE '^ *sleep +slept 1 times and woke 0 times; .*; [0-9.]+ MiB in host memory$' "$BATS_TEST_TMPDIR/summary"
	says check right
	"$TOOL" top -o | grep -E "^ *$SLEEPER " >"$BATS_TEST_TMPDIR/row"
	refute grep -q away "$BATS_TEST_TMPDIR/row"
	ends
}

# What another process says of its peak.
peak_of_another() {
	echo peak | preloaded "$PROGRAMS/sleeps" hold 7>&- 8<&- | sed -n 2p
}

@test "two processes that peak by turns both live: each returns its idle memory when the other lacks it" {
	begin
	for turn in 1 2 3; do
		says peak 'peak: CUDA_SUCCESS'
		[ "$(peak_of_another)" = 'peak: CUDA_SUCCESS' ]
	done
	says check right
	says peak 'peak: CUDA_SUCCESS'
	tool sleep "$SLEEPER"
	[ "$(peak_of_another)" = 'peak: CUDA_SUCCESS' ]
	says where asleep
	says check right
	says peak 'peak: CUDA_SUCCESS'
	# Another that may not be put to sleep does not ask.
	KNOBS=()
	[ "$(peak_of_another)" = 'peak: CUDA_ERROR_OUT_OF_MEMORY' ]
	ends
}

@test "its memory is another's while it sleeps" {
	begin
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	run native "$PROGRAMS/idle" take 1 7>&- 8<&-
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	says check right
	ends
}

@test "wake brings it back before its next use; both can be asked for twice" {
	begin
	tool sleep "$SLEEPER"
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says where asleep
	tool wake "$SLEEPER"
	[ "$status" -eq 0 ]
	says where awake
	tool wake "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
}

@test "copies go through the ring where GPUMEM_COPY has threads, and a store is kept warm" {
	KNOBS+=(GPUMEM_COPY=2 GPUMEM_SLEEP_STORE=1G)
	begin
	for i in 1 2 3; do
		tool sleep "$SLEEPER"
		[ "$status" -eq 0 ]
		says where asleep
		says check right
		says fill filled
	done
	ends
}

@test "blocks can be freed while it sleeps, which does not wake it" {
	begin
	tool sleep "$SLEEPER"
	says free freed
	says where asleep
	says take taken
	says where awake
	says check right
	ends
}

@test "a context that ends while it sleeps" {
	begin
	tool sleep "$SLEEPER"
	says reset 'cuDevicePrimaryCtxReset_v2(0): CUDA_SUCCESS'
	says where asleep
	tool wake "$SLEEPER"
	[ "$status" -eq 0 ]
	ends
}

@test "an open capture and a kernel that does not end are refused by name" {
	begin
	says capture 'cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED): CUDA_SUCCESS'
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: does not sleep: a capture of a stream is open" ]
	says uncapture 'cuStreamEndCapture(stream, &graph): CUDA_SUCCESS'
	says hold 'cuMemsetD8Async(blocks[0], 1, 1, stream): CUDA_SUCCESS'
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: does not sleep: the GPU is still at work" ]
	says where awake
	says release released
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
}

# A character device that only its own driver knows: ibv_reg_mr uses such a one.
device() {
	local path=$BATS_TEST_TMPDIR/uverbs0
	mknod "$path" c 231 192 2>/dev/null || path=/dev/loop-control
	[ -c "$path" ] || skip 'no device can be made, and none is there'
	echo "$path"
}

refused() {
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: does not sleep: $1" ]
	says where awake
}

@test "a device is open whose driver may know physical memory: refused, and named, until it is closed" {
	local path
	path=$(device)
	begin
	says "open $path" done
	refused "a device is open whose driver may know physical memory: $path"
	says close done
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says 'open /dev/null' done
	says check right
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	ends
}

@test "a process that had a communicator of NCCL is refused, and so is an unknown table of functions" {
	begin
	says table 'cuGetExportTable: CUDA_SUCCESS'
	refused 'a library may submit work past gpumem, by a table of cuGetExportTable: 00000000000000000000000000000000 of the program'
	says nccl 'kernel: CUDA_ERROR_INVALID_HANDLE'
	refused 'the process had a communicator of NCCL: NCCL'
	ends
}

@test "libraries that are loaded and not used let it sleep; those that submit work past the driver do not" {
	begin
	for name in libcufile.so.0 libnccl.so.2 libibverbs.so.1 libnvshmem_host.so.3 libnvoptix.so.1; do
		cp "$PROGRAMS/libucp.so.0" "$BATS_TEST_TMPDIR/$name"
		says "load $BATS_TEST_TMPDIR/$name" done
		[ "$name" != libnvoptix.so.1 ] || break
		tool sleep "$SLEEPER"
		[ "$status" -eq 0 ]
		says check right
	done
	refused 'a library is loaded that submits work past gpumem: libnvoptix.so.1'
	ends
}

@test "GPUMEM_REMAP=off keeps a process from sleeping" {
	KNOBS+=(GPUMEM_REMAP=off)
	begin
	refused 'memory keeps its addresses, by GPUMEM_REMAP=off'
	ends
}

@test "a call of the driver that fails leaves it awake, with all bytes" {
	KNOBS+=(SIM_FAIL=cuMemUnmap:2)
	begin
	tool sleep "$SLEEPER"
	says check right
	ends
}

@test "each call of a move fails in turn: awake or asleep, all bytes are there, and the next try moves them" {
	local call n
	begin
	for call in cuMemcpyDtoHAsync_v2 cuMemcpyHtoDAsync_v2 cuStreamSynchronize cuMemUnmap cuMemRelease cuMemCreate cuMemMap \
		cuMemSetAccess cuCtxRecordEvent cuEventQuery cuEventCreate cuCtxPushCurrent_v2 cuCtxPopCurrent_v2; do
		for n in 1 2 3; do
			says "fail $call $n" done
			tool sleep "$SLEEPER"
			tool wake "$SLEEPER"
			says "fail $call 0" done
			says check right
			says where awake
			tool sleep "$SLEEPER"
			says where asleep
			says check right
		done
	done
	ends
}

# The kernel gives back all that it had: the device, and the name by which it is asked.
killed() {
	kill -9 "$SLEEPER"
	exec 7>&- 8<&-
	wait "$JOB" || true
	tool wake "$SLEEPER"
	[ "$status" -eq 1 ]
	run native "$PROGRAMS/idle" take 1
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	"$TOOL" summary "$BATS_TEST_TMPDIR/$SLEEPER.gml" >/dev/null
	rm "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	SLEEPER=
}

@test "kill -9 while it sleeps, and while it moves, leaves nothing behind; KILLS=100 takes longer" {
	local n asked
	KNOBS+=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/%p.gml" SIM_YIELD=1)
	for ((n = 0; n < ${KILLS:-4}; n++)); do
		begin
		tool sleep "$SLEEPER"
		[ "$status" -eq 0 ]
		killed
		begin
		for command in sleep wake sleep wake sleep wake; do "$TOOL" $command "$SLEEPER"; done >/dev/null 2>&1 7>&- 8<&- &
		asked=$!
		# Anywhere in the moves: they take no longer than this together.
		sleep "0.0$((n * 7 % 10))$((n % 10))"
		killed
		wait "$asked" || true
	done
}

@test "a process without GPUMEM_SLEEP=1, without gpumem, or that is not there" {
	KNOBS=()
	begin
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: no process of this user that was started with GPUMEM_SLEEP=1 and has used a GPU" ]
	tool wake 2147483647
	[ "$status" -eq 1 ]
	says where awake
	ends
}

@test "it sleeps by itself after GPUMEM_SLEEP_AFTER" {
	KNOBS+=(GPUMEM_SLEEP_AFTER=20ms)
	begin
	until says where asleep; do sleep 0.02; done
	says check right
	until says where asleep; do sleep 0.02; done
	says check right
	ends
}

@test "every call that submits wakes it" {
	begin
	says calls all
	says check right
	ends
}

@test "fork, exit and kill -9 while it sleeps" {
	begin
	tool sleep "$SLEEPER"
	says fork 'child: CUDA_ERROR_NOT_INITIALIZED'
	says where asleep
	says check right
	tool sleep "$SLEEPER"
	ends
	rm "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	begin
	tool sleep "$SLEEPER"
	kill -9 "$SLEEPER"
	exec 7>&-
	wait "$JOB" || true
	tool wake "$SLEEPER"
	[ "$status" -eq 1 ]
	SLEEPER=
}

@test "the log says when it slept and woke, and why it did not" {
	KNOBS+=(GPUMEM_LOG=events GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	begin
	says capture 'cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED): CUDA_SUCCESS'
	tool sleep "$SLEEPER"
	says uncapture 'cuStreamEndCapture(stream, &graph): CUDA_SUCCESS'
	tool sleep "$SLEEPER"
	says check right
	ends
	COLUMNS=200 "$TOOL" summary "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/summary"
	grep -qE '^ *sleep +slept 1 times and woke 1 times; [0-9.]+ MiB left in [0-9.]+ [mu]?s; 1 refused$' "$BATS_TEST_TMPDIR/summary"
	run "$TOOL" summary --json "$BATS_TEST_TMPDIR/log.gml"
	jq -e '.logs[0].counters | .sleeps == 1 and .wakes == 1 and .sleep_refused == 1' <<<"$output"
	jq -e '.logs[0].devices[0].counters | .away == 0 and .demote_bytes == .promote_bytes and .away_peak == .demote_bytes and .demote_calls > 0' <<<"$output"
	"$TOOL" export --format=csv "$BATS_TEST_TMPDIR/log.gml" >"$BATS_TEST_TMPDIR/csv"
	for kind in demote promote sleep wake refused; do
		grep -qi "$kind" "$BATS_TEST_TMPDIR/csv"
	done
}
