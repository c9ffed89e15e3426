#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Idle memory is returned for other processes without a request, also while the program sleeps.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	export SIM_MEMORY=256M SIM_SHARE=$BATS_TEST_TMPDIR/device
	SLEEPER=
}

teardown() {
	[ -z "$SLEEPER" ] || kill -9 "$SLEEPER" 2>/dev/null || true
}

# sleeper RUN [DEVICE]: a process uses 80% of the device, frees it, and sleeps. `wake` ends it.
sleeper() {
	mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	"$1" "$PROGRAMS/idle" leave ${2:-0} <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 3>&- &
	local job=$! line
	exec 7>"$BATS_TEST_TMPDIR/in" 8<"$BATS_TEST_TMPDIR/out"
	read -r line SLEEPER <&8
	[ "$line" = free ]
	JOB=$job
}

wake() {
	exec 7>&-
	wait "$JOB"
	SLEEPER=
}

# taker RUN TRIES: prints the result of an allocation by another process.
taker() {
	run "$1" "$PROGRAMS/idle" take "$2" 7>&-
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "cuMemGetInfo counts memory that is being mapped or returned" {
	KNOBS=(GPUMEM_TRIM_AFTER=0)
	unset SIM_SHARE
	SIM_MEMORY=1G run preloaded "$PROGRAMS/info"
	diff -u <(for call in cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease; do echo "in $call: the same"; done) - <<<"$output"
	[ "$status" -eq 0 ]
}

@test "natively another process gets freed memory" {
	sleeper native
	taker native 1
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	wake
}

@test "all processes share the simulated device" {
	KNOBS=(GPUMEM_TRIM_AFTER=off)
	sleeper preloaded
	taker native 1
	[ "${lines[0]}" = '80%: CUDA_ERROR_OUT_OF_MEMORY' ]
	# Killed without an exit: its memory is freed all the same.
	kill -9 "$SLEEPER"
	wait "$JOB" || true
	taker native 1
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
}

@test "GPUMEM_TRIM_AFTER=0 returns idle memory at once" {
	KNOBS=(GPUMEM_TRIM_AFTER=0)
	sleeper preloaded
	taker native 1
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	taker preloaded 1
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	wake
}

@test "GPUMEM_TRIM_AFTER returns idle memory while the program sleeps" {
	KNOBS=(GPUMEM_TRIM_AFTER=20ms)
	sleeper preloaded
	taker native 600000
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	taker preloaded 600000
	[ "${lines[0]}" = '80%: CUDA_SUCCESS' ]
	wake
}

@test "a call for memory of a device that is not current asks other processes for that device's idle memory" {
	export SIM_DEVICES=2 TEST_CLOCK_SLOWER=60
	KNOBS=(GPUMEM_TRIM_AFTER=1h)
	sleeper preloaded 1
	until grep -q "@gpumem1/$(id -u)/.*/$SLEEPER-" /proc/net/unix; do sleep 0.01; done
	run native "$PROGRAMS/idle" create 1 7>&-
	[ "${lines[0]}" = 'cuMemCreate(&handle, percent(80) / (2 * MIB) * (2 * MIB), &prop, 0): CUDA_ERROR_OUT_OF_MEMORY' ]
	run preloaded "$PROGRAMS/idle" create 1 7>&-
	[ "${lines[0]}" = 'cuMemCreate(&handle, percent(80) / (2 * MIB) * (2 * MIB), &prop, 0): CUDA_SUCCESS' ]
	wake
}

@test "a process without a pool asks others for idle memory, too" {
	export TEST_CLOCK_SLOWER=60
	local way
	for way in 'take 1' rows; do
		KNOBS=(GPUMEM_TRIM_AFTER=1h)
		sleeper preloaded
		until grep -q "@gpumem1/$(id -u)/.*/$SLEEPER-" /proc/net/unix; do sleep 0.01; done
		run native "$PROGRAMS/idle" $way 7>&-
		[[ ${lines[0]} == *': CUDA_ERROR_OUT_OF_MEMORY' ]]
		KNOBS+=(GPUMEM_MODE=trace)
		run preloaded "$PROGRAMS/idle" $way 7>&-
		echo "$output"
		[[ ${lines[0]} == *': CUDA_SUCCESS' ]]
		wake
		rm "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	done
}

@test "the thread's returns are sampled while the program sleeps" {
	KNOBS=(GPUMEM_TRIM_AFTER=20ms GPUMEM_LOG=events,0 "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/a.gml")
	sleeper preloaded
	for ((tries = 0; tries < 36000; tries++)); do
		mapped=$("$PROGRAMS/../../gpumemstat" frag --json "$BATS_TEST_TMPDIR/a.gml" 2>/dev/null | jq '.logs[0].devices[0].end.mapped')
		[ "$mapped" != 0 ] || break
		sleep 0.1
	done
	[ "$mapped" = 0 ]
	wake
}

@test "the size of GPUMEM_TRIM_AFTER stays mapped" {
	KNOBS=(GPUMEM_TRIM_AFTER=0,25%)
	sleeper preloaded
	taker native 1
	[ "${lines[0]}" = '80%: CUDA_ERROR_OUT_OF_MEMORY' ]
	wake
	KNOBS=(GPUMEM_TRIM_AFTER=0,60M)
	rm "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	sleeper preloaded
	taker native 1
	# That is two chunks, or many short ones with GPUMEM_FREE=ordered.
	[ "${lines[0]}" = '80%: CUDA_ERROR_OUT_OF_MEMORY' ]
	wake
}

@test "idle memory serves other calls of the process, and blocks again" {
	unset SIM_SHARE
	same idle needs
	[ "$(grep -c CUDA_SUCCESS "$BATS_TEST_TMPDIR/preloaded")" -eq 8 ]
	! grep -q OUT_OF_MEMORY "$BATS_TEST_TMPDIR/preloaded"
}

@test "a thread trims only while memory is idle" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip "ThreadSanitizer has a thread of its own"
	[ -z "$TEST_UNDER" ] || skip "valgrind has signal masks of its own"
	KNOBS=(GPUMEM_TRIM_AFTER=1h GPUMEM_PREWARM=0) # the memory of a first context is idle
	run preloaded "$PROGRAMS/idle" thread
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$output" = "before cuInit: 1
before an allocation: 1
nothing is idle: 1
memory is idle: 2
it blocks all signals: 1
it is used again: 2
a child: 1" ]
}

