#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of copies, on the simulated pair: the rows of copy_suite.py, and report.py's judgement of
# them. No test depends on a time.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	export PYTHONDONTWRITEBYTECODE=1 SIM_MEMORY=1G LD_LIBRARY_PATH=$PWD/tests/sim/lib BENCH_PRELOAD=$GPUMEM_TEST_PRELOAD
	export BENCH_SECONDS=1 ASAN_OPTIONS=detect_leaks=0 # a leak of python3 is no failure
	BUILD=$PWD SOURCE=$BATS_TEST_DIRNAME
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle work
	ln -s "$BUILD/tests/bench/client" "$BUILD/gpumemstat" bundle/
	cp "$SOURCE"/*.py "$SOURCE/run.sh" bundle/
	chmod u+w bundle/*.py bundle/run.sh
}

@test "client: a copy of each kind answers with its time; invalid words end the client" {
	printf 'copy %s 1000000 0\n' 'h2d plain' 'd2h plain' 'd2h fresh' 'h2d pinned' | bundle/client >out
	[ "$(grep -cE '^ok [0-9]+\.[0-9]{3}$' out)" -eq 4 ]
	run bundle/client <<<'copy h2d plain much 0'
	[[ $output == *'error much is no number' ]]
	run bundle/client <<<'copy h2d plain 1'
	[[ $output == *'error no such command: copy with 3 words' ]]
}

@test "copy_suite.py writes a row for each direction, size and number of threads, beside the native call" {
	sed -i 's/^SIZES = .*/SIZES = [1, 4096, 32 * MIB]/; s/^GIB = .*//; s/^FIRST = .*/FIRST = (16 * MIB,)/' bundle/copy_suite.py
	sed -i 's/^from pool import GIB,/GIB = 32 << 20\nfrom pool import/' bundle/copy_suite.py
	cat >bundle/tensors.py <<-'END' # without PyTorch and CuPy
		import sys
		print("ready", flush=True)
		for line in sys.stdin:
		    print("ok 2.0", flush=True)
	END
	bundle/run.sh copy results >said || true
	csv=$(echo results/*-copy.csv)
	[ "$(grep -c '^# skipped' "$csv")" -eq 0 ]
	for threads in auto 8; do
		for size in 1 4096 33554432; do
			for case in h2d d2h d2h-fresh; do
				grep -qE "^copy,$case/$threads,$size,[1-9],us,[0-9.e+]+,native,[0-9.e+]+,[0-9.]+," "$csv"
			done
		done
		for case in h2d d2h; do grep -qE "^copy,$case/$threads,33554432,[1-9],us,.*,pinned," "$csv"; done
		for case in h2d d2h d2h-fresh; do grep -qE "^copy,$case-rate/$threads,33554432,[1-9],GB/s,[0-9.]+,,,,," "$csv"; done
	done
	grep -qE '^copy,first-h2d/auto,16777216,[1-9],us,.*,native,' "$csv"
	for name in torch-cuda torch-cpu torch-numpy cupy-asarray cupy-asnumpy; do
		grep -qE "^copy,$name/auto,33554432,[1-9],us,2,native,2,1," "$csv"
	done
	[ "$(grep -c '^copy,' "$csv")" -eq 34 ]
	grep -q 'of 17 targets met' said
}

# For each target a row that just meets it, and after ; a row that just misses it.
targets() {
	cat <<-'END'
		h2d/auto,1,9,us,1,native,1,1,.9,.97;h2d/auto,1,9,us,1,native,1,1,.9,.969
		h2d/8,1,9,us,1,native,1,1,.9,.97;h2d/8,1,9,us,1,native,1,1,.9,.969
		d2h/auto,1,9,us,1,native,1,1,.9,.97;d2h/auto,1,9,us,1,native,1,1,.9,.969
		d2h/8,1,9,us,1,native,1,1,.9,.97;d2h/8,1,9,us,1,native,1,1,.9,.969
		d2h-fresh/auto,1,9,us,1,native,1,1,.9,.97;d2h-fresh/auto,1,9,us,1,native,1,1,.9,.969
		d2h-fresh/8,1073741824,9,us,1,native,2,2,2,2;d2h-fresh/8,1073741824,9,us,1,native,2,1.99,1.9,2
		h2d/8,1073741824,9,us,1,pinned,1,.8,.8,.8;h2d/8,1073741824,9,us,1,pinned,1,.799,.8,.8
		d2h/8,1073741824,9,us,1,pinned,1,.75,.7,.8;d2h/8,1073741824,9,us,1,pinned,1,.749,.7,.8
		h2d-rate/auto,1073741824,9,GB/s,38,,,,,;h2d-rate/auto,1073741824,9,GB/s,37.9,,,,,
		d2h-rate/auto,1073741824,9,GB/s,31,,,,,;d2h-rate/auto,1073741824,9,GB/s,30.9,,,,,
		torch-cuda/auto,1,3,us,1,native,1,.97,,;torch-cuda/auto,1,3,us,1,native,1,.969,,
		torch-cpu/auto,1,3,us,1,native,1,.97,,;torch-cpu/auto,1,3,us,1,native,1,.969,,
		torch-numpy/auto,1,3,us,1,native,1,.97,,;torch-numpy/auto,1,3,us,1,native,1,.969,,
		cupy-asarray/auto,1,3,us,1,native,1,.97,,;cupy-asarray/auto,1,3,us,1,native,1,.969,,
		cupy-asnumpy/auto,1,3,us,1,native,1,.97,,;cupy-asnumpy/auto,1,3,us,1,native,1,.969,,
		first-h2d/auto,1,9,us,1,native,1,1,.9,.97;first-h2d/auto,1,9,us,1,native,1,1,.9,.969
	END
}

@test "report.py holds copies to their targets" {
	local line missed=0
	echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high >head
	{ cat head; targets | sed 's/;.*//; s/^/copy,/'; } >met.csv
	run python3 bundle/report.py met.csv
	[ "$status" -eq 0 ]
	[[ $output == *"17 of 17 targets met" ]]
	while IFS= read -r line; do
		{ cat head; targets | awk -F';' -v row="$line" '{print "copy," ($0 == row ? $2 : $1)}'; } >missed.csv
		run python3 bundle/report.py missed.csv
		[ "$status" -eq 1 ] || { echo "not noticed: $line"; return 1; }
		[[ $output == *"16 of 17 targets met" ]]
		missed=$((missed + 1))
	done < <(targets)
	[ "$missed" -eq 16 ]
}
