#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat log: a process that runs begins and ends to record events.

bats_require_minimum_version 1.5.0

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	record_events large
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=log GPUMEM_STACKS=large)
	export GPUMEMSTAT=$TOOL
	LONG=3600
}

teardown() {
	touch "$BATS_TEST_TMPDIR/stop"
	wait
}

# recorded WAY: run the program; what it and its tools say is in `out` and `err`, with PID for its number.
recorded() {
	preloaded "$PROGRAMS/recording" "$1" >out 2>err
	sed -i -E 's/^(gpumemstat: )?[0-9]+:/\1PID:/' out err
}

# says WORDS...: the lines of `out`.
says() {
	diff out <(printf '%s\n' "$@")
}

# groups LOG [OPTION]...: the groups of `live` of a log, in one line each: bytes, blocks, the innermost function.
groups() {
	"$TOOL" live --json "$@" | jq -r '.logs[0].devices[0].groups[] | "\(.bytes) \(.blocks) \(.frames[0].function // "-")"'
}

# rows [ROW]: the groups of a recording of what most ways allocate, and one more.
rows() {
	printf '%s\n' "$((5 * MIB)) 1 known_during" "$((4 * MIB + 101000)) 4 before recording" "$@" "70000 1 known_during" "900 1 -"
}

# consistent LOG...: the tool finds no contradiction.
consistent() {
	local log
	for log in "$@"; do "$TOOL" summary --json "$log" | jq -e '.logs[0] | .contradiction == null and .torn == 0'; done
}

# start WAY: run the program in the background, until it says its number: pid.
start() {
	preloaded "$PROGRAMS/recording" "$1" >said 2>err 3>&- &
	program=$!
	until grep -q '^pid ' said; do
		kill -0 $program
		sleep 0.01
	done
	pid=$(sed -n 's/^pid //p' said)
}

MIB=$((1 << 20))

@test "a recording has what lived before in one row, and what came later by its functions" {
	recorded once
	says "PID: records events in log.events"
	[ ! -s err ]
	# The scratch of the program is one of the blocks of before; the block of 2 MiB was freed during the recording.
	diff <(groups log.events) <(rows)
	"$TOOL" live log.events >text
	grep -qxE ' +before recording' text
	grep -qE '^ +known_during \(preload/recording\.c:[0-9]+\)$' text
	consistent log log.events
	"$TOOL" summary --json log.events | jq -e '.logs[0] | .recording and .closed and (.ended | not) and (.complete | not)'
	# The small log has no events, and ends as ever.
	"$TOOL" summary --json log | jq -e '.logs[0] | .closed and .level == "small" and (.recording | not)'
	# Freed blocks were alive at their time.
	"$TOOL" live --json --at=0s log.events | jq -e '.logs[0].devices[0].bytes == '$((6 * MIB + 101000))
}

@test "a recording has stacks of large blocks unless GPUMEM_STACKS says otherwise" {
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=log)
	recorded once
	groups log.events | grep -qx "$((5 * MIB)) 1 known_during"
	rm log*
	KNOBS+=(GPUMEM_STACKS=off)
	recorded once
	groups log.events | refute grep known_during
}

@test "what lived before is named in exports and in the report" {
	recorded once
	"$TOOL" report -o page.html log.events
	grep -q 'before recording' page.html
	"$TOOL" export --format=pytorch -o snapshot log.events
	grep -aq 'before recording' snapshot
	"$TOOL" export --format=chrome log.events | jq -e '[.. | .stack? | arrays | select(. == ["before recording"])] | length >= 4'
	"$TOOL" export log.events | awk -F, '$2 == "live" { n += $14 == 4294967295 } END { exit n != 5 }'
	"$TOOL" leaks --json log.events | jq -e '[.. | .function? | strings] | any(. == "before recording")'
	"$TOOL" replay log.events >replayed
	grep -q pool replayed
}

