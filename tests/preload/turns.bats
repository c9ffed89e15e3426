#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Of processes with GPUMEM_SLEEP=1 an idle one sleeps when another lacks memory of the device.

setup() {
	. "$BATS_TEST_DIRNAME/several.bash"
	several_setup
	needs_driver 12.5
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_LOG=small "GPUMEM_LOG_NAME=%p.gml")
}

teardown() {
	several_teardown
}

# sleeps NAME: it falls asleep; another may get its memory before all of it has moved.
sleeps() {
	until says "$1" where asleep; do sleep 0.01; done
}

# counted_all FILTER: of the counters of the process that ended last.
counted_all() {
	"$TOOL" summary --json "$ENDED.gml" | jq -e ".logs[0] | .counters + .devices[0].counters | $1"
}

@test "three processes with 60% of the device each take turns, and any of them may be killed; TURNS=10000 takes longer" {
	local turns=${TURNS:-40}
	export SIM_MEMORY=22M
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_SLEEP_STORE=100%) # short moves, so short turns
	run preloaded "$PROGRAMS/turns" "$turns" "${KILLS:-$((turns / 20))}"
	echo "$output"
	[ "$status" -eq 0 ]
	grep -qE "^[0-9]+ turns, ${KILLS:-$((turns / 20))} killed$" <<<"$output"
}

@test "an allocation and a wake each put an idle process to sleep, and the logs count it" {
	start one
	start two
	says one 'big 120' 'done'
	says two 'more 120' 'cuMemAlloc_v2: CUDA_SUCCESS'
	sleeps one
	says one check right
	sleeps two
	says two check right
	sleeps one
	ends one
	counted_all '.turns_slept >= 1 and .turns_slept == .sleeps and .turns_asked >= 1 and .turns_wait_ns > 0 and .wakes == 1'
	ends two
	counted_all '.turns_slept == 1 and .turns_asked >= 2 and .turns_wait_ns > 0 and .wakes == 1'
}

@test "a call of the driver that lacks memory puts an idle process to sleep" {
	start one
	start two
	says one 'big 120' 'done'
	says two 'create 150' 'create: CUDA_SUCCESS'
	sleeps one
	ends two
	says one check right
	ends one
}

@test "two processes that both lack memory while awake: one sleeps for the other, then the other way round" {
	local name line
	start one
	start two
	says one 'big 80' 'done'
	says two 'big 80' 'done'
	for name in one two; do echo 'more 60' >&"${TO[$name]}"; done
	for name in one two; do
		read -r line <&"${FROM[$name]}"
		[ "$line" = 'cuMemAlloc_v2: CUDA_SUCCESS' ]
	done
	says one check right
	says two check right
	ends one
	counted_all '.turns_slept >= 1'
	ends two
	counted_all '.turns_slept >= 1'
}

# stays_awake COMMAND ANSWER: a process that has obeyed COMMAND does not sleep for another one, but by an order.
stays_awake() {
	start one
	start two
	says one 'big 120' 'done'
	[ -z "$1" ] || says one "$1" "$2"
	says two 'more 120' 'cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY'
	says one where awake
}

@test "a process that has exported a block sleeps only by an order" {
	start one
	start two
	says one 'big 120' 'done'
	echo export >&"${TO[one]}"
	read -r _ <&"${FROM[one]}"
	says two 'more 120' 'cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY'
	says one where awake
	"$TOOL" sleep "${PID[one]}"
	says two 'more 100' 'cuMemAlloc_v2: CUDA_SUCCESS'
	says one check right
	ends one
	counted_all '.turns_slept == 0 and .sleeps == 1'
	ends two
	counted_all '.turns_asked == 0'
}

@test "a process that had a communicator of NCCL does not sleep for another" {
	stays_awake nccl 'kernel: CUDA_ERROR_INVALID_HANDLE'
	ends two
	counted_all '.turns_asked >= 1'
	ends one
	counted_all '.turns_slept == 0 and .sleep_refused == 0'
}

@test "the process that lacks memory and the one that sleeps need GPUMEM_SLEEP=1" {
	start one
	says one 'big 120' 'done'
	KNOBS=(GPUMEM_LOG=small "GPUMEM_LOG_NAME=%p.gml")
	start two
	says two 'more 120' 'cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY'
	says one where awake
	ends one
	says two 'big 120' 'done'
	KNOBS+=(GPUMEM_SLEEP=1)
	start three
	says three 'more 120' 'cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY'
	says two where awake
	ends two
	ends three
	counted_all '.turns_asked == 0'
}

@test "if all together have too little, nobody sleeps in vain" {
	start native other
	says other 'create 90' 'create: CUDA_SUCCESS'
	start one
	says one 'big 30' 'done'
	start two
	says two 'more 160' 'cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY'
	says one where awake
	ends two
	counted_all '.turns_asked == 0'
	ends one
	ends other
}

@test "if nobody becomes idle, a lack of memory is the answer, after a while" {
	start one
	start two
	says one 'big 120' 'done'
	says one hold 'cuMemsetD8Async(blocks[0], 1, 1, stream): CUDA_SUCCESS'
	says two 'more 120' 'cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY'
	says one where awake
	says one release released
	ends two
	counted_all '.turns_wait_ns >= 10000000000'
	ends one
	counted_all '.turns_slept == 0 and .sleep_refused == 0'
}
