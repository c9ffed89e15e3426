#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Managed memory in a sleep goes to the host, as far as host memory has room for it beside all else.

setup() {
	. "$BATS_TEST_DIRNAME/sleep.bash"
	sleep_setup
	export SIM_MEMORY=1G
	needs_driver 12.5
}

teardown() {
	sleep_teardown
}

# sleeps_with MIB: the process sleeps; so much managed memory stays on the device and is named. 0: none.
sleeps_with() {
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	if [ "$1" -eq 0 ]; then
		refute grep -q cudaMallocManaged <<<"$output"
	else
		grep -qE "; $1(\.0+)? MiB of cudaMallocManaged$" <<<"$output"
	fi
	says where asleep
}

@test "managed memory leaves the device, what the driver refuses stays and is named, and contents are right" {
	begin
	says 'managed 16' made
	says 'fail cuMemPrefetchAsync 1' 'done'
	sleeps_with 16
	says check right
	says where awake
	sleeps_with 0
	says check right
	ends
}

@test "managed memory for which host memory lacks room stays and is named; the process sleeps anyway" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip 'ThreadSanitizer takes several times the memory'
	group_make 700
	begin
	says 'managed 160' made
	echo "$SLEEPER" >"$GROUP/cgroup.procs"
	says 'host 480' used
	sleeps_with 160
	says check right
	says 'host 0' used
	sleeps_with 0
	says check right
	ends
}

@test "managed memory of one device takes no host memory that another device's pool needs" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip 'ThreadSanitizer takes several times the memory'
	export SIM_DEVICES=2
	group_make 700
	begin
	says 'managed 160' made
	says 'second 160' made
	echo "$SLEEPER" >"$GROUP/cgroup.procs"
	says 'host 380' used
	sleeps_with 160
	says 'host 0' used
	says check right
	ends
}

@test "host memory that the store keeps is no room for managed memory" {
	[[ $SANITIZE_LIB != *tsan* ]] || skip 'ThreadSanitizer takes several times the memory'
	KNOBS+=(GPUMEM_SLEEP_STORE=300M GPUMEM_TRIM_AFTER=0)
	group_make 1100
	begin
	says 'managed 300' made
	says 'big 300' 'done'
	echo "$SLEEPER" >"$GROUP/cgroup.procs"
	tool sleep "$SLEEPER"
	[ "$status" -eq 0 ]
	says check right
	says 'big 0' 'done'
	says 'host 500' used
	sleeps_with 300
	says 'host 0' used
	says check right
	ends
}
