#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Every wrong option and argument, with its exact message and exit status.
source "$BATS_TEST_DIRNAME/cli.bash"

try() { # try COMMAND MESSAGE ARGUMENT...: a usage error of COMMAND ("": of none)
	expect 2 "gpumemstat: $2
Try 'gpumemstat ${1:+$1 }--help'" "${@:3}"
}

@test "an unknown command is refused" {
	try '' "unknown command 'fragg'; did you mean 'frag'?" fragg
	try '' "unknown command 'summry'; did you mean 'summary'?" summry x.gml
	try '' "unknown command ''" ''
}

@test "an unknown option of every command is refused" {
	for command in run record summary live leaks frag hist map diff check export plot top sleep wake replay image env hooks doctor; do
		try $command "unrecognized option '--nonsense'" $command --nonsense
		try $command "invalid option -- 'x'" $command -x
		try $command "option '--help' doesn't allow an argument" $command --help=1
	done
	try summary "unrecognized option '--nonsense'" --nonsense
	for option in --trace --exec; do
		try summary "unrecognized option '$option'" summary $option
		try hooks "unrecognized option '$option'" hooks $option
	done
	try run "unrecognized option '--trace'" run --trace true
	try run "unrecognized option '--json'" run --json true
	try env "unrecognized option '--units=K'" env --units=K
	try hooks "unrecognized option '--sort=rank'" hooks --sort=rank
}

@test "an unknown long option is answered with the nearest one of that command" {
	try summary "unrecognized option '--josn'; did you mean '--json'?" --josn
	try summary "unrecognized option '--josn=1'; did you mean '--json'?" summary --josn=1
	try summary "unrecognized option '--colour'; did you mean '--color'?" summary --colour
	try record "unrecognized option '--ouptut=a'; did you mean '--output'?" record --ouptut=a true
	# --max is no option of summary, and --pid none at all.
	try check "unrecognized option '--maxx'; did you mean '--max'?" check --maxx
	try summary "unrecognized option '--maxx'" summary --maxx
	try summary "unrecognized option '--pid'" summary --pid
	# Letters that a terminal would obey are escaped, and no word is too long.
	try summary "unrecognized option '--jso\x1bn'; did you mean '--json'?" summary $'--jso\e''n'
	word=--$(printf 'n%.0s' {1..100})
	"$TOOL" summary $word 2>err || true
	refute grep -q 'did you mean' err
}

@test "options without their argument are refused" {
	for command in run record; do
		try $command "option requires an argument -- 'e'" $command -e
	done
	try record "option requires an argument -- 'o'" record -o
	try record "option '--output' requires an argument" record --output
	try summary "option '--units' requires an argument" summary --units
	try summary "option '--sort' requires an argument" summary --sort
	try summary "option requires an argument -- 'n'" summary -n
	try summary "option '--color' requires an argument" summary --color
	try summary "option '--width' requires an argument" summary --width
}

@test "options with a bad argument are refused" {
	try summary '--units=T: expected auto, B, K, M or G' summary --units=T
	try summary '--units=: expected auto, B, K, M or G' summary --units=
	try summary '--sort=size: expected rank, program, start, requested, mapped, calls or failed' summary --sort=size
	try summary '-n 0: expected a number from 1 on' summary -n 0
	try summary '-n -1: expected a number from 1 on' summary -n -1
	try summary '-n 1x: expected a number from 1 on' summary -n 1x
	for command in summary live leaks frag replay env hooks doctor; do
		try $command '--color=green: expected auto, always or never' $command --color=green
		try $command '--width=39: expected a number from 40 to 1000' $command --width=39
		try $command '--width=1001: expected a number from 40 to 1000' $command --width=1001
		try $command '--width=80x: expected a number from 40 to 1000' $command --width=80x
	done
}

