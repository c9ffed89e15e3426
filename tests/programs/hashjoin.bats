#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# hashjoin on the simulated driver and the emulation of lanes: right results with pages of every policy, natively and preloaded;
# lack of pages; options.

setup() {
	[ -n "$GPUMEM_TEST_PRELOAD" ] || skip "run by make check"
	. "$BATS_TEST_DIRNAME/../refute.bash"
	HASHJOIN=$PWD/tests/programs/hashjoin TOOL=$PWD/gpumemstat
	export LD_LIBRARY_PATH=$PWD/tests/sim/lib GPUMEM_LOG=off LC_ALL=C
	cd "$BATS_TEST_TMPDIR" || return 1
}

# The value of that key in each line: values KEY FILE
values() {
	grep -oE " $1=[^ ]*" "$2" | cut -d= -f2
}

POLICIES='direct rw rw-bm corw ouroboros granule malloc'

@test "every policy gives the CPU's result, for one tuple, part of a warp, and several partitions" {
	"$HASHJOIN" -n 1,45,1000,20000 --verify --untimed >out
	values way out | paste -sd' ' | diff - <(echo "$POLICIES $POLICIES $POLICIES $POLICIES")
	[ "$(grep -c ' verified=yes$' out)" -eq 28 ]
	# Of 20000 tuples in 20000 keys, about as many match, and about 0.632 of them find any.
	[ "$(values checksum out | sort -u | wc -l)" -eq 4 ]
	[ "$(values matches out | sort -u | wc -l)" -eq 4 ]
	[ "$(tail -n 1 out | values matches /dev/stdin)" -gt 19000 ]
	[ "$(tail -n 1 out | values matches /dev/stdin)" -lt 21000 ]
	[ "$(tail -n 1 out | values pages /dev/stdin)" -gt 12300 ]
	[ "$(tail -n 1 out | values pages /dev/stdin)" -lt 13000 ]
}

@test "a thread that probes many tuples chains its pages, of 30 pairs each" {
	"$HASHJOIN" -n 3000 --probes=3000 --verify >out
	[ "$(grep -c ' verified=yes ' out)" -eq 7 ]
	local matches
	matches=$(values matches out | sort -u)
	[ "$(values pages out | sort -u)" -eq $(((matches + 29) / 30)) ]
}

@test "pages are freed: runs that need 1.5 times what there is succeed one after the other" {
	"$HASHJOIN" -n 20000 --pages=16384 --repeat=3 --verify --untimed >out
	[ "$(grep -c ' verified=yes$' out)" -eq 21 ]
	[ "$(values pages out | sort -u | wc -l)" -eq 1 ]
	[ "$(values pages out | head -n 1)" -gt 8192 ]
}

@test "too few pages are said, with every policy, and make the status 1" {
	local policy status
	for policy in direct rw rw-bm corw ouroboros granule; do
		status=0
		"$HASHJOIN" -n 20000 -p "$policy" --pages=8192 >out 2>err || status=$?
		[ "$status" -eq 1 ]
		[ ! -s out ]
		grep -qxE 'hashjoin: [0-9]+ pairs found no page: more --pages, or natively a larger --heap' err
	done
	status=0
	SIM_MEMORY=8M "$HASHJOIN" -n 1000 -p rw >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -qE '^hashjoin: the device has no [0-9]{8} bytes: ' err
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- -n 5000 --verify --untimed
	"$HASHJOIN" "$@" >native
	GPUMEM_LOG=small GPUMEM_LOG_NAME=run.gml LD_PRELOAD=$GPUMEM_TEST_PRELOAD "$HASHJOIN" "$@" >preloaded 2>err
	[ ! -s err ]
	diff -u native preloaded
	"$TOOL" summary --json run.gml >json
	grep -qE '"allocate_driver": *0[,}]' json
	grep -qE '"allocate_pool": *[1-9][0-9]' json
	SIM_LEAKS=1 "$HASHJOIN" "$@" >out 2>err
	refute grep 'leaked allocation' err
}

@test "a wrong pair is found, said, and makes the status 1" {
	local status=0
	HASHJOIN_SIM_WRONG=1 "$HASHJOIN" -n 1000 -p rw --verify --untimed >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -q ' verified=no$' out
	grep -qxE "hashjoin: rw: the result differs from the CPU's, which has [0-9]+ pairs" err
}

@test "a line has each key once; --help names every option" {
	local option
	"$HASHJOIN" -n 100 --verify -p granule >out
	[ "$(tr ' ' '\n' <out | tail -n +2 | cut -d= -f1 | paste -sd' ')" = "way tuples matches checksum pages verified total_ms partition_ms build_ms probe_ms finish_ms" ]
	"$HASHJOIN" --help >out
	for option in tuples policy pages probes heap repeat verify untimed help; do
		grep -qE "^ .* --$option\b" out
	done
}

# Options, and what is said of them after "hashjoin: ".
wrong() {
	cat <<-'END'
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

@test "wrong options: one line that says why, status 2, and nothing else" {
	local options said status rows=0
	while IFS='|' read -r options said; do
		status=0
		# shellcheck disable=SC2086
		(exec -a hashjoin "$HASHJOIN" $options) >out 2>err || status=$?
		echo "$options: $(cat err)"
		[ "$(cat err)" = "hashjoin: $said" ]
		[ "$status" -eq 2 ]
		[ ! -s out ]
		rows=$((rows + 1))
	done < <(wrong)
	[ "$rows" -eq 11 ]
}
