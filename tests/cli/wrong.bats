#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Every wrong use of every option and command: exact message, exact status, empty standard output.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/wrong.bash"

@test "the tests read every row of commands and options" {
	[ "$(options | wc -l)" -eq "$(grep -c '^GM_OPTION(' "$OPTIONS_DEF")" ]
	[ "$(commands | wc -l)" -eq "$(grep -c '^	{"[a-z]*", gm_[a-z]*_main,' "$BATS_TEST_DIRNAME/../../tools/main.c")" ]
	for command in $(commands); do
		operands_of $command
		[ "$(accepted $command | grep -cE '^(HELP|VERSION)\|')" -eq 2 ]
		# --help has no other line with an option.
		[ "$(accepted $command | wc -l)" -eq "$("$TOOL" $command --help | sed -n '/^Options:/,/^$/p' | grep -cE '^ +-')" ]
	done
	# Every row belongs to a command.
	[ "$(for command in $(commands); do accepted $command; done | sort -u)" = "$(options | sort)" ]
	while IFS='|' read -r bit letter name argument; do
		[ -z "$argument" ] || [ -n "${GOOD[$bit]}" ] || { echo "no good value of $bit"; return 1; }
		[ -z "$argument" ] || [ "$(wrong_values $bit | tr -cd '\0' | wc -c)" -gt 0 ] || { echo "no wrong value of $bit"; return 1; }
	done < <(options)
}

@test "an unknown command is refused, with the nearest one" {
	for command in $(commands); do
		misused '' "unknown command '${command:0:1}$command'; did you mean '$command'?" ${command:0:1}$command
		misused '' "unknown command '${command}s'; did you mean '$command'?" ${command}s x.gml --json
		misused '' "unknown command '${command^^}'" ${command^^}
		misused '' "unknown command ' $command'; did you mean '$command'?" " $command"
	done
	for word in '' xyzzy 4711 ä $'\e[31m' $'\xff' $'a\nb' "$(printf 'x%.0s' {1..5000})"; do
		misused '' "unknown command '$(shown "$word")'" "$word"
	done
}

