#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Containers and batch systems remove resources: the program runs as natively there, and gpumem names the
# missing resource in one line. Run in the build folder.

setup() {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer's runtime takes more than this leaves"
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	TOOL=$PWD/gpumemstat
	CONFINE=$PROGRAMS/containers_confine
	DEMO=("$PWD/tests/workloads/demo" 300 32)
	NATIVE=(env LD_LIBRARY_PATH="$SIM")
	PRELOADED=("${NATIVE[@]}" LD_PRELOAD="$LIBRARY")
	WITHIN=()
	MEMSETS=227
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# gcov writes its data into the build folder, and prints an error where that fails.
no_gcov() {
	[ -z "$COVERAGE" ] || skip "gcov cannot write its data there"
}

# A mount namespace of our own, where the kernel allows one: as root, or in a user namespace.
need_mounts() {
	for UNSHARE in "unshare -m" "unshare -rm"; do
		if $UNSHARE sh -c 'mount -t tmpfs none /mnt' 2>/dev/null; then return 0; fi
	done
	skip "no mount namespace to be had here"
}

# in_mounts COMMANDS: `alike` runs its program after these shell commands, in a mount namespace.
in_mounts() {
	need_mounts
	# shellcheck disable=SC2206 # a command and its option
	WITHIN=($UNSHARE sh -ec "$1"'; exec "$@"' sh)
}

# alike PROGRAM...: output and status as natively; standard error is in the file `said`. The output passes
# through pipes, because a limit of the file size covers it, too.
alike() {
	local native preloaded
	native=$("${WITHIN[@]}" "${NATIVE[@]}" "$@" 2>/dev/null; echo "status $?")
	preloaded=$({ "${WITHIN[@]}" "${PRELOADED[@]}" "$@" 2>&3; echo "status $?"; } 3> >(cat >"$BATS_TEST_TMPDIR/said") )
	wait
	drop_notices "$BATS_TEST_TMPDIR/said"
	[[ $native == *'status 0' ]]
	diff -u <(echo "$native") <(echo "$preloaded")
}

# says PATTERN...: gpumem wrote exactly one line for each PATTERN.
says() {
	local line n=0 pattern
	cat "$BATS_TEST_TMPDIR/said"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq $# ]
	while read -r line; do
		pattern=${*:n+1:1}
		[[ $line =~ ^gpumem:\ $pattern$ ]]
		n=$((n + 1))
	done <"$BATS_TEST_TMPDIR/said"
}

# whole LOG...: each log is closed, and has the calls of one demo.
whole() {
	"$TOOL" --json "$@" >"$BATS_TEST_TMPDIR/json"
	jq -e ".logs | length == $#" "$BATS_TEST_TMPDIR/json"
	jq -e '.logs | all(.closed and .torn == 0 and .dropped == 0 and .contradiction == null)' "$BATS_TEST_TMPDIR/json"
	jq -e '.logs | all(.counters.memset_calls == '$MEMSETS')' "$BATS_TEST_TMPDIR/json"
}

# one_log [FOLDER]: exactly one log exists, and it is whole. Removes the log.
one_log() {
	local log=("${1:-.}"/gpumem.*.gml)
	[ ${#log[@]} -eq 1 ]
	whole "${log[0]}"
	rm "${log[0]}"
}

no_log() {
	[ -z "$(ls)" ]
}

WITHOUT='the program goes on without one'

@test "a program runs as natively on a read-only file system" {
	in_mounts 'mount --bind . .; mount -o remount,bind,ro "$PWD"; cd "$PWD"; ! touch here 2>/dev/null'
	alike "${DEMO[@]}"
	says "log gpumem.*\.gml: Read-only file system; $WITHOUT"
	no_log
}

@test "a program runs as natively with a read-only root and no /dev" {
	no_gcov
	need_mounts
	[ "$UNSHARE" = "unshare -m" ] || skip "takes root"
	in_mounts 'mount --bind . .; cd "$PWD"; mount -o remount,bind,ro /; ! touch /here 2>/dev/null; mount -t tmpfs -o ro none /dev'
	alike "${DEMO[@]}"
	says
	one_log
}

@test "GPUMEM_PROGRAM without /proc is compared with the program's invocation name" {
	in_mounts 'mount -t tmpfs -o ro none /proc; [ ! -e /proc/self ]'
	PRELOADED+=(GPUMEM_PROGRAM=demo)
	alike "${DEMO[@]}"
	says
	one_log
	jq -e '.logs[0].program == "demo" and .logs[0].command == ""' "$BATS_TEST_TMPDIR/json"
	PRELOADED+=(GPUMEM_PROGRAM=other)
	alike "${DEMO[@]}"
	no_log
}

@test "a program runs as natively with no environment but gpumem's variables" {
	NATIVE=(env -i LD_LIBRARY_PATH="$SIM")
	PRELOADED=("${NATIVE[@]}" LD_PRELOAD="$LIBRARY")
	alike "${DEMO[@]}"
	says
	one_log
}

@test "a program runs as natively in a chroot with only the needed files" {
	local root=$BATS_TEST_TMPDIR/root file files=("${DEMO[0]}" "$LIBRARY" "$SIM/libcuda.so.1")
	need_mounts
	mkdir "$root"
	for file in "${files[@]}" $(LD_LIBRARY_PATH=$SIM ldd "${files[@]}" | grep -o '/[^ :]*' | sort -u); do
		mkdir -p "$root${file%/*}"
		cp -L "$file" "$root$file"
	done
	alike $UNSHARE chroot "$root" "${DEMO[@]}"
	says
	one_log "$root"
}

@test "a program runs as natively as a user without a name" {
	no_gcov
	[ "$(id -u)" -eq 0 ] || skip "takes root"
	WITHIN=("$CONFINE" uid=54321 --)
	"${WITHIN[@]}" cat "$LIBRARY" >/dev/null || skip "no other user can read the build folder"
	chmod 755 .
	alike "${DEMO[@]}"
	says "log gpumem.*\.gml: Permission denied; $WITHOUT"
	no_log
	chmod 777 .
	alike "${DEMO[@]}"
	says
	[ "$(stat -c '%u %a' gpumem.*.gml)" = '54321 600' ]
	one_log
}

@test "a program runs as natively in an empty user namespace" {
	unshare -U true || skip "no user namespace to be had here"
	WITHIN=(unshare -U)
	alike "${DEMO[@]}"
	says
	one_log
}

@test "a program runs as natively under seccomp filters of containers" {
	local error why thread
	local refused=clone3,close_range,fallocate,getrandom,io_uring_setup,madvise,membarrier,memfd_create,openat2
	refused+=,perf_event_open,pidfd_getfd,pidfd_open,process_vm_readv,ptrace,sched_getaffinity,statx,userfaultfd
	for error in 'EPERM Operation not permitted' 'ENOSYS Function not implemented' 'EACCES Permission denied'; do
		why=${error#* }
		WITHIN=("$CONFINE" "deny=${error%% *}:$refused" --)
		for level in small events; do
			PRELOADED+=(GPUMEM_LOG=$level)
			alike "${DEMO[@]}"
			thread=("no thread for GPUMEM_TRIM_AFTER: $why; idle memory stays")
			# The C library falls back from clone3 to clone only at ENOSYS.
			[[ $error != ENOSYS* ]] || thread=()
			says "live counters: memfd_create: $why; gpumemstat top will not see this process" "${thread[@]}"
			one_log
		done
	done
	WITHIN=("$CONFINE" deny=EPERM:fstatfs --)
	alike "${DEMO[@]}"
	says
	one_log
}

@test "a program runs as natively with few descriptors" {
	local n
	for n in 4 5 6 20 64; do
		WITHIN=("$CONFINE" close=3 close=4 close=5 close=6 close=7 close=8 close=9 limit=NOFILE:$n --)
		alike "${DEMO[@]}"
		case $n in
		4)
			says "log gpumem.*\.gml: Too many open files; $WITHOUT"
			no_log
			;;
		*)
			says
			one_log
			;;
		esac
	done
}

@test "closed standard descriptors do not become ours" {
	local closed limit
	MEMSETS=.counters.memset_calls # any number
	for limit in 1024 100; do
		for closed in close=0 close=1 close=2 'close=0 close=1 close=2'; do
			# shellcheck disable=SC2206 # words
			WITHIN=("$CONFINE" $closed limit=NOFILE:$limit --)
			alike "$PROGRAMS/answers" # writes each line at once
			says
			one_log
		done
	done
	# No other number is free: no log rather than a log that the program writes into.
	WITHIN=("$CONFINE" close=3 close=4 close=5 close=6 close=7 close=8 close=9 close=0 limit=NOFILE:3 --)
	alike "$PROGRAMS/answers"
	says 'live counters: memfd_create: Too many open files; gpumemstat top will not see this process' \
		"log gpumem.*\\.gml: Too many open files; $WITHOUT"
	no_log
}

@test "the driver serves where address space is too small for a pool" {
	WITHIN=("$CONFINE" limit=AS:400000000 --)
	alike "${DEMO[@]}"
	says 'no pool on device 0 \(CUDA_ERROR_OUT_OF_MEMORY\): its memory is left to the driver'
	one_log
}

@test "a program runs as natively below a limit of file size, without a signal" {
	no_gcov
	WITHIN=("$CONFINE" limit=FSIZE:200000 --)
	alike "${DEMO[@]}"
	says "log gpumem.*\.gml: File too large; $WITHOUT"
	no_log
	WITHIN=("$CONFINE" limit=FSIZE:0 --)
	alike "${DEMO[@]}"
	says 'live counters: ftruncate: File too large; gpumemstat top will not see this process' \
		"log gpumem.*\.gml: File too large; $WITHOUT"
	no_log
}

@test "a program runs as natively on one processor, with no further process or thread" {
	no_gcov
	WITHIN=("$CONFINE" cpus=1 --)
	alike "${DEMO[@]}"
	says
	one_log
	[ "$(id -u)" -eq 0 ] || skip "the rest takes root"
	WITHIN=("$CONFINE" cpus=1 uid=54321 limit=NPROC:1 --)
	"${WITHIN[@]}" cat "$LIBRARY" >/dev/null || skip "no other user can read the build folder"
	chmod 777 .
	alike "${DEMO[@]}"
	says 'no thread for GPUMEM_TRIM_AFTER: Resource temporarily unavailable; idle memory stays'
	one_log
}

@test "/etc/ld.so.preload serves programs, and leaves set-group-ID ones alone" {
	local native
	mkdir "$BATS_TEST_TMPDIR/etc"
	cp /etc/ld.so.cache /etc/passwd "$BATS_TEST_TMPDIR/etc"
	echo "$LIBRARY" >"$BATS_TEST_TMPDIR/etc/ld.so.preload"
	need_mounts
	WITHIN=($UNSHARE sh -ec "mount --bind '$BATS_TEST_TMPDIR/etc' /etc"'; exec "$@"' sh)
	PRELOADED=("${NATIVE[@]}")
	alike sh -c 'for i in 1 2 3; do ls -ld /etc/passwd | cut -d" " -f1; done; cat nowhere; true'
	no_log
	native=$("${NATIVE[@]}" "${DEMO[@]}")
	[ "$("${WITHIN[@]}" "${NATIVE[@]}" "${DEMO[@]}")" = "$native" ]
	one_log

	local ask=("$PROGRAMS/ask-O2" open "$SIM/libcuda.so.1" sym cuInit use)
	"${WITHIN[@]}" "${ask[@]}" | grep -q '^sym cuInit: gpumem$'
	rm gpumem.*.gml
	[ "$UNSHARE" = "unshare -m" ] || skip "the rest takes root"
	cp "$PROGRAMS/ask-O2" "$BATS_TEST_TMPDIR/ask"
	chgrp 65534 "$BATS_TEST_TMPDIR/ask"
	chmod 2755 "$BATS_TEST_TMPDIR/ask"
	"${WITHIN[@]}" "$BATS_TEST_TMPDIR/ask" "${ask[@]:1}" >out
	diff -u <("$BATS_TEST_TMPDIR/ask" "${ask[@]:1}") out
	grep -q '^sym cuInit: driver$' out
	rm out
	no_log
}

@test "a program of musl starts under the preload" {
	command -v musl-gcc >/dev/null || skip "no musl-gcc"
	NATIVE=(env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR")
	PRELOADED=("${NATIVE[@]}" LD_PRELOAD="$LIBRARY" GPUMEM_VERBOSE=4)
	musl-gcc -o "$BATS_TEST_TMPDIR/musl" "$BATS_TEST_DIRNAME/containers_musl.c"
	alike "$BATS_TEST_TMPDIR/musl"
	says
	no_log
}

@test "containers with one pid, one host and one folder lose no log" {
	local space i
	for space in "unshare -pf" "unshare -rpf" ""; do
		if $space true 2>/dev/null; then break; fi
	done
	[ -n "$space" ] || skip "no pid namespace to be had here"
	"${NATIVE[@]}" "${DEMO[@]}" >"$BATS_TEST_TMPDIR/native"
	for i in 1 2 3 4 5 6 7 8; do
		$space "${PRELOADED[@]}" "${DEMO[@]}" >"$BATS_TEST_TMPDIR/out.$i" 2>&1 3>&- &
	done
	wait
	for i in 1 2 3 4 5 6 7 8; do
		diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/out.$i"
	done
	[ "$(echo gpumem.*.1.gml*)" = "$(echo gpumem.*.1.gml{,.1,.2,.3,.4,.5,.6,.7})" ]
	whole *
	jq -e '.logs | all(.pid == 1)' "$BATS_TEST_TMPDIR/json"
	"$TOOL" --json | jq -e '.logs | length == 8'
}
