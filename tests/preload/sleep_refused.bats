#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# What a process that can sleep refuses, what wakes it, and what does not.

setup() {
	. "$BATS_TEST_DIRNAME/sleep.bash"
	sleep_setup
	needs_driver 12.5
}

teardown() {
	sleep_teardown
}

@test "an open capture and an endless kernel refuse a sleep, and are named" {
	begin
	says capture 'cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED): CUDA_SUCCESS'
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: does not sleep: a capture of a stream is open" ]
	says uncapture 'cuStreamEndCapture(stream, &graph): CUDA_SUCCESS'
	says hold 'cuMemsetD8Async(blocks[0], 1, 1, stream): CUDA_SUCCESS'
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: does not sleep: the GPU is still at work" ]
	says where awake
	says release released
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
}

@test "an endless kernel after a wake refuses a sleep, although host memory of the last one is still returned" {
	begin
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says hold 'cuMemsetD8Async(blocks[0], 1, 1, stream): CUDA_SUCCESS'
	refused 'the GPU is still at work'
	says release released
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
}

@test "a sleep that is refused holds no submission of another stream" {
	KNOBS+=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	begin
	says hold 'cuMemsetD8Async(blocks[0], 1, 1, stream): CUDA_SUCCESS'
	says submit submits
	refused 'the GPU is still at work'
	says quiet quiet
	says release released
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
	"$TOOL" summary --json "$BATS_TEST_TMPDIR/log.gml" |
		jq -e '.logs[0].counters | .sleep_refused == 1 and .sleeps == 1 and .door_waits == 0'
}

@test "a process with a thread that submits all the time sleeps on request, and goes on" {
	KNOBS+=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	begin
	says submit submits
	local slept=0
	while [ $slept -lt 3 ]; do
		tool sleep "$SLEEPER"
		[ "$status" -eq 0 ]
		# Nothing is moved by a request that comes before the wake from the last sleep ends.
		[[ $output == *' 0 B moved '* ]] || slept=$((slept + 1))
	done
	says quiet quiet
	says check right
	ends
	"$TOOL" summary --json "$BATS_TEST_TMPDIR/log.gml" |
		jq -e '.logs[0].counters | .sleeps == 3 and .wakes == 3 and .sleep_refused == 0'
}

@test "questions about addresses get the answers of an awake process, and do not wake it" {
	begin
	says questions 'answered, 0 differ, asleep'
	says check right
	says questions 'answered, 0 differ, asleep'
	ends
}

@test "questions about addresses do not keep a process from sleeping by itself" {
	KNOBS+=(GPUMEM_SLEEP=20ms)
	begin
	until says where asleep; do says point device; done
	says point device
	says where asleep
	ends
}

# Memory of the simulated device is charged to the group that used it first; after the wake that is this one.
@test "a process sleeps only if its cgroup has room left for its contents: the kernel ends none" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip 'ThreadSanitizer takes several times the memory'
	group_make 700
	begin
	says 'big 160' 'done'
	echo "$SLEEPER" >"$GROUP/cgroup.procs"
	says 'host 480' used
	refused 'host memory does not suffice'
	says check right
	says 'host 0' used
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	ends
}

# A character device that only its own driver knows, as ibv_reg_mr uses one.
device() {
	local path=$BATS_TEST_TMPDIR/uverbs0
	mknod "$path" c 231 192 2>/dev/null || path=/dev/loop-control
	[ -c "$path" ] || skip 'no device can be made, and none is there'
	echo "$path"
}


@test "an open device whose driver may know physical memory refuses a sleep, and is named, until it is closed" {
	local path
	path=$(device)
	begin
	says "open $path" done
	refused "a device is open whose driver may know physical memory: $path"
	says close done
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says 'open /dev/null' done
	says check right
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	ends
}

@test "a sleep is refused after an unknown function table was requested" {
	begin
	says table 'cuGetExportTable: CUDA_SUCCESS'
	refused 'a library may submit work past gpumem, by a table of cuGetExportTable: 00000000000000000000000000000000 of the program'
	ends
}

