#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# expressions on the simulated driver, by four threads: values and derivatives are the CPU's, natively and
# preloaded, and every object is deleted; options.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program expressions
}

@test "values and derivatives are the CPU's in both ways, and so is the number of objects" {
	local depth
	for depth in 0 1 3 6; do
		"$PROGRAM" --verify -n 300 --depth=$depth --space=64Mi >out
		[ "$(values way out | paste -sd' ')" = 'bump new' ]
		[ "$(grep -c ' verified=yes ' out)" -eq 2 ]
		[ "$(values checksum out | sort -u | wc -l)" -eq 1 ]
		[ "$(values objects out | sort -u | wc -l)" -eq 1 ]
	done
	# A number or x, and its derivative.
	"$PROGRAM" --verify -n 300 --depth=0 -w new >out
	[ "$(values objects out)" = 600 ]
	# Nested, they are many more.
	"$PROGRAM" --verify -n 300 --depth=4 -w new >out
	[ "$(values objects out)" -gt 9000 ]
}

@test "x changes the values" {
	"$PROGRAM" --verify -n 300 -w new -x 0 >zero
	"$PROGRAM" --verify -n 300 -w new -x 4000000000 >large
	grep -q ' verified=yes ' zero
	grep -q ' verified=yes ' large
	[ "$(values checksum zero)" != "$(values checksum large)" ]
}

@test "repeated runs print the same" {
	"$PROGRAM" --verify --untimed -n 300 --repeat=3 >out
	[ "$(wc -l <out)" -eq 6 ]
	[ "$(sort -u out | wc -l)" -eq 2 ]
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- --verify --untimed -n 300
	preloaded "$@"
	leaks_nothing "$@"
}

@test "wrong trees, wrong derivatives and remaining objects are found and reported, with status 1" {
	finds 3 OBJECTS_SIM_WRONG bump -n 300 <<-'END'
		tree|the values differ from the CPU's
		slope|the derivatives differ from the CPU's
		kept|not every object was deleted
	END
}

@test "a device that is too small is reported" {
	too_small 4M
}

@test "a line has each key once; --help names every option" {
	"$PROGRAM" --verify -n 10 -w new >out
	[ "$(keys out)" = "way trees objects checksum verified total_ms make_ms value_ms derive_ms simplify_ms slope_ms delete_ms" ]
	helps way trees depth x space heap repeat verify untimed
}

@test "wrong options: one line with the reason, status 2, and no other output" {
	refuses 7 <<-'END'
		--way=malloc|--way=malloc: bump and new are possible
		--trees=0|--trees=0: 1 to 16000000 are possible
		--depth=9|--depth=9: 0 to 8 are possible
		-x 5G|--x=5G: 0 to 4294967295 are possible
		--space=x|--space=x: not a number
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
}
