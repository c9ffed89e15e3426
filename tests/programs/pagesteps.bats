#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# pagesteps on the simulated driver and the emulation of lanes, where a build repeats a run exactly: each thread has a page of its own, and
# the steps are those of the equations.

setup() {
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	. "$BATS_TEST_DIRNAME/../refute.bash"
	PAGESTEPS=$PWD/tests/programs/pagesteps TOOL=$PWD/gpumemstat
	export LD_LIBRARY_PATH=$PWD/tests/sim/lib GPUMEM_LOG=off LC_ALL=C
	cd "$BATS_TEST_TMPDIR" || return 1
}

# The value of that key in each line: values KEY FILE
values() {
	grep -oE " $1=[^ ]*" "$2" | cut -d= -f2
}

@test "each thread gets a page that was free, and no other one has" {
	"$PAGESTEPS" --pages=64Ki -t 32,320 >out
	[ "$(wc -l <out)" -eq 24 ]
	[ "$(grep -c ' verified=yes ' out)" -eq 24 ]
	[ "$(values checksum out | sort | uniq -c | tr -s ' ' | paste -sd,)" = ' 12 00000020, 12 00000140' ]
	[ "$(values free out | sort -nu | paste -sd' ')" = '327 655 6553 32768' ]
}

@test "threads take as many steps as equations 2 and 4 say, and warps no more than 3 and 5" {
	"$PAGESTEPS" --pages=256Ki -t 1280 -p rw,rw-bm >out
	[ "$(wc -l <out)" -eq 8 ]
	paste -d' ' <(values tas out) <(values tas_theory out) | awk '{if ($1 < .7 * $2 || $1 > 1.3 * $2) exit 1}'
	# Bounds are of the mean, and 40 warps run. The order of lanes, and with it the numbers, differ from compiler to compiler.
	paste -d' ' <(values was out) <(values was_bound out) | awk '{if ($1 > 1.3 * $2) exit 1}'
	# One of two pages is free: two steps. Nearly none at the end: 32 times as many with one page a step, about.
	values tas_theory out | head -n 1 | awk '{if ($1 < 2 || $1 > 2.02) exit 1}'
	values tas out | awk 'NR == 7 {rw = $1} NR == 8 {if (rw / $1 < 16 || rw / $1 > 50) exit 1}'
}

@test "the lanes of a warp that work together take as many steps, and the longest fewer than alone" {
	"$PAGESTEPS" --pages=256Ki -t 1280 -f 5 -p rw-bm,corw >out
	values was out | awk 'NR == 1 {alone = $1} NR == 2 {if ($1 >= .8 * alone) exit 1}'
	refute grep 'way=corw.*theory' out
}

@test "the theory by hand: 8192 pages, 32 free ones for 32 threads" {
	# 8192/32 (1 + 1/2 + ... + 1/32) = 1038.97; the last thread's page may be the only one, so that there is no bound.
	"$PAGESTEPS" --pages=8Ki -f 4 -t 32 -p rw >out
	grep -q ' free=32 threads=32 ' out
	grep -q ' tas_theory=1038.97 was_bound=inf ' out
}

@test "preloaded it prints the same but for times, every allocation is the pool's, and no memory is left" {
	set -- --pages=64Ki -t 320
	"$PAGESTEPS" "$@" | sed 's/ total_ms=.*//' >native
	GPUMEM_LOG=small GPUMEM_LOG_NAME=run.gml LD_PRELOAD=$GPUMEM_TEST_PRELOAD "$PAGESTEPS" "$@" 2>err | sed 's/ total_ms=.*//' >preloaded
	[ ! -s err ]
	diff -u native preloaded
	"$TOOL" summary --json run.gml >json
	grep -qE '"allocate_driver": *0[,}]' json
	grep -qE '"allocate_pool": *[1-9][0-9]' json
	SIM_LEAKS=1 "$PAGESTEPS" "$@" >out 2>err
	refute grep 'leaked allocation' err
}

@test "two threads with one page are found, said, and make the status 1" {
	local status=0
	PAGESTEPS_SIM_WRONG=1 "$PAGESTEPS" --pages=64Ki -t 320 -f 500 -p corw >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -q ' checksum=0000013f verified=no ' out
	[ "$(cat err)" = 'pagesteps: corw: 319 of 320 threads have a page of their own' ]
}

@test "a line has each key once; --help names every option" {
	local option
	"$PAGESTEPS" --pages=64Ki -t 32 -p rw -f 500 --repeat=2 >out
	[ "$(wc -l <out)" -eq 2 ]
	[ "$(head -n 1 out | tr ' ' '\n' | tail -n +2 | cut -d= -f1 | paste -sd' ')" = "way pages free threads checksum verified tas was tas_theory was_bound total_ms" ]
	"$PAGESTEPS" --pages=64Ki -t 32 -p rw -f 500 --untimed >out
	[ "$(tr ' ' '\n' <out | tail -n +2 | cut -d= -f1 | paste -sd' ')" = "way pages free threads checksum verified tas_theory was_bound" ]
	"$PAGESTEPS" --help >out
	for option in policy pages free threads repeat untimed help; do
		grep -qE "^ .* --$option\b" out
	done
}

# Options, and what is said of them after "pagesteps: ".
wrong() {
	cat <<-'END'
		--pages=10000|--pages=10000: not a power of two
		--pages=4Ki|--pages=4Ki: 8192 to 134217728 are possible
		--free=0|--free=0: 1 to 1000 are possible
		--free=half|--free=half: not a number
		--threads=33|--threads: 33 are no whole warps of 32
		--threads=8192|8192 threads, and 5242 free pages
		--policy=granule|--policy=granule: rw, rw-bm and corw are possible
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
}

@test "wrong options: one line that says why, status 2, and nothing else" {
	local options said status rows=0
	while IFS='|' read -r options said; do
		status=0
		# shellcheck disable=SC2086
		(exec -a pagesteps "$PAGESTEPS" $options) >out 2>err || status=$?
		echo "$options: $(cat err)"
		[ "$(cat err)" = "pagesteps: $said" ]
		[ "$status" -eq 2 ]
		[ ! -s out ]
		rows=$((rows + 1))
	done < <(wrong)
	[ "$rows" -eq 9 ]
}
