#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# spgemm on the simulated driver, where a warp has one lane: right results in every way, natively and
# preloaded; matrices, files and options.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program spgemm
}

ALL_WAYS=(upper precise dynamic-8 dynamic-64 dynamic-256 dynamic-auto persistent-8 persistent-64 persistent-256 persistent-auto
	malloc-8 malloc-64 malloc-256 malloc-auto)

@test "every way gives the CPU's result, for every kind of matrix" {
	local matrix
	for matrix in atmosmodl Hardesty1 skew; do
		"$PROGRAM" -a "$matrix" --share=1 --verify --untimed -s 8,64,256,auto >out
		values way out | diff - <(printf '%s\n' "${ALL_WAYS[@]}")
		[ "$(grep -c ' verified=yes$' out)" -eq 14 ]
		[ "$(values checksum out | sort -u | wc -l)" -eq 1 ]
		[ "$(values entries out | sort -u | wc -l)" -eq 1 ]
	done
}

# 3 0 0 1
# 0 0 2 0   as a pattern: rows 0 and 3 have 2 entries, row 1 one, row 2 none; the square has 2, 0, 0 and 3 of them.
# 0 0 0 0
# 4 5 0 0
small() {
	printf '%s\n' '%%MatrixMarket matrix coordinate real general' '% a comment' '4 4 5' '1 1 3' '1 4 1.5e3' '2 3 2' '' \
		'4 1 4' '4 2 -5' >small.mtx
}

@test "slots, launches and bytes are those that each way needs, counted by hand" {
	small
	"$PROGRAM" -a small.mtx --verify --untimed -s 1,2 -w upper,precise,dynamic,malloc >out
	grep -q '^spgemm way=upper matrix=small.mtx rows=4 nonzeros=5 entries=6 ' out
	# Products of the rows: 4, 0, 0, 3. A segment has 16 bytes, 4 a slot rounded up to 8, and 8 a slot.
	[ "$(values slots out | paste -sd' ')" = '7 6 8 12 6 12' ]
	[ "$(values launches out | paste -sd' ')" = '1 1 3 2 1 1' ]
	[ "$(values output_bytes out | head -n 2 | paste -sd' ')" = "$((16 + 48 + 16 + 40)) $((16 + 40 + 16 + 40))" ]
	[ "$(values verified out | sort -u)" = yes ]
}

@test "auto is the largest size of which a sample of rows would use 90%, or else the smallest" {
	"$PROGRAM" -a cage14 --share=1 --untimed -w dynamic -s auto,128,256 >out
	[ "$(values size out | paste -sd' ')" = '128 128 256' ]
	values efficiency_share out | tail -n 2 | paste -sd' ' | awk '{if (!($1 >= 90 && $2 < 90)) exit 1}'
	"$PROGRAM" -a atmosmodl --share=1 --untimed -w dynamic -s auto >out
	[ "$(values size out)" = 8 ]
}

@test "a file may be symmetric, may repeat entries, and its order has no effect" {
	printf '%s\n' '%%MatrixMarket matrix coordinate pattern symmetric' '3 3 4' '3 1' '1 1' '3 1' '3 2' >half.mtx
	printf '%s\n' '%%MatrixMarket matrix coordinate integer general' '3 3 5' '1 1 9' '1 3 9' '2 3 9' '3 1 9' '3 2 9' >whole.mtx
	"$PROGRAM" -a half.mtx --verify --untimed -w upper >half
	"$PROGRAM" -a whole.mtx --verify --untimed -w upper >whole
	grep -q ' nonzeros=5 ' half
	[ "$(values checksum half)" = "$(values checksum whole)" ]
	[ "$(values verified half)" = yes ]
}

@test "a matrix of the table has its share of the rows and entries" {
	"$PROGRAM" -a atmosmodl --share=10 --untimed -w dynamic -s 32 >out
	grep -q ' rows=148975 ' out
	# 7 points a row, fewer at the ends of the grid.
	[ "$(values nonzeros out)" -gt 1031976 ]
	[ "$(values nonzeros out)" -le 1042825 ]
	"$PROGRAM" -a pwtk --share=10 --untimed -w dynamic -s 256 >out
	[ "$(values rows out)" -eq 21791 ]
	[ "$(values nonzeros out)" -ge 1152400 ]
	[ "$(values nonzeros out)" -le 1152443 ]
}

@test "preloaded it prints the same, and every allocation is the pool's" {
	set -- -a cage14 --share=1 --verify --untimed -s 8,auto
	preloaded "$@"
	counted allocate_pool '[1-9][0-9]+'
}

@test "no memory remains, and out of memory is reported" {
	small
	leaks_nothing -a small.mtx -s 1,auto
	too_small 16M -a pwtk --share=1 -w upper
}

@test "a wrong entry is found and reported, with status 1" {
	small
	SPGEMM_SIM_WRONG=1 ends 1 -a small.mtx --verify --untimed -w precise
	grep -q ' verified=no$' out
	[ "$(cat err)" = "spgemm: precise: the result differs from the CPU's, which has 6 entries" ]
}

@test "a line has each key once; --repeat prints it again; the time of estimates is part of it" {
	"$PROGRAM" -a cage14 --share=1 --repeat=2 -w precise >out
	[ "$(wc -l <out)" -eq 2 ]
	[ "$(keys out)" = "way matrix rows nonzeros entries checksum slots efficiency_share launches output_bytes total_ms estimate_ms estimate_share active_warps" ]
	paste -d' ' <(values total_ms out) <(values estimate_ms out) | awk '{if (!($1 > $2 && $2 > 0)) exit 1}'
}

@test "--help names every option and matrix" {
	helps matrix share way size heap repeat verify untimed
	[ "$(tail -n 1 help | grep -o , | wc -l)" -eq 20 ]
}

@test "wrong options and files: one line with the reason, status 2, and no other output" {
	local head='%%MatrixMarket matrix coordinate real general'
	echo text >text.mtx
	echo '%%MatrixMarket matrix array real general' >array.mtx
	printf '%s\n' "$head" '3 4 1' '1 1 1' >oblong.mtx
	printf '%s\n' "$head" '3 3 1' '4 1 1' >outside.mtx
	printf '%s\n' "$head" '3 3 2' '3 1 1' >short.mtx
	printf '%s\n' "$head" >sizeless.mtx
	printf '%s\n' "$head" '5000000000 5000000000 1' >large.mtx
	refuses 18 <<-'END'
		--matrix=none|none: no such matrix; --help names them
		--matrix=none.mtx|none.mtx: No such file or directory
		--matrix=text.mtx|text.mtx: line 1: not a file of MatrixMarket
		--matrix=array.mtx|array.mtx: line 1: not a matrix of coordinates
		--matrix=oblong.mtx|oblong.mtx: line 2: not a square
		--matrix=outside.mtx|outside.mtx: line 3: not an entry
		--matrix=short.mtx|short.mtx: line 4: it ends before its last entry
		--matrix=sizeless.mtx|sizeless.mtx: line 2: its size is missing
		--matrix=large.mtx|large.mtx: line 2: too large, or empty
		--share=0|--share=0: 1 to 100 are possible
		--size=0|--size=0: 1 to 65536 are possible
		--size=8,|--size=: not a number
		--size=1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8|--size: more than 16 values
		--way=fast|--way=fast: upper, precise, dynamic, persistent, malloc and cusparse are possible
		--heap=-1|--heap=-1: not a number
		--repeat=18446744073709551616|--repeat=18446744073709551616: 1 to 1000000 are possible
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
}
