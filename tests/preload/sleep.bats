#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat sleep and wake: the program's results are the same, only later.

setup() {
	. "$BATS_TEST_DIRNAME/sleep.bash"
	sleep_setup
	needs_driver 12.5
}

teardown() {
	sleep_teardown
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
	says where asleep
	says fill filled
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says where asleep
	says check right
	ends
}

@test "top shows that a process is asleep, and the summary of its log shows its moved memory" {
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
	grep -qE '^ *sleep +slept 1 times and woke 0 times; .*; [0-9.]+ MiB not on the device$' "$BATS_TEST_TMPDIR/summary"
	COLUMNS=200 "$TOOL" summary -v "$BATS_TEST_TMPDIR/log.gml" | grep -qE '^sleep +slept 1 times and woke 0 times; '
	says check right
	"$TOOL" top -o | grep -E "^ *$SLEEPER " >"$BATS_TEST_TMPDIR/row"
	refute grep -q away "$BATS_TEST_TMPDIR/row"
	ends
}

# names USER: USER has 100 names like that of the process, and answers no connection. They end with the test.
names() {
	local line
	mkfifo "$BATS_TEST_TMPDIR/names"
	exec 9< <(exec "$PROGRAMS/names" 100 "$1" "$SLEEPER" <>"$BATS_TEST_TMPDIR/names" 7>&- 8<&-)
	NAMER=$!
	read -r line <&9
	[ "$line" = taken ]
}

@test "names of another user with the number of a process do not keep it from sleeping" {
	[ "$(id -u)" -eq 0 ] || skip "takes root"
	begin
	names 54321
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says where asleep
	tool wake "$SLEEPER"
	[ "$status" -eq 0 ]
	ends
}

# Prints the result of another process that reaches its peak.
peak_of_another() {
	echo peak | preloaded "$PROGRAMS/sleeps" hold 7>&- 8<&- | sed -n 2p
}

@test "two processes whose peaks alternate both live: each returns its idle memory when the other lacks it" {
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
	# GPUMEM_SLEEP=1 is not needed for that: give.bats.
	KNOBS=()
	[ "$(peak_of_another)" = 'peak: CUDA_SUCCESS' ]
	ends
}

@test "processes that are stopped keep no other from returning its idle memory" {
	local i stopped=()
	export SIM_MEMORY=512M
	KNOBS+=(GPUMEM_TRIM_AFTER=off)
	for i in 1 2 3; do
		mkfifo "$BATS_TEST_TMPDIR/in.$i" "$BATS_TEST_TMPDIR/out.$i"
		preloaded "$PROGRAMS/sleeps" hold <>"$BATS_TEST_TMPDIR/in.$i" >"$BATS_TEST_TMPDIR/out.$i" 3>&- &
		read -r _ stopped[i] <"$BATS_TEST_TMPDIR/out.$i"
		kill -STOP "${stopped[i]}"
	done
	begin
	says 'idle 64' done
	preloaded "$PROGRAMS/sleeps" hold 7>&- 8<&- <<<$'idle 64\ncreate 320' >"$BATS_TEST_TMPDIR/created"
	kill -KILL "${stopped[@]}"
	grep -qx 'create: CUDA_SUCCESS' "$BATS_TEST_TMPDIR/created"
	says check right
	ends
}

@test "a driver call gets the idle memory of two processes, half from each" {
	KNOBS+=(GPUMEM_TRIM_AFTER=off)
	begin
	says 'idle 64' done
	run preloaded "$PROGRAMS/sleeps" hold 7>&- 8<&- <<<$'idle 64\ncreate 150'
	[ "${lines[2]}" = 'create: CUDA_SUCCESS' ]
	says check right
	ends
}

@test "another process can allocate a sleeping one's memory" {
	begin
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	run native "$PROGRAMS/idle" take 1 7>&- 8<&-
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	says check right
	ends
}

@test "memory that cannot be moved is named, with its bytes" {
	begin
	says others made
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	grep -qE '; stays: [0-9.]+ MiB of pools; [0-9.]+ MiB pinned; 2.00 MiB for questions about pointers; 4.00 MiB of cudaMallocAsync; 2.00 MiB of cuMemCreate; 1.00 MiB of arrays$' <<<"$output"
	says check right
	ends
}

