#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# hostarrays on the simulated driver, by four threads: both results are the CPU's, natively and preloaded; options.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program hostarrays
}

@test "K-means and the sparse matrix are the CPU's" {
	"$PROGRAM" --verify --points=3000 --dims=5 --clusters=7 --rows=2000 --length=9 --steps=6 >out
	[ "$(values way out | paste -sd' ')" = 'kmeans spmv' ]
	[ "$(grep -c ' verified=yes ' out)" -eq 2 ]
	[ "$(values steps out | paste -sd' ')" = '6 6' ]
	# Rows of 1 to 17 entries.
	[ "$(values items out | head -n 1)" = 3000 ]
	[ "$(values items out | tail -n 1)" -gt 17000 ]
	[ "$(values items out | tail -n 1)" -lt 19000 ]
}

@test "K-means ends when no point changes its cluster" {
	"$PROGRAM" --verify -c kmeans --points=1000 --clusters=4 --steps=1000 >out
	grep -q ' verified=yes ' out
	[ "$(values steps out)" -gt 2 ]
	[ "$(values steps out)" -lt 1000 ]
}

@test "each step changes the result" {
	"$PROGRAM" --verify --points=3000 --rows=2000 --steps=1 >one
	"$PROGRAM" --verify --points=3000 --rows=2000 --steps=2 >two
	[ "$(sort -u <(values checksum one) <(values checksum two) | wc -l)" -eq 4 ]
	[ "$(cat one two | grep -c ' verified=yes ')" -eq 4 ]
}

@test "the smallest: one point, one cluster, one row" {
	"$PROGRAM" --verify --points=1 --dims=1 --clusters=1 --rows=1 --length=1 >out
	[ "$(grep -c ' items=1 .* verified=yes ' out)" -eq 2 ]
	# More clusters than points.
	"$PROGRAM" --verify -c kmeans --points=3 --clusters=10 >out
	grep -q ' verified=yes ' out
}

@test "repeated runs print the same" {
	"$PROGRAM" --verify --untimed --points=3000 --rows=2000 --repeat=3 >out
	[ "$(wc -l <out)" -eq 6 ]
	[ "$(sort -u out | wc -l)" -eq 2 ]
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- --verify --untimed --points=3000 --rows=2000 --repeat=2
	preloaded "$@"
	# Six arrays and seven, twice.
	counted allocate_pool 26
	leaks_nothing "$@"
}

@test "a wrong point and a wrong row are found and reported, with status 1" {
	ARRAYS_SIM_WRONG=1 ends 1 --verify --untimed --points=3000 --rows=2000 --steps=3
	[ "$(grep -c ' verified=no$' out)" -eq 2 ]
	head -n 1 err | grep -qxE "hostarrays: kmeans: the result differs from the CPU's, which takes 3 steps"
	tail -n 1 err | grep -qxE "hostarrays: spmv: the result differs from the CPU's, which takes 3 steps"
}

@test "a device that is too small is reported" {
	too_small 4M -c spmv
}

@test "a line has each key once; --help names every option" {
	"$PROGRAM" --verify -c kmeans --points=10 >out
	[ "$(keys out)" = "way items steps checksum verified total_ms steps_ms" ]
	helps case points dims clusters rows length steps repeat verify untimed
}

@test "wrong options: one line with the reason, status 2, and no other output" {
	refuses 7 <<-'END'
		--case=fft|--case=fft: kmeans and spmv are possible
		--points=0|--points=0: 1 to 16000000 are possible
		--dims=65|--dims=65: 1 to 64 are possible
		--clusters=257|--clusters=257: 1 to 256 are possible
		--rows=x|--rows=x: not a number
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
}
