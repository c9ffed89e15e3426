#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of frameworks, with stand-ins for workers and memory that answer known numbers: the rows of
# frameworks.py, and report.py's judgement of them.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	export PYTHONDONTWRITEBYTECODE=1 BENCH_SECONDS=100 BENCH_PRELOAD=$GPUMEM_TEST_PRELOAD
	BUILD=$PWD SOURCE=$BATS_TEST_DIRNAME
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle work
	cp "$SOURCE"/*.py bundle/
	ln -s "$BUILD/gpumemstat" bundle/
	chmod u+w bundle/*.py
	export FAKE_USED=$PWD/used
	echo 1000000000 >"$FAKE_USED"
	# The device's used memory is the number in a file, which the workers change.
	cat >bundle/pynvml.py <<-'END'
		import os
		from types import SimpleNamespace
		def nvmlInit(): pass
		def nvmlDeviceGetHandleByIndex(ordinal): return ordinal
		def nvmlDeviceGetMemoryInfo(device):
		    used = int(open(os.environ["FAKE_USED"]).read() or 0)
		    with open(os.environ["FAKE_USED"] + ".seen", "w") as file: print(used, file=file)
		    return SimpleNamespace(used=used)
	END
	# A worker: "ordered" takes 5 ms a step, others 10. Each allocates 1 GiB and keeps it, "expandable" 2
	# GiB. A step of 10,000 exceeds the limit; the file `limits` gets each limit. With FAKE_SPREAD ordered
	# takes 6 ms in every second of 15 turns.
	cat >bundle/framework_worker.py <<-'END'
		import os, sys
		def env(name): return os.environ.get(name, "")
		print("ready", flush=True)
		for line in sys.stdin:
		    words = line.split()
		    if words[0] == "setup":
		        if "cudaMallocAsync" in env("PYTORCH_ALLOC_CONF"):
		            print("error no such backend", flush=True)
		            sys.exit(1)
		        used = int(open(env("FAKE_USED")).read()) + (2 << 30 if "expandable" in env("PYTORCH_ALLOC_CONF") else 1 << 30)
		        with open(env("FAKE_USED") + ".new", "w") as file: file.write(str(used))
		        os.replace(env("FAKE_USED") + ".new", env("FAKE_USED"))
		        print("ok Fake GPU", flush=True)
		    elif words[0] == "steps":
		        ours = env("GPUMEM_FREE") == "ordered"
		        odd = env("FAKE_SPREAD") and int(words[1]) < 76 and int(words[1]) // 4 % 2
		        print("ok", 6 if ours and odd else 5 if ours else 10, int(words[1]) if not ours or int(words[1]) < 30 else 7, flush=True)
		    elif words[0] == "limit":
		        print("told", words[1], file=open("limits", "a"))
		        print("ok", flush=True)
		    elif words[0] == "try":
		        print(env("GPUMEM_LIMIT") or "native", file=open("limits", "a"))
		        print("ok", int(int(words[1]) < 10000 or env("GPUMEM_LIMIT") == str(16 << 30)), flush=True)
		    else:
		        print("ok", flush=True)
	END
}

suite() {
	python3 bundle/frameworks.py out.csv "$PWD/work" 'device: Fake GPU' >said
	cat said out.csv
}

@test "a row for each of our configurations beside each native one, with the peak memory of each" {
	BENCH_PARTS='train' suite
	grep -qx 'frameworks,train/ordered,,15,ms,5,cache,10,2,2,2' out.csv
	grep -qx 'frameworks,train/ordered,,15,ms,5,expandable,10,2,2,2' out.csv
	grep -qx 'frameworks,train/ordered,,15,ms,5,fastest,10,2,2,2' out.csv
	grep -qx 'frameworks,train/default,,15,ms,10,fastest,10,1,1,1' out.csv
	grep -qx 'frameworks,train/cache,,15,ms,10,,,,,' out.csv
	grep -qx 'frameworks,train/ordered/peak,,1,GiB,1,expandable,2,2,,' out.csv
	grep -qx 'frameworks,train/ordered/peak,,1,GiB,1,cache,1,1,,' out.csv
	grep -qx '# memory in use before: 0.93 GiB' out.csv
	grep -q '^# train: the fastest native configuration is cache$' out.csv
	grep -q '^# train: sums of default differ from those of cache in 0 of 16 turns$' out.csv
	grep -q '^# train: sums of ordered differ from those of cache in 11 of 16 turns$' out.csv
}

@test "BENCH_WIDTH adds pairs until the intervals are narrow" {
	local n
	BENCH_PARTS='train' FAKE_SPREAD=1 suite
	grep -qx 'frameworks,train/ordered,,15,ms,5,cache,10,2,1.66667,2' out.csv
	BENCH_PARTS='train' FAKE_SPREAD=1 BENCH_WIDTH=0.03 suite
	n=$(sed -n 's/^frameworks,train.ordered,,\([0-9]*\),ms,5,cache,10,2,2,2$/\1/p' out.csv)
	echo "$n pairs"
	[ "$n" -gt 15 ]
	[ "$n" -lt 40 ]
}

@test "a configuration that fails is reported, and the others are measured" {
	BENCH_PARTS='train' suite
	grep -q '^# skipped: train/async: .*error no such backend' out.csv
	[ "$(grep -c ',async,' out.csv)" -eq 0 ]
}

@test "the largest step under a limit, by bisection, in multiples of 512" {
	BENCH_PARTS='limit' suite
	grep -qx 'frameworks,train/default/tokens,,1,tokens,32256,cache,9728,3.31579,,' out.csv
	grep -qx 'frameworks,train/ordered/tokens,,1,tokens,32256,expandable,9728,3.31579,,' out.csv
}

@test "the largest set under a limit of its own, without a limit of the cache where gpumem has one" {
	BENCH_PARTS='limit-set' suite
	grep -qx 'frameworks,set/lend/MiB,,1,MiB,4080,cache,4080,1,,' out.csv
	sort -u work/limits >limits
	[ "$(cat limits)" = $'4294967296\nnative\ntold 4294967296' ]
	[ "$(grep -c told work/limits)" -eq 2 ] # cache, expandable
}

@test "parts that are skipped for lack of time are reported, and each part is in the table" {
	BENCH_SECONDS=0 suite
	[ "$(grep -c '^# skipped: .*: no time was left$' out.csv)" -eq 12 ]
	[ "$(grep -c '^frameworks,' out.csv)" -eq 0 ]
}

@test "the memory process answers the bytes in use, and the peak since watch" {
	coproc MEMORY { python3 bundle/framework_memory.py; }
	local line in=${MEMORY[0]} out=${MEMORY[1]}
	read -r line <&"$in"
	[ "$line" = ready ]
	echo 5 >"$FAKE_USED"
	printf '%s\n' now watch peak >&"$out"
	read -r line <&"$in"
	[ "$line" = 'ok 5' ]
	read -r line <&"$in"
	[ "$line" = ok ]
	read -r line <&"$in"
	[[ $line == 'ok 5 '* ]]
	echo 70 >"$FAKE_USED"
	echo watch >&"$out"
	read -r line <&"$in"
	echo 80 >"$FAKE_USED"
	until grep -qx 80 "$FAKE_USED.seen"; do sleep 0.05; done
	echo 60 >"$FAKE_USED"
	echo peak >&"$out"
	read -r line <&"$in"
	[[ $line == 'ok 80 '* ]]
	rm bundle/pynvml.py
	printf '%s\n' '#!/bin/sh' 'echo 7' >nvidia-smi
	chmod +x nvidia-smi
	[ "$(echo now | PATH=$PWD:$PATH python3 bundle/framework_memory.py)" = $'ready\nok 7340032' ]
}

# For each target a row that just meets it, and after ; a row that just misses it.
targets() {
	local program
	for program in train serve; do
		cat <<-END
			$program/default,,15,ms,10,cache,9.7,.97,.941,1;$program/default,,15,ms,10,cache,9.7,.969,.95,1
			$program/ordered,,15,ms,10,fastest,10,1,.971,1.03;$program/ordered,,15,ms,10,fastest,10,1,.97,1.031
			$program/default/peak,,1,GiB,10,cache,9.91,.991,,;$program/default/peak,,1,GiB,10,cache,9.89,.989,,
			$program/ordered/peak,,1,GiB,10,expandable,9.53,.953,,;$program/ordered/peak,,1,GiB,10,expandable,9.5,.95,,
		END
	done
	cat <<-'END'
		train/default/tokens,,1,tokens,10,cache,10,1,,;train/default/tokens,,1,tokens,10,cache,10.1,.99,,
		train/ordered/tokens,,1,tokens,10,expandable,10,1,,;train/ordered/tokens,,1,tokens,10,expandable,10.1,.99,,
		cupy/ordered,,15,ms,10,async,10,1.001,.9,1.1;cupy/ordered,,15,ms,10,async,10,.999,.9,1.1
		cupy/ordered/peak,,1,GiB,11,none,10,.91,,;cupy/ordered/peak,,1,GiB,11.1,none,10,.9,,
		serve/ordered,,15,ms,10,floor,9.7,.97,.95,1;serve/ordered,,15,ms,10,floor,9.7,.969,.95,1
		jax/default,,15,ms,10,own,9.7,.97,.95,1;jax/default,,15,ms,10,own,9.7,.97,.95,1.011
		jax/default/peak,,1,GiB,10,own,9.91,.991,,;jax/default/peak,,1,GiB,10,own,9.89,.989,,
	END
}

@test "report.py holds frameworks to their targets" {
	local line n=0
	echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high >head
	{ cat head; targets | sed 's/;.*//; s/^/frameworks,/'; } >met.csv
	run python3 bundle/report.py met.csv
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"15 of 15 targets met" ]]
	while IFS= read -r line; do
		{ cat head; targets | awk -F';' -v row="$line" '{print "frameworks," ($0 == row ? $2 : $1)}'; } >missed.csv
		run python3 bundle/report.py missed.csv
		[ "$status" -eq 1 ] || { echo "not noticed: $line"; return 1; }
		[[ $output == *"14 of 15 targets met" ]]
		n=$((n + 1))
	done < <(targets)
	[ "$n" -eq 15 ]
}