@test "a recording ends, and the next one has a file of its own" {
	recorded twice
	says "PID: records events in log.events" "PID: already records events in log.events" \
		"PID: ended the recording in log.events" "PID: has no recording to end" "PID: records events in log.events.1" \
		"PID: ended the recording in log.events.1"
	[ ! -s err ]
	[ "$(echo log*)" = "log log.events log.events.1" ]
	diff <(groups log.events) <(rows)
	# A block of the first recording is one of before for the second, even if it had a stack.
	diff <(groups log.events.1) - <<-END
		$((16 * MIB + 171900)) 8 before recording
		$((11 * MIB)) 1 known_again
	END
	consistent log log.events log.events.1
	for log in log.events log.events.1; do
		"$TOOL" summary --json $log | jq -e '.logs[0] | .ended and (.closed | not) and (.running | not)'
	done
	"$TOOL" live log.events | grep -q 'recording ended$'
	# What happened between and after is in neither.
	"$TOOL" export log.events | awk -F, -v size=$((7 * 1048576)) '$6 == size { exit 1 }'
	"$TOOL" export log.events.1 | awk -F, -v size=$((13 * 1048576)) '$6 == size { exit 1 }'
	# Recordings are no runs, and `check` compares none with a newer one.
	mv log run.gml
	mv log.events run.gml.events
	"$TOOL" summary --json | jq -e '.logs | length == 1 and .[0].level == "small"'
	"$TOOL" check --partial --max=free_failed=0 run.gml.events
}

@test "tensors of PyTorch from before are one row, less those taken back" {
	recorded tensors
	diff <(groups log.events) - <<-END
		$((8 * MIB)) 1 tensor_report
		$((6 * MIB)) 2 before recording
	END
	"$TOOL" live log.events | grep -qE '^ +tensor_during '
	"$TOOL" live log.events | grep -qE '^6\.00 MiB +2 tensors$'
	# At the peak, before the first of them was taken back.
	"$TOOL" live --json --at=peak log.events | jq -e '.logs[0].devices[0].bytes == '$((31 * MIB))
	diff <(groups log.events.1) <(echo "$((36 * MIB)) 2 before recording")
	consistent log log.events log.events.1
	"$TOOL" export --format=pytorch -o snapshot log.events
}

@test "GPUMEM_STACKS is obeyed: all gives small blocks a stack, off none" {
	KNOBS+=(GPUMEM_STACKS=all)
	recorded once
	groups log.events | grep -qx '900 1 known_during'
	rm log*
	KNOBS+=(GPUMEM_STACKS=off)
	recorded once
	diff <(groups log.events) - <<-END
		$((5 * MIB + 70900)) 3 -
		$((4 * MIB + 101000)) 4 before recording
	END
}

@test "a recording of more segments than its limit still has the row of before" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	KNOBS+=(GPUMEM_LOG_LIMIT=32M GPUMEM_LOG_EVENTS=all)
	recorded ring
	[ "$(stat -c %s log.events)" -le $((32 * MIB)) ]
	"$TOOL" summary --json log.events | jq -e '.logs[0].dropped > 0'
	"$TOOL" summary --json log | jq -e '.logs[0].counters.log_dropped_records == 0'
	diff <(groups log.events) <(rows "$MIB 1 known_again")
	consistent log log.events
}

@test "eight threads allocate while recordings begin and end: no block is lost or counted twice" {
	recorded threads
	[ ! -s err ]
	[ "$(grep -c 'records events in' out)" -eq 9 ]
	[ "$(grep -c 'ended the recording in' out)" -eq 9 ]
	# The recording that ended just before the threads' sum was taken has exactly these bytes.
	checked=0
	while read -r log bytes; do
		[ "$("$TOOL" live --json "$log" | jq '.logs[0].devices[0].bytes')" -eq "$bytes" ]
		checked=$((checked + 1))
	done < <(sed -n 's/.*ended the recording in //p; s/^held //p' out | awk '/^log/ { log_ = $0; next } { print log_, $0 }')
	[ "$checked" -eq 6 ]
	consistent log log.events*
}

