# SPDX-License-Identifier: BSD-3-Clause
# Data for knobs.bats: the rows of knob.def, and wrong values of every type. A new type needs a branch in
# wrong_of.
KNOB_DEF=$BATS_TEST_DIRNAME/../../src/knob/knob.def
PRELOAD=${GPUMEM_TEST_PRELOAD:-$PWD/.libs/libgpumem.so}

# TYPE|NAME|default|argument, one row a line.
knobs() {
	sed -n 's/^GM_KNOB([a-z_]*, *\([A-Z_]*\), *\([A-Z_]*\), *"\([^"]*\)", *"\([^"]*\)",.*/\1^\2^\3^\4/p' "$KNOB_DEF"
}

LONG=$(printf 'x%.0s' {1..5000})
STRANGE=(' ' xyzzy NaN $'\e[31m' $'\xff\xfe' $'a\nb' ä -1)

# wrong_of TYPE ARGUMENT: sets `values` to wrong values, and `why` to the message about them.
wrong_of() {
	local words=${2//|/, }
	case $1 in
	BOOL)
		why='expected 0 or 1'
		values=('' "${STRANGE[@]}" 2 tru ' 1' $'1\n' 0x1)
		;;
	CHOICE)
		why="expected one of $words"
		values=('' "${STRANGE[@]}" "${2%%|*}x" "$2" "|" "${2%%|*} ")
		;;
	SIZE)
		why="expected a size of at least $2, such as 512M"
		values=('' "${STRANGE[@]}" 0 1 inf 1e9G 0x10G '1 G' ' 1G' 1Q 1.5.5G .G 1.G 50% 18446744073709551616 16777216T
			99999999999999999999999G)
		;;
	TRIM)
		why='expected a time such as 100ms or 10s, or off, and perhaps a comma and a size or a percentage to keep'
		values=('' "${STRANGE[@]}" 5 1d '1 s' -1s 5124096h , ,1G 10s, 10s,x '10s, 1G' 10s,1G,1G off,101% never)
		;;
	LEVEL)
		why="expected one of $words, and perhaps a comma and a time"
		values=('' "${STRANGE[@]}" "${2%%|*}x" "$2" "${2%%|*}," "${2%%|*},5" "${2%%|*},1s,1s" ",1s" "${2%%|*} ,1s" 1s)
		;;
	SWITCH)
		why='expected 0, 1, or a time such as 30s'
		values=('' "${STRANGE[@]}" 2 30 1d '1 s' -1s 0x1 5124096h 1,30s)
		;;
	SIZE_OR_PERCENT)
		why='expected a size such as 512M, or a percentage up to 100%'
		values=('' "${STRANGE[@]}" 100.1% 101% % 5%% 5%x -5% 1e1% '5 %' 18446744073709551616 16777216T)
		[ "$2" = 0 ] || values+=(0 0% 0.0M)
		;;
	SIZE_OR_FOLDER)
		why='expected a size such as 8G, a percentage up to 100%, or a folder that begins with /'
		values=('' "${STRANGE[@]}" 100.1% 101% % 5%% 5%x -5% 1e1% '5 %' 18446744073709551616 16777216T tmp ./tmp '~/tmp' ' /tmp')
		;;
	TIME)
		why="expected a time such as 100ms or 10s${2:+, or $2}"
		values=('' "${STRANGE[@]}" 5 1d 1e3s '1 s' 1.s .5s ms -1s 0x1s inf 18446744073709551616ns 5124096h)
		;;
	LIST)
		why="expected a list of all, none, $words"
		values=('' "${STRANGE[@]}" , "${2%%|*}," ",${2%%|*}" all,,all -none all,-xyzzy --all "$2" "${2%%|*};${2%%|*}")
		;;
	BYTE)
		why="expected a byte such as 0xa5, or one of $words"
		values=('' "${STRANGE[@]}" 256 0x100 0x 0xg1 1e1 +1 ' 1' '1 ' 0x1h 99999999999999999999 "${2%%|*}x" "$2")
		;;
	THREADS)
		why="expected off, auto, or a number of threads up to $2"
		values=('' "${STRANGE[@]}" 0 $(($2 + 1)) 1.5 4x ' 4' '4 ' +4 0x4 4294967297 99999999999999999999 autos 'off ')
		;;
	NAME)
		why='expected no % but %h, %p, %r, %j, %e and %%'
		values=(% %q.gml %P 'a% p' %%% a.%p.%1 %p% $'%\xff')
		;;
	TEXT)
		why=
		values=()
		;;
	*)
		echo "knobs.bash has no wrong values of type $1" >&2
		return 1
		;;
	esac
}

# A value as in messages: one line, at most 400 bytes of the value.
shown_value() {
	local LC_ALL=C
	if [ ${#1} -gt 400 ]; then
		printf '%s...' "${1:0:400}"
	else
		shown "$1"
	fi
}

# unharmed STDERR NAME=VALUE...: the demo's output and status are native, and standard error is STDERR.
unharmed() {
	local status=0
	env "${@:2}" LD_PRELOAD="$PRELOAD" "$DEMO" 3 >out 2>err || status=$?
	if [ "$status" -ne 0 ] || [ "$(<out)" != "$native" ] || [ "$(<err)" != "$1" ]; then
		printf 'environment:'
		printf ' %q' "${@:2}"
		printf '\nexit %s\n' "$status"
		diff -u <(printf '%s\n' "$1") err
		diff <(printf '%s\n' "$native") out
		return 1
	fi
}
