#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of the device heap, with a stand-in for heap.cu, which needs a GPU: the rows of heap.py,
# report.py's judgement of them, and the tables.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	export PYTHONDONTWRITEBYTECODE=1 BENCH_SECONDS=100
	SOURCE=$BATS_TEST_DIRNAME
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle
	cp "$SOURCE"/*.py bundle/
	chmod u+w bundle/*.py
}

# heap_says LINE...: a stand-in that prints these lines for any part.
heap_says() {
	printf '%s\n' '#!/bin/sh' 'cat <<END' "$@" END >bundle/heap
	chmod +x bundle/heap
}

@test "heap.py: pairs and single values become rows, for the requested policies only" {
	heap_says "pair thread/warm 16 us 20 rw-bm 40" "pair thread/warm 16 us 30 rw-bm 30" "one utilisation/granule 64 share 0.99"
	BENCH_POLICIES=rw-bm python3 bundle/heap.py out.csv . "date: today"
	grep -qx '# date: today' out.csv
	# Four parts run rw-bm, alone or with other policies; a fifth part runs each policy by itself.
	grep -E '^heap,thread/warm,16,[0-9]+,us,25,rw-bm,35,1.5,' out.csv
	grep -E '^heap,utilisation/granule,64,[0-9]+,share,0.99,' out.csv
}

@test "heap.py: a part that fails is named and keeps its rows so far; unknown words are an error" {
	heap_says "pair thread/warm 16 us 20 rw-bm 40" "error rw-bm thread 16: 1 wrong, 0 NULL"
	echo 'exit 1' >>bundle/heap
	BENCH_POLICIES=rw-bm python3 bundle/heap.py out.csv .
	grep -q '^# failed: targets rw-bm: error rw-bm thread 16: 1 wrong, 0 NULL' out.csv
	grep -q '^heap,thread/warm,16,' out.csv
	heap_says "some words"
	BENCH_POLICIES=rw-bm run python3 bundle/heap.py out.csv .
	[ "$status" -eq 1 ]
	[[ $output == *"heap.py: heap says: some words" ]]
}

# For each target a row that just meets it, and after ; a row that just misses it.
targets() {
	cat <<-'END'
		thread/warm,16,9,us,3,rw-bm,2,.67,.6,.7;thread/warm,16,9,us,3,rw-bm,2,.66,.6,.7
		mixed/warm,64,9,us,3,rw-bm,2,.67,.6,.7;mixed/warm,64,9,us,3,rw-bm,2,.66,.6,.7
		thread/cold,16,9,us,3,corw,2,.67,.6,.7;thread/cold,16,9,us,3,corw,2,.66,.6,.7
		mixed/cold,64,9,us,3,corw,2,.67,.6,.7;mixed/cold,64,9,us,3,corw,2,.66,.6,.7
		thread/free,16,9,us,3,corw,2,.67,.6,.7;thread/free,16,9,us,3,corw,2,.66,.6,.7
		mixed/free,64,9,us,3,corw,2,.67,.6,.7;mixed/free,64,9,us,3,corw,2,.66,.6,.7
		thread/churn,16,9,us,1,rw-bm,1,1.01,1,1.1;thread/churn,16,9,us,1,rw-bm,1,.99,.9,1.1
		thread/churn,16,9,us,1,corw,1,1.01,1,1.1;thread/churn,16,9,us,1,corw,1,.99,.9,1.1
		utilisation/granule,16,1,share,.95,,,,,;utilisation/granule,16,1,share,.94,,,,,
	END
}

@test "report.py holds the heap to its targets" {
	local line missed=0
	echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high >head
	{ cat head; targets | sed 's/;.*//; s/^/heap,/'; } >met.csv
	run python3 bundle/report.py met.csv
	[ "$status" -eq 0 ]
	[[ $output == *"9 of 9 targets met" ]]
	while IFS= read -r line; do
		{ cat head; targets | awk -F';' -v row="$line" '{print "heap," ($0 == row ? $2 : $1)}'; } >missed.csv
		run python3 bundle/report.py missed.csv
		[ "$status" -eq 1 ] || { echo "not noticed: $line"; return 1; }
		[[ $output == *"8 of 9 targets met" ]]
		missed=$((missed + 1))
	done < <(targets)
	[ "$missed" -eq 9 ]
	# For a size that is no power of two the slots are larger than the blocks.
	sed 's/granule,16,1,share,.95/granule,24,1,share,.75/' met.csv >other.csv
	run python3 bundle/report.py other.csv
	[[ $output == *"not measured"*"8 of 9 targets met" ]]
}

@test "heap_table.py shows the policies beside allocators of other files" {
	echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high >rows.csv
	echo heap,thread/warm,16,9,us,20,rw-bm,40,2,2,2 >>rows.csv
	unset GPUMEM_TEST_DATA
	run python3 bundle/heap_table.py rows.csv
	[[ ${lines[1]} =~ ^warm\ +16$ && ${lines[2]} =~ ^granule\ +20$ && ${lines[3]} =~ ^rw-bm\ +40$ ]]
	mkdir data
	printf '%s\n' allocator,mode,n,size,alloc_cold_us,alloc_med_us,free_med_us,status \
		gallatin,thread,1000000,16,192,97,25,ok halloc,thread,1000000,16,1,2,3,crash >data/h200_peers_thread.csv
	GPUMEM_TEST_DATA=data run python3 bundle/heap_table.py rows.csv
	[[ $output == *"(gallatin)"*"97"* && $output != *halloc* ]]
}
