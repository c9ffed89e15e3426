#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# What a build says of malloc in kernels: make and quickstart by tools/inkernel.sh. doctor.bats has what doctor says.
source "$BATS_TEST_DIRNAME/cli.bash"
SOURCE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
BUILD=$PWD
STAYS="malloc in kernels stays the driver's: no nvcc, nvlink and fatbinary were found for this build"

# of WORDS...: a build folder whose policies have the code that words of mkimage describe: policy=word,word
of() {
	rm -rf made
	mkdir -p made/src/takeover
	ln -s "$BUILD/gpumemstat" made
	echo '#define GM_HELPERS 1' >made/config.h
	"$MKIMAGE" made/src/takeover/empty.fatbin fatbin cubin:75 cubin:90 cubin:120
	for policy; do
		"$MKIMAGE" "made/src/takeover/${policy%%=*}.fatbin" fatbin $(tr , ' ' <<<"${policy#*=}")
	done
	[ "$("$SOURCE/tools/inkernel.sh" made)" = "malloc in kernels can be taken over by $EXPECTED" ] || {
		"$SOURCE/tools/inkernel.sh" made
		return 1
	}
}

@test "the policies that a build has, and those that it lacks, are shown" {
	all=cubin:75,cubin:90,cubin:120
	EXPECTED='granule' of granule=$all
	EXPECTED='bump, granule, rw-bm; left out, for want of stack: kma, ouro-s-c' of bump=$all granule=$all kma=ptx:75 \
		ouro_s_c=ptx:75 rw_bm=$all
	EXPECTED='corw (not on sm_90 sm_120), granule' of corw=cubin:75 granule=$all
}

@test "doctor says whether this build has device heaps" {
	if grep -q '^#define GM_HELPERS 1' "$BUILD/config.h"; then
		"$SOURCE/tools/inkernel.sh" "$BUILD" >out
		[ "$(wc -l <out)" -eq 1 ]
		for file in "$BUILD"/src/takeover/*.fatbin; do
			policy=$(basename "$file" .fatbin | tr _ -)
			[ "$policy" = empty ] || grep -qE "[ ,]$policy(,|;| \(|\$)" out || { echo "$policy"; cat out; return 1; }
		done
	else
		[ "$("$SOURCE/tools/inkernel.sh" "$BUILD")" = "$STAYS" ]
	fi
}

@test "a build without nvcc says so in its last line, and quickstart does" {
	[ ! -f "$SOURCE/config.status" ] || skip "the source folder is configured itself"
	cuda=$(sed -n 's/^CUDA_HOME = //p' "$BUILD/Makefile")
	NVCC=/none/nvcc "$SOURCE/configure" --quiet --with-cuda="$cuda" >out 2>&1 || { cat out; return 1; }
	[ "$(bash "$SOURCE/tools/inkernel.sh" .)" = "$STAYS" ]
	env -u MAKEFLAGS -u MAKELEVEL make -n --no-print-directory all-am >commands
	[ "$(tail -n 1 commands)" = "bash $SOURCE/tools/inkernel.sh ." ] || { tail -n 3 commands; return 1; }
	grep -q 'say "$(tools/inkernel.sh "$folder")"' "$SOURCE/quickstart"
}
