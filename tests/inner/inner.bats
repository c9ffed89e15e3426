#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# `make test T=NAME` and `make check TESTS=...`: which test they run, and what they build for it.

setup() {
	. "$BATS_TEST_DIRNAME/../refute.bash"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	unset MAKEFLAGS MFLAGS MAKELEVEL TESTS T ONLY F
	printf 'value-%%:\n\t@printf "%%s\\n" $($*)\n' >"$BATS_TEST_TMPDIR/value.mk"
}

value() { # value VARIABLE...: their words, one a line
	make -s --no-print-directory -f Makefile -f "$BATS_TEST_TMPDIR/value.mk" "${@/#/value-}"
}

# builds TEST...: what `make check TESTS="TEST..."` builds of what is built for tests, and of what `make` builds.
builds() {
	printf '$(info $(check_PROGRAMS) $(check_LTLIBRARIES) $(check_DATA) and $(PROGRAMS))\n' >"$BATS_TEST_TMPDIR/info.mk"
	make -q -f Makefile -f "$BATS_TEST_TMPDIR/info.mk" check-am TESTS="$*" | sed -n '/ and /{s/  */ /g;s/^ //;s/ $//;p}' | tail -n 1
}

# refuses MESSAGE NAME [TITLE]: of five tests none has that name and title alone; MESSAGE says so.
refuses() {
	local status=0
	awk -v srcdir="$BATS_TEST_DIRNAME/../.." -v name="$2" -v title="$3" -f "$BATS_TEST_DIRNAME/find.awk" tests/unit/test_limbo \
		tests/unit/test_size tests/core/heap.bats tests/bench/heap.bats tests/preload/fill.bats \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
	[ "$status" -eq 2 ]
	diff <(printf 'make test: %s\n' "$1") "$BATS_TEST_TMPDIR/err"
	[ ! -s "$BATS_TEST_TMPDIR/out" ]
}

finds() { # finds EXPECTED NAME TEST...
	[ "$(awk -v srcdir=. -v name="$2" -f "$BATS_TEST_DIRNAME/find.awk" "${@:3}")" = "$1" ]
}

@test "make check builds for a unit program nothing else, and for a .bats file the programs that it names" {
	[ "$(builds tests/unit/test_limbo tests/unit/soak)" = 'tests/unit/soak tests/unit/test_limbo and' ]
	[ "$(builds tests/programs/spgemm.bats)" = "tests/programs/spgemm and $(value PROGRAMS | xargs)" ]
	[ "$(builds)" = "$(value check_PROGRAMS check_LTLIBRARIES check_DATA | xargs) and $(value PROGRAMS | xargs)" ]
}

@test "each program that is built for tests is needed by a test" {
	local built
	built=$(value check_PROGRAMS check_DATA)
	# These two are loaded by programs, which depend on them.
	diff <(printf '%s\n' tests/preload/lend/libc10_cuda.so tests/preload/libtensors.so) <(
		comm -23 <(sort <<<"$built") \
			<(awk -v srcdir="$BATS_TEST_DIRNAME/../.." -v built="$built" -f "$BATS_TEST_DIRNAME/needs.awk" $(value TESTS | grep -v ^tests/inner/) | sort))
}

