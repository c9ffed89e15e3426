#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The measurements of malloc in kernels, with a stand-in for inkernel.cu, which needs a GPU: its commands,
# natively and preloaded, the rows of inkernel.py, and report.py's judgement of them.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	export PYTHONDONTWRITEBYTECODE=1 BENCH_SECONDS=1000
	BUILD=$PWD SOURCE=$BATS_TEST_DIRNAME
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir bundle work
	ln -s "$BUILD/gpumemstat" bundle/
	cp "$SOURCE"/*.py bundle/
	chmod u+w bundle/*.py
	export BENCH_PRELOAD=libc.so.6 # the stand-in checks the variable GPUMEM_LOG_NAME
	export ASKED=$PWD/asked NATIVE_NULLS=9900000 OURS_NULLS=0 WRONG=0
	# Natively all times are 1000 times as long, except for launches and for the pieces at the default
	# limit. Each turn is faster than the last one.
	cat >bundle/inkernel <<-'END'
		#!/bin/sh
		who=native scale=1000 turn=0 nulls=$NATIVE_NULLS
		[ -z "$GPUMEM_LOG_NAME" ] || who=ours scale=1 nulls=$OURS_NULLS
		echo ready
		while read -r command words; do
			echo "$who $command $words" >>"$ASKED"
			case "$command $words" in
			limit*) echo ok ;;
			"pieces 10000000 64") echo "ok 77 7 $nulls 0" ;;
			pieces*) turn=$((turn + 1)) && echo "ok $(((10 - turn) * scale)) $((20 * scale)) 0 $WRONG" ;;
			objects*) echo "ok $((30 * scale)) $((40 * scale)) 0 0" ;;
			growth*) echo "ok 45 99 0" ;;
			launch*) echo "ok $((scale + 2000))" ;;
			*) echo "error $command" ;;
			esac
		done
	END
	chmod +x bundle/inkernel
}

@test "inkernel.py: each program is asked, and its answers become rows" {
	python3 bundle/inkernel.py out.csv work "date: today" >said
	grep -qx '# date: today' out.csv
	[ "$(grep -c '^# skipped' out.csv)" -eq 0 ]
	# The first turn of a process. For the rows below: ours is the median of the last three of seven
	# turns, natively it is the second turn.
	grep -qx 'inkernel,first-malloc,64,9,us,9,native,9000,1000,1000,1000' out.csv
	grep -qx 'inkernel,malloc,64,9,us,3,native,8000,2666.67,2666.67,2666.67' out.csv
	grep -qx 'inkernel,free,64,9,us,20,native,20000,1000,1000,1000' out.csv
	grep -qx 'inkernel,first-free,64,9,us,20,native,20000,1000,1000,1000' out.csv
	grep -qx 'inkernel,new,,9,us,30,native,30000,1000,1000,1000' out.csv
	grep -qx 'inkernel,delete,,9,us,40,native,40000,1000,1000,1000' out.csv
	grep -qx 'inkernel,launch-before/sync,,9,ns,2001,native,3000,1.49925,1.49925,1.49925' out.csv
	grep -qx 'inkernel,launch-beside/sync,,9,ns,2001,native,3000,1.49925,1.49925,1.49925' out.csv
	grep -qx 'inkernel,nulls,64,1,NULLs,0,,,,,' out.csv
	grep -qx 'inkernel,nulls/native,64,1,NULLs,9.9e+06,,,,,' out.csv
	grep -qx 'inkernel,growth,167772160,9,us,45,,,,,' out.csv
	[ "$(grep -vc '^#' out.csv)" -eq 16 ]
	# The limit is raised before the first kernel, but not for the measurement of the default.
	[ "$(grep -c 'limit 1073741824' asked)" -eq 18 ]
	[ "$(grep -c '^ours pieces 10000000 64' asked)" -eq 9 ]
	[ "$(grep -c '^native pieces 10000000 64' asked)" -eq 1 ]
	[ "$(head -n 1 asked)" = "native limit 1073741824" ]
	run python3 bundle/report.py out.csv
	[ "$status" -eq 0 ]
	[[ $output == *"4 of 4 targets met" ]]
}

@test "inkernel.py: one NULL in any round is reported; wrong contents and refusals end a part" {
	OURS_NULLS=1 python3 bundle/inkernel.py out.csv work
	grep -qx 'inkernel,nulls,64,1,NULLs,9,,,,,' out.csv
	run python3 bundle/report.py out.csv
	[ "$status" -eq 1 ]
	[[ $output == *"3 of 4 targets met" ]]
	WRONG=2 python3 bundle/inkernel.py out.csv work
	grep -qx '# skipped: programs: pieces 1000000 64: 0 threads got NULL, 2 words were wrong' out.csv
	grep -q '^inkernel,growth,' out.csv
	[ "$(grep -c '^inkernel,malloc,' out.csv)" -eq 0 ]
	sed -i 's/ok 45 99 0/ok 45 99 3/' bundle/inkernel
	python3 bundle/inkernel.py out.csv work
	grep -qx '# skipped: growth: 3 pieces of 167772160 bytes were refused' out.csv
}

# For each target a row that just meets it, and after ; a row that just misses it.
targets() {
	cat <<-'END'
		malloc,64,9,us,1,native,1000,1000,990,1010;malloc,64,9,us,1,native,999,999,990,1010
		nulls,64,1,NULLs,0,,,,,;nulls,64,1,NULLs,1,,,,,
		growth,1,9,us,60,,,,,;growths,1,9,us,60,,,,,
		launch-beside/sync,,9,ns,1,native,2000,.9902,1,1;launch-beside/sync,,9,ns,1,native,2000,.99,1,1
	END
}

@test "report.py holds malloc in kernels to its targets" {
	local line missed=0
	echo suite,case,size,count,unit,ours,peer,theirs,ratio,low,high >head
	{ cat head; targets | sed 's/;.*//; s/^/inkernel,/'; } >met.csv
	run python3 bundle/report.py met.csv
	[ "$status" -eq 0 ]
	[[ $output == *"4 of 4 targets met" ]]
	while IFS= read -r line; do
		{ cat head; targets | awk -F';' -v row="$line" '{print "inkernel," ($0 == row ? $2 : $1)}'; } >missed.csv
		run python3 bundle/report.py missed.csv
		[ "$status" -eq 1 ] || { echo "not noticed: $line"; return 1; }
		[[ $output == *"3 of 4 targets met" ]]
		missed=$((missed + 1))
	done < <(targets)
	[ "$missed" -eq 4 ]
}
