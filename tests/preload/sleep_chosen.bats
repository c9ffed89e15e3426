#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat sleep and wake of several processes: by numbers, program, job, tree of processes, and all; as JSON.

setup() {
	. "$BATS_TEST_DIRNAME/sleep.bash"
	sleep_setup
	needs_driver 12.5
	STARTED=()
	ID=$BASHPID-$RANDOM # other tests run at the same time
}

teardown() {
	[ ${#STARTED[@]} -eq 0 ] || kill -9 "${STARTED[@]}" 2>/dev/null || true
	sleep_teardown
}

# start NAME [VARIABLE=VALUE]...: a process of this program, which holds memory; its number becomes $PROCESS.
start() {
	local KNOBS=("${KNOBS[@]}" "${@:2}") own=$BATS_TEST_TMPDIR/${#STARTED[@]} line
	mkdir "$own"
	ln -s "${FILE:-$PROGRAMS/sleeps}" "$own/$1"
	mkfifo "$own/in" "$own/out"
	preloaded "${WITHIN[@]}" "$own/$1" hold <>"$own/in" >"$own/out" 2>/dev/null 3>&- 7>&- 8<&- &
	read -r line PROCESS <"$own/out"
	[ "$line" = ready ]
	STARTED+=("$PROCESS")
}

# away yes|no PID: is its memory off the device?
away() {
	"$TOOL" top --json | jq -e ".processes[] | select(.pid == $2) | (.away > 0) == ($([ "$1" = yes ] && echo true || echo false))"
}

# numbers: of the processes in the output, one a line each.
numbers() {
	cut -d : -f 1 <<<"$output" | tr '\n' ' '
}

parent() {
	sed -n 's/^PPid:[[:space:]]*//p' /proc/$1/status
}

@test "processes by the name of their program" {
	local name=s$((BASHPID % 1000000)) a b c
	start ${name}a
	a=$PROCESS
	start ${name}b
	b=$PROCESS
	start t${name}
	c=$PROCESS
	tool sleep --program="$name?"
	[ "$status" -eq 0 ]
	[ "$(numbers)" = "$(printf '%s\n' $a $b | sort -n | tr '\n' ' ')" ]
	away yes $a
	away yes $b
	away no $c
	tool wake --program=${name}b
	[ "$status" -eq 0 ]
	[ "$(numbers)" = "$b " ]
	away yes $a
	away no $b
}

@test "processes by the name of their file, of any length" {
	FILE=$BATS_TEST_TMPDIR/file_of_test_$ID
	cp "$PROGRAMS/sleeps" "$FILE"
	start sleeps
	tool sleep --program="file_of_test_$ID"
	[ "$status" -eq 0 ]
	[ "$(numbers)" = "$PROCESS " ]
}

@test "processes of a job, of any launcher" {
	local a b c
	start sleeps SLURM_JOB_ID=$ID
	a=$PROCESS
	start sleeps PBS_JOBID=$ID
	b=$PROCESS
	start sleeps SLURM_JOB_ID=$ID.0 PBS_JOBID=$ID
	c=$PROCESS
	tool sleep --job=$ID
	[ "$status" -eq 0 ]
	[ "$(numbers)" = "$(printf '%s\n' $a $b | sort -n | tr '\n' ' ')" ]
	away yes $a
	away yes $b
	away no $c
	tool wake --job=$ID.0
	[ "$(numbers)" = "$c " ]
}

@test "a process and its descendants" {
	local a b top
	start sleeps
	a=$PROCESS
	WITHIN=(sh -c 'sh -c "\"\$0\" \"\$@\"; exit" "$0" "$@"; exit')
	start sleeps
	b=$PROCESS
	top=$(parent $(parent $b))
	tool sleep --tree=$top
	[ "$status" -eq 0 ]
	[ "$(numbers)" = "$b " ]
	away no $a
	tool sleep --tree=$a
	[ "$(numbers)" = "$a " ]
	tool wake --tree=$$
	[ "$status" -eq 0 ]
	[ "$(numbers)" = "$(printf '%s\n' $a $b | sort -n | tr '\n' ' ')" ]
	away no $a
	away no $b
}

@test "all processes, but those that were not started with GPUMEM_SLEEP" {
	local net a b c
	unshare -n true 2>/dev/null || skip "no network namespaces here"
	# Of a namespace of its own: those of other tests are no business of this one.
	unshare -n sleep 1000 3>&- &
	net=$!
	STARTED+=($net)
	until [ "$(readlink /proc/$net/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
	WITHIN=(nsenter -t $net -n)
	start sleeps
	a=$PROCESS
	start other
	b=$PROCESS
	KNOBS=()
	start sleeps
	c=$PROCESS
	run "${WITHIN[@]}" "$TOOL" sleep --all
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(numbers)" = "$(printf '%s\n' $a $b | sort -n | tr '\n' ' ')" ]
	away yes $a
	away yes $b
	away no $c
	run "${WITHIN[@]}" "$TOOL" wake --all
	[ "$status" -eq 0 ]
	kill -9 $a $b
	until run "${WITHIN[@]}" "$TOOL" sleep --all && [ "$status" -eq 1 ]; do sleep 0.01; done
	[ "$output" = 'gpumemstat: --all: no process of this user that was started with GPUMEM_SLEEP=1 and has used a GPU' ]
}

@test "a selection without a process is an error" {
	local way
	for way in --program=no/such --job=$ID --tree=4194304; do
		for command in sleep wake; do
			tool $command $way
			[ "$status" -eq 1 ]
			[ "$output" = "gpumemstat: $way: no process of this user that was started with GPUMEM_SLEEP=1 and has used a GPU" ]
			refute "$TOOL" $command --json $way 2>/dev/null >"$BATS_TEST_TMPDIR/json"
			jq -e '.schema == 1 and .processes == []' "$BATS_TEST_TMPDIR/json"
		done
	done
}

@test "all processes are asked before the end of any is awaited" {
	local asked
	start sleeps
	begin
	kill -STOP $PROCESS
	"$TOOL" sleep $PROCESS $SLEEPER >"$BATS_TEST_TMPDIR/slept" 2>&1 3>&- 7>&- 8<&- &
	asked=$!
	until away yes $SLEEPER; do sleep 0.02; done
	kill -CONT $PROCESS
	wait $asked
	away yes $PROCESS
	[ "$(cut -d , -f 1 "$BATS_TEST_TMPDIR/slept")" = "$PROCESS: asleep"$'\n'"$SLEEPER: asleep" ]
	says check right
	ends
}

@test "JSON has what the text has" {
	begin
	says others made
	tool sleep --json "$SLEEPER"
	[ "$status" -eq 0 ]
	jq -e ".schema == 1 and (.processes | length) == 1 and (.processes[0] |
		.pid == $SLEEPER and .program == \"sleeps\" and .state == \"asleep\" and .moved > 0 and .ns > 0 and
		.host_memory == .moved and .file == 0 and .refusal == null and .error == null and
		(.stays | .pools > 0 and .pinned > 0 and .questions == 2097152 and .cudaMalloc == 0 and
			.cudaMallocAsync == 4194304 and .cuMemCreate == 2097152 and .arrays == 1048576 and
			.cudaMallocManaged == 0 and .graphs == 0 and .imported == 0))" <<<"$output"
	tool wake --json "$SLEEPER"
	[ "$status" -eq 0 ]
	jq -e '.processes[0] | .state == "awake" and .moved > 0 and .host_memory == 0 and .stays.pools == 0' <<<"$output"
	tool wake --json "$SLEEPER"
	jq -e '.processes[0] | .state == "awake" and .moved == 0' <<<"$output"
	refute "$TOOL" sleep --json 4194304 "$SLEEPER" >"$BATS_TEST_TMPDIR/json" 2>/dev/null 7>&- 8<&-
	jq -e ".processes | length == 2 and .[1].state == \"asleep\" and (.[0] | .pid == 4194304 and .program == null and
		.state == null and .moved == null and .ns == null and .host_memory == null and .stays.pools == null and .refusal == null and
		.error == \"no process of this user that was started with GPUMEM_SLEEP=1 and has used a GPU\")" "$BATS_TEST_TMPDIR/json"
	says check right
	ends
}
