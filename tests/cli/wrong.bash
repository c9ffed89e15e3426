# SPDX-License-Identifier: BSD-3-Clause
# The commands of --help, what they take, and their exact messages. A new form of operands needs a row in
# operands_of, and one in wrong.py.

commands() {
	"$TOOL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# Operands of a command: none, one (a log or a process), log, logs, traces, files, processes, a process and
# what is asked of it, a command line, or an optional one (asks).
operands_of() {
	local help
	help=$("$TOOL" "$1" --help)
	help=${help%%$'\n'*}
	case ${help#"Usage: gpumemstat $1 "} in
	'[OPTION]...') echo none ;;
	'[OPTION]... [LOG|PID]') echo one ;;
	'[OPTION]... [LOG]...') echo logs ;;
	'[OPTION]... {[LOG]... | -- COMMAND [ARG]...}') echo checks ;;
	'[OPTION]... [LOG]') echo log ;;
	'[OPTION]... [LOG|CSV]...') echo traces ;;
	'[OPTION]... OLD NEW') echo two ;;
	'[OPTION]... FILE...') echo files ;;
	'[OPTION]... [PID]...') echo pids ;;
	'PID {events|small}') echo asked ;;
	'[OPTION]... [--] COMMAND [ARG]...') echo launch ;;
	'[OPTION]... [--] [COMMAND [ARG]...]') echo asks ;;
	*)
		echo "wrong.bash does not know what gpumemstat $1 takes" >&2
		return 1
		;;
	esac
}

# Commands that read logs.
log_commands() {
	for command in $(commands); do
		case $(operands_of "$command") in
		one | logs) echo "$command" ;;
		esac
	done
}

# A text as in messages: one line, without control characters.
shown() {
	local LC_ALL=C text=${1//\\/\\\\}
	text=${text//$'\n'/\\n} text=${text//$'\t'/\\t} text=${text//$'\e'/\\x1b}
	text=${text//$'\xff'/\\xff} text=${text//$'\xfe'/\\xfe}
	printf '%s' "$text"
}

# fails STATUS STDERR ARGUMENT...: like expect, with fewer processes. Stops at the first difference.
fails() {
	local status=0 said
	"$TOOL" "${@:3}" </dev/null >out 2>err || status=$?
	said=$(<err)
	if [ "$status" -ne "$1" ] || [ "$said" != "$2" ] || [ -s out ]; then
		printf 'gpumemstat'
		printf ' %q' "${@:3}"
		printf '\nexit %s, not %s\n' "$status" "$1"
		diff -u <(printf '%s\n' "$2") err
		cat out
		return 1
	fi
}

# misused COMMAND MESSAGE ARGUMENT...: a usage error of COMMAND ("": of none)
misused() {
	fails 2 "gpumemstat: $2
Try 'gpumemstat ${1:+$1 }--help'" "${@:3}"
}
