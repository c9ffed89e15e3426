#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat replay over files that are no trace, or an invalid one: one line names file, line and reason.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/wrong.bash"

RMM=Thread,Time,Action,Pointer,Size,Stream
MINI=id,lower,upper,size
NOON=12:00:00.000000

# bad LINE REASON ROW...: t.csv with these rows is refused at this line. Rows have the escapes of printf.
bad() {
	printf "$(printf '%s\\n' "${@:3}")" >t.csv
	fails 1 "gpumemstat: t.csv:$1: $2" replay t.csv
	fails 1 "gpumemstat: standard input:$1: $2" replay --json - <t.csv
}

# Replaces fails of wrong.bash, which has no standard input.
fails() {
	local status=0
	"$TOOL" "${@:3}" >out 2>err || status=$?
	diff -u <(printf '%s\n' "$2") err
	[ ! -s out ]
	[ "$status" -eq "$1" ] || { echo "exit $status, not $1: ${*:3}"; return 1; }
}

@test "replay refuses files that are no trace" {
	mkdir folder
	ln -s loop loop
	: >empty.csv
	fails 1 'gpumemstat: none.csv: no such file' replay none.csv
	fails 1 'gpumemstat: folder: Is a directory' replay folder
	fails 1 'gpumemstat: loop: Too many levels of symbolic links' replay loop
	fails 1 "gpumemstat: '': no such file" replay ''
	fails 1 'gpumemstat: a\x1b[1m\n\xff: no such file' replay $'a\e[1m\n\xff'
	fails 1 'gpumemstat: empty.csv: empty' replay empty.csv
	fails 1 'gpumemstat: standard input: empty' replay - </dev/null
	fails 1 'gpumemstat: standard input: Bad file descriptor' replay - <&-
	fails 1 "gpumemstat: /dev/zero:1: a byte that is 0: this is no text" replay /dev/zero
	fails 1 'gpumemstat: one.csv: no such file
gpumemstat: two.csv: no such file' replay one.csv two.csv
}

@test "replay refuses damaged logs" {
	mklog good.gml at:1s map:0:64M:1us alloc:0:1M:1us
	head -c 1000 good.gml >short.gml
	echo GPUMEM >word.gml
	status=0
	"$TOOL" summary short.gml 2>expected >out || status=$?
	[ "$status" -eq 1 ]
	fails 1 "$(<expected)" replay short.gml
	fails 1 'gpumemstat: word.gml: not a gpumem log' replay word.gml
	fails 1 'gpumemstat: standard input: a log can only be read from its file' replay - <good.gml
	fails 1 'gpumemstat: good.gml: --device=47: the log has 2 devices' replay --device=47 good.gml
	printf '%s\n' $MINI a,0,1,5 >m.csv
	fails 1 'gpumemstat: m.csv: --device=1: a CSV has no devices' replay --device=1 m.csv
	"$TOOL" replay --device=0 m.csv >out
}

@test "replay refuses wrong headers" {
	expected="expected $RMM or $MINI"
	bad 1 "unknown header 'nonsense': $expected" nonsense
	bad 1 "unknown header '': $expected" '' $MINI
	bad 1 "unknown header 'id,lower,upper,size,': $expected" $MINI,
	bad 1 "unknown header 'id,lower,upper': $expected" id,lower,upper
	bad 1 "unknown header 'thread,time,action,pointer,size,stream': $expected" ${RMM,,}
	bad 1 "unknown header '1,$NOON,allocate,0x10,5,0': $expected" 1,$NOON,allocate,0x10,5,0
	bad 1 "unknown header '\\x1b[31m\\xff': $expected" '\033[31m\377'
	bad 1 "unknown header '$(printf 'x%.0s' {1..60})...': $expected" "$(printf 'x%.0s' {1..61})"
	bad 1 'longer than 500 bytes' "$(printf 'x%.0s' {1..501})"
	bad 1 'a byte that is 0: this is no text' 'id\0'
}

