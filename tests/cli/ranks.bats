#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Logs of many processes: ranks, jobs, names, and one summary of them.
source "$BATS_TEST_DIRNAME/cli.bash"
TABLE=$BATS_TEST_DIRNAME/../../src/log/ranks.def
MANUAL=$BATS_TEST_DIRNAME/../../man/gpumem-knobs.7

variables() { # variables RANK|JOB: NAME ALSO NONE, one a line, "-" for none
	sed -n 's/^GM_'$1'(\([A-Za-z0-9_]*\), *"\([^"]*\)"\(, *"\([^"]*\)"\)\?).*/\1 \2;\4;/p' "$TABLE" |
		sed 's/ ;/ -;/; s/;;/;-;/; s/;/ /g'
}

# Remove the variables of this test's own job.
for name in $(variables RANK; variables JOB); do [ "$name" = - ] || unset "$name"; done

# named PATTERN VARIABLE=VALUE...: print the name of a log made with these; of_log prints its rank and job
named() {
	rm -rf named
	mkdir named
	(cd named && env "${@:2}" GPUMEM_LOG=small GPUMEM_LOG_NAME="$1" "$MKLOG" at:1s) && ls named
}
of_log() { "$TOOL" --json named/* | jq -c "[.logs[0].rank, .logs[0].job]"; }

@test "each variable alone sets the rank" {
	n=0
	while read -r name also none; do
		[ "$also" != - ] || also=UNUSED
		[ "$(named 'x.%r' $name=7 $also=9)" = x.7 ] && [ "$(of_log)" = '[7,""]' ] || { echo "$name"; return 1; }
		for bad in '' -1 7x 99999999999 one; do
			[ "$(named 'x.%r' "$name=$bad" $also=9)" = x.0 ] && [ "$(of_log)" = '[null,""]' ] || { echo "$name=$bad"; return 1; }
		done
		[ $also = UNUSED ] || [ "$(named 'x.%r' $name=7)" = x.0 ] || { echo "$name without $also"; return 1; }
		n=$((n + 1))
	done < <(variables RANK)
	[ "$n" -eq "$(grep -c '^GM_RANK(' "$TABLE")" ]
	for name in OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK SLURM_PROCID RANK MV2_COMM_WORLD_RANK; do
		variables RANK | grep -q "^$name "
	done
}

@test "each variable alone sets the job" {
	n=0
	while read -r name also none; do
		[ "$also" != - ] || also=UNUSED
		[ "$(named 'x.%j' $name=12[3].pbs/a $also=9)" = 'x.12[3].pbs_a' ] && [ "$(of_log)" = '[null,"12[3].pbs/a"]' ] ||
			{ echo "$name"; return 1; }
		[ "$(named 'x.%j' $name= $also=9)" = x.0 ] && [ "$(of_log)" = '[null,""]' ] || { echo "$name="; return 1; }
		[ $also = UNUSED ] || [ "$(named 'x.%j' $name=7)" = x.0 ] || { echo "$name without $also"; return 1; }
		[ $none = - ] || [ "$(named 'x.%j' $name=$none)" = x.0 ] || { echo "$name=$none"; return 1; }
		n=$((n + 1))
	done < <(variables JOB)
	[ "$n" -eq "$(grep -c '^GM_JOB(' "$TABLE")" ]
	for name in SLURM_JOB_ID PBS_JOBID LSB_JOBID TORCHELASTIC_RUN_ID; do variables JOB | grep -q "^$name "; done
}

@test "the first of several variables of rank and job in the manual decides" {
	for what in RANK JOB; do
		variables $what | cut -d' ' -f1 >order
		sed -n '/^\.Ss Ranks and jobs/,/^\.Sh FILES/p' "$MANUAL" | sed -n 's/^\.It$/&/; /^\.It$/{n;s/^\.Ev \([A-Za-z0-9_]*\).*/\1/p}' >manual
		grep -Fx -f order manual | diff order -
		all=(WORLD_SIZE=99 SGE_TASK_ID=99)
		i=$(wc -l <order)
		while read -r name; do # from the last to the first: each one overrides the later ones
			all+=("$name=$i")
			pattern=x.%r
			[ $what = RANK ] || pattern=x.%j
			[ "$(named $pattern "${all[@]}")" = x.$i ] || { echo "$name"; return 1; }
			i=$((i - 1))
		done < <(tac order)
	done
	# A rank that is no number is ignored.
	[ "$(named x.%r RANK=x WORLD_SIZE=2 SLURM_PROCID=3)" = x.3 ]
}

