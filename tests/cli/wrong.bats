#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Every wrong use of every option and command: exact message, exact status, empty standard output.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/wrong.bash"

# The commands, each with what it takes.
setup_file() {
	local command operands
	for command in $(commands); do
		operands=$(operands_of $command)
		echo $command=$operands
	done >"$BATS_FILE_TMPDIR/commands"
}

# cases KIND: every case of this kind. There are thousands: a shell with its subshells would cost more than
# the commands that it starts.
cases() {
	command -v python3 >/dev/null || skip "no python3"
	python3 "$BATS_TEST_DIRNAME/wrong.py" "$TOOL" $1 $(<"$BATS_FILE_TMPDIR/commands")
}

@test "the tests read every row of commands and options" {
	cases tables
}

@test "an unknown command is refused, with the nearest one" {
	cases unknown_command
}

@test "an unknown option of every command is refused" {
	cases unknown_option
}

@test "options of other commands are refused" {
	cases foreign_option
}

@test "missing and excess arguments of options are refused" {
	cases argument
}

@test "unambiguous abbreviations of options are accepted" {
	cases abbreviation
}

@test "wrong values are refused, before and after good ones" {
	cases wrong_value
}

@test "options before the command" {
	cases before_command
}

@test "operands: missing ones, too many, and operands after --" {
	cases operand
}

@test "a process that does not exist is refused" {
	cases process
}

@test "the same option twice: the last one counts" {
	"$TOOL" env --width=60 >narrow
	"$TOOL" env --width=200 --width=60 | diff narrow -
	"$TOOL" env --json >json
	"$TOOL" env --json --json | diff json -
	mode() { "$TOOL" record "$@" -- sh -c 'echo "$GPUMEM_MODE $GPUMEM_LOG_NAME"' 2>err; }
	[[ $(mode --trace -e GPUMEM_MODE=pool) == 'pool '* ]]
	[[ $(mode -e GPUMEM_MODE=pool --trace) == 'trace '* ]]
	[[ $(mode -o one -e GPUMEM_LOG_NAME=two -o three.gml) == *' '*/three.gml ]]
	[[ $(mode -o three.gml -e GPUMEM_LOG_NAME=two) == *' '*/two ]]
}

@test "options after COMMAND are the command's own" {
	for command in run record; do
		[ "$("$TOOL" $command printf '%s,' --json -x -- --help 2>/dev/null)" = '--json,-x,--,--help,' ]
		[ "$("$TOOL" $command -- printf '%s,' -e 2>/dev/null)" = '-e,' ]
	done
}

@test "a full or closed standard output is an error" {
	mklog x.gml at:1s map:0:64M:1us alloc:0:1M:1us
	echo .version 8.0 >x.ptx
	cases full_or_closed
}

@test "a standard output without a reader ends a command by SIGPIPE, or with an error" {
	cases without_reader
}