@test "replay refuses wrong rows of RMM" {
	rows() { # rows REASON ROW...: the last row is refused
		bad $# "$1" $RMM "${@:2}"
	}
	rows '1 fields, expected 6' nonsense
	rows '5 fields, expected 6' 1,$NOON,allocate,0x10,5
	rows '7 fields, expected 6' 1,$NOON,allocate,0x10,5,0,0
	rows '8 or more fields, expected 6' ,,,,,,,,,
	rows 'longer than 500 bytes' "1,$NOON,allocate,0x10,5,$(printf 'x%.0s' {1..500})"
	rows 'a byte that is 0: this is no text' "1,$NOON,allocate,0x10,5,"'\0'
	for thread in '' x -1 1.5 ' 1' 0x1 99999999999999999999; do
		rows "thread '$thread': expected a number" "$thread,$NOON,allocate,0x10,5,0"
	done
	for time in '' .5 1.x 1.0000000001 99999999999999999999.0 12:00:00 12:00:00. 12:00:00.00000 12:00:00.0000000 24:00:00.000000 12:60:00.000000 \
		12:00:61.000000 -1:00:00.000000 12-00:00.000000 12:00:00,000000x; do
		[[ $time != *,* ]] || continue
		rows "time '$time': expected HH:MM:SS.uuuuuu, or seconds since 1970" 1,$time,allocate,0x10,5,0
	done
	for action in '' alloc Allocate free2 'allocate ' 'allocate  failure'; do
		rows "action '$action': expected allocate, free, deallocate or allocate failure" "1,$NOON,$action,0x10,5,0"
	done
	for pointer in '' 10 0x 0xg 0x10x -0x10 0x10000000000000000 nil '(nil' ' 0x10'; do
		rows "pointer '$pointer': expected 0x and hexadecimal digits, or (nil)" "1,$NOON,allocate,$pointer,5,0"
	done
	for size in '' -5 5.5 5K 0x5 ' 5' '5 ' five 18446744073709551616; do
		rows "size '$size': expected a number of bytes" "1,$NOON,allocate,0x10,$size,0"
		rows "size '$size': expected a number of bytes" "1,$NOON,allocate failure,(nil),$size,0"
	done
	rows "size 1152921504606846977: more than any device has" 1,$NOON,allocate,0x10,1152921504606846977,0
	rows "size 18446744073709551615: more than any device has" 1,$NOON,allocate,0x10,18446744073709551615,0
	for pointer in '(nil)' 0x0; do
		rows "pointer '$pointer': expected the address of what was allocated" "1,$NOON,allocate,$pointer,5,0"
		rows "free of $pointer, which is not allocated" "1,$NOON,free,$pointer,5,0"
	done
	good=1,$NOON,allocate,0x10,5,0
	rows '0x10 is allocated already, in line 2' $good $good
	rows '0x0010 is allocated already, in line 2' $good '' 2,$NOON,allocate,0x0010,7,0
	rows 'free of 0x11, which is not allocated' $good 1,$NOON,free,0x11,5,0
	rows 'free of 0x10, which is not allocated' $good 1,$NOON,free,0x10,5,0 1,$NOON,free,0x10,5,0
	rows 'free of 6 bytes at 0x10, which has 5 since line 2' $good 1,$NOON,free,0x10,6,0
	exbibyte=1,$NOON,allocate,0x%x,1152921504606846976,0
	rows 'more than 16 EiB are alive' $(for i in {1..16}; do printf $exbibyte'\n' $i; done)
	# The other files are shown.
	printf '%s\n' $MINI a,0,1,5 >m.csv
	status=0
	"$TOOL" replay t.csv m.csv >out 2>err || status=$?
	[ "$status" -eq 1 ]
	[ "$(grep -c '^trace ' out)" -eq 1 ]
	[ "$(wc -l <err)" -eq 1 ]
}

@test "replay refuses wrong rows of MiniMalloc" {
	rows() {
		bad $# "$1" $MINI "${@:2}"
	}
	rows '3 fields, expected 4' a,0,1
	rows '5 fields, expected 4' a,0,1,5,0
	bad 2 '4 fields, expected 5' $MINI,offset a,0,1,5
	for number in '' -1 1.5 x 1K 0x1 ' 1' 18446744073709551616; do
		rows "lower '$number': expected a number" "a,$number,1,5"
		rows "upper '$number': expected a number" "a,0,$number,5"
		rows "size '$number': expected a number" "a,0,1,$number"
	done
	rows 'upper 1 is not above lower 1' a,1,1,5
	rows 'upper 1 is not above lower 2' b,0,1,5 a,2,1,5
	rows "id 'a' is there already, in line 3" b,0,1,5 a,0,1,5 c,0,1,5 a,7,9,5
	rows "id '' is there already, in line 2" ,0,1,5 ,0,1,5
	rows 'size 1152921504606846977, of 1 bytes: more than any device has' a,0,1,1152921504606846977
	printf '%s\n' $MINI a,0,1,18446744073709551615 >t.csv
	fails 1 'gpumemstat: t.csv:2: size 18446744073709551615, of 2 bytes: more than any device has' replay --unit=2 t.csv
}

@test "replay accepts the largest sizes and times" {
	printf '%s\n' $MINI a,0,18446744073709551615,1152921504606846976 b,0,1,1 >t.csv
	"$TOOL" replay --json t.csv | jq -e '.traces[0].policies | map(.failed == 1 and .requested_peak == 1) | all'
	printf '%s\n' $RMM 18446744073709551615,23:59:60.999999,allocate,0xFFFFFFFFFFFFFFFF,1152921504606846976,0 \
		1,00:00:00.000000,free,0xffffffffffffffff,1152921504606846976,0 >t.csv
	"$TOOL" replay --json t.csv | jq -e '.traces[0].policies | map(.failed == 1 and .operations == 1) | all'
}