@test "an unknown option of every command is refused" {
	for command in $(commands); do
		letters=$(accepted $command | cut -d'|' -f2 | tr -d '\n')
		for name in nonsense x 0 ä $'\e[31m' $'non\xff' $'a\nb' "$(printf 'x%.0s' {1..5000})" nonsense=5 $'x=\e'; do
			misused $command "unrecognized option '--$(shown "$name")'" $command "--$name"
		done
		for letter in {a..z} {A..Z} {0..9} : ';' '?' = , + ' ' @ $'\e' $'\xff'; do
			[[ -n ${letters//[^$letter]/} ]] || misused $command "invalid option -- '$(shown "$letter")'" $command "-$letter"
		done
	done
	misused summary "unrecognized option '--nonsense'" --nonsense
	misused summary "invalid option -- 'x'" -x
}

@test "options of other commands are refused" {
	for command in $(commands); do
		own=$(accepted $command)
		while IFS='|' read -r bit letter name argument; do
			if grep -q "^$bit|" <<<"$own"; then continue; fi
			[ -z "$letter" ] || cut -d'|' -f2 <<<"$own" | grep -qx "$letter" ||
				misused $command "invalid option -- '$letter'" $command -$letter ${argument:+"${GOOD[$bit]}"}
			[ -n "$name" ] || continue
			cut -d'|' -f3 <<<"$own" | grep -q "^$name" ||
				misused $command "unrecognized option '--$name${argument:+=${GOOD[$bit]}}'" $command --$name${argument:+="${GOOD[$bit]}"}
		done < <(options)
	done
}

@test "missing and excess arguments of options are refused" {
	for command in $(commands); do
		while IFS='|' read -r bit letter name argument; do
			if [ -n "$argument" ]; then
				[ -z "$letter" ] || misused $command "option requires an argument -- '$letter'" $command -$letter
				[ -z "$name" ] || misused $command "option '--$name' requires an argument" $command --$name
			elif [ -n "$name" ]; then
				for value in '' 1 $'\e'; do
					misused $command "option '--$name' doesn't allow an argument" $command --$name="$value"
				done
			fi
		done < <(accepted $command)
	done
}

@test "unambiguous abbreviations of options are accepted" {
	for command in $(commands); do
		names=$(accepted $command | cut -d'|' -f3)
		while IFS='|' read -r bit letter name argument; do
			for ((n = 1; n < ${#name}; n++)); do
				short=${name:0:n}
				if grep -qx -- "$short" <<<"$names"; then continue; fi
				if [ "$(grep -c "^$short" <<<"$names")" -gt 1 ]; then
					misused $command "option '--$short' is ambiguous" $command --$short
				elif [ -n "$argument" ]; then
					misused $command "option '--$name' requires an argument" $command --$short
				else
					misused $command "option '--$name' doesn't allow an argument" $command --$short=1
				fi
			done
		done < <(accepted $command)
	done
}

@test "wrong values are refused, before and after good ones" {
	for command in $(commands); do
		tail=()
		[ "$(operands_of $command)" != launch ] || tail=(true)
		while IFS='|' read -r bit letter name argument; do
			[ -n "$argument" ] || continue
			while IFS=$'\x1f' read -r -d '' value why; do
				message=${name:+--$name=}
				message="${message:--$letter }$(shown "$value"): $why"
				if [ -n "$name" ]; then
					misused $command "$message" $command --$name="$value" "${tail[@]}"
				else
					misused $command "$message" $command -$letter "${GOOD[$bit]}" -$letter "$value" "${tail[@]}"
				fi
				[ -z "$letter" ] || misused $command "$message" $command -$letter "$value" -$letter "${GOOD[$bit]}" "${tail[@]}"
			done < <(wrong_values $bit)
		done < <(accepted $command)
	done
}

@test "options before the command" {
	for command in $(commands); do
		while IFS='|' read -r bit letter name argument; do
			case $bit in HELP | VERSION) continue ;; esac
			misused $command "options go behind the command: gpumemstat $command [OPTION]..." "-${name:+-}${name:-$letter}" ${argument:+"${GOOD[$bit]}"} $command
		done < <(options)
	done
	fails 1 'gpumemstat: summary: no such file' -- summary
	fails 1 'gpumemstat: summary: no such file' --json -- summary
}

@test "operands: missing ones, too many, and operands after --" {
	for command in $(commands); do
		case $(operands_of $command) in
		none)
			misused $command "$command: unexpected argument 'more'" $command more
			misused $command "$command: unexpected argument 'more'" $command -- more
			misused $command "$command: unexpected argument '--json'" $command -- --json
			misused $command "$command: unexpected argument '--'" $command -- --
			misused $command "$command: unexpected argument ''" $command ''
			misused $command "$command: unexpected argument '\\x1b'" $command $'\e'
			;;
		one)
			misused $command "$command: unexpected argument 'two'" $command one two
			misused $command "$command: unexpected argument 'two'" $command one -- two three
			misused $command "unrecognized option '--nonsense'" $command one --nonsense
			fails 1 'gpumemstat: --json: no such file' $command -- --json
			;;
		pids)
			misused $command "$command: expected PID" $command
			for pid in 0 '' x 1x ' 1' 2147483648 99999999999999999999; do
				misused $command "$command: expected PID, not '$pid'" $command 1 "$pid"
			done
			;;
		log)
			misused $command "$command: unexpected argument 'two'" $command one two
			misused $command "$command: unexpected argument 'two'" $command one -- two three
			misused $command "unrecognized option '--nonsense'" $command one.gml --nonsense
			fails 1 'gpumemstat: --nonsense: no such file' $command -- --nonsense
			fails 1 "gpumemstat: '': no such file" $command ''
			;;
		logs)
			misused $command "unrecognized option '--nonsense'" $command one.gml --nonsense
			fails 1 'gpumemstat: --json: no such file' $command -- --json
			fails 1 'gpumemstat: one.gml: no such file
gpumemstat: two.gml: no such file' $command one.gml -- two.gml
			;;
		two)
			misused $command "$command: expected OLD and NEW" $command
			misused $command "$command: expected OLD and NEW" $command one.gml
			misused $command "$command: expected OLD and NEW" $command -- one.gml
			misused $command "$command: unexpected argument 'three'" $command one two three
			fails 1 "gpumemstat: '': no such file
