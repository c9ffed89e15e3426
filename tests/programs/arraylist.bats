#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# arraylist on the simulated driver, a host thread for each item of a group: the objects are the CPU's with
# each way of allocation, and at the positions that the list assigned; out of memory; options.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program arraylist
}

@test "objects are the CPU's in six ways; a group takes one block a round, an item one a request" {
	"$PROGRAM" --verify -n 640 --group=64 --rounds=5 --most=4 >out
	[ "$(values way out | paste -sd' ')" = 'fixed bump malloc item group group-bump' ]
	[ "$(grep -c ' verified=yes ' out)" -eq 6 ]
	[ "$(values checksum out | sort -u | wc -l)" -eq 1 ]
	[ "$(values allocated out | paste -sd' ')" = '0 3200 3200 3200 50 50' ]
	# Requests of 1 to 4: 2.5 objects on average; a fixed array has room for 4.
	local objects held
	objects=$(values objects out | head -n 1)
	[ "$objects" -gt 7600 ]
	[ "$objects" -lt 8400 ]
	mapfile -t held < <(values held_bytes out)
	[ "${held[0]}" -eq $((3200 * 4 * 4)) ]
	[ "${held[1]}" -eq $((objects * 4)) ]
	[ "${held[2]}" -eq $((objects * 4)) ]
	# A header of 16 bytes each, and multiples of 8 bytes.
	[ "${held[4]}" -ge $((objects * 4 + 50 * 16)) ]
	[ "${held[4]}" -le $((objects * 4 + 50 * 20)) ]
	[ "${held[4]}" = "${held[5]}" ]
}

@test "groups of any size, the last one not full" {
	local group
	for group in 1 2 3 31 64 100; do
		"$PROGRAM" --verify -n 130 --group=$group --rounds=3 --most=7 -w group,group-bump >out
		[ "$(grep -c ' verified=yes ' out)" -eq 2 ]
		[ "$(values allocated out | head -n 1)" -eq $(((130 + group - 1) / group * 3)) ]
	done
}

@test "every position is read, or as many as --reads, evenly" {
	"$PROGRAM" --verify -n 100 --group=32 -w item,group --reads=1M >out
	[ "$(values reads out)" = "$(values objects out)" ]
	"$PROGRAM" --verify -n 100 --group=32 -w item,group,malloc --reads=10 >out
	[ "$(values reads out | paste -sd' ')" = '10 10 10' ]
	[ "$(grep -c ' verified=yes ' out)" -eq 3 ]
}

@test "the smallest: one item, one request, one object" {
	"$PROGRAM" --verify -n 1 --rounds=1 --most=1 --group=1 >out
	[ "$(grep -c ' objects=1 .* verified=yes ' out)" -eq 6 ]
}

@test "repeated runs print the same" {
	"$PROGRAM" --verify --untimed -n 200 --group=50 --repeat=3 >out
	[ "$(wc -l <out)" -eq 18 ]
	[ "$(sort -u out | wc -l)" -eq 6 ]
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- --verify --untimed -n 200 --group=50
	preloaded "$@"
	leaks_nothing "$@"
}

@test "a lost request, a wrong object and a wrong position are found and reported, with status 1" {
	finds 3 LIST_SIM_WRONG group -n 100 --group=32 <<-'END'
		lost|the objects differ from the CPU's
		value|the objects differ from the CPU's
		position|what positions read differs from the objects that are there
	END
}

@test "a device that is too small is reported" {
	too_small 4M -n 1M
}

@test "a line has each key once; --help names every option" {
	"$PROGRAM" --verify -n 10 -w fixed >out
	[ "$(keys out)" = "way items objects checksum verified allocated held_bytes reads total_ms read_ms finish_ms" ]
	helps way items rounds most group reads heap repeat verify untimed
}

@test "wrong options: one line with the reason, status 2, and no other output" {
	refuses 8 <<-'END'
		--way=new|--way=new: fixed, bump, malloc, item, group and group-bump are possible
		--items=0|--items=0: 1 to 16000000 are possible
		--most=1025|--most=1025: 1 to 1024 are possible
		--group=1025|--group=1025: 1 to 1024 are possible
		--rounds=x|--rounds=x: not a number
		-n 16M --rounds=1000|--items, --rounds and --most: their product is at most 2Gi
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
}