@test "a script needs a program whose folder and name are words of it or of a script that it names" {
	mkdir -p "$BATS_TEST_TMPDIR/tests/a" "$BATS_TEST_TMPDIR/tests/b"
	cd "$BATS_TEST_TMPDIR/tests"
	printf '%s\n' '. ../b/help.bash' 'run $PWD/tests/a/one; run ask-$level' '# three' '@test "four" {' 'x five_more' >a/x.bats
	printf '%s\n' 'P=$PWD/tests/b' 'run y.py' >b/help.bash
	printf '%s\n' 'import z' >b/y.py
	printf '%s\n' '"$P/two" "shelf"' >b/z.py
	printf '%s\n' 'one tests/b/two' >b/beside.bash
	run awk -v srcdir=.. -v built="tests/a/one tests/b/one tests/c/one tests/b/two tests/a/three tests/a/four tests/a/five \
		tests/a/ask-O0 tests/b/shelf/lib.so.1 tests/b/lib.so.1 tests/a/run.sh" -f "$BATS_TEST_DIRNAME/needs.awk" tests/a/x.bats
	[ "$output" = 'tests/a/one
tests/b/one
tests/b/two
tests/a/ask-O0
tests/b/shelf/lib.so.1
tests/a/run.sh' ]
	[ "$(awk -v srcdir=.. -v built="tests/a/one tests/b/one" -f "$BATS_TEST_DIRNAME/needs.awk" ../tests/a/x.bats.gone | xargs)" = \
		'tests/a/one tests/b/one' ]
}

@test "a name is a unit test's before another test's, and with a part of its path it is one of several" {
	local tests="tests/unit/test_a tests/unit/test_b tests/preload/a.bats tests/core/h.bats tests/bench/h.bats tests/lint/l.sh"
	finds tests/unit/test_a a $tests
	finds tests/unit/test_b test_b $tests
	finds tests/unit/test_b tests/unit/test_b $tests
	finds tests/unit/test_b tests/unit/test_b.c $tests
	finds tests/preload/a.bats a.bats $tests
	finds tests/preload/a.bats preload/a $tests
	finds tests/bench/h.bats bench/h $tests
	finds tests/core/h.bats tests/core/h.bats $tests
	finds tests/lint/l.sh l $tests
}

@test "a name of no test, of several tests, and a title without a test are reported, and nothing runs" {
	refuses 'no test is named nosuch: neither tests/unit/test_nosuch nor, below tests/, nosuch, nosuch.bats or nosuch.sh; near: none' \
		nosuch
	refuses 'no test is named limbos: neither tests/unit/test_limbos nor, below tests/, limbos, limbos.bats or limbos.sh; near: tests/unit/test_limbo' \
		limbos
	refuses 'T=heap is several tests; give one of tests/core/heap.bats tests/bench/heap.bats' heap
	refuses 'give a test: make test T=limbo, T=sleep, or T=tests/preload/log.bats' ''
	refuses "no title of tests/preload/fill.bats contains 'fill.bats'" fill fill.bats
	refuses 'ONLY is for .bats files: tests/unit/test_limbo runs all its tests' limbo drain
	refuses 'no test is named tests/x/limbos.bats: neither tests/unit/test_tests/x/limbos.bats nor, below tests/, tests/x/limbos.bats, tests/x/limbos.bats.bats or tests/x/limbos.bats.sh; near: tests/unit/test_limbo' \
		tests/x/limbos.bats
	refuses 'tests/inner/find.awk is in no list: add it to that of the local.mk of its folder' tests/inner/find.awk
	run make -s --no-print-directory test T=nosuch
	[ "$status" -eq 2 ]
	[ "${lines[0]}" = 'make test: no test is named nosuch: neither tests/unit/test_nosuch nor, below tests/, nosuch, nosuch.bats or nosuch.sh; near: none' ]
	make -n test T=limbo >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	refute grep -q '^1\.\.' "$BATS_TEST_TMPDIR/out"
}

@test "make test runs tests with a title, as make check does, and fails with them" {
	# bats puts the folder of its own parts first.
	PATH=$(tr : '\n' <<<"$PATH" | grep -v bats | paste -sd :)
	cd "$BATS_TEST_TMPDIR"
	mkdir tests
	cp "$BATS_TEST_DIRNAME/../bats.sh" tests
	printf '@test "%s" {\n\t%s\n}\n' 'a (b|c)' true 'a b' true 'c (b|' false >x.bats
	[ "$(env -i PATH="$PATH" sh "$BATS_TEST_DIRNAME/test.sh" . x.bats 'a (b' | grep -v '^1')" = 'ok 1 a (b|c)' ]
	run env -i PATH="$PATH" sh "$BATS_TEST_DIRNAME/test.sh" . x.bats
	[ "$status" -eq 1 ]
	[ "$(grep -c '^ok ' <<<"$output")" -eq 2 ]
	printf '%s\n' '#!/bin/sh' 'echo "$0"; exit 3' >unit
	chmod +x unit
	run sh "$BATS_TEST_DIRNAME/test.sh" . unit
	[ "$status" -eq 3 ]
	[ "$output" = ./unit ]
}

# record TEST LINES [FOLDER]: what `make mutants` writes of a test that runs these lines of src/pool/new.c.
record() {
	printf '{"test": "%s", "failed": null, "seconds": {"a": 1}, "commit": "%s", "folders": ["%s"], "lines": {"src/pool/x.c": {%s}}}\n' \
		"$1" "$(git rev-parse HEAD)" "${3:-src/}" "$2" >>records
}

@test "tests-of prints the tests that run a file by their lines of it, and tests without a record by includes and names" {
	command -v python3 >/dev/null || skip "python3 is not installed"
	command -v git >/dev/null || skip "git is not installed"
	cd "$BATS_TEST_TMPDIR"
	of() {
		python3 "$BATS_TEST_DIRNAME/tests_of.py" . records "$1" tests/unit/test_{a,b,c,d,x} tests/preload/{e,x,x_y}.bats 2>err
	}
	mkdir -p src/pool tests/unit
	git init -q .
	echo 'int x;' >src/pool/x.c
	printf '%s\n' '#include "pool/x.h"' >tests/unit/help.h
	printf '%s\n' '#include "help.h"' >tests/unit/test_c.c
	printf '%s\n' '#include "pool/other.h"' >tests/unit/test_d.c
	printf 'tests_unit_test_d_SOURCES = tests/unit/test_d.c \\\n\tsrc/pool/x.c\n' >tests/unit/u.mk
	git add .
	git -c user.name=a -c user.email=a@a commit -qm 1
	[ "$(of src/pool/x.c | xargs)" = 'tests/unit/test_c tests/unit/test_d tests/unit/test_x tests/preload/x.bats tests/preload/x_y.bats' ]
	[ "$(cat err)" = "tests-of: records has no record of src/pool/x.c, which \`make mutants MUTANTS=0\` writes; by includes and names alone, more tests may run it:" ]

	record tests/unit/test_a '"1": [1], "2": []'
	record tests/preload/e.bats '"1": [1], "2": ["all"], "3": [1]'
	record tests/unit/test_c '"1": [], "2": []'
	record tests/unit/test_x '"1": [1]' shim/
	git mv src/pool/x.c src/pool/new.c
	git -c user.name=a -c user.email=a@a commit -qm 2
	[ "$(of src/pool/new.c)" = $'tests/preload/e.bats 3\ntests/unit/test_a 1' ]
	[ "$(cat err)" = 'tests-of: 3 of 8 tests have a record; of the rest those whose includes or names speak of src/pool/new.c have no number' ]
	echo >tests/unit/test_a.c
	git add .
	git -c user.name=a -c user.email=a@a commit -qm 3
	[ "$(of src/pool/new.c)" = 'tests/preload/e.bats 3' ]
	run of src/pool/x.c
	[ "$status" -eq 2 ]
	[ "$(cat err)" = "tests-of: there is no file 'src/pool/x.c': give one of the project, as in make tests-of F=src/pool/limbo.c" ]
}
