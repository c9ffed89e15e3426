#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Output longer than the terminal is passed to a pager, as git does.
source "$BATS_TEST_DIRNAME/cli.bash"
PRELOAD=${GPUMEM_TEST_PRELOAD:-$PWD/.libs/libgpumem.so}
export TERM=xterm NO_COLOR=1
unset GPUMEM_PAGER PAGER LESS

# rows N ARGUMENT...: gpumemstat's output on a terminal of N lines
rows() { python3 "$BATS_TEST_DIRNAME/rows.py" "$1" "$TOOL" "${@:2}"; }

# Write a log, count its summary's lines, and make a pager that marks its input.
log() {
	mklog a.gml at:1s map:0:64M:1us alloc:0:10M:1us free:1:1us at:2s
	"$TOOL" a.gml >plain
	lines=$(wc -l <plain)
	[ "$lines" -gt 10 ]
	sed 's/^/> /' plain >marked
}
MARK="sed 's/^/> /'"

@test "output is passed to the pager if it does not fit the terminal" {
	log
	export GPUMEM_PAGER=$MARK
	rows $lines a.gml | diff -u marked - # the shell's prompt needs a line
	rows $((lines + 1)) a.gml | diff -u plain -
	rows 5 a.gml --no-pager | diff -u plain -
	"$TOOL" a.gml | diff -u plain -
	rows 5 --json a.gml | grep -qx '> {'
	rows 5 env --width=200 | grep -q '^> GPUMEM_'
	rows 200 env | refute grep -q '^> '
	# A line wider than the terminal counts as several.
	mklog long.gml at:1s "$(printf 'count:launches:%0400d' 1)"
	lines=$("$TOOL" -v --width=1000 long.gml | wc -l)
	rows $((lines + 3)) -v --width=1000 long.gml | grep -q '^> log '
	rows $((lines + 9)) -v --width=1000 long.gml | grep -q '^log '
}

@test "the pager is GPUMEM_PAGER, else PAGER, else less" {
	log
	PAGER=$MARK rows 5 a.gml | diff -u marked -
	PAGER="echo no; cat" GPUMEM_PAGER=$MARK rows 5 a.gml | diff -u marked -
	mkdir bin
	printf '#!/bin/sh\necho "less, LESS=$LESS"\nexec cat\n' >bin/less
	chmod +x bin/less
	PATH=$PWD/bin:$PATH rows 5 a.gml | diff -u <(echo less, LESS=FRX; cat plain) -
	PATH=$PWD/bin:$PATH LESS=i rows 5 a.gml | diff -u <(echo less, LESS=i; cat plain) -
	for none in '' cat; do
		PATH=$PWD/bin:$PATH PAGER=$MARK GPUMEM_PAGER=$none rows 5 a.gml | diff -u plain -
		PATH=$PWD/bin:$PATH PAGER=$none rows 5 a.gml | diff -u plain -
	done
}

@test "output and status are right with a missing pager, and with one that is left early" {
	log
	GPUMEM_PAGER="exec ./none 2>/dev/null" rows 5 a.gml | diff -u plain -
	status=0
	mklog long.gml at:1s map:0:64M:1us $(printf 'fail:0:1G:0 %.0s' {1..400})
	[ "$("$TOOL" summary --json long.gml | wc -c)" -gt 100000 ] # more than the capacity of a pipe
	GPUMEM_PAGER="head -n 1" rows 5 summary --json long.gml >out || status=$?
	[ "$status" -eq 0 ]
	[ "$(wc -l <out)" -eq 1 ]
	# The exit status is the command's, not the pager's.
	GPUMEM_PAGER="cat; false" rows 5 a.gml >out
	diff -u plain out
	refute env GPUMEM_PAGER="cat" python3 "$BATS_TEST_DIRNAME/rows.py" 5 "$TOOL" a.gml none.gml >out
	grep -qx 'gpumemstat: none.gml: no such file' out
}

@test "the pager's variables are not reported as misspelt knobs" {
	GPUMEM_PAGER=cat GPUMEM_PAGRE=cat GPUMEM_LOG=off LD_PRELOAD=$PRELOAD "$DEMO" 3 2>err >out
	grep -q 'GPUMEM_PAGRE is not a knob' err
	refute grep 'GPUMEM_PAGER is not' err
}
