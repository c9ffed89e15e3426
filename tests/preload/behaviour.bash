# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the .bats files: the same program natively and preloaded, on the simulated pair. Run in the build folder.
PROGRAMS=$PWD/tests/preload
SIM=$PWD/tests/sim/lib
LIBRARY=$PWD/.libs/libgpumem.so
. "${BASH_SOURCE%/*}/driver.bash"

KNOBS=()

# The simulated devices are this test's alone: preloaded processes of one user and GPU ask each other for memory.
export SIM_GPU=$$

native() {
	env LD_LIBRARY_PATH="$SIM" "$@"
}

# No log unless a test asks for one: warnings of ours would change the output. TEST_UNDER is valgrind, or
# empty.
preloaded() {
	env LD_LIBRARY_PATH="$SIM" GPUMEM_LOG=off "${KNOBS[@]}" LD_PRELOAD="${SANITIZE_LIB:+$SANITIZE_LIB:}$LIBRARY" \
		$TEST_UNDER "$@"
}

# Remove gpumem's lines that tests expect: the memory at a refused call, which programs cause on purpose; and, in
# check-ordered, a driver too old for the order of streams.
drop_notices() {
	sed -i -e '/^gpumem: out of memory o[nf] /d' -e '/ acts as defer: the driver is older than 12.5$/d' "$1"
}

# same PROGRAM [ARGUMENT]...: equal output and status.
same() {
	local there=0 here=0
	native "$PROGRAMS/$1" "${@:2}" >"$BATS_TEST_TMPDIR/native" 2>&1 || there=$?
	preloaded "$PROGRAMS/$1" "${@:2}" >"$BATS_TEST_TMPDIR/preloaded" 2>&1 || here=$?
	[ "$there" -eq 0 ]
	[ "$here" -eq 0 ]
	[ -s "$BATS_TEST_TMPDIR/native" ]
	drop_notices "$BATS_TEST_TMPDIR/preloaded"
	diff -u "$BATS_TEST_TMPDIR/native" "$BATS_TEST_TMPDIR/preloaded"
}

# calls NAME PROGRAM [ARGUMENT]...: the number of successful calls of NAME in the simulated driver.
calls() {
	local name=$1
	rm -f "$BATS_TEST_TMPDIR/trace"
	SIM_TRACE=$BATS_TEST_TMPDIR/trace preloaded "$PROGRAMS/$2" "${@:3}" >/dev/null
	grep -cx "$name 0" "$BATS_TEST_TMPDIR/trace" || true
}

# record_events STACKS: from now on programs leave every event in the file `log` of a folder of their own; TOOL reads it.
record_events() {
	TOOL=$PWD/gpumemstat
	export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 LC_ALL=C
	cd "$BATS_TEST_TMPDIR"
	KNOBS=(GPUMEM_LOG=events GPUMEM_LOG_NAME=log GPUMEM_STACKS="$1")
}
