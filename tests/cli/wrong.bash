# SPDX-License-Identifier: BSD-3-Clause
# The tables for wrong.bats and damage.bats: commands of --help, options of options.def. A new option with an
# argument needs a row in GOOD and rows in WRONG, a new form of operands needs one in operands_of.
OPTIONS_DEF=$BATS_TEST_DIRNAME/../../tools/options.def

commands() {
	"$TOOL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# BIT|letter|long name|argument, one row of options.def a line.
options() {
	sed -n "s/^GM_OPTION(\([A-Z]*\), *\('\(.\)'\|0\), *\(NULL\|\"\([a-z-]*\)\"\), *\(NULL\|\"\([^\"]*\)\"\),.*/\1|\3|\5|\7/p" \
		"$OPTIONS_DEF"
}

# Operands of a command: none, one (a log or a process), log, logs, traces, files, processes, a command line,
# or an optional one (asks).
operands_of() {
	case $("$TOOL" "$1" --help | sed -n "1s/^Usage: gpumemstat $1 //p") in
	'[OPTION]...') echo none ;;
	'[OPTION]... [LOG|PID]') echo one ;;
	'[OPTION]... [LOG]...') echo logs ;;
	'[OPTION]... [LOG]') echo log ;;
	'[OPTION]... [LOG|CSV]...') echo traces ;;
	'[OPTION]... OLD NEW') echo two ;;
	'[OPTION]... FILE...') echo files ;;
	'PID...' | '[OPTION]... PID...') echo pids ;;
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

# accepted COMMAND: the rows of options.def for this command.
accepted() {
	local help bit letter name argument
	help=$("$TOOL" "$1" --help | sed -n '/^Options:/,/^$/p')
	options | while IFS='|' read -r bit letter name argument; do
		if [ -n "$name" ]; then
			[[ $help == *" --$name${argument:+=$argument} "* ]] || continue
		else
			[[ $help =~ "  -$letter " ]] || continue
		fi
		echo "$bit|$letter|$name|$argument"
	done
}

# A good value for every option with an argument.
declare -gA GOOD=(
	[SET]=GPUMEM_VERBOSE=1 [OUTPUT]=some.gml [UNITS]=K [SORT]=rank [ROWS]=3 [COLOR]=never [WIDTH]=100
	[SIZE]=1M [TIMEOUT]=10s [POLICY]=pool,pytorch [LAG]=10ms [LIMIT]=90% [MEMORY]=80G [DEVICE]=1 [AT]=1.5s [MAX]=mapped=1G [DELAY]=1s [STACKS]=all [GROUP]=size [BY]=pid [FORMAT]=csv [FILE]=some.out [PIXELS]=640 [UNIT]=64K [LEAST]=0.5
)

