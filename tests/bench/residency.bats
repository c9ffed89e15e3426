#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of sleep and wake, on the simulated pair: the rows of residency.py, and report.py's
# judgement of them. No test depends on a time.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	export PYTHONDONTWRITEBYTECODE=1 SIM_MEMORY=256M LD_LIBRARY_PATH=$PWD/tests/sim/lib BENCH_PRELOAD=$GPUMEM_TEST_PRELOAD
	export BENCH_SECONDS=1 BENCH_GIB=.0625 SIM_SHARE=$BATS_TEST_TMPDIR/device
	BUILD=$PWD SOURCE=$BATS_TEST_DIRNAME
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle work
	ln -s "$BUILD/tests/bench/client" "$BUILD/gpumemstat" bundle/
	cp "$SOURCE"/*.py "$SOURCE/run.sh" bundle/
	chmod u+w bundle/*.py bundle/run.sh
}

@test "client: holds memory, reads it back, and answers the device's free memory; wrong bytes are counted" {
	printf '%s\n' 'hold 70000000' held touch room | bundle/client >out
	grep -qx 'ok 1' out
	grep -qx 'ok 0' out
	[ "$(grep -cE '^ok [0-9]+\.[0-9]$' out)" -eq 1 ]
	grep -qE '^ok [0-9]{8,} 268435456$' out
	run bundle/client <<<'checkpoint 1'
	[[ $output == *ok ]]
	run bundle/client <<<'hold much'
	[[ $output == *'error much is no number' ]]
}

@test "residency.py writes a row for each kind of store, and for launches" {
	bundle/run.sh residency results >said || true
	csv=$(echo results/*-residency.csv)
	cat said "$csv"
	[ "$(grep '^# skipped' "$csv")" = '# skipped: checkpoint: this driver has no cuCheckpointProcess' ]
	for store in warm fresh folder; do
		for case in out in; do grep -qE "^residency,$case/$store,67108864,[1-9],GB/s,[0-9.e+-]+,link,[0-9.e+-]+,[0-9.e+-]+," "$csv"; done
		grep -qE "^residency,first/$store,67108864,[1-9],s,[0-9.e+-]+,later," "$csv"
		grep -qE "^residency,by-kernel/$store,67108864,[1-9],s,[0-9.e+-]+,command," "$csv"
		grep -qE "^residency,first-kernel/$store,67108864,[1-9],us,[0-9.e+]+,,,,," "$csv"
		grep -qE "^residency,left/$store,67108864,[1-9],MiB,2,,,,," "$csv" # for questions about pointers
	done
	grep -qE '^residency,launch/unarmed,,15,ns,[0-9.e+]+,GPUMEM_SLEEP=0,' "$csv"
	grep -qE '^residency,launch/hook,,15,ns,[0-9.e+]+,direct,' "$csv"
	[ "$(grep -c '^residency,' "$csv")" -eq 20 ]
	grep -q 'of 15 targets met' said
}

@test "residency.py scales the times of a smaller checkpoint, and reports that" {
	sed -i 's/observer.answer(600)/(observer.answer(600), [2e6, 4e6])[1]/' bundle/residency.py
	BENCH_CHECKPOINT_GIB=.03125 bundle/run.sh residency results >said || true
	csv=$(echo results/*-residency.csv)
	grep -qx '# checkpoint: measured with 32 MiB, its times scaled to 64 MiB' "$csv"
	grep -qE '^residency,sleep/warm,67108864,[1-9],s,[0-9.e+-]+,checkpoint,4,' "$csv"
	grep -qE '^residency,wake/warm,67108864,[1-9],s,[0-9.e+-]+,checkpoint,8,' "$csv"
}

@test "residency.py writes no measurement if contents differ" {
	sed -i 's/client.answer_of("held") != 0/client.answer_of("held") == 0/' bundle/residency.py
	bundle/run.sh residency results >said || true
	csv=$(echo results/*-residency.csv)
	grep -q '^# skipped: moves: .*contents differ' "$csv"
	[ "$(grep -c '^residency,left' "$csv")" -eq 0 ]
}

# For each target a row that just meets it, and after ; a row that just misses it.
targets() {
	cat <<-'END'
		out/warm,1,9,GB/s,45,link,50,.9,.8,1;out/warm,1,9,GB/s,45,link,50,.899,.8,1
		in/warm,1,9,GB/s,45,link,50,.9,.8,1;in/warm,1,9,GB/s,45,link,50,.899,.8,1
		out/fresh,1,9,GB/s,25,link,50,.5,.4,.6;out/fresh,1,9,GB/s,24.9,link,50,.5,.4,.6
		in/fresh,1,9,GB/s,45,link,50,.9,.8,1;in/fresh,1,9,GB/s,45,link,50,.899,.8,1
		first/warm,1,9,s,3,later,2,.6667,.6,.7;first/warm,1,9,s,3,later,2,.66,.6,.7
		first/fresh,1,9,s,3,later,2,.6667,.6,.7;first/fresh,1,9,s,3,later,2,.66,.6,.7
		sleep/warm,1,3,s,1,checkpoint,10,10,9,11;sleep/warm,1,3,s,1,checkpoint,10,9.99,9,11
		wake/warm,1,3,s,1,checkpoint,5,5,4,6;wake/warm,1,3,s,1,checkpoint,5,4.99,4,6
		left/warm,1073741824,9,MiB,10,,,,,;left/warm,1073741824,9,MiB,10.1,,,,,
		left/fresh,1073741824,9,MiB,10,,,,,;left/fresh,1073741824,9,MiB,10.1,,,,,
		first-kernel/warm,1,9,us,50000,,,,,;first-kernel/warm,1,9,us,50001,,,,,
		first-kernel/fresh,1,9,us,50000,,,,,;first-kernel/fresh,1,9,us,50001,,,,,
		by-kernel/warm,1,9,s,1.04,command,1,.9616,.9,1;by-kernel/warm,1,9,s,1.06,command,1,.943,.9,1
		by-kernel/fresh,1,9,s,1.04,command,1,.9616,.9,1;by-kernel/fresh,1,9,s,1.06,command,1,.943,.9,1
		launch/unarmed,,9,ns,2010,GPUMEM_SLEEP=0,2000,.99,.98,1;launch/unarmed,,9,ns,2010,GPUMEM_SLEEP=0,2000,.99,.98,.997
	END
}

@test "report.py holds sleep and wake to their targets" {
	local line missed=0
	echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high >head
	{ cat head; targets | sed 's/;.*//; s/^/residency,/'; } >met.csv
	run python3 bundle/report.py met.csv
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"15 of 15 targets met" ]]
	while IFS= read -r line; do
		{ cat head; targets | awk -F';' -v row="$line" '{print "residency," ($0 == row ? $2 : $1)}'; } >missed.csv
		run python3 bundle/report.py missed.csv
		[ "$status" -eq 1 ] || { echo "not noticed: $line"; return 1; }
		[[ $output == *"14 of 15 targets met" ]]
		missed=$((missed + 1))
	done < <(targets)
	[ "$missed" -eq 15 ]
}