@test "no thread trims where there is nothing to return" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip "ThreadSanitizer has a thread of its own"
	for knob in GPUMEM_TRIM_AFTER=0 GPUMEM_TRIM_AFTER=off GPUMEM_TRIM_AFTER=10s,100% GPUMEM_MODE=trace GPUMEM_ENABLE=0; do
		KNOBS=("$knob")
		run preloaded "$PROGRAMS/idle" thread
		echo "$knob: $output"
		[ "$status" -eq 0 ]
		[ "$(grep -c ': 1$' <<<"$output")" -eq 6 ]
		[ "${#lines[@]}" -eq 6 ]
	done
}

@test "the trim thread ends when all memory is returned, and starts again later" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip "ThreadSanitizer has a thread of its own"
	KNOBS=(GPUMEM_TRIM_AFTER=1ms)
	run preloaded "$PROGRAMS/idle" ends
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$output" = "round 1: the thread has ended, 0 chunks are mapped
round 2: the thread has ended, 0 chunks are mapped
round 3: the thread has ended, 0 chunks are mapped" ]
}

@test "idle memory returns to the driver at once where it takes room that managed memory needs" {
	unset SIM_SHARE
	for after in 1h off; do
		KNOBS=(GPUMEM_TRIM_AFTER=$after)
		[ "$(calls cuMemUnmap idle managed 64)" -eq 0 ]
		[ "$(calls cuMemUnmap idle managed 1000000)" -eq 0 ]
		[ "$(calls cuMemUnmap idle managed 100000000)" -gt 0 ]
	done
}

@test "trimmed memory is counted and shown" {
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_TRIM_AFTER=0 GPUMEM_PREWARM=0 GPUMEM_LOG=events GPUMEM_LOG_NAME=a.gml)
	preloaded "$PROGRAMS/idle" ends >/dev/null
	run "$PROGRAMS/../../gpumemstat" summary -v a.gml
	echo "$output"
	[ "$status" -eq 0 ]
	"$PROGRAMS/../../gpumemstat" summary --json a.gml >a.json
	calls=$(jq '[.. | .trimmed? // empty | .calls] | if length == 1 then .[0] else empty end' a.json)
	[[ $output =~ $'\n  trimmed '[^$'\n']*" $calls"$'\n' ]]
	# All that was mapped was returned: 24 chunks, or more with GPUMEM_FREE=ordered, whose chunks are shorter.
	[ "$calls" -ge 24 ]
	jq -e --argjson calls "$calls" '.logs[0].devices[0].counters | .map_calls == $calls and .unmap_calls == $calls' a.json
	KNOBS=(GPUMEM_TRIM_AFTER=off GPUMEM_LOG=events GPUMEM_LOG_NAME=b.gml)
	preloaded "$PROGRAMS/idle" needs >/dev/null
	run "$PROGRAMS/../../gpumemstat" summary -v b.gml
	[[ $output != *trimmed* ]]
}
