#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# dyngraph's lanes on the emulation, under ThreadSanitizer, which takes each for a thread: only atomic accesses
# that acquire and release, and synchronisations of a warp, order them. It ends a program that has a race with
# status 66. 256 lanes run at a time.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program dyngraph_race
}

ALL=aim,faim,malloc,granule

# races_not LINES OPTION...: so many runs equal the CPU's graph, and no access races with another
races_not() {
	"$PROGRAM" --pattern=uniform --delete=random --reinit=move,compact --verify --untimed "${@:2}" >out 2>err
	[ ! -s err ]
	[ "$(grep -c ' verified=yes$' out)" -eq "$1" ]
}

@test "lanes that update a graph do not race, in no layout, by a vertex and by an edge each" {
	races_not 12 -w $ALL --edges=1000 -b 200 --rounds=2 --vertices=8 --update=vertices,edges,sorted
}

@test "warps that update a graph do not race, in no layout, by a vertex and by an edge each" {
	races_not 12 -w $ALL --edges=300 -b 100 --vertices=4 --update=vertices,edges,sorted --worker=warp
}

@test "lanes and warps that update a graph together do not race, in no layout" {
	DYNGRAPH_SIM_WORKERS=$PWD/workers races_not 8 -w $ALL --edges=1000 -b 800 --update=vertices,sorted
	[ "$(grep -cE '^warps=[1-9][0-9]? lanes=[1-9][0-9]+$' workers)" -eq 16 ]
}

@test "lanes do not race in ouroGraph on any policy of the heap" {
	races_not 11 -w bump,kma,ouro-s-p,ouro-s-c,ouro-va-p,ouro-va-c,ouro-vl-p,ouro-vl-c,rw,rw-bm,corw --edges=400 -b 100 --update=edges
}

@test "a lane that writes to a vertex without its lock is found to race, in each layout" {
	local way
	for way in aim faim malloc granule; do
		DYNGRAPH_SIM_WRONG=race ends 66 -w $way --edges=400 -b 200 --update=edges --untimed
		grep -q '^WARNING: ThreadSanitizer: data race' err
	done
}
