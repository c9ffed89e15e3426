#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# smallnodes on the simulated driver, one thread after the other: the tree and the queue are the CPU's, natively and preloaded; lack
# of memory; options.

setup() {
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	. "$BATS_TEST_DIRNAME/../refute.bash"
	NODES=$PWD/tests/programs/smallnodes TOOL=$PWD/gpumemstat
	export LD_LIBRARY_PATH=$PWD/tests/sim/lib GPUMEM_LOG=off LC_ALL=C
	cd "$BATS_TEST_TMPDIR" || return 1
}

# The value of that key in each line: values KEY FILE
values() {
	grep -oE " $1=[^ ]*" "$2" | cut -d= -f2
}

@test "tree and queue are the CPU's in both ways; each node is allocated once" {
	"$NODES" --verify --edges=5000 --keys=300 --states=500 --symbols=40 >out
	[ "$(values way out | paste -sd' ')" = 'bump malloc bump malloc' ]
	[ "$(values case out | paste -sd' ')" = 'tree tree queue queue' ]
	[ "$(grep -c ' verified=yes ' out)" -eq 4 ]
	[ "$(values items out | head -n 2 | sort -u)" = 5000 ]
	# All 300 keys come: a node each, and an edge each.
	[ "$(values allocated out | head -n 2 | sort -u)" = 5300 ]
	[ "$(values allocated out | tail -n 2)" = "$(values items out | tail -n 2)" ]
	# Three states lie behind each: after a few symbols most of 500 are in the queue, of 40 queues.
	[ "$(values items out | tail -n 1)" -gt 15000 ]
	[ "$(values items out | tail -n 1)" -le 20000 ]
}

@test "the smallest: one edge, one key, one state" {
	"$NODES" --verify --edges=1 --keys=1 --states=1 --symbols=3 >out
	[ "$(grep -c ' verified=yes ' out)" -eq 4 ]
	[ "$(values items out | paste -sd' ')" = '1 1 4 4' ]
	[ "$(values allocated out | paste -sd' ')" = '2 2 4 4' ]
}

@test "runs can be repeated, and print the same" {
	"$NODES" --verify --untimed --edges=5000 --keys=300 --states=500 --symbols=40 --repeat=3 >out
	[ "$(wc -l <out)" -eq 12 ]
	[ "$(sort -u out | wc -l)" -eq 4 ]
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- --verify --untimed --edges=5000 --keys=300
	"$NODES" "$@" >native
	GPUMEM_LOG=small GPUMEM_LOG_NAME=run.gml LD_PRELOAD=$GPUMEM_TEST_PRELOAD "$NODES" "$@" >preloaded 2>err
	[ ! -s err ]
	diff -u native preloaded
	"$TOOL" summary --json run.gml >json
	grep -qE '"allocate_driver": *0[,}]' json
	grep -qE '"allocate_pool": *[1-9]' json
	SIM_LEAKS=1 "$NODES" "$@" >out 2>err
	refute grep 'leaked allocation' err
}

@test "a wrong edge and a wrong state are found, said, and make the status 1" {
	local status=0
	NODES_SIM_WRONG=1 "$NODES" --verify --untimed -w malloc >out 2>err || status=$?
	[ "$status" -eq 1 ]
	[ "$(grep -c ' verified=no$' out)" -eq 2 ]
	head -n 1 err | grep -qxE "smallnodes: tree, malloc: the result differs from the CPU's, which has 65536 items"
	tail -n 1 err | grep -qxE "smallnodes: queue, malloc: the result differs from the CPU's, which has [0-9]+ items"
}

@test "a device that is too small is said" {
	local status=0
	SIM_MEMORY=4M "$NODES" >out 2>err || status=$?
	[ "$status" -eq 1 ]
	[ ! -s out ]
	grep -qE '^smallnodes: the device has no [0-9]+ bytes: ' err
}

@test "a line has each key once; --help names every option" {
	local option
	"$NODES" --verify -c tree -w bump >out
	[ "$(tr ' ' '\n' <out | tail -n +2 | cut -d= -f1 | paste -sd' ')" = "way case items checksum verified allocated total_ms finish_ms" ]
	"$NODES" --help >out
	for option in case way edges keys states symbols heap repeat verify untimed help; do
		grep -qE "^ .* --$option\b" out
	done
}

# Options, and what is said of them after "smallnodes: ".
wrong() {
	cat <<-'END'
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

@test "wrong options: one line that says why, status 2, and nothing else" {
	local options said status rows=0
	while IFS='|' read -r options said; do
		status=0
		# shellcheck disable=SC2086
		(exec -a smallnodes "$NODES" $options) >out 2>err || status=$?
		echo "$options: $(cat err)"
		[ "$(cat err)" = "smallnodes: $said" ]
		[ "$status" -eq 2 ]
		[ ! -s out ]
		rows=$((rows + 1))
	done < <(wrong)
	[ "$rows" -eq 8 ]
}
