#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The output of quickstart: a line for each step, with its time and its log. Its tools are stubs that record
# their calls.
source "$BATS_TEST_DIRNAME/cli.bash"

BUILD=$PWD
TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
STEP='^== [^:]*: [0-9]+\.[0-9] s, log ([^ ]*)$'

# A source folder in which no step has to build or install anything.
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
	[ "$(grep -cE "$STEP" out)" = 3 ] # make and the demonstration: nothing else was necessary
}

@test "the demonstration: a program that ends by fragmentation natively, and not on the pool" {
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "a sanitizer's runtime comes first"
	make_source
	stub stub_configure "mkdir -p tests/workloads && touch Makefile config.status && ln -s '$TOOL' gpumemstat &&
		ln -s '${SIM%/*}' tests/sim && ln -s '${DEMO%/*}/fragments' tests/workloads"
	quickstart >out || { cat out; return 1; }
	grep -qx 'natively      fragments: out of memory with 35 of 128 MiB in use' out
	grep -qx 'on the pool   fragments: done with 90 of 128 MiB in use' out
	grep -qx 'Shown: fragmentation ended the program natively, and on the pool the same program ran to its end.' out
	grep -q '^device 0 .* at the peak, .*: 120 MiB in 240 blocks$' out
	if command -v addr2line; then
		grep -q 'activations_keep (workloads/fragments.c:[0-9]*)$' out
		grep -qx 'Shown: the call stack with most memory at the peak, down to the source line.' out
	fi
}

@test "the demonstration: a PyTorch training's requests, by source line, and replayed by four allocators" {
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "a sanitizer's runtime comes first"
	command -v xz >/dev/null || skip "xz is not installed"
	make_source
	mkdir -p source/tests/cli
	ln -s "$BATS_TEST_DIRNAME/samples" source/tests/cli/samples
	stub stub_tool 'case "$*" in
	replay* | live*train.gml) exec '"'$TOOL'"' "$@" ;;
	*) echo "gpumemstat $*" ;; esac'
	quickstart >out || { cat out; return 1; }
	grep -qE '^pool +0\.939 +214 MiB +228 MiB ' out
	grep -qE '^ +<module> \(gpumem-walk/train\.py:28\)' out
	grep -qx "Shown: the requests of a PyTorch training on an H100, replayed, take 306 MiB of the driver's (round-2m), 304 MiB in PyTorch's cache, 226 MiB with expandable segments and 228 MiB on the pool." out
	# No line if the pool needs more memory.
	sed -i 's/\[ "$pool" -lt "$native" \]/[ "$pool" -gt "$native" ]/' source/quickstart
	quickstart >out
	refute grep -q 'PyTorch training' out
}

@test "the demonstration with a GPU: malloc in kernels, natively and preloaded" {
	# says NATIVE PRELOADED: the program prints these lines.
	says() {
		rm -rf source
		make_source
		sed -i 's/^has_gpu() {$/has_gpu() { return 0/' source/quickstart
		mkdir -p source/cuda/bin source/cuda/lib64 source/tests/workloads
		touch source/cuda/lib64/libcudart.so.13
		stub stub_lists "if [ -n \"\$POOL\" ]; then $2; else $1; fi"
		stub cuda/bin/nvcc 'cp stub_lists "${@: -2:1}"; echo "nvcc $*"'
		stub stub_fragments 'echo demo'
		stub stub_configure 'mkdir -p tests/workloads && touch Makefile config.status && cp ../stub_tool gpumemstat &&
			cp ../stub_fragments tests/workloads/demo && echo "#define GM_HELPERS 1" >config.h'
		quickstart >out || { cat out; return 1; }
	}
	says 'echo "lists: 7 of 9 mallocs in kernels got NULL; the kernels took 9.5 ms"; exit 1' 'echo "lists: 0 of 9 mallocs in kernels got NULL; the kernels took 1.2 ms"'
	grep -qx 'nvcc -arch=native -o build/tests/workloads/lists tests/workloads/lists.cu' source/build/lists.log
	grep -qx 'natively      lists: 7 of 9 mallocs in kernels got NULL; the kernels took 9.5 ms' out
	grep -qx 'preloaded     lists: 0 of 9 mallocs in kernels got NULL; the kernels took 1.2 ms' out
	grep -qx 'Shown: malloc in kernels returned NULL natively, in 9.5 ms, and never under the preload, in 1.2 ms, to the same program.' out
	says 'echo "lists: 0 of 9 mallocs in kernels got NULL; the kernels took 9.5 ms"' 'echo "lists: 0 of 9 mallocs in kernels got NULL; the kernels took 1.2 ms"'
	refute grep -q '^Shown: malloc' out
	says 'echo "lists: 7 of 9 mallocs in kernels got NULL; the kernels took 9.5 ms"; exit 1' 'echo "lists: 1 of 9 mallocs in kernels got NULL; the kernels took 9.5 ms"; exit 1'
	refute grep -q '^Shown: malloc' out
	says 'echo "lists: 7 of 9 mallocs in kernels got NULL; the kernels took 9.5 ms"; exit 1' 'echo "lists: 0 of 9 mallocs in kernels got NULL, and the sum is wrong; the kernels took 1.2 ms"; exit 1'
	refute grep -q '^Shown: malloc' out
}

