#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of dyngraph on three graphs, with a stand-in for it, because it needs a GPU: cases and their
# options, rows, what a later run takes from an earlier one, the limit of time, tables and figures.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	export PYTHONDONTWRITEBYTECODE=1 BENCH_SECONDS=1000 BENCH_PRELOAD=libc.so.6
	SOURCE=$BATS_TEST_DIRNAME BUILT=$PWD
	. "$SOURCE/../refute.bash"
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle work
	cp "$SOURCE"/*.py bundle/
	export ASKED=$PWD/asked
	# A batch of N edges is inserted at N / 1000 M/s, by granule and malloc at twice as many, and preloaded at ten
	# times as many; the first run of each is ten times as slow as the second one.
	cat >bundle/dyngraph <<-'END'
		#!/bin/bash
		scale=1 names='' names_list=0
		[ -z "$LD_PRELOAD" ] || scale=10
		echo "$scale $*" >>"$ASKED"
		[ -z "$FAIL" ] || [[ $* != *$FAIL* ]] || { echo "dyngraph: no memory" >&2; exit 1; }
		pattern=uniform,focused verified=''
		for option in "$@"; do
			case $option in
			--graph=* | --edges=* | --way=* | --batch=* | --pattern=*) eval "${option#--}" ;;
			--vertices=*) names_list=${option#*=} ;;
			--verify) verified=' verified=yes' ;;
			esac
		done
		for w in ${way//,/ }; do
			for b in ${batch//,/ }; do
				for p in ${pattern//,/ }; do
					for n in ${names_list//,/ }; do
						[ "$n" = 0 ] || names=" names=$n vertices_inserted=$n"
						held=400000
						[ $w != granule ] || held=${HELD:-200000}
						for again in 1 10; do
							rate=$((b / 1000 * scale * again))
							[[ $w != granule && $w != malloc ]] || rate=$((2 * rate))
							echo "dyngraph way=$w graph=$graph edges=$edges pattern=$p batch=$b update=vertices$names$verified" \
								"built_bytes=4000000 final_bytes=$((again * held)) build_ms=$again insert_meps=$rate" \
								"delete_meps=$rate query_meps=5 pagerank_ms=2 triangles_ms=3 vertex_insert_mvps=${again}1" \
								"vertex_delete_mvps=7 move_ms=4"
						done
					done
				done
			done
		done
	END
	chmod +x bundle/dyngraph
}

CASES=$((6 + 3 + 3 + 3 + 3 + 6 + 6)) # processes of a round, of which verify has one round

@test "graphs.py: every case has five processes of each variant, and their second runs become rows" {
	python3 bundle/graphs.py out.csv work "date: today" >said
	grep -qx '# date: today' out.csv
	[ "$(wc -l <asked)" -eq $((5 * CASES - 4 * 3)) ]
	grep -qx 'graphs,mesh/uniform/n=100000/vertices/granule/insert_meps,64000000,5,M/s,2000,,,,,' out.csv
	grep -qx 'graphs,road/focused/n=1000000/vertices/malloc/preloaded/insert_meps,64000000,5,M/s,200000,,,,,' out.csv
	grep -qx 'graphs,rmat-vertices/uniform/n=100000/vertices/v=10000/faim/vertex_insert_mvps,64000000,5,M/s,101,,,,,' out.csv
	grep -qx 'graphs,rmat-malloc/focused/n=100000/vertices/malloc/insert_meps,6400000,5,M/s,2000,,,,,' out.csv
	grep -q '^graphs,road-verify/.*,1,ms,' out.csv
	grep -qx 'graphs,failed,,1,cases,0,,,,,' out.csv
	refute grep -E '^# (not run|failed)' out.csv
	[ "$(head -n 1 asked)" = "1 --graph=rmat --edges=16000000 --way=aim,faim,granule,ouro-va-p --batch=10000,100000,1000000 --rounds=3 --repeat=2" ]
	grep -q -- '^1 --graph=road --edges=1600000 .* --verify --update=auto,sorted --vertices=1000 --reinit=move,compact$' asked
	grep -q -- '^1 --graph=mesh --edges=50000000 --way=aim,faim,granule --batch=1000000 ' asked
	grep -q -- '^1 --graph=mesh --edges=239000 ' asked
	# Whole groups come first: all processes of the three graphs.
	[ "$(head -n 30 asked | grep -c -- ' --batch=10000,100000,1000000 --rounds=3 --repeat=2$')" -eq 30 ]
}

@test "graphs.py: a later run goes on where one ended; what was not run is named" {
	BENCH_SECONDS=0 python3 bundle/graphs.py out.csv work >said
	[ ! -e asked ]
	grep -qx '# not run: mesh, preloaded: processes: 5' out.csv
	grep -qx '# not run: road-verify, native: processes: 1' out.csv
	[ "$(grep -c '^# not run' out.csv)" -eq "$CASES" ]
	BENCH_ROUNDS=2 BENCH_ONLY='mesh,*-verify' python3 bundle/graphs.py out.csv work >said
	[ "$(wc -l <asked)" -eq $((2 * 2 + 3)) ]
	# A process that was cut at the end of the file is run again.
	sed -i '$d' out.lines.txt
	cp out.csv before.csv
	BENCH_ROUNDS=3 BENCH_ONLY='mesh,*-verify' python3 bundle/graphs.py out.csv work >said
	[ "$(wc -l <asked)" -eq $((2 * 2 + 3 + 2 + 1)) ]
	grep -qx '# 6 processes are taken from out.lines.txt' out.csv
	grep -q '^graphs,mesh/uniform/n=10000/vertices/faim/insert_meps,64000000,3,' out.csv
	rm asked
	BENCH_ROUNDS=3 BENCH_ONLY='mesh,*-verify' python3 bundle/graphs.py out.csv work >said
	[ ! -e asked ]
	refute grep '^# not run' out.csv
}

@test "graphs.py: a case that fails is named, is not run again, and ends it with status 1" {
	local status=0
	FAIL=rmat BENCH_ONLY='rmat,mesh' BENCH_ROUNDS=2 python3 bundle/graphs.py out.csv work >said || status=$?
	[ "$status" -eq 1 ]
	[ "$(grep -c "^# failed: rmat .*: status 1: \['dyngraph: no memory'\]$" out.csv)" -eq 2 ]
	[ "$(grep -c rmat asked)" -eq 2 ]
	grep -qx 'graphs,failed,,1,cases,2,,,,,' out.csv
	grep -q '^graphs,mesh/' out.csv
	BENCH_EDGES=many run python3 bundle/graphs.py none.csv work
	[ "$output" = "graphs.py: BENCH_EDGES=many: not a number" ]
}

@test "graphs_table.py: a table a graph, and the thesis' claims scaled by bandwidth, with the sum" {
	BENCH_ROUNDS=1 python3 bundle/graphs.py out.csv work >said
	python3 bundle/graphs_table.py out.csv >table
	grep -qx '| granule | 10 | 200, 200 | 2000, 2000 | 20000, 20000 | 200, 200 | 2000, 2000 | 20000, 20000 | 5 | 2 | 3 | 4, 2 |' table
	grep -qx '| malloc, pre. | 10 | 2000, 2000 | 20000, 20000 | 200000, 200000 | 2000, 2000 | 20000, 20000 | 200000, 200000 | 5 | 2 | 3 | 4, 4 |' table
	grep -qx '| mesh | faim | 101, 7 | 101, 7 | 101, 7 |' table
	grep -qxF '| ouroGraph by the project'"'"'s heap, the same | 200 (Titan Xp) | 200 x 3352 / 548 = 1223 | 20000: road granule uniform 1000000 |' table
	grep -qxF '| aimGraph, build of 239 K edges of roads, ms | 3.13 (GTX 780) | 3.13 x 288 / 3352 = 0.269 | 10: road aim uniform 10000 |' table
	grep -qx '| PageRank, times as fast | 1.06 to 2 | 1 | 1 | 1 |' table
	grep -qx '30 runs equal the CPU.s, 0 do not' table
	python3 bundle/graphs_table.py out.lines.txt 4800 | grep -qF '| 200 x 4800 / 548 = 1752 |'
}

@test "report.py holds the graphs to their targets: rates of each, natively and preloaded, and the smallest footprint" {
	BENCH_ROUNDS=1 BENCH_ONLY='rmat,mesh,road' python3 bundle/graphs.py out.csv work >said
	grep -qx 'graphs,mesh/uniform/n=1000000/vertices/granule/final_bytes,64000000,1,bytes,2e+06,aim and faim,4e+06,2,,' out.csv
	python3 bundle/report.py out.csv >judged
	grep -E '^mesh, granule: insert 1224 M/s +2e\+04' judged
	grep -E '^road, malloc preloaded: delete 1224 M/s +2e\+05' judged
	[ "$(tail -n 1 judged)" = "16 of 16 targets met" ]
	rm out.lines.txt
	HELD=500000 BENCH_ROUNDS=1 BENCH_ONLY='rmat,mesh,road' python3 bundle/graphs.py out.csv work >said
	run python3 bundle/report.py out.csv
	[ "$status" -eq 1 ]
	[[ $output == *"13 of 16 targets met" ]]
}

@test "graphs_plot.py: a figure for each graph, pattern and direction" {
	BENCH_ROUNDS=1 BENCH_ONLY='mesh,road' python3 bundle/graphs.py out.csv work >said
	python3 bundle/graphs_plot.py out.csv plots
	[ "$(cd plots && echo *)" = "$(printf '%s ' mesh-{focused,uniform}-{delete,insert}.svg road-{focused,uniform}-{delete,insert}.svg | sed 's/ $//')" ]
	grep -q '>malloc, pre.<' plots/mesh-uniform-insert.svg
	python3 -c 'import glob, xml.dom.minidom as m; [m.parse(name) for name in glob.glob("plots/*.svg")]'
}

@test "graphs.py: dyngraph itself takes all options, and its results equal the CPU's" {
	[ -x "$BUILT/tests/programs/dyngraph" ] || skip "run by make check"
	cp "$BUILT/tests/programs/dyngraph" bundle/
	LD_LIBRARY_PATH=$BUILT/tests/sim/lib GPUMEM_LOG=off BENCH_EDGES=2k BENCH_ROUNDS=1 BENCH_ONLY='mesh,mesh-*' \
		python3 bundle/graphs.py out.csv work >said || { cat said; false; }
	grep -qx 'graphs,failed,,1,cases,0,,,,,' out.csv
	python3 bundle/graphs_table.py out.csv | grep -qx '20 runs equal the CPU.s, 0 do not'
}
