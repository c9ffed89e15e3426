# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the .bats files about roads to the driver. Run in the build folder.
PROGRAMS=$PWD/tests/preload
SIM=$PWD/tests/sim/lib
. "${BASH_SOURCE%/*}/driver.bash"
KNOBS=()

# on DRIVER PROGRAM...: natively; over DRIVER PROGRAM...: preloaded. DRIVER is a folder with a libcuda.so.1, or nowhere.
on() {
	env LD_LIBRARY_PATH="$(folder "$1")" ${PRELOAD:+"LD_PRELOAD=$PRELOAD"} GPUMEM_LOG=off "${KNOBS[@]}" "${@:2}"
}

over() {
	PRELOAD=$GPUMEM_TEST_PRELOAD on "$@"
}

folder() {
	case $1 in
	sim) echo "$SIM" ;;
	nowhere) echo "$BATS_TEST_TMPDIR" ;;
	*) echo "$PROGRAMS/$1" ;;
	esac
}

# says EXPECTED COMMAND...: its whole output, and status 0.
says() {
	local output
	output=$("${@:2}" 2>&1)
	diff -u <(printf '%s\n' "$1") <(printf '%s\n' "$output")
}

# same DRIVER PROGRAM...: natively and preloaded.
same() {
	local native
	native=$(on "$@" 2>&1)
	[ -n "$native" ]
	says "$native" over "$@"
}