# wrong_values BIT: "VALUE<US>REASON" each, ended by NUL.
wrong_values() {
	local value
	refuse() { # refuse REASON VALUE...
		for value in "${@:2}"; do printf '%s\x1f%s\0' "$value" "$1"; done
	}
	local strange=('' ' ' $'\e[31m' $'\xff\xfe' $'a\nb' ä "$(printf 'x%.0s' {1..5000})")
	local numbers=("${strange[@]}" -1 +5 ' 80' '80 ' 80x 80.5 1e2 0x50 NaN inf 80K ８０ 99999999999999999999 18446744073709551696)
	case $1 in
	SET)
		refuse 'expected KNOB=VALUE' "${strange[@]}" =1 = GPUMEM_MODE
		refuse 'expected one of pool, trace' GPUMEM_MODE= GPUMEM_MODE=fast $'GPUMEM_MODE=po\nol' $'GPUMEM_MODE=\xff'
		refuse 'GPUMEM_LIMITS is not a knob; did you mean GPUMEM_LIMIT?' GPUMEM_LIMITS=1G
		refuse 'PATH is not a knob; see gpumemstat env' PATH=/
		refuse 'expected at most 4095 bytes' "GPUMEM_PROGRAM=$(printf 'x%.0s' {1..4096})"
		;;
	OUTPUT)
		refuse 'expected a name' ''
		refuse 'expected no % but %h, %p, %r, %j, %e and %%' % %q.gml logs%/a %%% a.%p.%1
		refuse 'expected at most 4095 bytes' "$(printf 'x%.0s' {1..4096})"
		;;
	FILE) refuse 'expected a name' '' ;;
	UNITS) refuse 'expected auto, B, K, M or G' "${strange[@]}" T k KB KiB AUTO 1024 BK ;;
	SORT) refuse 'expected rank, program, start, requested, mapped, calls or failed' "${strange[@]}" size Rank rank, ranks ;;
	STACKS) refuse 'expected off, large, all or held' "${strange[@]}" on 64K 0 ALLL largest ;;
	GROUP) refuse 'expected stack, size or context' "${strange[@]}" stacks Size context, 0 ;;
	SIZE) refuse 'expected a size of 64K or more' "${strange[@]}" 0 1 63K NaN 50% 1Q 1e9 -1 ;;
	TIMEOUT) refuse 'expected a time like 500ms or 30s' "${strange[@]}" 0 0s -1s NaN 1x 1e9s off ;;
	POLICY) refuse 'expected names out of pool, pool-defer, pool-ordered, first-fit, exact-size, round-2m, pytorch, expandable, malloc-async and pytorch-pool' "${strange[@]}" \
		Pool pools , pool, ,pool pool,,pytorch 'pool, pytorch' 'pool pytorch' best-fit 0 ;;
	LAG) refuse 'expected a time like 10ms' "${strange[@]}" 5 -1s NaN 1x 1e9s off ;;
	LIMIT) refuse 'expected a size like 64G or a share like 90%' "${strange[@]}" 0 0% 101% -1 NaN 1Q 1e9 90%% % off ;;
	MEMORY) refuse 'expected a size from 2M to 16T' "${strange[@]}" 0 1 1M 2097151 17T 16385G -1 NaN 50% 1Q 1e9 ;;
	DEVICE) refuse 'expected a number from 0 to 47' "${numbers[@]}" 48 0,1 all ;;
	AT) refuse 'expected peak, oom, exit or a time like 1.5s' "${strange[@]}" Peak end -1s 5 1x 1e9s peak,oom ;;
	MAX)
		refuse 'expected COUNTER=VALUE' "${strange[@]}" mapped =1 = =
		refuse 'expected a size like 2GiB' mapped= mapped=x mapped=-1 'mapped= 1' mapped=1Q mapped=50% mapped=1=1
		refuse 'expected a number' live_blocks= live_blocks=1K live_blocks=-1 live_blocks=+1 live_blocks=1.5 live_blocks=99999999999999999999
		refuse 'expected a time like 500ms' allocate_ns= allocate_ns=5 allocate_ns=1x allocate_ns=-1s
		refuse 'expected a ratio from 0 to 1, like 0.25' external_peak= external_peak=2 external_peak=25% external_peak=-1
		refuse "no counter 'maped'; did you mean 'mapped'?" maped=1
		refuse "no counter 'xyzzy'; gpumem-log(5) lists them" xyzzy=1
		refuse "requested_peak_time is a moment, which has no limit" requested_peak_time=1s
		;;
	DELAY) refuse 'expected a time of 100ms or more' "${strange[@]}" 0 99ms 5 -1s NaN 1x 1e9s off ;;
	BY) refuse 'expected memory, requested, pool, heap, foreign, external, pid or program' "${strange[@]}" size Pid pid, pids rank ;;
	PIXELS) refuse 'expected a number of pixels from 400 to 8000' "${numbers[@]}" 0 399 8001 640px 640x480 ;;
	FORMAT) refuse 'expected csv, openmetrics, chrome or pytorch' "${strange[@]}" CSV json csv, tsv 0 prometheus ;;
	UNIT) refuse 'expected a size like 64K' "${strange[@]}" 0 0K -1 NaN 50% 1Q 1e9 99999999999999999999 ;;
	LEAST) refuse 'expected a ratio from 0 to 1, like 0.95' "${strange[@]}" -0.5 1.1 2 95% 95 NaN .5 1. 1e-1 0,95 0x1 ;;
	ROWS) refuse 'expected a number from 1 on' "${numbers[@]}" 0 2147483648 ;;
	COLOR) refuse 'expected auto, always or never' "${strange[@]}" green yes Always alway ;;
	WIDTH) refuse 'expected a number from 40 to 1000' "${numbers[@]}" 0 39 1001 ;;
	esac
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
