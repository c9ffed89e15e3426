#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# oocmap and oocstencil on the simulated driver: right results in every mode, natively and preloaded; their
# copied bytes equal the log's counts; wrong options. tests/unit/test_ooc_plan tests their plans.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program oocstencil
	PROGRAMS=${PROGRAM%/*}
}

# equal KEY FILE WORD...: the key has one value in all lines of FILE that have the words
equal() {
	local lines=$2 word
	for word in "${@:3}"; do
		grep -F " $word " "$lines" >"$lines.$word"
		lines=$lines.$word
	done
	[ "$(wc -l <"$lines")" -ge 2 ]
	[ "$(values "$1" "$lines" | sort -u | wc -l)" -eq 1 ]
}

@test "every mode, number of streams and of steps gives the CPU's result, out of core by rounds" {
	local steps
	for program in oocmap oocstencil; do
		"$PROGRAMS/$program" --verify --untimed -n 100003 -t 0,1,2,7,64 -s 1,2,3,8 --room=120k >out
		[ "$(wc -l <out)" -eq 45 ]
		[ "$(grep -c ' verified=yes$' out)" -eq 45 ]
		for steps in 0 1 2 7 64; do
			equal checksum out "steps=$steps"
		done
		[ "$(values checksum out | sort -u | wc -l)" -eq 5 ]
		[ "$(grep 'mode=out-of-core' out | values rounds /dev/stdin | sort -n | head -n 1)" -ge 3 ]
		[ "$(grep 'mode=out-of-core' out | values device_bytes /dev/stdin | sort -n | tail -n 1)" -le 120000 ]
	done
	# Two sweeps, with dependent tiles.
	grep -q '^oocstencil mode=streamed .* steps=7 streams=8 rounds=1 sweeps=2 tiles=16 ' out
	grep -q '^oocstencil mode=in-core .* steps=7 streams=0 rounds=1 sweeps=1 tiles=1 ' out
}

@test "two arrays are copied to the device and one back; a stencil by rounds copies the edges of tiles, too" {
	"$PROGRAMS/oocmap" --untimed -n 1000 -t 3 -s 4 --room=800 >out
	[ "$(values to_device_bytes out | sort -u)" = 8000 ]
	[ "$(values to_host_bytes out | sort -u)" = 4000 ]
	# 4 tiles of 250 cells. In: 253 and 253 of the even ones, 247 + 4 + 4 and 247 + 4 of the odd ones, of both
	# arrays. Out: 506 of the even ones and three edges of 3 cells of the other array, then 253 and 250.
	"$PROGRAMS/oocstencil" --untimed -n 1000 -t 3 -s 2 --mode=streamed,out-of-core --room=4200 >out
	grep -q '^oocstencil mode=streamed .* tiles=4 .* to_device_bytes=8000 to_host_bytes=4000 ' out
	grep -q '^oocstencil mode=out-of-core .* rounds=1 sweeps=2 tiles=4 device_bytes=4080 to_device_bytes=8096 to_host_bytes=4072 ' out
}

@test "the same, preloaded, from pageable and from pinned memory; the log has the copied bytes" {
	local program host
	for program in oocmap oocstencil; do
		for host in pageable pinned; do
			set -- --verify --untimed -n 300007 -t 1,6,9 -s 1,5 --room=500k --host=$host
			PROGRAM=$PROGRAMS/$program
			preloaded "$@"
			[ "$(grep -c " host=$host .* verified=yes$" native)" -eq 15 ]
			for way in to_device:h2d to_host:d2h; do
				counted "copy_${way#*:}_bytes" "$(($(values "${way%:*}_bytes" native | paste -sd+)))"
			done
			# Two arrays in each of 15 runs.
			counted allocate_pool 30
		done
	done
}

@test "arrays larger than the device are copied through it by rounds, natively and preloaded" {
	export SIM_MEMORY=64M
	local program preload
	for program in oocmap oocstencil; do
		for preload in '' "$GPUMEM_TEST_PRELOAD"; do
			LD_PRELOAD=$preload "$PROGRAMS/$program" --verify --untimed -n 20M -t 3 --mode=out-of-core --repeat=2 >out
			[ "$(values verified out | sort | uniq -c)" = "      2 yes" ]
			sed -i 1d out
			[ "$(values rounds out)" -ge 2 ]
			[ "$(values device_bytes out)" -gt 30000000 ]
			[ "$(values device_bytes out)" -lt 67108864 ]
			status=0
			LD_PRELOAD=$preload "$PROGRAMS/$program" -n 20M --mode=in-core >out 2>err || status=$?
			[ "$status" -eq 1 ]
			[ ! -s out ]
			grep -vE '^gpumem: out of memory on device 0' err >said
			[ "$(cat said)" = "$program: in-core: two arrays of 80000000 bytes do not fit into the memory of the device: use --mode=out-of-core, or a smaller --room" ]
		done
	done
}

@test "a wrong cell is found and reported, with status 1" {
	for NAME in oocmap oocstencil; do
		PROGRAM=$PROGRAMS/$NAME
		OOC_SIM_WRONG=1 ends 1 --verify -n 1000 -t 2 -s 4 --mode=streamed
		grep -q ' verified=no ' out
		grep -qE "^$NAME: [1-9][0-9]* of 1000 elements differ from the CPU's$" err
		OOC_SIM_WRONG=1 "$PROGRAM" -n 1000 -t 2 --mode=streamed >out
		refute grep verified out
	done
}

@test "a line has each key once, and times are positive; --repeat prints it again" {
	"$PROGRAMS/oocstencil" -n 1M -t 2 --repeat=2 --mode=streamed >out
	[ "$(wc -l <out)" -eq 2 ]
	[ "$(keys out)" = "mode host elements steps streams rounds sweeps tiles device_bytes to_device_bytes to_host_bytes checksum total_ms to_device_ms kernel_ms to_host_ms link_gbs gbs gflops" ]
	equal checksum out
	for key in total_ms link_gbs gbs gflops; do
		refute grep -E " $key=(0 |-|nan|inf)" out
	done
	# 16 bytes and 5 operations a cell and step.
	values gbs out | paste -d' ' - <(values gflops out) | awk '{if ($1 / $2 < 3.199 || $1 / $2 > 3.201) exit 1}'
	"$PROGRAMS/oocmap" -n 3k --mode=in-core | grep -q ' elements=3000 .* streams=0 '
	"$PROGRAMS/oocmap" -n 2Ki --mode=in-core | grep -q ' elements=2048 '
}

# Computed independently, in Python.
@test "the checksum is that of the result: the sum of each element's bits times 2 i + 1" {
	"$PROGRAMS/oocmap" -n 300007 -t 3 >out
	[ "$(values checksum out | sort -u)" = 37edddb99607207a ]
	"$PROGRAMS/oocstencil" -n 300007 -t 3 >out
	[ "$(values checksum out | sort -u)" = 279c0490166cbf8b ]
}

@test "--help names every option" {
	helps elements steps mode streams room host repeat verify untimed
}

@test "wrong options: one line with the reason, status 2, and no other output" {
	refuses 27 <<-'END'
		--elements=0|--elements=0: 1 to 4398046511104 are possible
		--elements=-1|--elements=-1: not a number, as 64, 20M or 2Gi
		--elements=|--elements=: not a number, as 64, 20M or 2Gi
		--elements=1.5M|--elements=1.5M: not a number, as 64, 20M or 2Gi
		--elements=20MB|--elements=20MB: not a number, as 64, 20M or 2Gi
		--elements=5T|--elements=5T: 1 to 4398046511104 are possible
		--elements=18446744073709551616|--elements=18446744073709551616: 1 to 4398046511104 are possible
		--elements=99999999999999999T|--elements=99999999999999999T: 1 to 4398046511104 are possible
		--elements=18446744073709552k|--elements=18446744073709552k: 1 to 4398046511104 are possible
		--room=18446744073709551616|--room=18446744073709551616: 8 to 18446744073709551615 are possible
		--streams=0|--streams=0: 1 to 1024 are possible
		--streams=1,1025|--streams=1025: 1 to 1024 are possible
		--streams=1,,2|--streams=: not a number, as 64, 20M or 2Gi
		--streams=1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8|--streams: more than 16 values
		--steps=3G|--steps=3G: 0 to 2147483648 are possible
		--steps=x|--steps=x: not a number, as 64, 20M or 2Gi
		--steps=0000000000000000000000000000000000001|--steps=00000000000000000000...: not a value
		--mode=slow|--mode=slow: in-core, streamed and out-of-core are possible
		--host=here|--host=here: pageable and pinned are possible
		--repeat=0|--repeat=0: 1 to 1000000 are possible
		--room=7|--room=7: 8 to 18446744073709551615 are possible
		--elements=4T|4000000000000 elements: 32000000000000 bytes are more than the memory of the host
		-n 1000 -s 128 -t 64 --room=1M|streamed: 256 tiles of 1000 elements have 3 each; 64 steps need more than that: use fewer streams or steps
		-n 100k -m out-of-core -t 64 --room=8000|out-of-core: a room of 1000 elements gives each of 8 streams 125; 64 steps need at least 198
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
		--room|option '--room' requires an argument
	END
}

@test "oocmap and oocstencil report a missing device" {
	SIM_DEVICES=0 ends 1 -n 1000
	[ "$(wc -l <err)" -eq 1 ]
	grep -q '^oocstencil: cudaMemGetInfo' err
}

# The cases of tests/gpu/run.sh, on a simulated device.
@test "run.sh compares them natively and preloaded, and asserts the bytes copied" {
	command -v python3 >/dev/null || skip "python3 is not installed"
	[ -z "$SANITIZE_LIB$TEST_UNDER" ] || skip "run.sh starts programs without a sanitizer's runtime"
	mkdir bundle bin
	# A hundredth of the elements: run.sh ends a row after 120 s, and a simulated device is slow.
	sed 's/-n 5000011\(.*\) --room=10M/-n 50011\1 --room=100K/' "$BATS_TEST_DIRNAME/../gpu/run.sh" >bundle/run.sh
	[ "$(grep -c 'n 50011 .*--room=100K' bundle/run.sh)" -eq 4 ]
	cp "$PROGRAMS/oocmap" "$PROGRAMS/oocstencil" "$TOOL" bundle/
	cp -L "${TOOL%/*}/.libs/libgpumem.so" bundle/
	printf '%s\n' '#!/bin/sh' 'case $1 in -L) echo GPU 0: ;; *) echo Simulated, 1, 2 ;; esac' >bin/nvidia-smi
	printf '%s\n' '#!/bin/sh' 'echo 512 1' >bundle/pair
	chmod +x bin/nvidia-smi bundle/pair
	unset GPUMEM_LOG
	PATH=$PWD/bin:$PATH bash bundle/run.sh results oocmap oocmap_pinned oocstencil oocstencil_pinned >out
	grep -qx '8 passed, 0 failed, 0 skipped' out
	grep -qx 'ok    oocmap: 28 lines equal, natively and preloaded' out
	grep -qx 'ok    oocstencil: 56 allocations served by the pool, 0 by the driver; logs: 1' out
	# A program that prints other numbers than it copies.
	mv bundle/oocmap bundle/real
	printf '%s\n' '#!/bin/sh' './real "$@" | sed "1s/to_host_bytes=[0-9]*/to_host_bytes=1/"' >bundle/oocmap
	chmod +x bundle/oocmap
	status=0
	PATH=$PWD/bin:$PATH bash bundle/run.sh results oocmap >out || status=$?
	[ "$status" -eq 1 ]
	grep -qE '^no    oocmap: copies to devices and back, bytes: [0-9 ]+ in the logs, [0-9 ]+ said$' out
}
