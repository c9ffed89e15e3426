#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Processes that wait for each other sleep together: first all doors are shut, then all memory moves.

setup() {
	. "$BATS_TEST_DIRNAME/several.bash"
	several_setup
	needs_driver 12.5
	ID=$BASHPID-$RANDOM # other tests run at the same time
	KNOBS=(GPUMEM_SLEEP=1 GPUMEM_VERBOSE=2 GPUMEM_LOG=small "GPUMEM_LOG_NAME=%p.gml" SLURM_JOB_ID=$ID)
	OTHERS='does not sleep: not all processes that should sleep together could stop at the same time'
}

teardown() {
	several_teardown
}

tool() {
	local end
	run bash -c "$(for end in "${TO[@]}" "${FROM[@]}"; do echo "exec $end>&-;"; done) exec \"\$@\"" bash "$TOOL" "$@"
	echo "$output"
}

# counted_all FILTER: of the counters of the process that ended last.
counted_all() {
	"$TOOL" summary --json "$ENDED.gml" | jq -e ".logs[0].counters | $1"
}

# job_begin: `gpumemstat sleep` of the job, which writes to the file slept; process two works on in its first try.
job_begin() {
	says two hold 'cuMemsetD8Async(blocks[0], 1, 1, stream): CUDA_SUCCESS'
	(
		pipes_close
		exec "$TOOL" sleep --job=$ID >slept 2>&1
	) &
	ASKED=$!
	until grep -q 'does not sleep: the GPU is still at work' two.said; do sleep 0.01; done
}

# job_ends: it sleeps now; on a busy machine its tries may all have come before that.
job_ends() {
	wait $ASKED || tool sleep --job=$ID
	[ "${status:-0}" -eq 0 ]
}