@test "a process that had a communicator of NCCL does not sleep after the time of GPUMEM_SLEEP" {
	KNOBS+=(GPUMEM_SLEEP=20ms GPUMEM_VERBOSE=2)
	begin
	says nccl 'kernel: CUDA_ERROR_INVALID_HANDLE'
	says check right
	until grep -q 'does not sleep: the process had a communicator of NCCL, and sleeps by an order only$' "$BATS_TEST_TMPDIR/said"; do
		says where awake
	done
	ends
}

@test "loaded but unused libraries allow a sleep; those that submit work past the driver refuse it" {
	begin
	for name in libcufile.so.0 libnccl.so.2 libibverbs.so.1 libnvshmem_host.so.3 libnvoptix.so.1; do
		cp "$PROGRAMS/libucp.so.0" "$BATS_TEST_TMPDIR/$name"
		says "load $BATS_TEST_TMPDIR/$name" done
		[ "$name" != libnvoptix.so.1 ] || break
		tool sleep "$SLEEPER"
		[ "$status" -eq 0 ]
		says check right
	done
	refused 'a library is loaded that submits work past gpumem: libnvoptix.so.1'
	ends
}

@test "a function of the driver that no list has refuses a sleep, and is named, once the program asked for it" {
	begin
	for n in {1..130}; do # in no driver
		says "entry cuFile$n" none
	done
	says 'entry cuEventRecord' found
	says 'proc cuEventRecord' found
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	says 'entry cuSimBeyond' found
	refused 'the program has a function of a later driver, which may submit work past gpumem: cuSimBeyond'
	ends
}

@test "questions of a sleeping process get their answers while another process has the whole device" {
	begin
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	grep -q '; 2.00 MiB for questions about pointers$' <<<"$output"
	mkfifo "$BATS_TEST_TMPDIR/other"
	preloaded "$PROGRAMS/sleeps" hold <"$BATS_TEST_TMPDIR/other" >"$BATS_TEST_TMPDIR/full" 2>&1 3>&- 7>&- 8<&- &
	NAMER=$!
	exec 9>"$BATS_TEST_TMPDIR/other"
	echo full >&9
	until grep -q full "$BATS_TEST_TMPDIR/full"; do sleep 0.05; done
	says point device
	says room 0
	says where asleep
	exec 9>&-
	wait "$NAMER"
	NAMER=
	says check right
	ends
}

@test "a process that sleeps already is no refusal in its log" {
	KNOBS+=(GPUMEM_LOG=small GPUMEM_LOG_NAME="$BATS_TEST_TMPDIR/log.gml")
	begin
	for _ in 1 2 3; do
		tool sleep "$SLEEPER"
		[ "$status" -eq 0 ]
	done
	says check right
	ends
	"$TOOL" summary --json "$BATS_TEST_TMPDIR/log.gml" |
		jq -e '.logs[0].counters | .sleeps == 1 and .wakes == 1 and .sleep_refused == 0'
}

@test "a function of the driver that only cuGetProcAddress gives refuses a sleep, and is named" {
	begin
	says 'proc cuSimHidden' found
	refused 'the program has a function of a later driver, which may submit work past gpumem: cuSimHidden'
	ends
	rm "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	begin
	says 'proc cuSimBeyond' found
	refused 'the program has a function of a later driver, which may submit work past gpumem: cuSimBeyond'
	ends
}

@test "GPUMEM_REMAP=off keeps a process from sleeping" {
	KNOBS+=(GPUMEM_REMAP=off)
	begin
	refused 'memory keeps its addresses, by GPUMEM_REMAP=off'
	ends
}

@test "sleep and wake are refused for a process without GPUMEM_SLEEP=1, without gpumem, or with an unknown pid" {
	KNOBS=(GPUMEM_TRIM_AFTER=off)
	begin
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: it was not started with GPUMEM_SLEEP=1, or it ends" ]
	says where awake
	ends
	KNOBS=(GPUMEM_MODE=trace)
	rm "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	begin
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: no process of this user that was started with GPUMEM_SLEEP=1 and has used a GPU" ]
	tool wake 2147483647
	[ "$status" -eq 1 ]
	says where awake
	ends
}

@test "every call that submits work wakes the process" {
	begin
	awk '!/^#/ && $2 == "submits" {for (i = 3; i <= NF; i++) print $i}' "$BATS_TEST_DIRNAME/../../src/driver/exports.txt" >"$BATS_TEST_TMPDIR/calls"
	says "calls $BATS_TEST_TMPDIR/calls" all
	says check right
	ends
}