@test "the demonstration claims only observed results" {
	# says LINE: what the program does, natively and on the pool.
	says() {
		rm -rf source
		NATIVE=$1 make_source
		run quickstart
		refute grep -q '^Shown: ' <<<"$output"
	}
	says 'echo fragments: done with 90 of 128 MiB in use' # the native run, too
	[ "$status" = 0 ]
	says '[ -n "$POOL" ] && echo fragments: done with 90 of 128 MiB in use || { echo fragments: out of memory with 90 of 128 MiB in use; exit 1; }'
	[ "$status" = 0 ]
	says 'echo fragments: out of memory with 35 of 128 MiB in use; exit 1' # the run on the pool, too
	[ "$status" = 1 ]
	says 'exit 127'
	[ "$status" = 1 ]
}

@test "the demonstration names a report if gpumemstat can write one" {
	make_source
	stub stub_tool 'case $1 in record | help) ;; report) echo page >"$3" ;; *) echo "gpumemstat $*" ;; esac'
	quickstart >out
	grep -qE '^Shown: /.*/report.html has the whole run, for a browser\.$' out
	stub stub_tool 'case $1 in record | help | report) ;; *) echo "gpumemstat $*" ;; esac'
	cp source/stub_tool source/build/gpumemstat
	quickstart >out
	refute grep -q 'report' out
}

@test "a failed step names its log" {
	make_source
	stub bin/make 'echo "no rule"; exit 2'
	run quickstart
	[ "$status" = 1 ]
	grep -q '^== building build: failed, log build/make.log$' <<<"$output"
	grep -qx 'no rule' <<<"$output"
}

@test "check: a line for each target, and the sum in the last line" {
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

@test "check: the lines of each failed test, anywhere in its log; of another log the end" {
	make_source
	stub bin/make 'case "$*" in
	*checks*) echo check check-sanitize; exit 0 ;;
	*check-sanitize*) printf "# PASS:  0\n# FAIL:  2\n"; exit 2 ;;
	*check*) ;;
	*) exit 0 ;; esac
	mkdir -p build/tests
	{ echo "ok 1 - opens"; echo "not ok 2 - closes"; echo "# expected 3"
		seq 100 | sed "s/^/note /"; echo "ok 3 - ends"; } >build/tests/a.log
	{ seq 100 | sed "s/^/line /"; echo "killed by signal 11"; } >build/tests/b.log
	echo ":test-result: FAIL" | tee build/tests/a.trs >build/tests/b.trs
	printf "# PASS:  2\n# FAIL:  2\n"
	exit 2'
	run quickstart check
	[ "$status" = 1 ]
	grep -qx "not ok 2 - closes" <<<"$output" || { echo "$output"; return 1; }
	grep -qx '# expected 3' <<<"$output"
	refute grep -qxE 'ok 3 - ends|note 100|line 1' <<<"$output"
	grep -qx 'killed by signal 11' <<<"$output"
	[ "$(tail -n 1 <<<"$output")" = '2 passed, 4 failed, 0 skipped' ]
}

