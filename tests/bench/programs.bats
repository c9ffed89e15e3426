#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of oocmap and oocstencil, with stand-ins for them, because they need a GPU: their
# arguments, natively and preloaded, the rows of programs.py, the table beside the thesis, and report.py's
# judgement of the rows.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	export PYTHONDONTWRITEBYTECODE=1 BENCH_SECONDS=1000 BENCH_ROUNDS=1 BENCH_ELEMENTS=10M
	SOURCE=$BATS_TEST_DIRNAME
	. "$SOURCE/../refute.bash"
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle work
	cp "$SOURCE"/*.py bundle/
	chmod u+w bundle/*.py
	export BENCH_PRELOAD=libc.so.6
	export ASKED=$PWD/asked
	# Natively in-core takes 120 ms, streamed 100, out-of-core 200; preloaded half as long. N streams add
	# N ms.
	cat >bundle/oocmap <<-'END'
		#!/bin/bash
		program=${0##*/} name=native scale=1 repeat=1 checksum=${CHECKSUM:-00ff}
		[ -z "$LD_PRELOAD" ] || name=ours scale=2 checksum=${OUR_CHECKSUM:-$checksum}
		[ "$name ${GPUMEM_LOG_NAME:+log}" = native\  ] || [ "$name ${GPUMEM_LOG_NAME:+log}" = "ours log" ] || exit 4
		echo "$name $program $*" >>"$ASKED"
		for option in "$@"; do
			case $option in
			--mode=*) modes=${option#*=} ;;
			--streams=*) streams=${option#*=} ;;
			--repeat=*) repeat=${option#*=} ;;
			--steps=3883) [ -z "$FAIL" ] || exit 3 ;;
			esac
		done
		for mode in ${modes//,/ }; do
			for n in ${streams//,/ }; do
				for ((i = 0; i < repeat; i++)); do
					case $mode in in-core) ms=120 ;; streamed) ms=100 ;; *) ms=200 ;; esac
					[ "$repeat" = 1 ] || ms=$((ms + n))
					echo "$program mode=$mode streams=$n checksum=$checksum total_ms=$((ms / scale))"
				done
			done
		done
	END
	chmod +x bundle/oocmap
	cp bundle/oocmap bundle/oocstencil
	# A system: two ways that take 100 and 400 ms natively, and half as long preloaded.
	cat >bundle/growth <<-'END'
		#!/bin/bash
		scale=1 thrust=thrust
		[ -z "$LD_PRELOAD" ] || scale=2
		[ "${0##*/}" = growth ] || thrust=cusparse
		[[ $* != *,malloc* ]] || thrust=upper
		echo "${0##*/} $*" >>"$ASKED.systems"
		[ -z "$FAIL_SYSTEM" ] || exit 5
		echo "${0##*/} way=vector checksum=12 total_ms=$((100 / scale)) resize_share=2.5 peak_bytes=4096"
		echo "${0##*/} way=$thrust checksum=${OUR_SYSTEM:-12} total_ms=$((400 / scale)) resize_share=60 peak_bytes=8192"
	END
	chmod +x bundle/growth
	cp bundle/growth bundle/spgemm
	cp bundle/growth bundle/hashjoin
	cp bundle/growth bundle/pagesteps
	cp bundle/growth bundle/smallnodes
	cp bundle/growth bundle/barneshut
	cp bundle/growth bundle/hostarrays
	cp bundle/growth bundle/expressions
	cp bundle/growth bundle/arraylist
	sed -i 's/thrust=cusparse/thrust=direct/; s/thrust=upper/thrust=direct/' bundle/hashjoin
	sed -i 's/thrust=cusparse/thrust=rw/' bundle/pagesteps
	sed -i 's/thrust=cusparse/thrust=bump/' bundle/smallnodes bundle/barneshut bundle/expressions
	sed -i 's/thrust=upper/thrust=malloc/' bundle/arraylist
	cp bundle/growth bundle/dyngraph
	sed -i 's/thrust=cusparse/thrust=faim/; s/thrust=upper/thrust=faim/' bundle/dyngraph
	SYSTEM_ROWS=$((7 + 53 * 3 + 2 * 2)) # a system: two ways beside native, one beside the rival, if any; growth has two fields for each way
}


