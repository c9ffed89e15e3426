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
	stub stub_configure 'mkdir -p tests/workloads && touch Makefile config.status && cp ../stub_tool gpumemstat &&
		cp ../stub_fragments tests/workloads/fragments'
	stub stub_tool 'case $1 in
	record) POOL=1 exec "${@:5}" ;;
	help) exit 2 ;;
	*) echo "gpumemstat $*" ;; esac'
	stub stub_fragments "${NATIVE:-echo fragments: out of memory with 35 of 128 MiB in use; [ -n \"\$POOL\" ]}"
	stub bin/nvidia-smi 'exit 1'
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
	[ "$(grep -cE "$STEP" out)" = 5 ] || { cat out; return 1; }
	sed -nE "s/$STEP/\1/p" out | diff -u - <(printf 'build/%s.log\n' autogen configure make native demo)
	(cd source && ls build/{autogen,configure,make,native,demo}.log)
	grep -q '^== malloc in kernels: build$' out
	grep -q '^gpumemstat /.*/demo.gml$' out
	quickstart >out
	[ "$(grep -cE "$STEP" out)" = 3 ] # make and the demonstration: nothing else had to be done
}

@test "the demonstration: a program that fragmentation ends natively, and not on the pool" {
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "a sanitizer's runtime comes first"
	make_source
	stub stub_configure "mkdir -p tests/workloads && touch Makefile config.status && ln -s '$TOOL' gpumemstat &&
		ln -s '${SIM%/*}' tests/sim && ln -s '${DEMO%/*}/fragments' tests/workloads"
	quickstart >out || { cat out; return 1; }
	grep -qx 'natively      fragments: out of memory with 35 of 128 MiB in use' out
	grep -qx 'on the pool   fragments: done with 90 of 128 MiB in use' out
	grep -qx 'Shown: fragmentation ended the program natively, and on the pool the same file ran to its end.' out
	grep -q '^device 0 .* at the peak, .*: 120 MiB in 240 blocks$' out
	if command -v addr2line; then
		grep -q 'activations_keep (workloads/fragments.c:[0-9]*)$' out
		grep -qx 'Shown: the call stack, down to the source line, whose blocks held most at the peak.' out
	fi
}

@test "the demonstration says nothing that it has not seen" {
	# says LINE: what the program prints and how it ends, natively and on the pool.
	says() {
		rm -rf source
		NATIVE=$1 make_source
		run quickstart
		refute grep -q '^Shown: ' <<<"$output"
	}
	says 'echo fragments: done with 90 of 128 MiB in use' # natively too
	[ "$status" = 0 ]
	says '[ -n "$POOL" ] && echo fragments: done with 90 of 128 MiB in use || { echo fragments: out of memory with 90 of 128 MiB in use; exit 1; }'
	[ "$status" = 0 ]
	says 'echo fragments: out of memory with 35 of 128 MiB in use; exit 1' # on the pool too
	[ "$status" = 1 ]
	says 'exit 127'
	[ "$status" = 1 ]
}

@test "the demonstration names a report where gpumemstat can write one" {
	make_source
	stub stub_tool 'case $1 in record | help) ;; report) echo page >"$3" ;; *) echo "gpumemstat $*" ;; esac'
	quickstart >out
	grep -qE '^Shown: /.*/report.html has the whole run, for a browser\.$' out
	stub stub_tool 'case $1 in record | help | report) ;; *) echo "gpumemstat $*" ;; esac'
	cp source/stub_tool source/build/gpumemstat
	quickstart >out
	refute grep -q 'report' out
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