# The PATH that bare sets has stubs and these commands alone. The user is not root, and may not become it.
bare() { # bare COMMAND...: these are missing
	local command
	mkdir source/bare
	for command in bash sh cat chmod cp date dirname env find grep head id ls mkdir mktemp nproc sed sort tail timeout touch tr true \
		gcc g++ make autoconf automake libtoolize awk git xz bats mandoc jq python3; do
		[[ " $* " == *" $command "* ]] || ln -s "$(type -P $command)" source/bare/
	done
	rm -f source/bare/{id,python3}
	stub bare/id 'echo 1000'
	# No pip, unless a test stubs python3 otherwise.
	stub bare/python3 'exit 1'
	stub bare/apt-get 'echo "apt-get $*" >>called'
	stub bare/sudo 'echo "sudo $*" >>called; exit 1'
}

# in_bare [KNOB=VALUE]...: run quickstart with that PATH.
in_bare() {
	(cd source && env PATH="$PWD/bare" "$@" /bin/bash ./quickstart 2>&1)
}

@test "missing packages: where sudo asks for a password, one line that a shell takes as it is" {
	make_source
	bare automake mandoc
	run in_bare GPUMEM_QUICKSTART_CUDA="$PWD/source/cuda"
	[ "$status" = 1 ]
	diff -u <(echo 'sudo apt-get install -y automake mandoc # for quickstart; then start it again') - <<<"$output"
	diff <(echo 'sudo -n true') source/called
	# Without sudo, by su; for root, by neither.
	rm source/bare/sudo
	run in_bare GPUMEM_QUICKSTART_CUDA="$PWD/source/cuda"
	[ "$status" = 1 ]
	diff -u <(echo "su -c 'apt-get install -y automake mandoc' # for quickstart; then start it again") - <<<"$output"
	mv source/bare/apt-get source/bare/dnf
	stub bare/id 'echo 0'
	run in_bare GPUMEM_QUICKSTART_CUDA="$PWD/source/cuda"
	[ "$status" = 1 ]
	diff -u <(echo 'dnf install -y automake mandoc # for quickstart; then start it again') - <<<"$output"
	rm source/bare/dnf
	run in_bare GPUMEM_QUICKSTART_CUDA="$PWD/source/cuda"
	[ "$status" = 1 ]
	diff -u <(echo 'quickstart: please install these packages, here by their names in Debian: automake mandoc') - <<<"$output"
}

@test "missing packages: pip is one of them if headers must be fetched" {
	make_source
	bare
	run in_bare GPUMEM_QUICKSTART_CUDA=fetch
	[ "$status" = 1 ]
	diff -u <(echo 'sudo apt-get install -y python3-pip # for quickstart; then start it again') - <<<"$output"
	stub bare/sudo 'shift; exec "$@"'
	run in_bare GPUMEM_QUICKSTART_CUDA=fetch
	[ "$status" = 1 ]
	grep -q '^apt-get install -y -qq python3-pip$' source/called
	grep -q '^== installing python3-pip: ' <<<"$output"
	[ "$(tail -n 1 <<<"$output")" = 'sudo apt-get install -y python3-pip # for quickstart; then start it again' ]
}

@test "headers that pip cannot fetch: the last line says what to do, and pip's lines are in the log" {
	make_source
	bare
	stub bare/python3 '[ "$1" = -c ] || { echo "WARNING: Retrying" >&2; exit 1; }'
	run in_bare GPUMEM_QUICKSTART_CUDA=fetch
	[ "$status" = 1 ]
	diff -u - <(echo "$output") <<-'END'
	== fetching the CUDA headers into .cuda by pip: failed, log .cuda/pip.log
	quickstart: fetching the CUDA headers into .cuda by pip failed: set GPUMEM_QUICKSTART_CUDA=DIR to a CUDA Toolkit, 12 or 13, or install one of your distribution
	END
	grep -qx 'WARNING: Retrying' source/.cuda/pip.log
}

