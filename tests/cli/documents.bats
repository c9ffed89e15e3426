#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Samples of output in README.md, doc and man are today's (documents.py, documents.txt).
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0
unset LD_PRELOAD "${!GPUMEM_@}" "${!SIM_@}"
export SIM_GPU=$$

# The folder in which documented commands run: gpumemstat, the programs of tests/workloads, the kept logs.
folder() {
	local log
	[ -z "$TEST_UNDER" ] || skip "valgrind is too slow for the findings about time"
	command -v xz >/dev/null || skip "xz is not installed"
	mkdir -p bin run/tests/cli/samples
	ln -s "$TOOL" bin/gpumemstat
	export PATH=$PWD/bin:$PATH
	cd run
	ln -s "$DEMO" demo
	ln -s "${DEMO%/*}/fragments" fragments
	for log in "$BATS_TEST_DIRNAME"/samples/*.gml.xz; do
		xz -dc "$log" >"tests/cli/samples/$(basename "$log" .xz)"
	done
	ln -s tests/cli/samples/*.gml .
}

# documents SOURCES LIST DOCUMENT...: the faults
documents() {
	python3 "$BATS_TEST_DIRNAME/documents.py" "$@"
}

@test "the output of gpumemstat in README.md, doc and the manual pages is today's" {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	folder
	documents "$TOP" "$BATS_TEST_DIRNAME/documents.txt" README.md $(cd "$TOP" && ls doc/*.md man/*.[1357])
}

# faults FILE LINE...: the faults of a document, made of the lines of FILE, with the list of LINEs
faults() {
	local status=0
	printf '%s\n' "${@:2}" >list
	documents "$PWD" list "$1" >out || status=$?
	[ "$status" -eq $(($(wc -l <out) > 0)) ]
	cat out
}

@test "a sample that is not today's is found, in Markdown and in a manual page" {
	folder
	printf '%s\n' text '' '```' '$ gpumemstat record -- ./demo >/dev/null 2>&1' '$ gpumemstat \' '    --width=120 | head -n 1' \
		'program  demo, 9.99 s, closed cleanly; gpumem.other.1.gml, all events' '$ gpumemstat --json | jq -c .schema' 1 '```' >good.md
	[ -z "$(faults good.md)" ]
	sed 's/closed cleanly/killed/' good.md >bad.md
	[ "$(faults bad.md)" = "bad.md:4: gpumemstat     --width=120 | head -n 1: 'program  demo, 9.99 s, killed; gpumem.other.1.gml, all events' is now $(
		)'$(gpumemstat --width=120 | head -n 1)'" ]
	{ cat good.md; printf '%s\n' '' '    $ echo one' '    one' '    two'; } >long.md
	[ "$(faults long.md)" = "long.md:12: echo one: 'two' is now 'nothing'" ]
	printf '%s\n' '.Sh EXAMPLES' '.Bd -literal' '$ echo \(dqa\e\eb\(dq \-\-' 'a\eb \-\-' .Ed >good.1
	[ -z "$(faults good.1)" ]
	sed 's/^a/A/' good.1 >bad.1
	[ "$(faults bad.1)" = 'bad.1:3: echo "a\\b" --: '"'A\\\\b --' is now 'a\\\\b --'" ]
}

@test "output without a command, wrong options, and a late command are found" {
	folder
	printf '%s\n' text '' '    peak     96.7 MiB requested at 107 ms; 124 MiB mapped (78% used)' >loose.md
	[ "$(faults loose.md)" = "loose.md:3: 'peak     96.7 MiB requested at 107 ms; 124 MiB mapped (78% used)': output without its command, and in no file of documents.txt" ]
	tail -n 1 loose.md | sed 's/^ *//' >kept
	[ -z "$(faults loose.md 'kept kept: from a GPU')" ]
	printf '%s\n' '```' '$ gpumemstat live --at=noon' '```' >wrong.md
	faults wrong.md | grep -q '^wrong\.md:2: gpumemstat live --at=noon: gpumemstat: --at=noon: '
	printf '%s\n' '```' 'a folder' '$ gpumemstat' '```' >late.md
	[ "$(faults late.md)" = "late.md:2: 'a folder': a session begins with its first command" ]
}

@test "an excepted command is not run, and must be in a document" {
	folder
	printf '%s\n' '```' '$ touch made' done '$ echo one' one '```' >other.md
	[ -z "$(faults other.md 'not touch made: no reason')" ]
	[ ! -e made ]
	[ "$(faults other.md 'not touch made: no reason' 'not touch more: no reason')" = 'list: touch more: excepted, but in no document' ]
	echo 'two' >old
	[ "$(faults other.md 'not touch made: no reason' 'made old: echo three')" = "old: echo three: 'two' is now 'three'" ]
}
