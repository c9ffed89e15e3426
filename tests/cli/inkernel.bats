#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Messages of a build about malloc in kernels: make and quickstart by tools/inkernel.sh. doctor.bats has those
# of doctor.
source "$BATS_TEST_DIRNAME/cli.bash"
SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
BUILD=$PWD
TAKEN='malloc in kernels can be taken over, by every policy of GPUMEM_HEAP'
STAYS="malloc in kernels stays the driver's: no nvcc, nvlink and fatbinary were found for this build"

@test "a build with nvcc reports that malloc can be taken over, one without nvcc that it cannot" {
	says=$STAYS
	if grep -q '^#define GM_HELPERS 1' "$BUILD/config.h"; then says=$TAKEN; fi
	[ "$("$SOURCE/tools/inkernel.sh" "$BUILD")" = "$says" ]
	echo '#define GM_HELPERS 1' >config.h
	[ "$("$SOURCE/tools/inkernel.sh" .)" = "$TAKEN" ]
}

@test "a build without nvcc reports that in its last line, and so does quickstart" {
	[ ! -f "$SOURCE/config.status" ] || skip "the source folder is configured itself"
	cuda=$(sed -n 's/^CUDA_HOME = //p' "$BUILD/Makefile")
	NVCC=/none/nvcc "$SOURCE/configure" --quiet --with-cuda="$cuda" >out 2>&1 || { cat out; return 1; }
	[ "$(bash "$SOURCE/tools/inkernel.sh" .)" = "$STAYS" ]
	env -u MAKEFLAGS -u MAKELEVEL make -n --no-print-directory all-am >commands
	[ "$(tail -n 1 commands)" = "bash $SOURCE/tools/inkernel.sh ." ] || { tail -n 3 commands; return 1; }
	grep -q 'say "$(tools/inkernel.sh "$folder")"' "$SOURCE/quickstart"
}
