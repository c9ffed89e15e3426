#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# smallnodes on the simulated driver, one thread after the other: the tree and the queue are the CPU's,
# natively and preloaded; out of memory; options.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program smallnodes
}

@test "tree and queue are the CPU's in both ways; each node is allocated once" {
	"$PROGRAM" --verify --edges=5000 --keys=300 --states=500 --symbols=40 >out
	[ "$(values way out | paste -sd' ')" = 'bump malloc bump malloc' ]
	[ "$(values case out | paste -sd' ')" = 'tree tree queue queue' ]
	[ "$(grep -c ' verified=yes ' out)" -eq 4 ]
	[ "$(values items out | head -n 2 | sort -u)" = 5000 ]
	# All 300 keys occur: a node each, and an edge each.
	[ "$(values allocated out | head -n 2 | sort -u)" = 5300 ]
	[ "$(values allocated out | tail -n 2)" = "$(values items out | tail -n 2)" ]
	# Each state has three successors: after a few symbols most of 500 are in the queue, of 40 queues.
	[ "$(values items out | tail -n 1)" -gt 15000 ]
	[ "$(values items out | tail -n 1)" -le 20000 ]
}

@test "the smallest: one edge, one key, one state" {
	"$PROGRAM" --verify --edges=1 --keys=1 --states=1 --symbols=3 >out
	[ "$(grep -c ' verified=yes ' out)" -eq 4 ]
	[ "$(values items out | paste -sd' ')" = '1 1 4 4' ]
	[ "$(values allocated out | paste -sd' ')" = '2 2 4 4' ]
}

@test "repeated runs print the same" {
	"$PROGRAM" --verify --untimed --edges=5000 --keys=300 --states=500 --symbols=40 --repeat=3 >out
	[ "$(wc -l <out)" -eq 12 ]
	[ "$(sort -u out | wc -l)" -eq 4 ]
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- --verify --untimed --edges=5000 --keys=300
	preloaded "$@"
	leaks_nothing "$@"
}

@test "a wrong edge and a wrong state are found and reported, with status 1" {
	NODES_SIM_WRONG=1 ends 1 --verify --untimed -w malloc
	[ "$(grep -c ' verified=no$' out)" -eq 2 ]
	head -n 1 err | grep -qxE "smallnodes: tree, malloc: the result differs from the CPU's, which has 65536 items"
	tail -n 1 err | grep -qxE "smallnodes: queue, malloc: the result differs from the CPU's, which has [0-9]+ items"
}

@test "a device that is too small is reported" {
	too_small 4M
}

@test "a line has each key once; --help names every option" {
	"$PROGRAM" --verify -c tree -w bump >out
	[ "$(keys out)" = "way case items checksum verified allocated total_ms finish_ms" ]
	helps case way edges keys states symbols heap repeat verify untimed
}

@test "wrong options: one line with the reason, status 2, and no other output" {
	refuses 8 <<-'END'
		--case=list|--case=list: tree and queue are possible
		--way=new|--way=new: bump and malloc are possible
		--edges=0|--edges=0: 1 to 64000000 are possible
		--keys=65M|--keys=65M: 1 to 64000000 are possible
		--states=x|--states=x: not a number
		--symbols=2M|--symbols=2M: 1 to 1000000 are possible
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
}
