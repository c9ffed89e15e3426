# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the .bats files about gpumemstat. Run in the build folder.
. "${BASH_SOURCE%/*}/../refute.bash"
TOOL=$PWD/gpumemstat
DEMO=$PWD/tests/workloads/demo
SIM=$PWD/tests/sim/lib
MKLOG=$PWD/tests/cli/mklog
CUT=$PWD/tests/cli/libcut.so
MKIMAGE=$PWD/tests/cli/mkimage

# gpumemstat preloads the library before a sanitizer's runtime, and shells that it starts have leaks at their
# end.
export LC_ALL=C COLUMNS=80 PYTHONDONTWRITEBYTECODE=1 ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
unset NO_COLOR GPUMEM_LOG GPUMEM_LOG_NAME GPUMEM_MODE GPUMEM_LIMIT SLURM_JOB_ID SLURM_PROCID

# The process BACKGROUND of a test ends with the test, also when the test fails.
teardown() {
	[ -z "${BACKGROUND:-}" ] || kill -KILL "$BACKGROUND" 2>/dev/null || true
}

setup() {
	export LD_LIBRARY_PATH=$SIM
	cd "$BATS_TEST_TMPDIR" || return 1
	[ -z "$TEST_UNDER" ] || under_valgrind
}

# Under valgrind, TOOL is a script of one word.
under_valgrind() {
	printf '#!/bin/sh\nexec %s %s "$@"\n' "$TEST_UNDER" "$TOOL" >"$BATS_FILE_TMPDIR/gpumemstat"
	chmod +x "$BATS_FILE_TMPDIR/gpumemstat"
	TOOL=$BATS_FILE_TMPDIR/gpumemstat
}

# expect STATUS STDERR ARGUMENT...: standard output is empty, standard error is exactly STDERR.
expect() {
	local status=0
	"$TOOL" "${@:3}" >out 2>err || status=$?
	diff -u <(printf '%s\n' "$2") err
	[ ! -s out ]
	[ "$status" -eq "$1" ] || { echo "exit $status, not $1: ${*:3}"; return 1; }
}

# mklog NAME WORD...: write a log by the words of mklog.c, with the command line `train WORD...`.
mklog() {
	(unset GPUMEM_PREWARM && export GPUMEM_LOG=${GPUMEM_LOG:-events} GPUMEM_LOG_NAME=$1 GPUMEM_LOG_EVENTS=all && exec -a train "$MKLOG" "${@:2}")
}
