#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of fresh heaps, with stand-ins for fresh.cu, which needs a GPU: the rows of fresh.py,
# report.py's judgement of them, and the script that builds other allocators.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	export PYTHONDONTWRITEBYTECODE=1 BENCH_SECONDS=1000 BENCH_ROUNDS=1 BENCH_CASES=thread:64:1000000
	SOURCE=$BATS_TEST_DIRNAME
	. "$SOURCE/../refute.bash"
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle
	cp "$SOURCE"/*.py bundle/
	chmod u+w bundle/*.py
	: >bundle/libgpumem.so
	cat >bundle/gpumemstat <<-'END'
		#!/bin/sh
		[ "$1 $2 $#" = "summary --json 3" ] && [ -s "$3" ] || exit 1
		text="malloc and free of kernels are gpumem's; us: making the heap 800, testing 100"
		echo '{"logs": [{"devices": [{"heap_memory": {"slack": {"current": 100000000}}, "contexts": [
			{"taken_over": false, "took_ns": 5, "text": "off"},
			{"taken_over": true, "took_ns": 950000, "text": "'"$text"'"}]}, {}]}]}'
	END
	chmod +x bundle/gpumemstat
}

# heap NAME MALLOC: a stand-in for a heap. Under the preload it takes twice as long, and writes a log, which
# reports slack.
heap() {
	local mapped=1700000000
	[ "$1" != header ] || mapped=1600000000
	cat >"bundle/fresh-$1" <<-END
		#!/bin/sh
		[ -n "\$FRESH_START" ] || exit 3
		us=\$(($2 * (1 + \${#LD_PRELOAD} / 1000 + \$([ -n "\$LD_PRELOAD" ] && echo 1 || echo 0))))
		echo "row cold us \$((us * 10))"
		echo "row start ms 5"
		echo "row ready ms 3"
		echo "row live bytes 1000000000"
		echo "row first-free us 9"
		echo "row warm us \$us"
		echo "row free us 6"
		echo "row first-churn us \$((us * 2))"
		echo "row churn us \$us"
		echo "row mapped-churn bytes $mapped"
		[ $1 != header ] || echo "row slack bytes 100000000"
		[ -z "\$LD_PRELOAD" ] || echo log >"\${GPUMEM_LOG_NAME%/*}/\$\$.gml"
	END
	[ "$1" != corw ] || sed -i '2i echo "row map us 100"' "bundle/fresh-$1"
	chmod +x "bundle/fresh-$1"
}

@test "fresh.py: ours in both forms beside each other heap, in processes of their own" {
	heap header 10
	heap plain 20
	heap corw 5
	heap gallatin 30
	python3 bundle/fresh.py out.csv . "date: today" 2>err
	# The stand-in for the preload is no library: the loader reports that.
	refute grep -v "cannot be preloaded" err
	grep -qx '# date: today' out.csv
	grep -qx '# heaps: G T native corw gallatin' out.csv
	grep -q '^fresh,G/thread/warm,64,1,us,10,gallatin,30,3,' out.csv
	grep -q '^fresh,G/thread/warm,64,1,us,10,T,40,4,' out.csv
	grep -q '^fresh,T/thread/warm,64,1,us,40,native,20,0.5,' out.csv
	grep -q '^fresh,G/thread/cold,64,1,us,100,corw + map,150,1.5,' out.csv
	grep -q '^fresh,G/thread/first-free,64,1,us,9,later,6,' out.csv
	# Excess without slack; slack has a row of its own.
	grep -q '^fresh,G/thread/excess,64,1,bytes,-6.71089e+07,,,' out.csv
	grep -q '^fresh,T/thread/slack,64,1,bytes,1e+08,,,' out.csv
	refute grep '^fresh,native/thread/slack' out.csv
	# The takeover and its parts, of the log.
	grep -q '^fresh,T/thread/takeover,64,1,us,950,' out.csv
	grep -q '^fresh,T/thread/takeover-making-the-heap,64,1,us,800,' out.csv
	grep -q '^fresh,T/thread/takeover-testing,64,1,us,100,' out.csv
	refute grep '^fresh,G/thread/takeover' out.csv
	# On a heap that is mapped beforehand the first malloc, and the times to its end, make no rows.
	refute grep '^fresh,G/thread/cold,64,1,us,100,corw,' out.csv
	refute grep '^fresh,G/thread/start,64,1,ms,5,corw,' out.csv
	refute grep '^fresh,G/thread/ready,64,1,ms,3,corw,' out.csv
	grep -q '^fresh,T/thread/ready,64,1,ms,3,G,3,1,' out.csv
	run python3 bundle/fresh_table.py out.csv
	[[ $output == *"best rival / G"*"3"* ]]
}

@test "fresh.py: the first kernel of a churn alone is beside a later one" {
	heap header 10
	heap rw-bm 9
	BENCH_ROUNDS=9 BENCH_CASES=churn:64:1000000 python3 bundle/fresh.py out.csv .
	grep -q '^fresh,G/churn/first,64,9,us,20,later,10,0.5,' out.csv
	grep -q '^fresh,G/churn/churn,64,9,us,10,rw-bm,9,0.9,' out.csv
	refute grep '^fresh,G/churn/first-churn,64,9,us,20,rw-bm,' out.csv # rw-bm has its memory beforehand
	run python3 bundle/report.py out.csv
	grep -E '^churn alone, G: first at most 3x a later one +0.5 times at 64 B +yes$' <<<"$output"
	grep -E '^churn alone, G: within 1.5x of rw-bm +0.9 times at 64 B +yes$' <<<"$output"
	grep -E '^pass alone, G: first at most 3x a later one +not measured +NO$' <<<"$output"
}

@test "fresh.py: a heap that fails is named and keeps its rows so far" {
	heap header 10
	heap gallatin 30
	printf '%s\n' 'echo error churn: 1 blocks missing, 0 damaged' 'exit 1' >>bundle/fresh-gallatin
	BENCH_PEERS="G gallatin" python3 bundle/fresh.py out.csv .
	grep -qx '# failed: gallatin thread 64 1000000: error churn: 1 blocks missing, 0 damaged' out.csv
	grep -q '^fresh,G/thread/warm,64,1,us,10,gallatin,30,3,' out.csv
	rm bundle/fresh-*
	run python3 bundle/fresh.py out.csv .
	[ "$status" -eq 1 ]
	[[ $output == "fresh.py: no fresh-* program in "* ]]
}

@test "report.py holds fresh heaps to their targets" {
	heap header 10
	heap plain 20
	heap corw 9
	heap rw-bm 9
	heap gallatin 30
	BENCH_ROUNDS=9 python3 bundle/fresh.py out.csv . 2>/dev/null
	run python3 bundle/report.py out.csv
	[ "$status" -eq 1 ]
	[[ $output == *"warm malloc: faster than gallatin"*"3 times at 64 B"*"yes"* ]]
	grep -E '^warm malloc: faster than ouro-s-p +not measured +NO$' <<<"$output"
	grep -E '^churn, T: faster than gallatin +0.75 times at 64 B +NO$' <<<"$output"
	grep -E '^warm, T: within 1.5x of G +0.25 times at 64 B +NO$' <<<"$output"
	grep -E '^mapped, G: 1.5x live \+ 64 MiB +-6.711e\+07 bytes at 64 B +yes$' <<<"$output"
	grep -E '^mapped, T: 1.5x live \+ 64 MiB +3.289e\+07 bytes at 64 B +NO$' <<<"$output"
	grep -E '^takeover: 1 ms +950 us at 64 B +yes$' <<<"$output"
	grep -E '^first free, G: at most 2x a later one +0.667 times at 64 B +yes$' <<<"$output"
}

@test "build.sh: fetches the requested commits, and names allocators that do not build" {
	command -v git >/dev/null || skip "git is not installed"
	mkdir from peers out bench
	git init -q from/one
	git -C from/one -c user.name=t -c user.email=t@t commit -q --allow-empty -m first
	local commit
	commit=$(git -C from/one rev-parse HEAD)
	cp "$SOURCE/peers/build.sh" bench/
	printf '%s\n' "# a comment" "good $PWD/from/one $commit include a.h -DONE -DTWO" "bad $PWD/from/one $commit include a.h -DBAD" \
		"none $PWD/from/two $commit include a.h" >bench/peers.txt
	cat >nvcc <<-'END'
		#!/bin/sh
		case $* in *-DBAD*) echo "x.h(1): error: no such thing"; exit 1 ;; esac
		for out in "$@"; do :; done
		printf '%s\n' "$@" >"$out"
	END
	chmod +x nvcc
	run bash bench/build.sh peers out ./nvcc -O2
	[ "$status" -eq 1 ]
	[[ $output == *"peers: bad does not build: x.h(1): error: no such thing"* ]]
	[[ $output == *"peers: none: $PWD/from/two cannot be fetched at $commit"* ]]
	grep -qx -- -DTWO out/fresh-good
	grep -qx -- "-Ipeers/one-${commit:0:12}/include" out/fresh-good
	[ ! -e out/fresh-bad ]
}