gpumemstat: --json: no such file" $command -- '' --json
			;;
		traces)
			for option in '' -- --json; do
				fails 1 "gpumemstat: no log *.gml here: 'gpumemstat record COMMAND' makes one" $command $option
			done
			misused $command "unrecognized option '--nonsense'" $command one.csv --nonsense
			fails 1 'gpumemstat: --json: no such file' $command -- --json
			fails 1 "gpumemstat: '': no such file
gpumemstat: two.csv: no such file" $command '' -- two.csv
			;;
		files)
			misused $command "$command: expected a FILE" $command
			misused $command "$command: expected a FILE" $command --
			misused $command "$command: expected a FILE" $command --json
			misused $command "unrecognized option '--nonsense'" $command one.cubin --nonsense
			fails 1 'gpumemstat: --json: no such file' $command -- --json
			fails 1 "gpumemstat: '': no such file
gpumemstat: two.cubin: no such file" $command '' -- two.cubin
			;;
		launch)
			misused $command "$command: expected a COMMAND" $command
			misused $command "$command: expected a COMMAND" $command --
			misused $command "$command: expected a COMMAND" $command -e GPUMEM_MODE=pool
			misused $command "$command: expected a COMMAND" $command -e GPUMEM_MODE=pool --
			fails 127 'gpumemstat: --json: No such file or directory' $command -- --json
			;;
		esac
	done
}

@test "a process that does not exist is refused" {
	for command in $(commands); do
		[ "$(operands_of $command)" = one ] || continue
		for pid in 0 4194999 00 99999999999999999999999; do
			fails 1 "gpumemstat: process $pid: no such process" $command $pid
		done
		# An operand that is no number is a log.
		for name in -5 5x ' 5' 1.5 +5; do
			fails 1 "gpumemstat: $name: no such file" $command -- "$name"
		done
	done
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
	: >full
	for command in '' $(commands); do
		for option in --help --version -h -V; do
			status=0
			"$TOOL" $command $option >/dev/full 2>err || status=$?
			[ "$status" -eq 1 ]
			[ "$(<err)" = 'gpumemstat: standard output: No space left on device' ]
			status=0
			"$TOOL" $command $option >&- 2>err || status=$?
			[ "$status" -eq 1 ]
			[ "$(<err)" = 'gpumemstat: standard output: Bad file descriptor' ]
		done
	done
	mklog x.gml at:1s map:0:64M:1us alloc:0:1M:1us
	echo .version 8.0 >x.ptx
	for command in $(commands); do
		log=x.gml
		case $(operands_of $command) in
		launch | asks | pids) continue ;;
		none) log= ;;
		two) log='x.gml x.gml' ;;
		files) log=x.ptx ;;
		esac
		for json in '' --json; do
			grep -q "^JSON|" <<<"$(accepted $command)" || [ -z "$json" ] || continue
			status=0
			"$TOOL" $command $json $log >/dev/full 2>err || status=$?
			[ "$status" -eq 1 ]
			[ "$(<err)" = 'gpumemstat: standard output: No space left on device' ]
			# A usage error keeps its status, even if its message cannot be written.
			status=0
			"$TOOL" $command $json --nonsense $log >&- 2>&- </dev/null || status=$?
			[ "$status" -eq 2 ]
			status=0
			"$TOOL" $command $json $log >plain <&- 2>&- || status=$?
			[ "$status" -eq 0 ]
			[ -s plain ]
		done
	done
}

@test "a standard output without a reader ends a command by SIGPIPE, or with an error" {
	command -v python3 >/dev/null || skip "no python3"
	cat >gone.py <<-'END'
		import os, subprocess, sys
		r, w = os.pipe()
		os.close(r)
		for restore in (True, False):  # SIGPIPE as usual, and ignored
		    done = subprocess.run(sys.argv[1:], stdout=w, stderr=subprocess.PIPE, restore_signals=restore)
		    print(done.returncode, done.stderr.decode().strip())
	END
	for command in $(commands); do
		[ "$(python3 gone.py "$TOOL" $command --help)" = $'-13 \n1 gpumemstat: standard output: Broken pipe' ]
	done
	[ "$(python3 gone.py "$TOOL" env)" = $'-13 \n1 gpumemstat: standard output: Broken pipe' ]
}
