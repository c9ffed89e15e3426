# SPDX-License-Identifier: BSD-3-Clause
# A process that can be put to sleep, tests/preload/sleeps, and the commands that it obeys.

sleep_setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	export TOOL=$PWD/gpumemstat SIM_MEMORY=256M SIM_SHARE=$BATS_TEST_TMPDIR/device
	KNOBS=(GPUMEM_SLEEP=1)
	WITHIN=()
	SLEEPER=
	NAMER=
	GROUP=
}

sleep_teardown() {
	[ -z "$SLEEPER" ] || kill -9 "$SLEEPER" 2>/dev/null || true
	[ -z "$NAMER" ] || kill -9 "$NAMER" 2>/dev/null || true
	[ -z "$GROUP" ] || rmdir "$GROUP" 2>/dev/null || true
}

# Start the program; $SLEEPER becomes its pid.
begin() {
	local line
	mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	preloaded "${WITHIN[@]}" "$PROGRAMS/sleeps" hold <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/said" 3>&- &
	JOB=$!
	exec 7>"$BATS_TEST_TMPDIR/in" 8<"$BATS_TEST_TMPDIR/out"
	read -r line SLEEPER <&8
	[ "$line" = ready ]
}

# says COMMAND LINE: the program answers COMMAND with LINE.
says() {
	local line
	echo "$1" >&7
	read -r line <&8
	echo "$1: $line"
	[ "$line" = "$2" ]
}

# End the program. It must leave nothing in the driver that it does not leave without a sleep.
ends() {
	exec 7>&-
	wait "$JOB" || {
		cat "$BATS_TEST_TMPDIR/said"
		return 1
	}
	SLEEPER=
}

tool() {
	run "$TOOL" "$@" 7>&- 8<&-
	echo "$output"
}

# refused SENTENCE: a sleep is refused with that sentence.
refused() {
	tool sleep "$SLEEPER"
	[ "$status" -eq 1 ]
	[ "$output" = "gpumemstat: $SLEEPER: does not sleep: $1" ]
	says where awake
}

# group_make MIB: a cgroup of that much memory, v1 or v2, below this process's own; $GROUP is its folder.
group_make() {
	local own
	[ "$(id -u)" -eq 0 ] || skip 'makes a cgroup as root'
	own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
	if [ -n "$own" ]; then
		GROUP=/sys/fs/cgroup/memory$own
		[ -d "$GROUP" ] || GROUP=/sys/fs/cgroup/memory # a container's own hierarchy
		GROUP+=/gpumem-test-$$
		mkdir "$GROUP" 2>/dev/null || skip 'no cgroup can be made'
		echo "$1M" >"$GROUP/memory.limit_in_bytes"
		return
	fi
	own=$(sed -n 's/^0:://p' /proc/self/cgroup)
	GROUP=/sys/fs/cgroup${own%/}
	[ -e "$GROUP/cgroup.procs" ] || GROUP=/sys/fs/cgroup
	GROUP+=/gpumem-test-$$
	mkdir "$GROUP" 2>/dev/null || skip 'no cgroup can be made'
	echo "$1M" 2>/dev/null >"$GROUP/memory.max" || skip 'cgroups have no limit of memory here'
	echo 0 >"$GROUP/memory.swap.max" || true
}