@test "programs.py: both programs run natively and preloaded, and their lines become rows" {
	python3 bundle/programs.py out.csv work "date: today" >said
	grep -qx '# date: today' out.csv
	refute grep '^# skipped' out.csv
	# Preloaded beside native; and for each of the two, streamed beside in-core.
	grep -qx 'programs,oocmap/t=1/pinned/in-core,40000000,1,ms,60,native,120,2,,' out.csv
	grep -qx 'programs,oocmap/t=1/pageable/out-of-core,40000000,1,ms,100,native,200,2,,' out.csv
	grep -qx 'programs,oocmap/t=1/pinned/streamed/native,40000000,1,ms,100,in-core,120,1.2,,' out.csv
	grep -qx 'programs,oocstencil/t=1/pinned/streamed/preloaded,40000000,1,ms,50,in-core,60,1.2,,' out.csv
	grep -qx 'programs,oocstencil/t=64/pinned/out-of-core/native,40000000,1,ms,200,in-core,120,0.6,,' out.csv
	# Many steps use a tenth of the elements.
	grep -qx 'programs,oocstencil/t=3883/pinned/streamed,4000000,1,ms,50,native,100,2,,' out.csv
	# Each number of streams has three runs.
	grep -qx 'programs,oocmap/t=1/pinned/streamed/streams=128,40000000,3,ms,114,native,228,2,,' out.csv
	grep -qx 'programs,oocstencil/t=1/pinned/out-of-core/streams=1,40000000,3,ms,100,native,201,2.01,,' out.csv
	# 8 cases with 3 modes and 2 x 2 gains each; 2 programs, 2 modes and 8 numbers of streams; failures;
	# the column names.
	grep -qx 'programs,failed,,1,cases,0,,,,,' out.csv
	[ "$(grep -vc '^#' out.csv)" -eq $((8 * 7 + 2 * 2 * 8 + 2 + SYSTEM_ROWS)) ]
	[ "$(head -n 1 asked)" = "native oocmap --mode=in-core,streamed,out-of-core --elements=10000000 --steps=1 --host=pinned --streams=8 --room=16000000" ]
	[ "$(grep -c '^native' asked)" -eq "$(grep -c '^ours' asked)" ]
	grep -qx 'ours oocstencil --mode=in-core,streamed,out-of-core --elements=1000000 --steps=3883 --host=pinned --streams=16 --room=1600000' asked
}

@test "programs.py: the first program changes in each round; many steps and numbers of streams have fewer rounds" {
	BENCH_ROUNDS=9 python3 bundle/programs.py out.csv work
	grep -qx 'programs,oocmap/t=1/pinned/in-core,40000000,9,ms,60,native,120,2,2,2' out.csv
	grep -q '^programs,oocmap/t=3883/pinned/in-core,4000000,3,' out.csv
	grep -q '^programs,oocmap/t=1/pinned/streamed/streams=4,40000000,3,' out.csv
	grep -- '--steps=1 --host=pageable --streams=8' asked | cut -d' ' -f1 | head -n 4 | diff - <(printf '%s\n' native ours ours native)
	run python3 bundle/report.py out.csv
	[ "$status" -eq 0 ]
	[[ $output == *"14 of 14 targets met" ]]
	rm asked
	BENCH_SECONDS=0 python3 bundle/programs.py out.csv work
	[ ! -e asked ]
	grep -qx '# 0 rounds in 0 s' out.csv
}

@test "programs.py: different results, and programs that fail, are named, and then a target is missed" {
	OUR_CHECKSUM=0100 python3 bundle/programs.py out.csv work
	[ "$(grep -c '^# skipped: .*: results differ: 00ff 0100$' out.csv)" -eq 12 ]
	grep -qx 'programs,failed,,1,cases,12,,,,,' out.csv
	[ "$(grep -vc '^#' out.csv)" -eq $((2 + SYSTEM_ROWS)) ]
	FAIL=1 BENCH_ROUNDS=9 python3 bundle/programs.py out.csv work
	[ "$(grep -c '^# skipped: .* 3883 steps, pinned: .* native: status 3$' out.csv)" -eq 2 ]
	grep -q '^programs,oocmap/t=64/pinned/in-core,40000000,9,' out.csv
	run python3 bundle/report.py out.csv
	[ "$status" -eq 1 ]
	grep -E '^every case ran, with equal results +2 cases +NO$' <<<"$output"
	[[ $output == *"13 of 14 targets met" ]]
	rm bundle/oocmap
	python3 bundle/programs.py out.csv work
	grep -q '^# skipped: oocmap, 1 steps, pinned: .*No such file' out.csv
	grep -q '^programs,oocstencil/t=1/pinned/in-core,' out.csv
}

