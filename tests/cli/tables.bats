#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Private tables of functions in summary, check and doctor.
source "$BATS_TEST_DIRNAME/cli.bash"
unset LD_PRELOAD

TABLE='00112233445566778899aabbccddeeff of libx.so'

@test "summary lists the unknown tables of a log, and the calls of their functions" {
	mklog x.gml at:1s table:1:0:0 table:1:4:1 table:3:9:1 table:3:4:7
	"$TOOL" summary -v --width=120 x.gml >out
	grep -qE '^unknown table +bytes +function +calls +handed out$' out
	grep -qE "^$TABLE +136 +- +- +modes off at a call\$" out
	grep -qE "^$TABLE +136 +4 +7 +modes off at a call\$" out
	grep -qE "^$TABLE +136 +9 +1 +modes off at a call\$" out
	[ "$(grep -c "^$TABLE" out)" -eq 3 ]
	mklog none.gml at:1s
	"$TOOL" summary -v none.gml >out
	refute grep -q 'unknown table' out
	"$TOOL" summary --json none.gml | jq -e '.logs[0].tables == []'
}

@test "check compares the tables with their counter, and takes a limit" {
	local status=0
	mklog x.gml at:1s table:1:0:0
	"$TOOL" check x.gml --max tables_unknown=1
	"$TOOL" check --max tables_unknown=0 x.gml >out || status=$?
	[ "$status" -eq 3 ]
	[ "$(<out)" = 'x.gml: tables_unknown is 1, above 0' ]
	status=0
	mklog y.gml at:1s table:1:0:0 count:tables_unknown:1
	"$TOOL" check --max tables_unknown=2 y.gml >out 2>err || status=$?
	[ "$status" -ne 0 ]
	grep -q '1 tables, but tables_unknown is 2' out err
}

@test "doctor prints a line to report for each unknown table of the driver, and of the newest log" {
	mklog x.gml at:1s table:2:0:0 table:2:4:1
	SIM_TABLES=8 "$TOOL" doctor --json --timeout=1h >out
	jq -e '[.checks[] | select(.check == "tables")] | length == 11 and all(.state == "warn" and (.remedy | startswith("Report this line")))' out
	jq -e '.checks[] | select(.text == "table 1734dc26800d47458726c0f1e7dd8bca, 144 bytes, driver 13.4")' out
	jq -e --arg table "$TABLE" '.checks[] | select(.text == "table " + $table + ", 136 bytes, driver 13.0, handed out: modes off")' out
	rm x.gml
	"$TOOL" doctor --json --timeout=1h >out
	jq -e '[.checks[] | select(.check == "tables")] == []' out
}
