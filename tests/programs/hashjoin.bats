#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# hashjoin on the simulated driver and the emulation of lanes: right results with pages of every policy,
# natively and preloaded; lack of pages; options.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program hashjoin
}

POLICIES='direct rw rw-bm corw ouroboros granule malloc'

@test "every policy gives the CPU's result, for one tuple, part of a warp, and several partitions" {
	"$PROGRAM" -n 1,45,1000,20000 --verify --untimed >out
	values way out | paste -sd' ' | diff - <(echo "$POLICIES $POLICIES $POLICIES $POLICIES")
	[ "$(grep -c ' verified=yes$' out)" -eq 28 ]
	# With 20000 tuples in 20000 keys about as many match, and about 0.632 of them find any.
	[ "$(values checksum out | sort -u | wc -l)" -eq 4 ]
	[ "$(values matches out | sort -u | wc -l)" -eq 4 ]
	[ "$(tail -n 1 out | values matches /dev/stdin)" -gt 19000 ]
	[ "$(tail -n 1 out | values matches /dev/stdin)" -lt 21000 ]
	[ "$(tail -n 1 out | values pages /dev/stdin)" -gt 12300 ]
	[ "$(tail -n 1 out | values pages /dev/stdin)" -lt 13000 ]
}

@test "a thread that probes many tuples chains its pages, of 30 pairs each" {
	"$PROGRAM" -n 3000 --probes=3000 --verify >out
	[ "$(grep -c ' verified=yes ' out)" -eq 7 ]
	local matches
	matches=$(values matches out | sort -u)
	[ "$(values pages out | sort -u)" -eq $(((matches + 29) / 30)) ]
}

@test "pages are freed: runs that need 1.5 times the available pages succeed one after the other" {
	"$PROGRAM" -n 20000 --pages=16384 --repeat=3 --verify --untimed >out
	[ "$(grep -c ' verified=yes$' out)" -eq 21 ]
	[ "$(values pages out | sort -u | wc -l)" -eq 1 ]
	[ "$(values pages out | head -n 1)" -gt 8192 ]
}

@test "pages that are too few are reported, with every policy, and give status 1" {
	local policy
	for policy in direct rw rw-bm corw ouroboros granule; do
		ends 1 -n 20000 -p "$policy" --pages=8192
		[ ! -s out ]
		grep -qxE 'hashjoin: [0-9]+ pairs found no page: more --pages, or natively a larger --heap' err
	done
	too_small 8M -n 1000 -p rw
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- -n 5000 --verify --untimed
	preloaded "$@"
	counted allocate_pool '[1-9][0-9]+'
	leaks_nothing "$@"
}

@test "a wrong pair is found and reported, with status 1" {
	HASHJOIN_SIM_WRONG=1 ends 1 -n 1000 -p rw --verify --untimed
	grep -q ' verified=no$' out
	grep -qxE "hashjoin: rw: the result differs from the CPU's, which has [0-9]+ pairs" err
}

@test "a line has each key once; --help names every option" {
	"$PROGRAM" -n 100 --verify -p granule >out
	[ "$(keys out)" = "way tuples matches checksum pages verified total_ms partition_ms build_ms probe_ms finish_ms" ]
	helps tuples policy pages probes heap repeat verify untimed
}

@test "wrong options: one line with the reason, status 2, and no other output" {
	refuses 11 <<-'END'
		--tuples=0|--tuples=0: 1 to 1073741824 are possible
		--tuples=2G|--tuples=2G: 1 to 1073741824 are possible
		--tuples=1m|--tuples=1m: not a number
		--tuples=8,|--tuples=: not a number
		--tuples=1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8|--tuples: more than 16 values
		--policy=fast|--policy=fast: direct, rw, rw-bm, corw, ouroboros, granule and malloc are possible
		--pages=-1|--pages=-1: not a number
		--probes=2M|--probes=2M: 1 to 1048576 are possible
		--repeat=18446744073709551616|--repeat=18446744073709551616: 1 to 1000000 are possible
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
}
