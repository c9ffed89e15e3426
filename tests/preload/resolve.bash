# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the .bats files about ways to the driver. Run in the build folder.
PROGRAMS=$PWD/tests/preload
SIM=$PWD/tests/sim/lib
. "${BASH_SOURCE%/*}/driver.bash"
KNOBS=()

# on DRIVER PROGRAM...: natively; over DRIVER PROGRAM...: preloaded. DRIVER is `sim`, `nowhere`, or a folder
# with a libcuda.so.1.
on() {
	local variable given=("LD_LIBRARY_PATH=$(folder "$1")" ${PRELOAD:+"LD_PRELOAD=$PRELOAD"} GPUMEM_LOG=off "${KNOBS[@]}")
	if [ -z "$EMULATOR" ]; then
		env "${given[@]}" "${@:2}"
		return
	fi
	# Set for the program alone: the emulator's own loader must not see these variables.
	local only=()
	for variable in "${given[@]}"; do
		only+=(-E "$variable")
	done
	$EMULATOR "${only[@]}" "${@:2}"
}

# Programs of this machine, started by `on`, cannot load libraries for another architecture.
needs_own_machine() {
	[ -z "$EMULATOR" ] || skip "runs a program of this machine"
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

# says EXPECTED COMMAND...: status 0, and EXPECTED is the whole output.
says() {
	local output
	output=$("${@:2}" 2>&1)
	diff -u <(printf '%s\n' "$1") <(printf '%s\n' "$output")
}

# same DRIVER PROGRAM...: the same output natively and preloaded.
same() {
	local native
	native=$(on "$@" 2>&1)
	[ -n "$native" ]
	says "$native" over "$@"
}