@test "a GPUMEM_QUICKSTART_CUDA that is no CUDA Toolkit is refused before anything is installed" {
	make_source
	bare automake
	run in_bare GPUMEM_QUICKSTART_CUDA=/nosuch
	[ "$status" = 1 ]
	[ "$output" = 'quickstart: GPUMEM_QUICKSTART_CUDA=/nosuch: no such folder' ]
	run in_bare GPUMEM_QUICKSTART_CUDA=tools
	[ "$status" = 1 ]
	[ "$output" = 'quickstart: GPUMEM_QUICKSTART_CUDA=tools: no CUDA Toolkit, since the folder has no include/cudaTypedefs.h' ]
	# A relative folder is one of the caller's.
	(cd source && PATH=$PWD/bin:$PATH && cd tools && GPUMEM_QUICKSTART_CUDA=../cuda ../quickstart) >out || { cat out; return 1; }
}

@test "a folder with a blank in its name is refused before anything is installed" {
	make_source
	bare automake
	mkdir 'my folder'
	mv source "my folder/it's"
	ln -s "my folder/it's" source
	run env -C source -i PATH="$PWD/source/bare" /bin/bash "$PWD/my folder/it's/quickstart"
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	[[ $output == "quickstart: make cannot handle the blank or special character in this folder's name: mv '"*" ~/gpumem && ~/gpumem/quickstart" ]]
	[ ! -e source/called ]
	cp "$TOP/autogen.sh" 'my folder'
	run sh 'my folder/autogen.sh'
	[ "$status" = 1 ]
	[ "$output" = "autogen.sh: make cannot handle the blank or special character in '$PWD/my folder': move the folder" ]
	run env -C 'my folder' "$TOP/configure"
	[ "$status" = 1 ]
	[ "$output" = "configure: error: the build folder '$PWD/my folder' has a blank or a special character in its name, which make and libtool cannot handle: build in another folder" ]
	run env "$TOP/configure" --prefix="$PWD/my folder"
	[ "$status" = 1 ]
	[[ $output == "configure: error: the prefix '$PWD/my folder' has a blank"*": give another --prefix" ]]
}

# make_here GOAL...: a make of its own in the build folder, not one of `make check`.
make_here() {
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s --no-print-directory -C "$BUILD" "$@"
}

@test "make install into a folder with a blank in its name is refused in one line" {
	[ -f "$BUILD/Makefile" ] || skip "no build folder"
	for name in prefix DESTDIR libdir; do
		run make_here install $name="$PWD/my folder"
		[ "$status" = 2 ]
		[ "${#lines[@]}" = 1 ]
		[[ $output == *"make install cannot handle the blank in $name='$PWD/my folder': give another folder.  Stop." ]]
	done
	[ ! -e 'my folder' ]
}

@test "autogen.sh names the packages of missing commands in one line" {
	make_source
	bare automake libtoolize
	cp "$TOP/autogen.sh" source/
	run env -C source PATH="$PWD/source/bare" sh ./autogen.sh
	[ "$status" = 1 ]
	[ "$output" = 'autogen.sh: please install these packages first: autoconf automake libtool' ]
}

@test "warnings are errors in the build of check alone" {
	make_source
	stub stub_configure 'echo "$@"; touch Makefile; echo "$@" >config.status; touch configured; cp ../stub_tool gpumemstat'
	run quickstart
	refute grep -q enable-werror source/build/configure.log
	run quickstart check
	grep -qe '--enable-werror' source/build/configure.log
	rm source/build/configured
	run quickstart check
	[ ! -e source/build/configured ]
}

@test "check-clang is skipped in one line without clang" {
	[ -f "$BUILD/Makefile" ] || skip "no build folder"
	run make_here check-clang CLANG=
	[ "$status" = 0 ]
	[ "$output" = 'SKIP: tests/unit under clang: clang is not installed' ]
}

@test "make install prints what it installs, and no line of libtool" {
	[ -f "$BUILD/Makefile" ] || skip "no build folder"
	make_here -n install GPU_ARCHS_INSTALL= prefix="$PWD" >out
	grep -e '--mode=install' out >installs
	[ -s installs ]
	refute grep -ve '--silent' installs
}
