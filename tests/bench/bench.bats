#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements, on the simulated pair: every part of the suite writes its rows, and report.py judges them.
# No test depends on a time.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	export PYTHONDONTWRITEBYTECODE=1 SIM_MEMORY=1G LD_LIBRARY_PATH=$PWD/tests/sim/lib BENCH_PRELOAD=$GPUMEM_TEST_PRELOAD
	export BENCH_SECONDS=1
	BUILD=$PWD SOURCE=$BATS_TEST_DIRNAME
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle
	ln -s "$BUILD/tests/bench/client" "$BUILD/tests/bench/exec" "$BUILD/tests/bench/libempty.so" "$BUILD/gpumemstat" bundle/
	cp "$SOURCE"/*.py "$SOURCE/run.sh" bundle/
	chmod u+w bundle/*.py bundle/run.sh
	# Stand-ins for the programs of cuBLAS and PyTorch, which need a real device.
	printf '%s\n' '#!/bin/sh' 'echo ready' 'while read -r line; do echo ok 5; done' >bundle/blas
	printf '%s\n' 'import sys' 'print("ready", flush=True)' 'for line in sys.stdin:' \
		'    print({"setup": "ok", "train": "ok 7"}[line.split()[0]], flush=True)' >bundle/train.py
	chmod +x bundle/blas
	printf 'a 0 1000\na 1 3000000\nf 0\na 0 5000000\nf 1\nf 0\n' >bundle/trace.txt
}

# ask COMMAND...: print the answers of the measured program.
ask() {
	printf '%s\n' "$@" | bundle/client
}

modes() {
	echo sync
	! bundle/gpumemstat env | grep -q '^GPUMEM_FREE ' || echo defer
}

# The rows of the suite where blocks have up to 42 MiB: case size unit peer.
expected() {
	local mode log size peer n
	for mode in $(modes); do
		for peer in native async; do
			for size in 512 777 2048 3000 8192 32768 100000 131072 524288 1048576 1572864 2097152 8388608 33554432; do
				for log in '' /log=off; do echo "warm/$mode$log $size us $peer"; done
			done
			for n in 1 2 4 8 16; do
				echo "threads=$n/same/$mode 65536 pairs/s $peer"
				echo "threads=$n/mixed/$mode 4096 pairs/s $peer"
			done
			for size in 512 1048576 16777216; do
				for n in 1 8; do echo "threads=$n/same/$mode $size pairs/s $peer"; done
			done
		done
		for size in 512 1048576; do echo "free-under-kernel/$mode $size us native"; done
		echo "replay/$mode/time - us native"
		echo "replay/$mode/mapped-peak - B native"
		echo "replay/$mode/utilisation - share native"
		echo "retired-peak/$mode - B -"
	done
	for mode in native $(modes); do
		for n in 2 4 8 16; do
			echo "threads=$n/same/$mode 65536 pairs/s one thread"
			echo "threads=$n/mixed/$mode 4096 pairs/s one thread"
		done
		for size in 512 1048576 16777216; do echo "threads=8/same/$mode $size pairs/s one thread"; done
		for size in 512 1048576; do echo "free-under-kernel/$mode/waited $size frees -"; done
	done
	for size in 512 1048576 2097152 33554432; do echo "cold/sync $size us native"; done
	echo "launch/sync - ns native"
	echo "blas/sync - us native"
	echo "torch-start/sync - ms native"
	echo "train/sync - us native"
	echo "exec/sync - us empty preload"
}

@test "every part of the suite writes its rows" {
	[ -z "$SANITIZE_LIB" ] || skip "the empty library of a build with a sanitizer cannot be loaded alone"
	run bundle/run.sh pool results
	[ "$status" -eq 1 ] # too few rounds meet no target
	[[ $output == *" of "*" targets met" ]]
	local csv=(results/*-Simulated-GPU-pool.csv)
	[ -f "${csv[0]}" ]
	grep -qx '# device: Simulated GPU' "${csv[0]}"
	grep -qx '# driver: unknown' "${csv[0]}"
	grep -qx '# commit: unknown' "${csv[0]}"
	[ "$(grep '^# skipped: ' "${csv[0]}" | grep -cv '^# skipped: defer: ')" -eq 0 ]
	[ "$(grep -v '^#' "${csv[0]}" | head -n 1)" = suite,case,size,count,unit,ours,peer,theirs,ratio,low,high ]
	grep -v '^#' "${csv[0]}" | tail -n +2 >rows
	expected | sort >expected
	awk -F, -v OFS=' ' '{print $2, $3 == "" ? "-" : $3, $5, $7 == "" ? "-" : $7}' rows | sort >found
	diff -u expected found
	# Each row is well-formed. Its ratio is above 1 if ours is better.
	awk -F, '
		function number(x) {return x ~ /^[0-9.]+(e[-+][0-9]+)?$/}
		NF != 11 || $1 != "pool" || $4 < 1 || !number($6) || ($7 != "") != number($8) || ($7 == "" && $9 $10 $11 != "") {
			print "malformed: " $0; bad = 1}
		$4 == 1 && $9 != "" {
			ratio = $5 == "pairs/s" || $5 == "share" ? $6 / $8 : $8 / $6
			if (ratio / $9 < 0.999 || ratio / $9 > 1.001 || $10 $11 != "") {print "wrong ratio: " $0; bad = 1}}
		END {exit bad}' rows
	# 8,000,000 bytes are alive at the peak. 2 MiB are mapped at the start, later the missing part of a block.
	awk -F, '$2 == "replay/sync/mapped-peak" && $6 ~ /^8.38861e\+0?6$/ {n++} $2 == "replay/sync/utilisation" && $6 ~ /^0.95367/ {n++}
		END {exit n != 2}' rows
}

@test "a part that fails is named, and the others are measured" {
	rm bundle/exec bundle/trace.txt
	cp "$SOURCE/train.py" bundle/
	echo 'raise OSError("no PyTorch here")' >bundle/torch.py
	printf '%s\n' '#!/bin/sh' 'echo ready' 'read -r line' 'exit 3' >bundle/blas
	run bundle/run.sh pool results
	[ "$status" -eq 1 ]
	grep -q '^# skipped: exec: .*No such file' results/*.csv
	grep -q '^# skipped: replay: ' results/*.csv
	grep -qx '# skipped: torch: train.py: error no PyTorch here' results/*.csv
	grep -qx '# skipped: blas: blas: ended with status 3' results/*.csv
	grep -q '^pool,launch/sync,' results/*.csv
	grep -q '^pool,cold/sync,512,' results/*.csv
	! grep -qE '^pool,(exec|replay|blas|train)/' results/*.csv
}

@test "nothing is measured without a GPU" {
	SIM_DEVICES=0 run bundle/run.sh pool results
	[ "$status" -eq 77 ]
	[[ $output == "run.sh: no GPU here"* ]]
	run bundle/run.sh nothing results
	[ "$status" -eq 2 ]
	[[ $output == "run.sh SUITE RESULTS"* ]]
}

@test "a trace is replayed call for call" {
	SIM_TRACE=$PWD/calls ask "replay bundle/trace.txt" >said
	grep -Eqx 'ok [0-9.]+ 8000000 6' said
	[ "$(grep -cx 'cuMemAlloc_v2 0' calls)" -eq 3 ]
	[ "$(grep -cx 'cuMemFree_v2 0' calls)" -eq "$(($(SIM_TRACE=$PWD/none ask device >/dev/null && grep -cx 'cuMemFree_v2 0' none || true) + 3))" ]
	ask "replay_used bundle/trace.txt" | grep -Eqx 'ok 8000000 [0-9]+'
	run ask "replay nothing.txt"
	[ "$status" -eq 1 ]
	[[ $output == *"error nothing.txt: No such file or directory" ]]
	printf 'a 0 1000\nf 0 oops\n' >damaged.txt
	run ask "replay damaged.txt"
	[ "$status" -eq 1 ]
}

# first_calls COMMAND N: its first N allocations and frees after the cudaFree(NULL) that creates the context.
first_calls() {
	rm -f calls
	SIM_TRACE=$PWD/calls ask "$1" >/dev/null
	sed -n 's/^cuMem\(Alloc\|Free\)_v2 0$/\1/p; s/^cuMem\(Alloc\|Free\)Async\(_ptsz\)\? 0$/\1Async/p' calls |
		tail -n +2 | head -n "$2" | paste -sd ' '
}

@test "a small warm pair has a neighbour, a large one has none" {
	[ "$(first_calls 'pair plain 512 1' 4)" = "Alloc Alloc Free Alloc" ]
	[ "$(first_calls 'pair plain 2097152 1' 4)" = "Alloc Free Alloc Free" ]
	[ "$(first_calls 'pair ordered 2097152 1' 4)" = "AllocAsync FreeAsync AllocAsync FreeAsync" ]
	[ "$(first_calls 'threads plain 1 512 same 1' 4)" = "Alloc Alloc Free Alloc" ]
}

@test "a measured program refuses unknown commands" {
	for line in nonsense 'pair plain 512' 'pair plain x 100' 'threads plain 0 512 same 100' 'free_under 512 10 0'; do
		run ask "$line"
		[ "$status" -eq 1 ]
		[[ ${lines[1]} == "error "* ]]
	done
}

@test "trace.py numbers the blocks of RMM's CSV" {
	cat >rmm.csv <<-END
		Thread,Time,Action,Pointer,Size,Stream
		1,00:00:00:000001,allocate,0x100,10,0
		1,00:00:00:000002,free,0x900,77,0
		1,00:00:00:000003,allocate,0x200,20,0
		1,00:00:00:000004,free,0x100,10,0
		1,00:00:00:000005,allocate,0x300,30,0
		1,00:00:00:000006,allocate,0x100,40,0
	END
	printf '%s\n' 'a 0 10' 'a 1 20' 'f 0' 'a 0 30' 'a 2 40' 'f 1' 'f 0' 'f 2' >expected
	python3 bundle/trace.py rmm.csv >found
	diff -u expected found
	gzip rmm.csv
	python3 bundle/trace.py rmm.csv.gz | diff -u expected -
	printf '%s\n' Thread,Time,Action,Pointer,Size,Stream 1,0,allocate,0x1,1,0 1,0,allocate,0x1,1,0 >twice.csv
	run python3 bundle/trace.py twice.csv
	[ "$status" -eq 1 ]
	[ "${lines[-1]}" = "trace.py: twice.csv: 0x1 is allocated twice" ]
}

@test "the interval of a ratio is a pair of order statistics" {
	cd bundle
	python3 - <<-'END'
		import measure
		assert measure.interval([5, 1, 9, 3, 7, 2, 8, 4, 6]) == (2, 8)
		assert measure.interval([1, 2, 3, 4, 5]) is None
		assert measure.interval([6, 5, 4, 3, 2, 1]) == (1, 6)
		assert measure.interval(range(100)) == (39, 60)
		table = measure.Table("rows.csv", "s", [])
		for i in range(9):
		    table.add("fast", 512, "us", 2, "native", 10 + i)
		    table.add("many", None, "pairs/s", 30.0, "native", 10.0)
		    table.add("seen", None, "B", 7)
		table.add("lost", 512, "us", 2, "native", None)
		table.write()
		assert open("rows.csv").read().splitlines()[1:] == [
		    "s,fast,512,9,us,2,native,14,7,5.5,8.5", "s,many,,9,pairs/s,30,native,10,3,3,3", "s,seen,,9,B,7,,,,,"]
	END
}

# For each target a row that just meets it, and after ; a row that just misses it.
targets() {
	cat <<-'END'
		warm/sync,512,9,us,1,native,3,3.01,3,3.1;warm/sync,512,9,us,1,native,3,2.99,2,4
		warm/sync,1048576,9,us,1,native,50,50,49,51;warm/sync,1048576,9,us,1,native,50,49.9,48,52
		warm/sync,67108864,9,us,1,native,100,100,98,102;warm/sync,67108864,9,us,1,native,100,99,98,102
		warm/defer,512,9,us,1,async,1,1.01,1,1.1;warm/defer,512,9,us,1,async,1,0.99,.9,1.1
		threads=8/same/defer,65536,9,pairs/s,1,async,1,1.01,1,1.1;threads=8/same/defer,65536,9,pairs/s,1,async,1,.99,1,1.1
		free-under-kernel/defer/waited,512,9,frees,0,,,,,;free-under-kernel/defer/waited,512,9,frees,1,,,,,
		retired-peak/defer,,9,B,5,,,,,;other,,9,B,5,,,,,
		cold/sync,268435456,9,us,1,native,1,.9,.8,.971;cold/sync,268435456,9,us,1,native,1,.96,.9,.969
		cold/sync,1073741824,9,us,1,native,1,.7,.6,.67;cold/sync,1073741824,9,us,1,native,1,.6,.5,.66
		threads=8/same/defer,1048576,9,pairs/s,6,one thread,1,6,5,7;threads=8/same/defer,1048576,9,pairs/s,6,one thread,1,5.9,5,7
		threads=8/mixed/defer,4096,9,pairs/s,6,one thread,1,6,5,7;threads=8/mixed/defer,4096,9,pairs/s,6,one thread,1,5.9,5,7
		threads=8/same/sync,512,9,pairs/s,1,native,1,.95,.9,.97;threads=8/same/sync,512,9,pairs/s,1,native,1,.95,.9,.96
		replay/sync/utilisation,,1,share,.95,native,.9,1,,;replay/sync/utilisation,,1,share,.94,native,.9,1,,
		train/sync,,9,us,1,native,1,.98,.97,.991;train/sync,,9,us,1,native,1,.98,.97,.989
		blas/sync,,9,us,1,native,1,.98,.97,.991;blas/sync,,9,us,1,native,1,.98,.97,.989
		torch-start/sync,,9,ms,1,native,2000,.97562,1,1;torch-start/sync,,9,ms,1,native,2000,.9755,1,1
		torch-start/sync,,9,ms,1,native,5000,.9804,1,1;torch-start/sync,,9,ms,1,native,5000,.98,1,1
		launch/sync,,9,ns,1,native,2000,.9902,1,1;launch/sync,,9,ns,1,native,2000,.99,1,1
		exec/sync,,9,us,1,empty preload,500,.893,1,1;exec/sync,,9,us,1,empty preload,500,.892,1,1
	END
}

@test "report.py holds every target to its bound" {
	local line missed=0
	echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high >head
	{ cat head; targets | sed 's/;.*//; s/^/pool,/'; } >met.csv
	echo 'pool,threads=8/same/defer,2097152,9,pairs/s,6,one thread,1,1,1,1' >>met.csv # a row without a target
	run python3 bundle/report.py met.csv
	[ "$status" -eq 0 ]
	[[ $output == *"18 of 18 targets met" ]]
	while IFS= read -r line; do
		{ cat head; targets | awk -F';' -v row="$line" '{print "pool," ($0 == row ? $2 : $1)}'; } >missed.csv
		run python3 bundle/report.py missed.csv
		[ "$status" -eq 1 ] || { echo "not noticed: $line"; return 1; }
		[[ $output == *"17 of 18 targets met" ]]
		missed=$((missed + 1))
	done < <(targets)
	[ "$missed" -eq 19 ]
}