@test "programs_table.py: rates, gains and the cost of a bad number of streams, beside the thesis" {
	python3 bundle/programs.py out.csv work
	python3 bundle/programs_table.py out.csv >table
	# 10M cells x 12 bytes in 120 ms; 1M cells x 16 bytes x 3883 steps in 100 ms; 228 ms with 128 streams,
	# 101 with one.
	grep -qx 'oocmap          1 in-core      GB/s        12.16        1          2' table
	grep -qx 'oocstencil   3883 streamed     GB/s        513.6    621.3       1243' table
	grep -qx 'oocmap          1 streamed     gain          1.3      1.2        1.2' table
	grep -qx 'oocmap          1 streamed     streams        13    125.7        128' table
	[ "$(grep -cE '^ooc(map|stencil) ' table)" -eq 20 ]
	grep -v streams= out.csv >without.csv
	python3 bundle/programs_table.py without.csv | grep -qx 'oocmap          1 streamed     streams        13        -          -'
}

@test "report.py holds the programs to their target: not slower" {
	BENCH_ROUNDS=9 python3 bundle/programs.py out.csv work
	awk -F, -v OFS=, '$2 == "oocstencil/t=1/pageable/streamed" {$9 = .95; $10 = .9; $11 = .96} {print}' out.csv >slower.csv
	run python3 bundle/report.py slower.csv
	[ "$status" -eq 1 ]
	grep -E '^stencil, pageable, streamed: not slower +0.950 \(0.900 to 0.960\) at 39062.5 KiB +NO$' <<<"$output"
	[[ $output == *"13 of 14 targets met" ]]
}

@test "programs.py: each way of a system becomes rows: beside native, beside the rival, and its fields" {
	python3 bundle/programs.py out.csv work
	grep -qx 'programs,growth/vector,4000000,1,ms,50,native,100,2,,' out.csv
	grep -qx 'programs,growth/thrust,4000000,1,ms,200,native,400,2,,' out.csv
	grep -qx 'programs,growth/vector,4000000,1,ms,100,thrust,400,4,,' out.csv
	grep -qx 'programs,growth/vector/peak_bytes,4000000,1,bytes,4096,,,,,' out.csv
	grep -qx 'programs,growth/thrust/resize_share,4000000,1,percent,60,,,,,' out.csv
	refute grep 'growth/thrust,.*,thrust,' out.csv
	grep -qx 'growth 1000000 7812' asked.systems
	grep -qx 'programs,spgemm/cage14/vector,3255641,1,ms,100,cusparse,400,4,,' out.csv
	grep -qx 'programs,spgemm-malloc/skew/upper,960000,1,ms,200,native,400,2,,' out.csv
	grep -qx 'spgemm --matrix=skew --share=1 --way=upper,precise,dynamic,persistent,cusparse --size=8,16,32,48,64,96,128,256,auto' asked.systems
	grep -qx 'spgemm --matrix=pwtk --share=1 --way=upper,malloc --size=64' asked.systems
	grep -qx 'programs,hashjoin/n=781250/vector,12500000,1,ms,100,direct,400,4,,' out.csv
	grep -qx 'hashjoin --tuples=128 --policy=direct,rw,rw-bm,corw,ouroboros,granule --pages=1000000 --heap=33554432' asked.systems
	grep -qx 'programs,hashjoin-malloc/n=7812/vector,124992,1,ms,100,direct,400,4,,' out.csv
	grep -qx 'hashjoin --tuples=1024 --policy=direct,malloc --pages=1000000 --heap=33554432' asked.systems
	grep -qx 'smallnodes --case=queue --heap=4294967296' asked.systems
	grep -qx 'programs,smallnodes/tree/vector,1368576,1,ms,100,bump,400,4,,' out.csv
	grep -qx 'barneshut --bodies=8192 --steps=2 --heap=4294967296' asked.systems
	grep -qx 'programs,barneshut/n=1024/vector,16384,1,ms,100,bump,400,4,,' out.csv
	grep -qx 'arraylist --way=fixed,bump,malloc,group,group-bump --items=16384 --heap=4294967296' asked.systems
	grep -qx 'programs,arraylist/n=32768/vector,1966080,1,ms,100,malloc,400,4,,' out.csv
	grep -qx 'expressions --trees=16384 --heap=4294967296' asked.systems
	grep -qx 'hostarrays --case=spmv --rows=1048576' asked.systems
	grep -qx 'programs,hostarrays/points=1048576/vector,20971520,1,ms,50,native,100,2,,' out.csv
	grep -qx 'programs,dyngraph/rmat/uniform/n=781/vector,500000,1,ms,100,faim,400,4,,' out.csv
	grep -qx 'dyngraph --graph=road --edges=125000 --way=aim,faim,ouro-va-p,granule --batch=781 --pattern=focused' asked.systems
	grep -q '^dyngraph --graph=rmat .* --way=faim,bump,.*,ouro-vl-c --batch=781 --pattern=uniform --plain --room=8589934592$' asked.systems
	grep -q '^dyngraph --graph=mesh .* --pattern=uniform --update=sorted$' asked.systems
	grep -q '^dyngraph --graph=road .* --plain --rounds=3 --reinit=move,compact$' asked.systems
	grep -q '^programs,dyngraph-sweep/mesh/focused/n=7812/vector,' out.csv
	grep -q '^dyngraph .* --way=faim,malloc --batch=781 --pattern=uniform --heap=4294967296$' asked.systems
	grep -qx 'pagesteps --pages=33554432 --threads=163840 --free=5' asked.systems
	grep -qx 'programs,pagesteps/1Mi/free=500/vector,268435456,1,ms,100,rw,400,4,,' out.csv
	python3 bundle/programs_table.py out.csv >table
	grep -qE '^growth/vector +100 +50 4 times thrust +resize_share=2.5 peak_bytes=4096$' table
}