@test "a process that is killed leaves a readable recording" {
	start copy
	"$TOOL" log "$pid" events >said_tool
	diff said_tool <(echo "$pid: records events in log.events")
	"$TOOL" live "$pid" | grep -q '^log  *log.events: .*still running$'
	kill -9 "$pid"
	wait || true
	diff <(groups log.events) <(echo "$((4 * MIB)) 2 before recording")
	"$TOOL" live log.events | grep -q 'killed, or crashed$'
	consistent log log.events
}

@test "live PID reads the recording while it goes on, else the log" {
	start copy
	[ "$("$TOOL" summary --json "$pid" | jq -r '.logs[0].path')" = log ]
	"$TOOL" log "$pid" events >said_tool
	[ "$("$TOOL" summary --json "$pid" | jq -r '.logs[0].path')" = log.events ]
	"$TOOL" "$pid" | grep -q '^program  recording, '
	"$TOOL" top --once --json | jq -e --argjson pid "$pid" '[.. | objects | select(.pid? == $pid)] | length == 1'
	"$TOOL" log "$pid" small >said_tool
	[ "$("$TOOL" summary --json "$pid" | jq -r '.logs[0].path')" = log ]
}

@test "the number of a process without a log is told from a number of no process" {
	KNOBS=(GPUMEM_LOG=off)
	start copy
	run --separate-stderr "$TOOL" live "$pid"
	[ "$status" -eq 1 ]
	[ "$stderr" = "gpumemstat: $pid: this process writes no log: 'gpumemstat log PID events' begins one" ]
	run --separate-stderr "$TOOL" live 4194999
	[ "$status" -eq 1 ]
	[ "$stderr" = 'gpumemstat: 4194999: no such process' ]
}

@test "several that ask at once all get a true answer" {
	recorded crowd
	[ ! -s err ]
	# Four that begin, four that end, two of each: at least one recording, and one file for each.
	[ "$(head -4 out | sort -u | wc -l)" -le 2 ]
	refute grep -vqE '^PID: (records events|already records events|ended the recording|has no recording to end)' out
	grep -qx 'PID: records events in log.events' out
	grep -qx 'PID: ended the recording in log.events' out
	consistent log log.events*
}

@test "a process that makes no call begins at its next one" {
	recorded quiet
	[ ! -s out ]
	diff err <(echo "gpumemstat: PID: the process made no allocation, free or copy within 10 s; it will begin at its next")
	diff <(groups log.events) - <<-END
		$((5 * MIB)) 1 known_during
		$((4 * MIB)) 2 before recording
	END
}

@test "an out-of-memory during a recording names who lived before, and the file that has all holders" {
	recorded lack
	grep -qE '^gpumem: out of memory on device 0: cuMemAlloc_v2 asked 32\.0 TiB, .*; largest live: 5\.00 MiB in 1 block by recording\+0x[0-9a-f]+, 4\.10 MiB in 4 blocks from before the recording.*; all: gpumemstat live --at=oom .*/log\.events$' err
	"$TOOL" live --at=oom log.events | grep -q known_during
	# The small log has no stacks, and so no numbers of them.
	"$TOOL" export log | awk -F, '$2 == "held" { n++; if ($14 != "") exit 1 } END { exit !n }'
	consistent log log.events
}

@test "a forked child does not record, and its parent goes on" {
	recorded fork
	says "PID: records events in log.events" "PID: ended the recording in log.events"
	diff <(groups log.events) <(rows "$MIB 1 known_again")
	consistent log log.events
}

@test "a log of events is left alone" {
	KNOBS+=(GPUMEM_LOG=events)
	recorded ask
	says "status 1" "status 1"
	diff err - <<-'END'
		gpumemstat: PID: nothing to begin: log has events from its start, by GPUMEM_LOG=events
		gpumemstat: PID: does not end: log has events from its start, by GPUMEM_LOG=events
	END
	[ "$(echo log*)" = log ]
	"$TOOL" summary --json log | jq -e '.logs[0].complete and .logs[0].contradiction == null'
}

