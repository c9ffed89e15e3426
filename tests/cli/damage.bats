#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Every command that reads logs, over files that are no log, cut logs, and changed logs.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/wrong.bash"

PRELOAD=${GPUMEM_TEST_PRELOAD:-$PWD/.libs/libgpumem.so}
MUTATE=$PWD/tests/cli/mutate

good() {
	mklog good.gml at:1s map:0:64M:100us alloc:0:10M:1us sample:0:40M:50M at:2s free:1:900ns h2d:1G:100ms at:3s fail:0:7G:1G
}

# refused NAME REASON: every command prints this reason, and nothing else.
refused() {
	local command
	for command in $(log_commands); do
		fails 1 "gpumemstat: $(shown "${1:-"''"}"): $2" $command -- "$1"
		fails 1 "gpumemstat: $(shown "${1:-"''"}"): $2" $command --json -- "$1"
	done
}

# number OFFSET SIZE [FILE]: print an unsigned number of the log.
number() {
	od -A n -t u$2 -j $1 -N $2 "${3:-good.gml}" | tr -d ' '
}

# put FILE OFFSET BYTES: write bytes, with the escapes of printf.
put() {
	printf "$3" | dd of="$1" bs=1 seek=$2 conv=notrunc status=none
}

@test "a file that is no log is refused" {
	good
	mkdir folder
	mkfifo pipe
	ln -s nowhere dangling
	ln -s loop loop
	: >empty
	echo 'not a log' >text
	printf GPUMEML >seven
	head -c 1000000 /dev/zero >zeros
	head -c 1000000 "$TOOL" >program
	refused none 'no such file'
	refused '' 'no such file'
	refused - 'no such file'
	refused $'a\e[1m\n\xff' 'no such file'
	refused folder 'a folder, not a gpumem log'
	refused / 'a folder, not a gpumem log'
	refused pipe 'a pipe or a device, not a gpumem log'
	refused /dev/null 'a pipe or a device, not a gpumem log'
	refused /dev/zero 'a pipe or a device, not a gpumem log'
	refused dangling 'no such file'
	refused loop 'Too many levels of symbolic links'
	refused good.gml/x 'Not a directory'
	refused "$(printf 'x%.0s' {1..5000})" 'File name too long'
	refused empty 'empty: no gpumem log, or its process was killed as it began'
	for name in text seven zeros program; do
		refused $name 'not a gpumem log'
	done
}

@test "a log without permission to read is refused" {
	good
	if [ "$(id -u)" -ne 0 ]; then
		chmod 0 good.gml
		refused good.gml 'Permission denied'
		return
	fi
	# Root without the right to read every file; the folder is still root's own.
	command -v setpriv >/dev/null || skip "no setpriv"
	chmod 0 good.gml
	for command in $(log_commands); do
		status=0
		setpriv --bounding-set -dac_override,-dac_read_search --inh-caps -dac_override,-dac_read_search \
			"$TOOL" $command good.gml >out 2>err || status=$?
		[ "$(<err)" = 'gpumemstat: good.gml: Permission denied' ]
		[ "$status" -eq 1 ]
		[ ! -s out ]
	done
}

@test "logs of another format or byte order are refused" {
	good
	for version in '\003\0\0\0 3' '\0\0\0\0 0' '\0\0\0\001 16777216' '\377\377\377\377 4294967295'; do
		cp good.gml other.gml
		put other.gml 8 "${version% *}"
		refused other.gml "version ${version#* } of the format, this gpumemstat reads 1 to 2"
	done
	# Wrong slot size, segment size, and place of the slots.
	for change in 12:'\200' 24:'\001' 27:'\377'; do
		cp good.gml other.gml
		put other.gml ${change%%:*} "${change#*:}"
		refused other.gml 'segment 1 at 0x0: its sizes are wrong'
	done
	cp good.gml other.gml
	put other.gml 32 '\001\0\0\0'
	refused other.gml 'segment 1 at 0x0: its description is out of bounds'
}