@test "wake moves the memory back before the next use; sleep and wake may be repeated" {
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

@test "blocks can be freed while the process sleeps, which does not wake the process" {
	begin
	tool sleep "$SLEEPER"
	says free freed
	says where asleep
	says take taken
	says where awake
	says check right
	ends
}

@test "a context that ends while its process sleeps" {
	begin
	tool sleep "$SLEEPER"
	says reset 'cuDevicePrimaryCtxReset_v2(0): CUDA_SUCCESS'
	says where asleep
	tool wake "$SLEEPER"
	[ "$status" -eq 0 ]
	ends
}

@test "a call of the driver that fails leaves the process awake, with all bytes" {
	KNOBS+=(SIM_FAIL=cuMemUnmap:2)
	begin
	tool sleep "$SLEEPER"
	says check right
	ends
}

@test "each call of a move fails in turn: awake or asleep, all bytes are there, and the next try moves them" {
	local call n
	KNOBS+=(GPUMEM_SLEEP_STORE=16M) # some of the store is registered
	begin
	for call in cuMemcpyDtoHAsync_v2 cuMemcpyHtoDAsync_v2 cuStreamSynchronize cuMemUnmap cuMemRelease cuMemCreate cuMemMap \
		cuMemSetAccess cuCtxRecordEvent cuEventQuery cuEventCreate cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuMemHostRegister_v2; do
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

# --- a folder in place of host memory ---

# Prints the descriptor of the store's file, which has no name; prints nothing if there is none.
filed() {
	find "/proc/$SLEEPER/fd" -lname "$BATS_TEST_TMPDIR/store/*(deleted)"
}

# The folder's name, cut as in messages.
shown() {
	cut -c-60 <<<"$BATS_TEST_TMPDIR/store"
}

folder() {
	mkdir "$BATS_TEST_TMPDIR/store"
	KNOBS+=(GPUMEM_SLEEP_STORE="$BATS_TEST_TMPDIR/store" "$@")
}

@test "a folder: contents go to a file without a name, and return with all bytes" {
	folder
	begin
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	grep -qE "^$SLEEPER: asleep, .*; [0-9.]+ MiB in a file" <<<"$output"
	refute grep -q 'in host memory' <<<"$output"
	[ -n "$(filed)" ]
	[ -z "$(ls -A "$BATS_TEST_TMPDIR/store")" ]
	says where asleep
	says check right
	says where awake
	[ -z "$(filed)" ]
	says fill filled
	tool sleep "$SLEEPER"
	says fork 'child: CUDA_ERROR_NOT_INITIALIZED'
	says free freed
	says where asleep
	says take taken
	says check right
	ends
}

@test "a folder: each call of a move fails in turn, and all bytes are there" {
	local call n
	folder
	begin
	for call in cuMemcpyDtoHAsync_v2 cuMemcpyHtoDAsync_v2 cuStreamSynchronize cuMemUnmap cuMemRelease cuMemCreate cuMemMap \
		cuMemSetAccess cuCtxRecordEvent cuEventQuery cuEventCreate cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuMemHostRegister_v2; do
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

@test "a folder: the process does not wake with contents that differ from those written, and reports it" {
	local file byte
	folder GPUMEM_LOG=events GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml"
	begin
	tool sleep "$SLEEPER"
	file=$(filed)
	byte=$(dd if="$file" bs=1 skip=3000000 count=1 status=none | od -An -tu1)
	printf "\\x$(printf %x $((byte ^ 4)))" | dd of="$file" bs=1 seek=3000000 conv=notrunc status=none
	tool wake "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: does not wake: what was read from GPUMEM_SLEEP_STORE is not what was written: $(shown): 2 MiB at 2097152 of its file" ]
	says touch 'cuMemsetD8_v2(blocks[0], byte, 1): CUDA_ERROR_UNKNOWN'
	printf "\\x$(printf %x "$byte")" | dd of="$file" bs=1 seek=3000000 conv=notrunc status=none
	says check right
	ends
	"$TOOL" export --format=csv "$BATS_TEST_TMPDIR/log.gml" | grep -qi refused
}

@test "a folder: a sleep is refused if the folder is full, too small or missing, and the folder is named" {
	folder
	begin
	rmdir "$BATS_TEST_TMPDIR/store"
	refused "the folder of GPUMEM_SLEEP_STORE fails: $(shown): No such file or directory"
	mkdir "$BATS_TEST_TMPDIR/store"
	prlimit --pid "$SLEEPER" --fsize=8388608:
	refused "the folder of GPUMEM_SLEEP_STORE fails: $(shown): File too large"
	prlimit --pid "$SLEEPER" --fsize=unlimited:
	says check right
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
}

@test "a missing folder, or a path that is no folder, is named at the start, and the program goes on" {
	local store
	: >"$BATS_TEST_TMPDIR/file"
	for store in none file/none; do
		KNOBS=(GPUMEM_SLEEP=1 GPUMEM_SLEEP_STORE="$BATS_TEST_TMPDIR/$store")
		preloaded "$PROGRAMS/sleeps" hold </dev/null >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/said"
		grep -q '^ready ' "$BATS_TEST_TMPDIR/out"
		[ "$(grep -c GPUMEM_SLEEP_STORE "$BATS_TEST_TMPDIR/said")" = 1 ]
		grep -qE "^gpumem: GPUMEM_SLEEP_STORE=$BATS_TEST_TMPDIR/$store: (No such file or|Not a) directory; the process cannot sleep before it can be written\$" \
			"$BATS_TEST_TMPDIR/said"
	done
}

@test "a file system with room for a part of the memory: refused, and all bytes are there" {
	folder
	for own in "unshare -m" "unshare -rm"; do
		WITHIN=($own sh -c 'mount -t tmpfs -o size=8M none "$0" && exec "$@"' "$BATS_TEST_TMPDIR/store")
		if "${WITHIN[@]}" true 2>/dev/null; then break; fi
		WITHIN=()
	done
	[ ${#WITHIN[@]} -gt 0 ] || skip 'no file system can be mounted here'
	begin
	refused "the folder of GPUMEM_SLEEP_STORE fails: $(shown): No space left on device"
	says check right
	ends
}

# After the end the kernel has freed all resources: the device's memory, and the socket's name.
gone() { # gone kill|exit|exec|fork
	local status=0
	case $1 in
	exec) echo exec >&7 ;;
	fork) says fork 'child: CUDA_ERROR_NOT_INITIALIZED' ;;
	esac
	case $1 in kill | fork) kill -9 "$SLEEPER" ;; esac
	exec 7>&- 8<&-
	wait "$JOB" || status=$?
	case $1 in exit | exec) [ "$status" -eq 0 ] ;; esac
	tool wake "$SLEEPER"
	[ "$status" -eq 1 ]
	run native "$PROGRAMS/idle" take 1
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	"$TOOL" summary "$BATS_TEST_TMPDIR/$SLEEPER.gml" >/dev/null
	rm "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	SLEEPER=
}