@test "bad knobs of -e are refused" {
	for command in run record; do
		try $command '-e GPUMEM_MODE: expected KNOB=VALUE' $command -e GPUMEM_MODE true
		try $command '-e =1: expected KNOB=VALUE' $command -e =1 true
		try $command '-e GPUMEM_MODE=fast: expected one of pool, trace' $command -e GPUMEM_MODE=fast true
		try $command '-e GPUMEM_LIMITS=1G: GPUMEM_LIMITS is not a knob; did you mean GPUMEM_LIMIT?' \
			$command -e GPUMEM_LIMITS=1G true
		try $command '-e PATH=/: PATH is not a knob; see gpumem-knobs(7)' $command -e PATH=/ true
	done
}

@test "record with GPUMEM_LOG=off is refused" {
	try record '-e GPUMEM_LOG=off: nothing to record; see gpumemstat run' record -e GPUMEM_LOG=off true
}

@test "arguments that are too few or too many are refused" {
	for command in run record; do
		try $command "$command: expected a COMMAND" $command
		try $command "$command: expected a COMMAND" $command -e GPUMEM_MODE=pool --
	done
	try hooks "hooks: unexpected argument 'more'" hooks more
	try env "env: unexpected argument 'two'" env one two
}

@test "unreadable logs are named" {
	expect 1 'gpumemstat: none.gml: no such file' none.gml
	expect 1 'gpumemstat: none.gml: no such file' summary none.gml
	expect 1 'gpumemstat: none.gml: no such file' env none.gml
	expect 1 'gpumemstat: process 4194999: no such process' env 4194999
	expect 1 "gpumemstat: no log *.gml here: 'gpumemstat record COMMAND' makes one"
	echo 'not a log' >text.gml
	expect 1 'gpumemstat: text.gml: not a gpumem log' text.gml
	expect 1 'gpumemstat: a\x1b[1m.gml: no such file' $'a\e[1m.gml'
}

@test "the help of every command names each of its options, and so does the manual" {
	manual=$BATS_TEST_DIRNAME/../../man/gpumemstat.1
	"$TOOL" --help >help
	for command in run record summary live leaks frag hist map diff check export plot top sleep wake replay image env hooks doctor; do
		grep -qE "^  $command " help
		grep -qE "^\.Cm $command$|^\.Op Cm $command$" "$manual"
		"$TOOL" $command --help >of_command
		head -n 1 of_command | grep -q "^Usage: gpumemstat $command "
		for letter in $(sed -n 's/^ *-\([a-zA-Z]\)[, ].*/\1/p' of_command); do
			grep -qE "^\.It Fl $letter( |$)" "$manual" || { echo "-$letter is not in the manual"; return 1; }
		done
		for option in $(grep -oE '^ +(-[a-zA-Z],)? *--[a-z-]+' of_command | sed 's/.*--//'); do
			grep -qE "Fl -$option( |$)" "$manual" || { echo "$option is not in the manual"; return 1; }
		done
	done
	[ "$("$TOOL" --version)" = "gpumemstat $(cat "$BATS_TEST_DIRNAME/../../VERSION")" ]
	[ "$("$TOOL" summary -V)" = "$("$TOOL" -V)" ]
}

@test "the manual's synopsis of each command has its options, without those of all commands" {
	manual=$BATS_TEST_DIRNAME/../../man/gpumemstat.1
	for command in $("$TOOL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
		sed '/^\.Sh DESCRIPTION/,$d' "$manual" |
			awk -v RS='\\.Nm\n' -v command="$command" '$0 ~ "^\\.(Op )?Cm " command "\n"' >synopsis
		[ -s synopsis ] || { echo "no synopsis of $command"; return 1; }
		sed -nE 's/^\.Op Fl -?([a-z-]+)( .*)?$/\1/p' synopsis | grep -vx -- - | sort >there
		"$TOOL" $command --help | sed -n '/^Options:/,/^$/s/^ *\(-\([a-zA-Z]\)\)\?,\? *\(--\([a-z-]*\)\)\?.*/\2 \4/p' |
			awk '$NF !~ /^(help|version|color|width|no-pager)$/ && NF' >here
		while read -r letter name; do
			grep -qxe "${letter:-$name}" -e "${name:-$letter}" there ||
				{ echo "the synopsis of $command has no $letter $name"; return 1; }
		done <here
		[ "$(wc -l <here)" -eq "$(wc -l <there)" ] || { paste here there; return 1; }
	done
}