@test "programs.py: a system that fails, or whose ways disagree, is named" {
	OUR_SYSTEM=13 python3 bundle/programs.py out.csv work
	grep -qx '# skipped: growth: growth 1000000 7812: results differ: 12 13' out.csv
	grep -qx 'programs,failed,,1,cases,56,,,,,' out.csv
	FAIL_SYSTEM=1 python3 bundle/programs.py out.csv work
	grep -qx '# skipped: growth: growth 1000000 7812, native: status 5' out.csv
}

@test "programs_plot.py: a line for each policy, medians without the first run, and for malloc also the preloaded runs" {
	cat >lines.txt <<-'END'
		# a comment
		== n1 native status 0, 0.1 s: hashjoin
		hashjoin way=direct tuples=100 total_ms=9000
		hashjoin way=direct tuples=100 total_ms=10
		hashjoin way=malloc tuples=100 total_ms=9000
		hashjoin way=malloc tuples=100 total_ms=1000
		== n1 preloaded status 0, 0.1 s: hashjoin
		hashjoin way=direct tuples=100 total_ms=7
		hashjoin way=direct tuples=100 total_ms=7
		hashjoin way=malloc tuples=100 total_ms=7
		hashjoin way=malloc tuples=100 total_ms=1
		== n2 native status 0, 0.1 s: hashjoin
		hashjoin way=direct tuples=10000 total_ms=9000
		hashjoin way=direct tuples=10000 total_ms=100
		hashjoin way=direct tuples=10000 total_ms=100
		hashjoin way=direct tuples=10000 total_ms=1000
		== s native status 0, 0.1 s: pagesteps
		pagesteps way=rw pages=1000 free=10 threads=4 tas=9000 tas_theory=100 total_ms=1
		pagesteps way=rw pages=1000 free=10 threads=4 tas=100 tas_theory=100 total_ms=1
		pagesteps way=rw pages=1000 free=100 threads=4 tas=10 tas_theory=10 total_ms=1
	END
	python3 bundle/programs_plot.py lines.txt .
	python3 -c 'import sys, xml.dom.minidom as m; [m.parse(name) for name in sys.argv[1:]]' hashjoin.svg pagesteps.svg
	# The axes are 100 to 10000 tuples and 1 to 1000 ms: 10 ms are a third of the way up, 100 ms two
	# thirds.
	grep -q '<path d="M60.0 260.0L490.0 140.0" fill="none" stroke-width="2" stroke="#4e79a7"/>' hashjoin.svg
	[ "$(grep -oE '>(direct|malloc|rw)[^<]*' hashjoin.svg | paste -sd' ')" = '>direct >malloc, native >malloc, preloaded' ]
	grep -q 'stroke-dasharray' pagesteps.svg
	[ "$(grep -oE '>rw[^<]*' pagesteps.svg | paste -sd' ')" = '>rw >rw, equation' ]
}