@test "kill -9, exit, exec and fork, asleep or amid a move, leave no memory and no socket; KILLS=100 takes longer" {
	local n asked ways=(kill exit exec fork)
	KNOBS+=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/%p.gml" SIM_YIELD=1)
	for ((n = 0; n < ${KILLS:-4}; n++)); do
		begin
		tool sleep "$SLEEPER"
		[ "$status" -eq 0 ]
		gone "${ways[n % 4]}"
		begin
		for command in sleep wake sleep wake sleep wake; do "$TOOL" $command "$SLEEPER"; done >/dev/null 2>&1 7>&- 8<&- &
		asked=$!
		# Kill after a varying time of less than 0.1 s: all moves together take no longer.
		sleep "0.0$((n * 7 % 10))$((n % 10))"
		gone "${ways[n % 4]}"
		wait "$asked" || true
	done
}

@test "a process sleeps by itself after the time of GPUMEM_SLEEP" {
	KNOBS+=(GPUMEM_SLEEP=20ms)
	begin
	until says where asleep; do sleep 0.02; done
	says check right
	until says where asleep; do sleep 0.02; done
	says check right
	ends
}

@test "fork, exit and kill -9 of a sleeping process" {
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

@test "a wake that first finds too little memory counts the memory that it moved back before" {
	begin
	tool sleep "$SLEEPER"
	grep -q ": asleep, 32.0 MiB moved" <<<"$output"
	says 'lack 3' done
	tool wake "$SLEEPER"
	grep -q ": awake, 32.0 MiB moved" <<<"$output"
	says check right
	ends
}

@test "the log has each sleep and wake, and the reason for each refusal" {
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
