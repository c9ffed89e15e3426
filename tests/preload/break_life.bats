#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Threads, signals, children and the end of a process.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	cd "$BATS_TEST_TMPDIR"
	STAT=$OLDPWD/gpumemstat
}

# A test that hangs fails.
alike() {
	native timeout 3600 "$PROGRAMS/$1" "${@:2}" >native
	preloaded timeout 3600 "$PROGRAMS/$1" "${@:2}" >preloaded 2>said
	diff -u native preloaded
	refute grep '^gpumem' said
	grep -qx 'calls that failed: 0' preloaded
}

logged() {
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=%p.gml)
}

readable() {
	for log in *.gml; do
		"$STAT" summary -v "$log" >summary 2>&1 || { cat summary; return 1; }
	done
}

@test "threads that exist before cuInit get native answers" {
	alike break_threads early
}

@test "threads that all call cuInit get native answers" {
	SIM_YIELD=1 alike break_threads found
	# The entry code is assembler; ThreadSanitizer does not see its acquire.
	[[ $SANITIZE_LIB == *tsan* ]] || SIM_YIELD=1 alike break_threads init
}

@test "a thread resolves a call that another thread has resolved before, without synchronization between them" {
	alike break_threads look
}

@test "no call takes more than 12 KiB of a thread's stack" {
	[ -z "$SANITIZE_LIB$COVERAGE$TEST_UNDER" ] || skip "frames of such a build are larger"
	native "$PROGRAMS/small_stack" 4096
	KNOBS=(GPUMEM_COPY=4 GPUMEM_LOG=events GPUMEM_LOG_NAME=%p.gml GPUMEM_STACKS=all)
	preloaded "$PROGRAMS/small_stack" 12288 2>said
	"$STAT" summary --json ./*.gml | jq -e '.logs[0].counters | .copy_h2d_staged_calls == 1 and .copy_d2h_staged_calls == 1'
}

@test "thousands of threads leave no memory behind" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer keeps memory of its own"
	alike break_threads many
	grep -qx 'nothing stays behind: 1' preloaded
}

@test "a signal handler can allocate while its thread holds a lock of ours" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer has its own malloc"
	preloaded timeout 3600 "$PROGRAMS/break_signals" >preloaded
	diff -u - preloaded <<-'END'
		signals handled: some
		calls that failed: 0
	END
}

@test "a thread that is cancelled in a call of ours ends after the call, and others go on" {
	for free in sync defer; do
		logged
		KNOBS+=(GPUMEM_FREE=$free GPUMEM_LIMIT=much)
		preloaded "$PROGRAMS/cancel" >preloaded 2>said || {
			cat preloaded
			false
		}
		diff -u - preloaded <<-'END'
			the thread came through: 1
			and ended behind it: 1
			cuMemAlloc_v2(&p, most_of_it()): CUDA_SUCCESS
			cuMemFree_v2(p): CUDA_SUCCESS
		END
		grep -q '^gpumem: GPUMEM_LIMIT' said
	done
}

@test "children forked by threads, while others allocate, get native answers" {
	# In a child the leak checker waits for threads that do not exist there.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
	logged
	alike break_threads fork
	[ "$(ls ./*.gml | wc -l)" -eq 1 ]
	readable
	[ "$(awk '$1 == "free" {print $2 - $3, $5; exit}' summary)" = '0 0' ] # the children's calls are not counted
}

@test "a child made by clone leaves the parent's log alone" {
	# LeakSanitizer takes its locks at exit. A thread of the parent may have held one at the clone.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
	logged
	alike break_threads clone
	[ "$(ls ./*.gml | wc -l)" -eq 1 ]
	readable
}

@test "vfork, posix_spawn and system start programs as natively" {
	alike break_threads spawn
}

@test "eight processes at once have a log each" {
	logged
	native "$PROGRAMS/contexts" >native
	for i in 1 2 3 4 5 6 7 8; do
		preloaded "$PROGRAMS/contexts" >"out.$i" 2>&1 &
	done
	wait
	for i in 1 2 3 4 5 6 7 8; do
		diff -u native "out.$i"
	done
	[ "$(ls ./*.gml | wc -l)" -eq 8 ]
	readable
}

@test "calls before and after main answer as natively, and the log can be read, however the process ends" {
	logged
	for how in thread idle full return exit _exit quick abort kill; do
		local there=0 here=0
		# The leak checker does not see memory that the main thread left to libc.
		[[ -z $SANITIZE_LIB || ! $how =~ ^(thread|idle|full)$ ]] || continue
		rm -f ./*.gml
		logged
		# The last thread is ours, without a current context, if one of ours has just started another.
		[ $how != thread ] || KNOBS+=(GPUMEM_TRIM_AFTER=0)
		local limit=()
		[[ ! $how =~ ^(idle|full)$ ]] || KNOBS+=(GPUMEM_TRIM_AFTER=24h) limit=(timeout -s KILL 3600)
		native "$PROGRAMS/break_ends" $how >native 2>/dev/null || there=$?
		preloaded "${limit[@]}" "$PROGRAMS/break_ends" $how >preloaded 2>said || here=$?
		diff -u native preloaded
		refute grep '^gpumem' said
		[ "$here" -eq "$there" ]
		[ "$(ls ./*.gml | wc -l)" -eq 1 ]
		readable
	done
	[ "$there" -eq 137 ]
}

# Threads of ours are not counted from glibc 2.34 on (base/thread.h).
needs_count() {
	local version
	version=$(getconf GNU_LIBC_VERSION) || skip "not glibc"
	printf '%s\n' "glibc 2.34" "$version" | sort -VC || skip "an older glibc"
}

# ends WAY...: with threads of ours the process ends at its last thread's end, and on this thread, as natively.
ends() {
	timeout 3600 env LD_LIBRARY_PATH="$SIM" ${ROOT:+unshare -r} "$PROGRAMS/break_last" "$@" >native
	preloaded ${ROOT:+unshare -r} timeout -s KILL 3600 "$PROGRAMS/break_last" "$@" >preloaded
	diff -u native preloaded
	grep -qx 'exit handlers run on the last thread: 1' preloaded
}

@test "a process ends at its last thread's end, whatever threads of ours there are" {
	needs_count
	[[ $SANITIZE_LIB != *tsan* ]] || skip "ThreadSanitizer has a thread of its own"
	# The leak checker does not see memory that the main thread left to libc.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
	for sleep in 0 1; do
		KNOBS=(GPUMEM_TRIM_AFTER=24h GPUMEM_SLEEP=$sleep)
		for ways in "" calls handle "handle calls" full "full calls" "handle full calls"; do
			ends $ways
		done
	done
}

@test "a process without /proc ends at its last thread's end" {
	needs_count
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "a tool that needs /proc"
	unshare -r true || skip "no user namespaces here"
	ROOT=1
	mkdir empty
	for sleep in 0 1; do
		KNOBS=(GPUMEM_TRIM_AFTER=24h GPUMEM_SLEEP=$sleep)
		for ways in "" calls handle "handle calls" "handle full calls"; do
			ends "$PWD/empty" $ways
		done
	done
}

@test "a process whose last thread ends by the system call alone ends, as natively" {
	needs_count
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "a tool that counts threads"
	for sleep in 0 1; do
		KNOBS=(GPUMEM_TRIM_AFTER=24h GPUMEM_SLEEP=$sleep)
		for ways in raw "calls handle raw"; do
			timeout 3600 env LD_LIBRARY_PATH="$SIM" "$PROGRAMS/break_last" $ways >native
			preloaded timeout -s KILL 3600 "$PROGRAMS/break_last" $ways >preloaded
			diff -u native preloaded
			[ -s preloaded ]
			refute grep handlers preloaded
		done
	done
}

@test "threads of ours rest while the program does nothing" {
	needs_count
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "a tool's threads"
	KNOBS=(GPUMEM_TRIM_AFTER=24h GPUMEM_SLEEP=1)
	preloaded "$PROGRAMS/break_last" handle rests >preloaded
	grep -Ex '[1-9] threads rest: 1' preloaded
}

@test "a library that is finalised after us still allocates and frees" {
	logged
	native env LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$PROGRAMS/liblate.so" "$PROGRAMS/break_ends" >native
	preloaded env LD_DEBUG=files LD_DEBUG_OUTPUT="$PWD/loader" LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$LIBRARY:$PROGRAMS/liblate.so" \
		"$PROGRAMS/break_ends" >preloaded
	diff -u native preloaded
	[ "$(grep -ho 'calling fini: .*\(libgpumem\|liblate\)\.so' loader.* | sed 's/.*lib//' | tr '\n' ' ')" = 'gpumem.so late.so ' ]
	grep -qx 'cuMemFree(p): CUDA_ERROR_INVALID_VALUE' preloaded
	readable
}

@test "a library that is finalised before us is not called when the log is closed" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer stands in for the same functions"
	[ -z "$COVERAGE" ] || skip "gcov writes its counts with the same functions, at the end of each library"
	for level in small events; do
		rm -f ./*.gml
		KNOBS=(GPUMEM_LOG=$level GPUMEM_LOG_NAME=%p.gml)
		preloaded env LD_PRELOAD="$PROGRAMS/libended.so:$LIBRARY" "$PROGRAMS/break_ends" >preloaded || {
			cat preloaded
			false
		}
		grep -qx 'cuMemFree(of_main): CUDA_SUCCESS' preloaded
		readable
		grep -q 'closed cleanly' summary
	done
}

@test "threads that allocate while the process ends get native answers" {
	logged
	native "$PROGRAMS/break_ends" busy >native
	for i in $(seq 20); do
		preloaded timeout 3600 "$PROGRAMS/break_ends" busy >preloaded 2>said
		diff -u native preloaded
		[ ! -s said ]
		rm -f ./*.gml
	done
}

@test "two runtimes in one process share the pool" {
	needs_driver 12.0
	native "$PROGRAMS/break_runtimes" >native
	SIM_TRACE=$PWD/trace preloaded "$PROGRAMS/break_runtimes" >preloaded 2>&1
	diff -u native preloaded
	[ "$(grep -c '0 0 0 0 0 7 0 0 1$' preloaded)" -eq 5 ]
	! grep -qx 'cuMemAlloc_v2 0' trace
}
