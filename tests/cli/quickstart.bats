#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# What quickstart prints: a line for each step, with its time and its log. What it calls only notes that it was called.
source "$BATS_TEST_DIRNAME/cli.bash"

STEP='^== [^:]*: [0-9]+\.[0-9] s, log ([^ ]*)$'

# A source folder, in which nothing has to be built or installed.
make_source() {
	mkdir -p source/tools source/bin source/cuda/include
	cp "$BATS_TEST_DIRNAME/../../quickstart" source/
	chmod u+w source/quickstart
	touch source/cuda/include/cudaTypedefs.h source/Makefile.am source/configure.ac
	stub autogen.sh 'touch configure Makefile.in && chmod +x configure && cat stub_configure >configure'
	stub stub_configure 'mkdir -p tests/workloads && touch Makefile config.status && cp ../stub_tool gpumemstat'
	stub stub_tool 'echo "gpumemstat $*"'
	stub tools/inkernel.sh 'echo "malloc in kernels: $*"'
	stub bin/make 'echo "make $*"'
	for command in gcc g++ autoconf automake libtoolize awk git xz bats mandoc jq python3 valgrind; do
		command -v $command >/dev/null || stub bin/$command 'exit 0'
	done
}

stub() { # stub FILE COMMANDS
	printf '#!/bin/bash\n%s\n' "$2" >"source/$1"
	chmod +x "source/$1"
}

quickstart() {
	(cd source && PATH=$PWD/bin:$PATH && GPUMEM_QUICKSTART_CUDA=$PWD/cuda ./quickstart "$@")
}

@test "a line for each step, with its time and its log" {
	make_source
	quickstart >out || { cat out; return 1; }
	[ "$(grep -cE "$STEP" out)" = 4 ] || { cat out; return 1; }
	sed -nE "s/$STEP/\1/p" out | diff -u - <(printf 'build/%s.log\n' autogen configure make demo)
	(cd source && ls build/{autogen,configure,make,demo}.log)
	grep -q '^== malloc in kernels: build$' out
	grep -q '^gpumemstat record -- ' out
	quickstart >out
	[ "$(grep -cE "$STEP" out)" = 2 ] # make and demo: nothing else had to be done
}

@test "a step that fails says where its log is" {
	make_source
	stub bin/make 'echo "no rule"; exit 2'
	run quickstart
	[ "$status" = 1 ]
	grep -q '^== building build: failed, log build/make.log$' <<<"$output"
	grep -qx 'no rule' <<<"$output"
}

@test "check: a line for each target, and the sum as the last one" {
	make_source
	stub bin/make 'case "$*" in
	*checks*) echo check check-sanitize coverage ;;
	*check-sanitize*) printf "# PASS:  2\n# SKIP:  1\n# XFAIL: 0\n# FAIL:  0\n# XPASS: 0\n# ERROR: 0\n" ;;
	*) printf "# PASS:  40\n# SKIP:  0\n" ;; esac'
	quickstart check >out || { cat out; return 1; }
	grep -qE '^== make check: 40 passed, 0 failed, 0 skipped in [0-9]+ s, log build/check.log$' out
	grep -qE '^== make check-sanitize: 2 passed, 0 failed, 1 skipped in [0-9]+ s, log build/check-sanitize.log$' out
	[ "$(tail -n 1 out)" = '42 passed, 0 failed, 1 skipped' ]
}