@test "one process of a job refuses: none sleeps, each is reported, and all go on" {
	start one
	start two
	says two capture 'cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED): CUDA_SUCCESS'
	tool sleep --job=$ID
	[ "$status" -eq 1 ]
	[ "$(sort <<<"$output")" = "$(printf 'gpumemstat: %s: %s\n' "${PID[one]}" "$OTHERS" \
		"${PID[two]}" 'does not sleep: a capture of a stream is open' | sort)" ]
	says one where awake
	says two where awake
	says one check right
	refute "$TOOL" sleep --json --job=$ID >json 2>/dev/null
	jq -e ".processes | length == 2 and all(.state == \"awake\" and .moved == 0) and
		map({key: \"\(.pid)\", value: .refusal}) == (map({key: \"\(.pid)\", value: 21}) |
			map(if .key == \"${PID[two]}\" then .value = 1 else . end))" json
	says two uncapture 'cuStreamEndCapture(stream, &graph): CUDA_SUCCESS'
	tool sleep --job=$ID
	[ "$status" -eq 0 ]
	says one where asleep
	says two where asleep
	says one check right
	says two check right
	ends one
	counted_all '.sleeps == 1 and .wakes == 1'
	ends two
	counted_all '.sleeps == 1 and .wakes == 1'
}

@test "a job of which one process works on sleeps at a later try, and the others wait no longer than a try" {
	start one
	start two
	says one submit submits
	job_begin
	until grep -q 'does not sleep: not all processes' one.said; do sleep 0.01; done
	says two release released
	job_ends
	says one quiet quiet
	says one check right
	says two check right
	ends one
	counted_all '.sleeps == 1 and .wakes == 1 and .sleep_refused >= 1 and .door_waits >= 1'
	ends two
	counted_all '.sleeps == 1 and .wakes == 1 and .sleep_refused >= 1'
}

@test "a job of which one process never stops working does not sleep, and all go on" {
	start one
	start two
	says one hold 'cuMemsetD8Async(blocks[0], 1, 1, stream): CUDA_SUCCESS'
	tool sleep --job=$ID
	[ "$status" -eq 1 ]
	[ "$(sort <<<"$output")" = "$(printf 'gpumemstat: %s: %s\n' "${PID[two]}" "$OTHERS" \
		"${PID[one]}" 'does not sleep: the GPU is still at work' | sort)" ]
	says two where awake
	says two touch 'cuMemsetD8_v2(blocks[0], byte, 1): CUDA_SUCCESS'
	says one release released
	ends one
	counted_all '.sleeps == 0 and .sleep_refused >= 1 and .sleep_refused <= 4'
	ends two
	counted_all '.sleeps == 0 and .sleep_refused >= 1 and .sleep_refused <= 4'
}

@test "a process of a job that sleeps already is no obstacle, and stays asleep" {
	start one
	start two
	tool sleep "${PID[one]}"
	[ "$status" -eq 0 ]
	tool sleep --job=$ID
	[ "$status" -eq 0 ]
	[ "$(grep -c ': asleep, ' <<<"$output")" -eq 2 ]
	says two capture 'cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED): CUDA_SUCCESS'
	tool sleep --job=$ID
	[ "$status" -eq 1 ]
	says one where asleep
	ends one
	counted_all '.sleeps == 1 and .wakes == 0'
	ends two
}

@test "a process of a job that wakes meanwhile is put to sleep again" {
	start one
	start two
	tool sleep "${PID[one]}"
	job_begin
	says one touch 'cuMemsetD8_v2(blocks[0], byte, 1): CUDA_SUCCESS'
	says two release released
	job_ends
	says one where asleep
	says two where asleep
	ends one
	counted_all '.sleeps == 2'
	ends two
}

@test "a process that is held for a job obeys another order to sleep" {
	start one
	start two
	job_begin
	tool sleep "${PID[one]}"
	[ "$status" -eq 0 ]
	grep -q ': asleep, ' <<<"$output"
	says one where asleep
	says two release released
	job_ends
	says two where asleep
	says one check right
	ends one
	ends two
}

@test "a process that is held for a job obeys an order to wake, and the job sleeps at another try" {
	start one
	start two
	job_begin
	tool wake "${PID[one]}"
	[ "$status" -eq 0 ]
	says two release released
	job_ends
	says one where asleep
	says two where asleep
	ends one
	ends two
}

@test "a held process opens its door if it hears nothing more, and refuses to go then" {
	start one
	run "$PROGRAMS/sleep_asker" "${PID[one]}" 100
	[ "$output" = $'hold: held\ngo: not all processes that should sleep together could stop at the same time' ]
	says one where awake
	says one check right
	ends one
	counted_all '.sleeps == 0'
}

# held NAME MS: a process asks NAME to shut its door within MS, and the door is shut. $ASKER is that process.
held() {
	(
		pipes_close
		exec "$PROGRAMS/sleep_asker" "${PID[$1]}" "$2" >asker
	) &
	ASKER=$!
	until grep -q '^hold: held$' asker; do sleep 0.01; done
}

@test "the program that holds a job is killed: the processes go on" {
	start one
	says one submit submits
	held one 1000
	kill -9 $ASKER
	says one quiet quiet
	says one check right
	ends one
	counted_all '.sleeps == 0 and .sleep_refused == 1 and .door_waits >= 1'
}

@test "a process that is held can end, and does not wait for an order" {
	local begin
	start one
	held one 10000
	begin=$SECONDS
	ends one
	[ $((SECONDS - begin)) -lt 19 ] # the door would open after 20 s
	wait $ASKER || true
}

@test "processes with a communicator of NCCL sleep by an order" {
	start one
	start two
	says one nccl 'kernel: CUDA_ERROR_INVALID_HANDLE'
	says two nccl 'kernel: CUDA_ERROR_INVALID_HANDLE'
	tool sleep --tree=$$
	[ "$status" -eq 0 ]
	says one where asleep
	says two where asleep
	says one check right
	tool sleep "${PID[one]}"
	[ "$status" -eq 0 ]
	says one check right
	says two check right
	ends one
	counted_all '.sleeps == 2'
	ends two
	counted_all '.sleeps == 1'
}
