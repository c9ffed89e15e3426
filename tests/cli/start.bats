#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Command lines of new users: a program in place of a command, help, a folder, no argument.
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

@test "a program in place of a command: the message tells how to run it" {
	printf '#!/bin/sh\n' >solve
	chmod +x solve
	expect 2 "gpumemstat: 'summary.gml' is a program, not a log; to run it: gpumemstat record -- summary.gml ...
Try 'gpumemstat --help'" "$(mv solve summary.gml && echo summary.gml)"
	mv summary.gml solve
	expect 2 "gpumemstat: './solve' is a program, not a log; to run it: gpumemstat record -- ./solve ...
Try 'gpumemstat --help'" ./solve --fast
	expect 2 "gpumemstat: unknown command 'solve'
Try 'gpumemstat --help'" solve
	PATH=/nowhere:$PWD:$PATH expect 2 "gpumemstat: unknown command 'solve'; to run a program: gpumemstat record -- solve ...
Try 'gpumemstat --help'" solve train.py
	# A folder, or a file that cannot be run, is no program.
	mkdir folder
	PATH=$PWD:$PATH expect 1 'gpumemstat: folder: a folder, not a gpumem log' folder
	# An executable log is a log.
	mklog a.gml map:0:2M:1us
	chmod +x a.gml
	"$TOOL" a.gml | grep -q '^program .*; a.gml, all events$'
}

@test "options of record without a command" {
	for option in -o -e --output --trace --stacks --torch --exec; do
		expect 2 "gpumemstat: $option is an option of 'record'; to run a program: gpumemstat record $option ...
Try 'gpumemstat record --help'" $option x true
	done
	expect 2 "gpumemstat: --output=x is an option of 'record'; to run a program: gpumemstat record --output=x ...
Try 'gpumemstat record --help'" --output=x true
}

@test "help, and help of a command" {
	"$TOOL" help | diff - <("$TOOL" --help)
	for command in record hist top; do
		"$TOOL" help $command | diff - <("$TOOL" $command --help)
	done
	expect 2 "gpumemstat: unknown command 'histt'; did you mean 'hist'?
Try 'gpumemstat --help'" help histt
}

@test "no help is wider than 80 columns, nor than requested" {
	for command in '' $("$TOOL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
		[ "$("$TOOL" $command --help | wc -L)" -le 80 ] || { echo "$command"; return 1; }
	done
	[ "$(COLUMNS=60 "$TOOL" replay --help | sed -n '/^Options/,/^$/p' | wc -L)" -le 60 ]
}

@test "a folder stands for the newest run in it" {
	mkdir logs empty
	SLURM_JOB_ID=7 SLURM_PROCID=0 mklog logs/77.0.gml at:1s map:0:2M:1us
	SLURM_JOB_ID=7 SLURM_PROCID=1 mklog logs/77.1.gml at:1s map:0:2M:1us
	mklog other.gml at:1s map:0:2M:1us
	for folder in logs logs/ ./logs; do
		"$TOOL" $folder | diff - <("$TOOL" summary $folder)
		"$TOOL" --json $folder | jq -e '[.logs[].path | sub(".*/"; "")] == ["77.0.gml", "77.1.gml"]'
	done
	"$TOOL" hist logs/ | grep -q '^log           logs/'
	expect 1 'gpumemstat: empty/: a folder, not a gpumem log' empty/
}

@test "logs with any name are found without an operand" {
	mklog 77.0.gml at:1s map:0:64M:1us alloc:0:1M:1us free:1:1us
	"$TOOL" | grep -q '^program .*; 77.0.gml, all events$'
	"$TOOL" replay --policy=pool | grep -q '^trace         77.0.gml: log, 1 allocation'
	mkdir there
	mv 77.0.gml there
	"$TOOL" replay --policy=pool there | grep -q '^trace         there/77.0.gml: '
	for name in 77.0.gml.999 77.0.gml.0123456789abcdef; do
		mv there/77.0.gml* $name
		"$TOOL" | grep -q "^program .*; $name, all events\$"
		mv $name there
	done
}

@test "several logs: refusals are marked, and the sort key is shown" {
	mklog a.gml at:1s map:0:64M:1us fail:0:7G:1G
	mklog b.gml at:1s map:0:64M:1us fail:0:7G:1G kill
	mklog c.gml at:1s map:0:64M:1us
	"$TOOL" --width=120 a.gml b.gml c.gml >out
	grep -qE ' a.gml \(out of memory\)$' out
	grep -qE ' b.gml \(killed, or crashed; out of memory\)$' out
	grep -qE ' c.gml$' out
	refute grep -q '^rank  program' out
	"$TOOL" --width=120 --sort=program a.gml b.gml >out
	grep -qE '^rank  program +requested ' out
	grep -qE '^   -  mklog +0 B ' out
	"$TOOL" --width=120 --sort=start a.gml b.gml >out
	grep -qE '^   -  11-21 12:00:00 +0 B ' out
}
