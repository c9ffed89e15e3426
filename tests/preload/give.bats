#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Idle memory of a process is no other process's out-of-memory, with default knobs.

setup() {
	. "$BATS_TEST_DIRNAME/several.bash"
	several_setup
	# Memory that is mapped ahead is the idle memory for which a process can be asked.
	unset GPUMEM_PREWARM
	# A minute, instead of a second, for the replies of processes on a busy machine.
	export TEST_CLOCK_SLOWER=60
	# No memory is returned because of its age: that of a process without a request to give.
	KNOBS=(GPUMEM_TRIM_AFTER=1h GPUMEM_LOG=small "GPUMEM_LOG_NAME=%p.gml")
}

teardown() {
	several_teardown
}

@test "two processes that need most of the device by turns both live, with default knobs" {
	KNOBS=(GPUMEM_LOG=small "GPUMEM_LOG_NAME=%p.gml")
	start one
	start two
	found one
	found two
	for turn in 1 2 3; do
		says one peak 'peak: CUDA_SUCCESS'
		says two peak 'peak: CUDA_SUCCESS'
	done
	says one check right
	says two check right
	ends one
	ends two
}

@test "a failing allocation asks the others for their idle memory, and both logs count it" {
	start one
	start two
	found one
	says one peak 'peak: CUDA_SUCCESS'
	says two peak 'peak: CUDA_SUCCESS'
	ends one
	counted '.given_calls == 1 and .given_bytes >= 100000000 and .others_asked == 0'
	"$TOOL" summary -v --width=200 "$ENDED.gml" | grep -E '^others +returned 0 B at 0 requests of this process; it returned 1[0-9.]+ MiB at 1$'
	ends two
	"$TOOL" summary -v --width=200 "$ENDED.gml" | grep -E '^others +returned 1[0-9.]+ MiB at 1 requests of this process; it returned 0 B at 0$'
	counted '.others_asked == 1 and .others_overdue == 0 and .others_bytes >= 100000000 and .given_calls == 0'
}

@test "a driver call that lacks memory asks the others, too" {
	start one
	start two
	found one
	says one peak 'peak: CUDA_SUCCESS'
	says two 'create 150' 'create: CUDA_SUCCESS'
	ends one
	ends two
}

@test "memory that GPUMEM_TRIM_AFTER leaves, never returned or a size of it, is given when another process asks" {
	for knob in GPUMEM_TRIM_AFTER=off GPUMEM_TRIM_AFTER=10s,100% GPUMEM_TRIM_AFTER=0,90%; do
		rm -f ./*.in ./*.out
		KNOBS=($knob)
		start one
		grep -q "/${PID[one]}-" /proc/net/unix
		says one peak 'peak: CUDA_SUCCESS'
		KNOBS=()
		start two
		says two peak 'peak: CUDA_SUCCESS'
		says one check right
		ends one
		ends two
	done
}

@test "a stopped process is asked once, and then left out; the others give" {
	export TEST_CLOCK_SLOWER=5
	start stopped
	found stopped
	says stopped 'idle 32' 'done'
	kill -STOP "${PID[stopped]}"
	start one
	start two
	found one
	for turn in 1 2 3; do
		says one 'idle 90' 'done'
		says two 'create 200' 'create: CUDA_ERROR_OUT_OF_MEMORY'
	done
	kill -CONT "${PID[stopped]}"
	ends two
	counted '.others_asked <= 7 and .others_overdue >= 1 and .others_bytes >= 90000000'
	ends one
	counted '.given_calls >= 1'
	ends stopped
}

@test "a wake that lacks memory asks the others" {
	needs_driver 12.5
	KNOBS+=(GPUMEM_SLEEP=1 GPUMEM_TRIM_AFTER=off)
	start one
	"$TOOL" sleep "${PID[one]}"
	start two
	says two 'idle 200' 'done'
	says one check right
	ends one
	counted '.others_asked >= 1 and .others_bytes >= 200000000'
	ends two
	counted '.given_calls >= 1'
}

@test "names of another user, whose queues are full, neither delay a request nor take the place of a process" {
	[ "$(id -u)" -eq 0 ] || skip "takes root"
	start one
	start two
	found one
	mkfifo names
	exec 9< <(pipes_close && exec "$PROGRAMS/names" 300 54321 "${PID[one]}" <>names)
	NAMER=$!
	read -r line <&9
	[ "$line" = taken ]
	for turn in 1 2 3; do
		says one 'idle 100' 'done'
		says two 'idle 120' 'done'
	done
	ends two
	counted '.others_asked == 3 and .others_overdue == 0 and .others_bytes >= 300000000'
	ends one
}

@test "a process is asked for idle memory alone by default: sleep and wake are refused" {
	start one
	found one
	for command in sleep wake; do
		run "$TOOL" $command "${PID[one]}"
		[ "$status" -eq 1 ]
		[ "$output" = "gpumemstat: ${PID[one]}: it was not started with GPUMEM_SLEEP=1, or it ends" ]
		says one where awake
	done
	says one check right
	ends one
}

@test "a process whose user is not known is not found, and asks nobody" {
	unshare -U true 2>/dev/null || skip "no user namespace to be had here"
	KNOBS=(GPUMEM_TRIM_AFTER=off GPUMEM_LOG=small "GPUMEM_LOG_NAME=%p.gml")
	start one
	says one 'idle 100' 'done'
	WITHIN=(unshare -U)
	start unknown
	refute grep -q "/${PID[unknown]}-" /proc/net/unix
	says unknown 'create 150' 'create: CUDA_ERROR_OUT_OF_MEMORY'
	ends unknown
	ends one
	counted '.given_calls == 0'
}

@test "another user in a user namespace cannot send a process in such a namespace to sleep" {
	needs_driver 12.5
	local other=(setpriv --reuid 54321 --regid 54321 --clear-groups unshare -U)
	"${other[@]}" "$TOOL" --version >/dev/null 2>&1 || skip "takes root, setpriv and user namespaces"
	KNOBS+=(GPUMEM_SLEEP=1)
	WITHIN=(unshare -U)
	start one
	run "${other[@]}" "$TOOL" sleep "${PID[one]}"
	echo "$output"
	[ "$status" -eq 1 ]
	says one where awake
	ends one
}

@test "beside a process without the preload that holds more than at first, memory unused for a second goes back" {
	export TEST_CLOCK_SLOWER=1
	KNOBS=(GPUMEM_LOG=small "GPUMEM_LOG_NAME=%p.gml")
	start one
	says one 'idle 150' 'done'
	start native other
	until [[ $created == *SUCCESS ]]; do
		echo 'create 150' >&"${TO[other]}"
		read -r created <&"${FROM[other]}"
		sleep 0.05
	done
	says one check right
	ends one
	counted '.trim_early >= 150000000 and .given_calls == 0'
	ends other
}