@test "torchrun inside srun: the ranks of torchrun, the job of Slurm" {
	[ "$(named '%j.%r.%h.%p.%e.%%' SLURM_JOB_ID=881 SLURM_PROCID=0 RANK=5 WORLD_SIZE=8 TORCHELASTIC_RUN_ID=abc)" = '881.5.node7.4711.mklog.%' ]
}

# Two runs of three ranks, of different jobs; the second is newer.
two_jobs() {
	mkdir -p logs
	for job in 17 18; do
		for rank in 0 1 10; do
			SLURM_JOB_ID=$job SLURM_PROCID=$rank mklog "logs/%j.%r.gml" at:$((job + rank))s map:0:$((rank + job))M:1us \
				alloc:0:$((rank + 1))M:1us free:1:1us
		done
	done
	# All logs begin at the same time by mklog's clock: let the second run begin 60 s later.
	python3 - logs/18.*.gml <<-'END'
		import struct, sys
		for name in sys.argv[1:]:
		    data = bytearray(open(name, "rb").read())
		    data[80:88] = struct.pack("<Q", struct.unpack("<Q", data[80:88])[0] + 60 * 10**9)
		    open(name, "wb").write(data)
	END
}

@test "logs found by GPUMEM_LOG_NAME are the newest run's, in the order of ranks" {
	two_jobs
	"$TOOL" summary 'logs/%j.%r.gml' >out
	[ "$(sed -n 's/.* \([0-9]*\.[0-9]*\.gml\)$/\1/p' out | tr '\n' ' ')" = '18.0.gml 18.1.gml 18.10.gml ' ] || { cat out; return 1; }
	"$TOOL" summary --json 'logs/17.%r.gml' | jq -e '[.logs[] | [.job, .rank]] == [["17", 0], ["17", 1], ["17", 10]]'
	"$TOOL" frag --json 'logs/%j.%r.gml' | jq -e '[.logs[].rank] == [0, 1, 10]'
	"$TOOL" 'logs/%j.%r.gml' logs/17.0.gml >out
	[ "$(grep -c 'gml$' out)" -eq 4 ]
	cp logs/17.0.gml 'logs/%j.gml' # a file of exactly this name has priority
	"$TOOL" 'logs/%j.gml' | grep -q '^program .*; logs/%j.gml, '
	expect 1 'gpumemstat: none/%j.%r.gml: no such file' summary 'none/%j.%r.gml'
	expect 1 'gpumemstat: 100%: no such file' summary '100%'
}

@test "several ranks: a line for each rank, the range, and their order" {
	two_jobs
	"$TOOL" summary --sort=mapped -n 2 'logs/%j.%r.gml' >out
	diff -u - out <<-'END'
	rank  requested    mapped  calls  driver  failed  log
	  10   11.0 MiB  28.0 MiB      1       0       0  18.10.gml
	   1   2.00 MiB  19.0 MiB      1       0       0  18.1.gml
	... and 1 more

	across logs             min     median        max
	peak requested     1.00 MiB   2.00 MiB   11.0 MiB
	peak mapped        18.0 MiB   19.0 MiB   28.0 MiB
	allocations               1          1          1
	of these, driver          0          0          0
	failed                    0          0          0
	length               18.0 s     19.0 s     28.0 s

	findings      Of the ranks up to 10, 8 left no log among these. They crashed
	              before cuInit, or their logs lie elsewhere.
	              The ranks are not balanced: the peaks of what they requested go
	              from 1.00 MiB to 11.0 MiB. The largest decides what fits.
	next          gpumemstat logs/18.10.gml, the one with the most mapped
	END
	"$TOOL" summary --json 'logs/%j.%r.gml' | jq -e '.across.requested == {min: 1048576, median: 2097152, max: 11534336}'
}

@test "more logs are read than the limit of open files" {
	mklog log.0.gml at:1s map:0:1M:1us
	for i in $(seq 1 99); do cp log.0.gml log.$i.gml; done
	(ulimit -n 64 && "$TOOL" summary --json log.*.gml) >out 2>err
	[ ! -s err ]
	jq -e '.logs | length == 100' out
	(ulimit -n 64 && "$TOOL" frag --json log.*.gml) | jq -e '.logs | length == 100'
}

@test "record in a job: a log for each rank, which commands find by its name" {
	for rank in 0 1; do
		RANK=$rank WORLD_SIZE=2 PBS_JOBID=4.head "$TOOL" record -o run.%j.%r.gml -- "$DEMO" 50 >/dev/null 2>&1
	done
	[ "$(echo run.*)" = 'run.4.head.0.gml run.4.head.1.gml' ]
	"$TOOL" run.%j.%r.gml --json | jq -e '[.logs[] | [.rank, .job]] == [[0, "4.head"], [1, "4.head"]]'
}