@test "libfloor.so hands a freed block out again for its class, and passes other calls on" {
	[ -z "$SANITIZE_LIB" ] || skip "the library of a build with a sanitizer cannot be loaded alone"
	cat >floor.py <<-'END'
		import ctypes, sys
		runtime = ctypes.CDLL(sys.argv[1])  # later than the preloaded library: it is not asked first
		every = ctypes.CDLL(None)
		def malloc(size):
		    at = ctypes.c_void_p()
		    error = every.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(size)); assert error == 0, error
		    return at.value
		def free(at): return every.cudaFree(ctypes.c_void_p(at))
		first, second = malloc(1000), malloc(1000)
		assert first != second
		assert free(first) == 0 and free(second) == 0
		assert malloc(3 << 20) not in (first, second)
		assert malloc(513) == second and malloc(1024) == first
		other = ctypes.c_void_p()
		assert runtime.cudaMalloc(ctypes.byref(other), ctypes.c_size_t(1000)) == 0
		assert free(other.value) == 0
		assert free(12345) != 0, "the runtime refuses it"
		assert free(other.value) != 0, "a block of the runtime is none of the floor"
		assert every.cudaMalloc(None, ctypes.c_size_t(1)) != 0
		print("ok")
	END
	runtime=$BUILD/tests/sim/lib/libcudart.so.13
	run env LD_LIBRARY_PATH="$BUILD/tests/sim/lib" LD_PRELOAD="$BUILD/tests/bench/libfloor.so:$runtime" python3 floor.py "$runtime"
	[ "$output" = ok ] || { echo "$output"; false; }
}