@test "programs_plot.py: a dot for each way of a run, natively and preloaded; lines of out-of-core by turns; batches of a graph" {
	cat >lines.txt <<-'END'
		== sp native status 0: ./spgemm
		spgemm way=upper matrix=m total_ms=10
		== sp preloaded status 0: ./spgemm
		spgemm way=upper matrix=m total_ms=100
		native 1 oocmap mode=streamed steps=1 streams=1 gbs=10
		native 2 oocmap mode=streamed steps=1 streams=10 gbs=1
		preloaded 1 oocmap mode=in-core steps=1 streams=0 gbs=10
		== one: env LD_PRELOAD=x.so ./dyngraph
		dyngraph way=malloc graph=mesh pattern=uniform batch=10 update=vertices build_ms=1 insert_ms=1 insert_meps=10 delete_ms=1
		dyngraph way=malloc graph=mesh pattern=uniform batch=1000 update=vertices build_ms=1 insert_ms=1 insert_meps=10 delete_ms=1
		== allocators native: ./dyngraph
		dyngraph way=rw graph=rmat pattern=uniform batch=10 update=vertices build_ms=1 insert_ms=10 insert_meps=10 delete_ms=0
	END
	python3 bundle/programs_plot.py lines.txt plots
	[ "$(cd plots && echo *)" = 'dyngraph-allocators.svg dyngraph-uniform.svg ooc.svg spgemm.svg' ]
	# The whole axis is 10 to 100 ms.
	[ "$(grep -oE '>(m upper|native|preloaded)<|cx="[0-9.]*"' plots/spgemm.svg | paste -sd' ')" = '>m upper< cx="250.0" cx="490.0" >native< >preloaded<' ]
	grep -q '<path d="M60.0 20.0L490.0 380.0" fill="none"' plots/ooc.svg
	[ "$(grep -oE '>(rw|uniform rw|malloc|build_ms|insert_ms|delete_ms)<' plots/dyngraph-allocators.svg | paste -sd' ')" = '>uniform rw< >build_ms< >insert_ms<' ]
	grep -q '>malloc<' plots/dyngraph-uniform.svg
	refute grep '>rw<' plots/dyngraph-uniform.svg
}

@test "programs_plot.py: of a CSV, a dot for each row beside native, and lines of the numbers of streams" {
	python3 bundle/programs.py out.csv work
	python3 bundle/programs_plot.py out.csv plots
	[ "$(grep -c '<circle' plots/spgemm.svg)" -eq $((2 * $(grep -c '^programs,spgemm/[^,]*,[0-9]*,[0-9]*,ms,.*,native,' out.csv))) ]
	# Two programs with two modes each.
	[ "$(grep -c 'stroke-dasharray' plots/ooc.svg)" -eq 8 ] # lines, and samples of them in the legend
	grep -q '>map streamed, pre.<' plots/ooc.svg
	python3 -c 'import glob, xml.dom.minidom as m; [m.parse(name) for name in glob.glob("plots/*.svg")]'
}

@test "programs_plot.py: the kept figures equal those of the kept lines" {
	local lines folder
	for lines in 2026-11-24-H100-programs/{spgemm,join,nodes}.txt 2026-11-25-H100-programs/{ooc,nodes}.txt \
		2026-11-25-H100-dyngraph/dyngraph.txt 2026-11-23-H100-ee5f577/programs.csv; do
		folder=$SOURCE/results/${lines%/*}
		rm -rf plots
		python3 bundle/programs_plot.py "$SOURCE/results/$lines" plots
		[ "$(ls plots | wc -l)" -gt 0 ]
		for plot in plots/*.svg; do
			cmp "$plot" "$folder/${plot#plots/}"
		done
	done
	python3 bundle/programs_plot.py "$SOURCE/results/2026-11-25-H100-dyngraph/second.txt" plots
	cmp plots/dyngraph-allocators.svg "$SOURCE/results/2026-11-25-H100-dyngraph/dyngraph-allocators.svg"
}
