#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# pagesteps on the simulated driver and the emulation of lanes, where a build repeats a run exactly: each
# thread has a page of its own, and the steps agree with the equations.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program pagesteps
}

@test "each thread gets a free page of its own" {
	"$PROGRAM" --pages=64Ki -t 32,320 >out
	[ "$(wc -l <out)" -eq 24 ]
	[ "$(grep -c ' verified=yes ' out)" -eq 24 ]
	[ "$(values checksum out | sort | uniq -c | tr -s ' ' | paste -sd,)" = ' 12 00000020, 12 00000140' ]
	[ "$(values free out | sort -nu | paste -sd' ')" = '327 655 6553 32768' ]
}

@test "threads take the number of steps of equations 2 and 4, and warps no more than 3 and 5" {
	"$PROGRAM" --pages=256Ki -t 1280 -p rw,rw-bm >out
	[ "$(wc -l <out)" -eq 8 ]
	paste -d' ' <(values tas out) <(values tas_theory out) | awk '{if ($1 < .7 * $2 || $1 > 1.3 * $2) exit 1}'
	# The bounds are for the mean, and 40 warps run. The order of lanes, and so the numbers, differ between
	# compilers.
	paste -d' ' <(values was out) <(values was_bound out) | awk '{if ($1 > 1.3 * $2) exit 1}'
	# One of two pages is free: two steps. Almost no free page at the end: about 32 times as many with one page a
	# step.
	values tas_theory out | head -n 1 | awk '{if ($1 < 2 || $1 > 2.02) exit 1}'
	values tas out | awk 'NR == 7 {rw = $1} NR == 8 {if (rw / $1 < 16 || rw / $1 > 50) exit 1}'
}

@test "cooperating lanes of a warp take the same steps, and the longest fewer than alone" {
	"$PROGRAM" --pages=256Ki -t 1280 -f 5 -p rw-bm,corw >out
	values was out | awk 'NR == 1 {alone = $1} NR == 2 {if ($1 >= .8 * alone) exit 1}'
	refute grep 'way=corw.*theory' out
}

@test "the theory by hand: 8192 pages, 32 free ones for 32 threads" {
	# 8192/32 (1 + 1/2 + ... + 1/32) = 1038.97; the last thread may find only one free page, so that there is no
	# bound.
	"$PROGRAM" --pages=8Ki -f 4 -t 32 -p rw >out
	grep -q ' free=32 threads=32 ' out
	grep -q ' tas_theory=1038.97 was_bound=inf ' out
}

@test "preloaded it prints the same but for times, every allocation is the pool's, and no memory is left" {
	set -- --pages=64Ki -t 320
	preloaded "$@"
	counted allocate_pool '[1-9][0-9]+'
	leaks_nothing "$@"
}

@test "two threads with one page are found and reported, with status 1" {
	PAGESTEPS_SIM_WRONG=1 ends 1 --pages=64Ki -t 320 -f 500 -p corw
	grep -q ' checksum=0000013f verified=no ' out
	[ "$(cat err)" = 'pagesteps: corw: 319 of 320 threads have a page of their own' ]
}

@test "a line has each key once; --help names every option" {
	"$PROGRAM" --pages=64Ki -t 32 -p rw -f 500 --repeat=2 >out
	[ "$(wc -l <out)" -eq 2 ]
	[ "$(keys out)" = "way pages free threads checksum verified tas was tas_theory was_bound total_ms" ]
	"$PROGRAM" --pages=64Ki -t 32 -p rw -f 500 --untimed >out
	[ "$(keys out)" = "way pages free threads checksum verified tas_theory was_bound" ]
	helps policy pages free threads repeat untimed
}

@test "wrong options: one line with the reason, status 2, and no other output" {
	refuses 9 <<-'END'
		--pages=10000|--pages: 10000 is not a power of two
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