@test "every command ends well on a log that was cut anywhere" {
	good
	# A cut log is converted as far as it can be read.
	for command in $(commands); do
		case $(operands_of $command) in
		one) list+=($command=) ;;
		log | logs) list+=($command) ;;
		esac
	done
	[ ${#list[@]} -gt 9 ]
	python3 "$BATS_TEST_DIRNAME/damage.py" "$TOOL" cut "${list[@]}"
	head -c 1000 good.gml >cut.gml
	"$TOOL" cut.gml >out 2>/dev/null || true
	# The end and the calls are unknown: no line names them.
	grep -qE '^program  unknown, .*, end unknown; cut.gml, not all events$' out
	refute grep -qE 'killed|crashed|allocated no' out
	grep -qE '^GPU      not known; mode unknown, ' out
	# One line tells what can be read; nothing else is found.
	[ "$(sed -n '/^!!/,/^next/p' out)" = '!!       Of this log only its head and 0 records can be read, not its counters:
         nothing is judged. Copy the whole file, or record again.
next     gpumemstat -v cut.gml' ]
	# Of a log that lost its end the counters are shown, and no curve.
	head -c -64 good.gml >cut.gml
	"$TOOL" cut.gml >out 2>/dev/null || true
	grep -q '^peak     10.0 MiB requested at 1.00 s; 64.0 MiB mapped' out
	refute grep -q '^ *|' out
}

@test "a log that contradicts itself is reported" {
	mklog lies.gml at:1s map:0:64M:1us alloc:0:10M:1us count:allocate_pool:1
	for command in $(log_commands); do
		[ "$(operands_of $command)" = logs ] || continue
		for json in '' --json; do
			status=0
			"$TOOL" $command $json lies.gml >out 2>err || status=$?
			[ "$status" -eq 1 ]
			[ -s out ]
			[ "$(<err)" = 'gpumemstat: lies.gml: contradicts itself: device 0: allocate_calls is 1, but allocate_pool + allocate_driver + allocate_failed is 2' ]
		done
	done
}

@test "a log with numbers beyond 64 bits ends well" {
	mklog huge.gml at:1s map:0:64M:1us alloc:0:10M:1us sample:0:1M:0 count:sampled_ns:1 count:mapped_seconds:1 \
		count:internal_seconds:4194304T count:external_seconds:4194304T count:requested_seconds:4194304T \
		count:internal_peak:16777215T count:internal_peak:1048575M count:internal_peak:1048575
	"$TOOL" --json huge.gml >out
	tr -d ' \n' <out >line
	grep -q '"internal":{"current":0,"peak":18446744073709551615,"mean":18446744073709551615}' line || { cat out; return 1; }
	grep -q '"external":{"current":[0-9.]*,"peak":[0-9.]*,"mean":1.84467e+13}' line
	grep -q '"utilisation":{"current":[0-9.]*,"peak":[0-9.]*,"mean":1.84467e+13}' line
}

@test "commands that convert a log refuse files that are no log, and report a log that contradicts itself" {
	good
	mkdir folder
	: >empty
	echo 'not a log' >text
	for command in $(commands); do
		[ "$(operands_of $command)" = log ] || continue
		fails 1 "gpumemstat: '': no such file" $command -- ''
		fails 1 'gpumemstat: a\x1b[1m\n\xff: no such file' $command -- $'a\e[1m\n\xff'
		fails 1 'gpumemstat: folder: a folder, not a gpumem log' $command folder
		fails 1 'gpumemstat: empty: empty: no gpumem log, or its process was killed as it began' $command empty
		fails 1 'gpumemstat: text: not a gpumem log' $command text
		mklog lies.gml at:1s map:0:64M:1us alloc:0:10M:1us count:allocate_pool:1
		status=0
		"$TOOL" $command lies.gml >out 2>err || status=$?
		[ "$status" -eq 1 ]
		[ -s out ]
		grep -q '^gpumemstat: lies.gml: contradicts itself: ' err
	done
}

@test "good logs are shown beside a bad one" {
	good
	echo text >text
	for command in $(log_commands); do
		[ "$(operands_of $command)" = logs ] || continue
		"$TOOL" $command good.gml >expected
		for order in 'good.gml text none' 'none text good.gml' 'text good.gml none'; do
			status=0
			"$TOOL" $command $order >out 2>err || status=$?
			[ "$status" -eq 1 ]
			diff expected out
			[ "$(sort err)" = 'gpumemstat: none: no such file
gpumemstat: text: not a gpumem log' ]
		done
	done
}

@test "bad logs in the current folder are named, and the good ones shown" {
	echo text >gpumem.a.1.gml
	fails 1 "gpumemstat: gpumem.a.1.gml: not a gpumem log
gpumemstat: no log *.gml here: 'gpumemstat record COMMAND' makes one"
	mkdir gpumem.b.2.gml
	mklog gpumem.c.3.gml at:1s
	"$TOOL" >out 2>err
	grep -q '^program .*; gpumem.c.3.gml, all events$' out
	[ "$(<err)" = 'gpumemstat: gpumem.a.1.gml: not a gpumem log
gpumemstat: gpumem.b.2.gml: a folder, not a gpumem log' ]
}

@test "every command ends well on damaged logs" {
	mklog good.gml at:1s map:0:64M:100us alloc:0:10M:1us alloc:0:1M:1us sample:0:40M:50M at:2s free:1:900ns \
		sample:0:40M:50M h2d:1G:100ms at:3s fail:0:7G:1G driver:1:1M:2us sample:0:60M:8M
	python3 "$BATS_TEST_DIRNAME/damage.py" "$TOOL" mutated "$MUTATE" 100 $(log_commands)
}

@test "a log that is being written can be read" {
	# The smallest limit: its oldest segment is dropped while it is read.
	GPUMEM_LOG=events GPUMEM_LOG_NAME=live.gml GPUMEM_LOG_EVENTS=all GPUMEM_LOG_LIMIT=32M LD_PRELOAD=$PRELOAD \
		"$DEMO" 100000000 >demo.out 2>&1 &
	demo=$! BACKGROUND=$!
	until "$TOOL" --json live.gml 2>/dev/null | jq -e '.logs[0].records > 100' >/dev/null; do
		kill -0 $demo
		sleep 0.05
	done
	for _ in {1..4}; do
		for command in $(log_commands); do
			for json in '' --json; do
				"$TOOL" $command $json live.gml >out 2>err || { cat err; return 1; }
				[ ! -s err ]
			done
		done
	done
	"$TOOL" live.gml >out
	grep -q '^program .*, still running; ' out
	kill -STOP $demo
	"$TOOL" --json live.gml | jq -e '.logs[0].running and .logs[0].contradiction == null'
	kill -KILL $demo
	wait $demo || true
	"$TOOL" --json live.gml | jq -e '.logs[0] | .running == false and .closed == false and .contradiction == null'
	"$TOOL" live.gml >out
	grep -q '^program .*, killed, or crashed; ' out
}
