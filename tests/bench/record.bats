#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of a log's cost, on the simulated pair: the rows of record.py, and report.py's judgement of
# them. No test depends on a time.

setup() {
	. "$BATS_TEST_DIRNAME/../refute.bash"
	command -v python3 >/dev/null || skip "python3 is not installed"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	export PYTHONDONTWRITEBYTECODE=1 SIM_MEMORY=256M LD_LIBRARY_PATH=$PWD/tests/sim/lib BENCH_PRELOAD=$GPUMEM_TEST_PRELOAD
	export BENCH_SECONDS=1 ASAN_OPTIONS=detect_leaks=0 # a leak of python3 is no failure
	BUILD=$PWD SOURCE=$BATS_TEST_DIRNAME
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle work
	ln -s "$BUILD/tests/bench/client" "$BUILD/gpumemstat" bundle/
	cp "$SOURCE"/*.py "$SOURCE/run.sh" bundle/
	chmod u+w bundle/*.py bundle/run.sh
	cat >bundle/train.py <<-'END' # without PyTorch: the time of a step depends on the log
		import os, sys
		print("ready", flush=True)
		cache = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") != "1"
		for line in sys.stdin:
		    events, stacks = os.environ.get("GPUMEM_LOG") == "events", os.environ.get("GPUMEM_STACKS") == "large"
		    print("ok" if line == "setup\n" else "ok %d" % (1000 * cache + 100 + events + 2 * stacks), flush=True)
	END
}

@test "record.py writes a row for a step with and without PyTorch's cache, for an event and a stack" {
	bundle/run.sh record results >said || true
	csv=$(echo results/*-record.csv)
	cat said "$csv"
	refute grep -q '^# skipped' "$csv"
	grep -qE '^record,step/no-cache,,[1-9],us,103,events,101,0.980583,' "$csv"
	grep -qE '^record,step/no-cache,,[1-9],us,103,small,100,0.970874,' "$csv"
	grep -qE '^record,step/cache,,[1-9],us,1103,events,1101,' "$csv"
	for size in 4096 1048576; do grep -qE "^record,event,$size,[1-9],ns,[0-9.e+-]+,,,,," "$csv"; done
	grep -qE '^record,stack,1048576,[1-9],ns,[0-9.e+-]+,,,,,' "$csv"
	[ "$(grep -c '^record,' "$csv")" -eq 7 ]
	grep -q 'of 5 targets met' said
}

# For each target a row that just meets it, and after ; a row that just misses it.
targets() {
	cat <<-'END'
		step/no-cache,,9,us,1,events,1,.97,.9,1;step/no-cache,,9,us,1,events,1,.969,.9,1
		step/cache,,9,us,1,events,1,.97,.9,1;step/cache,,9,us,1,events,1,.969,.9,1
		event,4096,9,ns,100,,,,,;event,4096,9,ns,101,,,,,
		event,1048576,9,ns,100,,,,,;event,1048576,9,ns,101,,,,,
	END
}

@test "report.py: each target is met at its bound, and missed just below" {
	targets >both
	{
		echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high
		sed 's/;.*//; s/^/record,/' both
		echo record,step/no-cache,,9,us,1,small,1,.5,.4,.6
		echo record,stack,1048576,9,ns,5000,,,,,
	} >all.csv
	python3 bundle/report.py all.csv >said
	grep -q '5 of 5 targets met' said
	n=$(wc -l <both)
	for i in $(seq "$n"); do
		miss=$(sed -n "${i}s/.*;//p" both)
		sed "$((i + 1))s@.*@record,$miss@" all.csv >missed.csv
		run python3 bundle/report.py missed.csv
		[ "$status" -eq 1 ]
		[[ $output == *'4 of 5 targets met' ]]
	done
}