@test "the recording without a log has the name of GPUMEM_LOG_NAME, and no other file is made" {
	KNOBS+=(GPUMEM_LOG=off)
	recorded once
	says "PID: records events in log.events"
	[ "$(echo log*)" = log.events ]
	groups log.events | grep -qx "$((4 * MIB + 101000)) 4 before recording"
	rm log.events
	KNOBS+=(GPUMEM_LOG_NAME=missing/log)
	recorded ask
	says "status 1" "PID: has no recording to end"
	diff err <(echo "gpumemstat: PID: no recording in GPUMEM_LOG_NAME with .events: No such file or directory")
}

@test "the recording lies beside the log, even if that was moved" {
	mkdir new
	start copy
	mv log new/
	"$TOOL" log "$pid" events >said_tool
	diff said_tool <(echo "$pid: records events in new/log.events")
	[ -e new/log.events ]
}

@test "no room for the first segment is an answer, no room for a later one ends the recording in one line" {
	(
		ulimit -f $((8 << 10))
		recorded ask
	)
	says "status 1" "PID: has no recording to end"
	diff err <(echo "gpumemstat: PID: no recording: log.events: File too large")
	[ "$(echo log*)" = log ]
	rm log
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	KNOBS+=(GPUMEM_LOG_EVENTS=all)
	(
		ulimit -f $((24 << 10))
		recorded full
	)
	diff err - <<-END
		gpumem: log $PWD/log.events: File too large; it ends here, the program goes on
		gpumemstat: PID: the recording had ended early: File too large
	END
	says "PID: records events in log.events" "status 1" "PID: records events in log.events.1"
	groups log.events | grep -qx "$((4 * MIB + 101000)) 4 before recording"
	"$TOOL" summary --json log | jq -e '.logs[0].closed and .logs[0].contradiction == null'
}

@test "each other obstacle is one line that names the process" {
	# tool_fails WORDS...: what it says, behind the tool's name.
	tool_fails() {
		run -1 --separate-stderr "$TOOL" log "${@:2}"
		[ -z "$output" ]
		[ "$stderr" = "gpumemstat: $1" ]
	}
	sleep $LONG 3>&- &
	other=$!
	tool_fails "$other: libgpumem.so is not in this process, or is off, or it has not used CUDA yet" $other events
	kill $other
	wait $other || true
	tool_fails "$other: no such process" $other small
	touch go
	preloaded "$PROGRAMS/recording" leave >out 2>err # its tool may write after its end
	[ ! -s out ]
	until grep -q . err; do sleep 0.01; done
	diff <(sed -E 's/^(gpumemstat: )[0-9]+:/\1PID:/' err) <(echo "gpumemstat: PID: it ended before it answered") ||
		grep -qE '^gpumemstat: [0-9PID]+: (no such process|this process has ended|libgpumem.so is not in)' err
	# A library without requests: the word that says otherwise is 0.
	rm log
	start copy
	printf '\0\0\0\0' | dd of=log bs=1 seek=$((32768 + 98304 + 64)) conv=notrunc status=none
	tool_fails "$pid: its libgpumem.so is of a version that cannot do this" "$pid" events
}

@test "a process of another user is refused" {
	[ "$(id -u)" -eq 0 ] || skip "not root"
	command -v setpriv >/dev/null || skip "no setpriv"
	start copy
	chmod 755 "$BATS_TEST_TMPDIR" || true
	run -1 --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$TOOL" log "$pid" events
	[ "$stderr" = "gpumemstat: $pid: a process of another user" ]
}

@test "wrong operands are usage errors" {
	for words in "" "x events" "1" "1 large" "1 events more" "0 events"; do
		run -2 --separate-stderr "$TOOL" log $words
		[ "$(wc -l <<<"$stderr")" -eq 2 ]
	done
}
