#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Eight processes at once in one folder, as torchrun, Slurm and Open MPI start them. Run in the build folder.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	TOOL=$PWD/gpumemstat
	DEMO=$PWD/tests/workloads/demo
	START=$BATS_TEST_DIRNAME/ranks.sh
	export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 # for the shells between launcher and program
	local variable
	for variable in $(compgen -e | grep -E '^(SLURM|OMPI|PMIX?|TORCHELASTIC)_|^(RANK|WORLD_SIZE)$'); do
		unset "$variable"
	done
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# Rank r makes 100 + 10 r rounds, which identify its log.
for_each_rank() {
	local rank
	for rank in 0 1 2 3 4 5 6 7; do
		echo "$1" | sed "s/RANK/$rank/g"
	done
}

native_output() {
	local rank
	for rank in 0 1 2 3 4 5 6 7; do
		native "$DEMO" 1${rank}0 16
	done | sort
}

# start LAUNCHER NAME [COMMAND]...: eight preloaded demos with logs of this name; the output is the native
# one.
start() {
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$2")
	preloaded "${@:3}" "$START" "$1" 8 "$DEMO" 1RANK0 16 2>&1 | sort >"$BATS_TEST_TMPDIR/out"
	diff -u <(native_output) "$BATS_TEST_TMPDIR/out"
}

# whole LOG...: eight logs, in the order of ranks, each closed and with its own rank's command.
whole() {
	[ $# -eq 8 ]
	"$TOOL" --json "$@" >"$BATS_TEST_TMPDIR/json"
	jq -e '[.logs[].rank] == [0, 1, 2, 3, 4, 5, 6, 7]' "$BATS_TEST_TMPDIR/json"
	jq -e '.logs | all(.closed and .torn == 0 and .dropped == 0 and .contradiction == null)' "$BATS_TEST_TMPDIR/json"
	jq -e '.logs | all(.rank as $r | .command | endswith("demo 1\($r)0 16"))' "$BATS_TEST_TMPDIR/json"
	jq -e '.logs | map(.counters.memset_calls) | unique | length == 8' "$BATS_TEST_TMPDIR/json"
	"$TOOL" "$@" | grep -q '^across logs'
}

@test "ranks of torchrun: a log each" {
	start torchrun logs.%r.gml
	[ "$(ls)" = "$(for_each_rank logs.RANK.gml)" ]
	whole logs.*.gml
}

@test "ranks of torchrun inside a Slurm job of one task: a log each" {
	start torchrun %j.%r.gml env SLURM_JOB_ID=881 SLURM_PROCID=0 SLURM_NTASKS=1
	[ "$(ls)" = "$(for_each_rank 881.RANK.gml)" ]
	whole 881.*.gml
	jq -e '.logs | all(.job == "881")' "$BATS_TEST_TMPDIR/json"
}

@test "ranks of Slurm: a log each" {
	start slurm %j.%r.gml
	[ "$(ls)" = "$(for_each_rank 4711.RANK.gml)" ]
	whole 4711.*.gml
	jq -e '.logs | all(.job == "4711")' "$BATS_TEST_TMPDIR/json"
}

@test "ranks of Open MPI: a log each" {
	start openmpi train.%r.gml
	[ "$(ls)" = "$(for_each_rank train.RANK.gml)" ]
	whole train.*.gml
}

@test "a second step of the job does not change the logs of the first" {
	start slurm %j.%r.gml
	sha256sum *.gml >"$BATS_TEST_TMPDIR/first"
	start slurm %j.%r.gml
	sha256sum -c --quiet "$BATS_TEST_TMPDIR/first"
	[ "$(ls)" = "$(for_each_rank $'4711.RANK.gml\n4711.RANK.gml.1')" ]
	whole *.gml
	whole *.gml.1
}

@test "ranks with one log name have eight logs" {
	start torchrun one.gml
	[ "$(ls)" = "$(echo one.gml && for i in 1 2 3 4 5 6 7; do echo one.gml.$i; done)" ]
	"$TOOL" --json * | jq -e '[.logs[].rank] | sort == [0, 1, 2, 3, 4, 5, 6, 7]'
	"$TOOL" --json * | jq -e '.logs | all(.closed and .torn == 0 and .contradiction == null)'
}

@test "ranks with default log names: plain gpumemstat shows the whole run" {
	start slurm ''
	[ "$(ls gpumem.*.*.gml | wc -l)" -eq 8 ]
	"$TOOL" --json | jq -e '[.logs[].rank] == [0, 1, 2, 3, 4, 5, 6, 7]'
}

@test "the logs of eight processes at once have every event" {
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=%r.gml)
	preloaded "$START" torchrun 8 "$DEMO" 1RANK0 16 >/dev/null
	whole [0-7].gml
	jq -e '.logs | all(.complete)' "$BATS_TEST_TMPDIR/json"
}

@test "a launcher under gpumemstat record leaves no log" {
	LD_LIBRARY_PATH=$SIM "$TOOL" record -o %j.%r.gml -- "$START" slurm 8 "$DEMO" 1RANK0 16 >out 2>err
	diff -u <(native_output) <(sort out)
	[ "$(wc -l <err)" -eq 1 ]
	grep -q '^gpumemstat: 8 logs, ' err
	whole 4711.*.gml
}
