#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# barneshut on the simulated driver, by four threads: accelerations and places equal the CPU's bit by bit, and
# are near those of all pairs; out of memory; options.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program barneshut
}

# error_between LEAST MOST FILE: the error of the file's only line is between these numbers
error_between() {
	awk -v error="$(values error "$3")" -v least="$1" -v most="$2" 'BEGIN {exit !(error != "" && error >= least && error <= most)}'
}

@test "bump and malloc give the CPU's bits; a tree has a cell wherever two bodies are, and each cell is freed" {
	"$PROGRAM" --verify -n 3000 -s 3 >out
	[ "$(values way out | paste -sd' ')" = 'bump malloc' ]
	[ "$(grep -c ' verified=yes ' out)" -eq 2 ]
	[ "$(values checksum out | sort -u | wc -l)" -eq 1 ]
	# In Plummer's sphere, 0.4 to 0.7 cells a body and step; a thread makes at most one unused cell.
	local allocated
	for allocated in $(values allocated out); do
		[ "$allocated" -gt $((3000 * 3 * 4 / 10)) ]
		[ "$allocated" -lt $((3000 * 3 * 7 / 10 + 3000 * 3)) ]
	done
}

@test "no opening angle: all pairs; a wide one: less exact, and other bits" {
	"$PROGRAM" --verify -n 500 -s 1 -w malloc --angle=0 >all
	error_between 0 1e-5 all
	"$PROGRAM" --verify -n 500 -s 1 -w malloc --angle=1000 >wide
	error_between 1e-3 1e-1 wide
	[ "$(values checksum all)" != "$(values checksum wide)" ]
}

@test "few bodies and the widest angle: the CPU's bits, but too far from all pairs, which is reported" {
	ends 1 --verify -n 30 -s 1 -w bump --angle=2000
	error_between .4001 .6 out
	grep -q ' verified=no ' out
	grep -qxE 'barneshut: bump: error 0\.[0-9]+ beside all pairs, not at most 0\.4' err
}

@test "few levels: lists of bodies in the slots of the last cells; their order has no effect" {
	local levels
	for levels in 1 2 5; do
		"$PROGRAM" --verify -n 400 -s 2 --levels=$levels >out
		[ "$(grep -c ' verified=yes ' out)" -eq 2 ]
	done
	# One level is the root, which has all bodies: all pairs.
	"$PROGRAM" --verify -n 400 -s 1 --levels=1 -w bump >out
	[ "$(values allocated out)" = 1 ]
	error_between 0 1e-5 out
}

@test "the smallest: one body feels nothing, two feel each other" {
	"$PROGRAM" --verify -n 1 -s 2 >out
	[ "$(grep -c ' verified=yes error=0 allocated=2 ' out)" -eq 2 ]
	"$PROGRAM" --verify -n 2 -s 2 >out
	[ "$(grep -c ' verified=yes ' out)" -eq 2 ]
}

@test "repeated runs print the same" {
	"$PROGRAM" --verify --untimed -n 1000 --repeat=3 >out
	[ "$(wc -l <out)" -eq 6 ]
	[ "$(sort -u out | wc -l)" -eq 2 ]
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- --verify --untimed -n 1000
	preloaded "$@"
	leaks_nothing "$@"
}

@test "a body that is not in the tree, has moved by a bit or is pulled twice as much gives status 1" {
	finds 3 OCTREE_SIM_WRONG bump -n 300 <<-'END'
		lost|the result differs from the CPU's
		moved|the result differs from the CPU's
		far|the result differs from the CPU's
	END
}

@test "cells that are not freed, too few cells and a small device are reported" {
	OCTREE_SIM_WRONG=kept ends 1 -n 300 -s 1 -w bump
	[ ! -s out ]
	grep -qxE 'barneshut: of [0-9]+ cells [0-9]+ were freed' err
	ends 1 -n 300 -w bump --cells=20
	grep -qxE 'barneshut: [0-9]+ cells had no memory: bump needs more --cells, malloc natively a larger --heap' err
	too_small 4M -n 100k
}

@test "a line has each key once; --help names every option" {
	"$PROGRAM" --verify -n 10 -w bump >out
	[ "$(keys out)" = "way bodies steps checksum verified error allocated total_ms build_ms sum_ms pull_ms finish_ms" ]
	helps way bodies steps angle levels cells heap repeat verify untimed
}

@test "wrong options: one line with the reason, status 2, and no other output" {
	refuses 8 <<-'END'
		--way=new|--way=new: bump and malloc are possible
		--bodies=0|--bodies=0: 1 to 16000000 are possible
		-n 17M|--bodies=17M: 1 to 16000000 are possible
		--levels=22|--levels=22: 1 to 21 are possible
		--angle=2001|--angle=2001: 0 to 2000 are possible
		--steps=x|--steps=x: not a number
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
}