@test "report.py: too few pairs, an empty file and a missing one are not met" {
	echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high >head
	{ cat head; targets | sed 's/;.*//; s/^/pool,/; s/\(,warm.sync,512,\)9/\18/'; } >few.csv
	run python3 bundle/report.py few.csv
	[ "$status" -eq 1 ]
	[[ $output == *"8 pairs at 512 B: too few"*"17 of 18 targets met" ]]
	run python3 bundle/report.py head
	[ "$status" -eq 1 ]
	[[ $output == *"0 of 18 targets met" ]]
	echo nothing >wrong.csv
	run python3 bundle/report.py wrong.csv
	[ "$status" -eq 2 ]
	[[ $output == "report.py: wrong.csv: its columns are not "* ]]
	run python3 bundle/report.py none.csv
	[ "$status" -eq 2 ]
}

@test "two builds by turns: a row for each question, and the geometric mean" {
	export BENCH_SECONDS=0 BENCH_ROUNDS=2
	modes | grep -qx defer || skip "this build has no GPUMEM_FREE"
	GPUMEM_FREE=defer python3 bundle/turns.py turns.csv "$GPUMEM_TEST_PRELOAD" "$GPUMEM_TEST_PRELOAD" "commit: x and y"
	grep -qx '# commit: x and y' turns.csv
	grep -q '^# 2 rounds; geometric mean of the ratios [0-9.]*$' turns.csv
	# A 64th part of 1 GiB is the largest size: sizes are 512 B to 16 MiB.
	[ "$(grep -c '^turns,turns/pair,[0-9]*,2,us,[0-9.e+-]*,before,' turns.csv)" -eq 5 ]
	[ "$(grep -c '^turns,turns/threads=[0-9]*,[0-9]*,2,pairs/s,' turns.csv)" -eq 20 ]
	[ "$(grep -c '^turns,turns/mixed=[18],4096,2,pairs/s,' turns.csv)" -eq 2 ]
	BENCH_CASES='turns/pair:512 turns/mixed=8:4096' python3 bundle/turns.py few.csv "$GPUMEM_TEST_PRELOAD" "$GPUMEM_TEST_PRELOAD"
	[ "$(grep -c '^turns,' few.csv)" -eq 2 ]
	grep -q '^turns,turns/pair,512,2,us,' few.csv
	grep -q '^turns,turns/mixed=8,4096,2,pairs/s,' few.csv
	run python3 bundle/turns.py turns.csv
	[ "$status" -eq 1 ]
	[ "$output" = 'turns.py RESULT.csv BEFORE.so AFTER.so COMMENT...' ]
}
