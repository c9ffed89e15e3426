#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat diff, over logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

OLD=(at:1s map:0:64M:100us alloc:0:10M:1us alloc:0:1000000:3us at:2s free:1:1us free:2:1us sample:0:60M:8M)
NEW=(at:1s map:0:128M:100us alloc:0:100M:1us alloc:0:1000000:3us at:2s free:1:1us fail:0:7G:1G)

@test "diff of two logs: the largest differences first" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml "${NEW[@]}"
	"$TOOL" diff --width=80 old.gml new.gml >out
	diff -u - out <<-'END'
	old           old.gml: mklog, 2.00 s, closed cleanly
	new           new.gml: mklog, 2.00 s, closed cleanly

	memory                    old        new     change
	allocate_bytes       11.0 MiB    101 MiB  +90.0 MiB    +821.6%
	requested_peak       11.0 MiB    101 MiB  +90.0 MiB    +821.6%
	free_bytes           11.0 MiB    100 MiB  +89.0 MiB    +812.9%
	map_bytes            64.0 MiB    128 MiB  +64.0 MiB    +100.0%
	mapped               64.0 MiB    128 MiB  +64.0 MiB    +100.0%
	mapped_peak          64.0 MiB    128 MiB  +64.0 MiB    +100.0%
	idle                 64.0 MiB    127 MiB  +63.0 MiB     +98.5%
	unreclaimable_peak   8.00 MiB        0 B  -8.00 MiB       gone
	handed_out                0 B    977 KiB   +977 KiB        new
	requested                 0 B    977 KiB   +977 KiB        new

	calls                  old        new     change
	allocate_calls           2          3         +1     +50.0%
	allocate_failed          0          1         +1        new
	free_calls               2          1         -1     -50.0%
	live_blocks              0          1         +1        new

	time                old        new     change
	free_ns         2.00 us    1.00 us   -1.00 us     -50.0%

	ratios                     old        new     change
	external_peak            0.062      0.000     -0.062       gone
	external_remap_peak      0.062      0.000     -0.062       gone

	new           Out of memory: 7.00 GiB was asked for, and 6.88 GiB of the device
	              is neither this process's nor free. Look for other processes with
	              nvidia-smi.
	              1 block, 977 KiB, was never freed.

	verdict       peak +821.6%, 1 block leaks (0 before), 1 allocation failed
	END
}

@test "diff of a log and itself" {
	mklog old.gml "${OLD[@]}"
	"$TOOL" diff old.gml old.gml >out
	diff -u - out <<-'END'
	old           old.gml: mklog, 2.00 s, closed cleanly
	new           old.gml: mklog, 2.00 s, closed cleanly
	counters      all as before

	findings      the same

	verdict       peak as before, no block leaks
	END
	"$TOOL" diff --json old.gml old.gml | jq -e '.counters == {} and .findings == {new: [], gone: []}'
}

@test "diff: the verdict" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml at:1s map:0:64M:1us alloc:0:8M:1us alloc:0:1M:1us
	mklog killed.gml "${OLD[@]}" kill
	mklog cache.gml "${OLD[@]}" count:torch_cache:1
	mklog none.gml at:1s
	verdict() { [ "$("$TOOL" diff "$1" "$2" | tail -n 1)" = "verdict       $3" ]; }
	verdict old.gml new.gml 'peak -17.8%, 2 blocks leak (0 before)'
	verdict new.gml old.gml 'peak +21.7%, no block leaks (2 before)'
	verdict new.gml new.gml 'peak as before, 2 blocks leak'
	verdict old.gml killed.gml 'peak as before, leaks not known'
	verdict cache.gml old.gml 'peak as before, no block leaks'
	verdict none.gml old.gml 'peak 11.0 MiB (0 B before), no block leaks'
	"$TOOL" diff --json old.gml new.gml | jq -e '.verdict == {requested_peak: {old: 11485760, new: 9437184},
		leaked_blocks: {old: 0, new: 2}, allocate_failed: {old: 0, new: 0}}'
	"$TOOL" diff --json killed.gml new.gml | jq -e '.verdict.leaked_blocks == {old: null, new: 2}'
}

@test "diff leaves out counters of the log itself" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml "${OLD[@]}" count:stacks:7
	"$TOOL" diff --json old.gml new.gml | jq -e '.counters == {}'
}

@test "diff --json, and findings only of the old log" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml "${NEW[@]}"
	"$TOOL" diff --json old.gml new.gml >out
	jq -e '.schema == 1 and .old.paths == ["old.gml"] and .new.program == "mklog" and .new.length_ns == 2e9' out
	jq -e '.counters.mapped_peak == {old: 67108864, new: 134217728} and .counters.external_peak == {old: 0.0625, new: 0}' out
	jq -e '.counters | has("allocate_ns") or has("requested_peak_time") or has("mapped_seconds") | not' out
	jq -e '[.findings.new[].rule] == ["oom_others", "never_freed"] and .findings.gone == []' out
	"$TOOL" diff --json new.gml old.gml | jq -e '[.findings.gone[].rule] == ["oom_others", "never_freed"] and .findings.new == []'
	"$TOOL" diff -n 3 old.gml new.gml | grep -qx '... and 7 more'
}

@test "diff of small logs, and of runs of several processes" {
	GPUMEM_LOG=small mklog old.gml "${OLD[@]}"
	for rank in 0 1; do
		GPUMEM_LOG=small SLURM_JOB_ID=7 SLURM_PROCID=$rank mklog new.$rank.gml "${OLD[@]}"
	done
	"$TOOL" diff --json old.gml new.%r.gml >out
	jq -e '.new.paths == ["new.0.gml", "new.1.gml"]' out
	# Counters are sums; shares are the highest, which is unchanged.
	jq -e '.counters.mapped_peak == {old: 67108864, new: 134217728} and (.counters | has("external_peak") | not)' out
	"$TOOL" diff old.gml new.%r.gml | grep -qx 'new           new.0.gml and 1 more: mklog, 2.00 s, closed cleanly'
}

@test "diff of logs that cannot be read" {
	mklog old.gml "${OLD[@]}"
	expect 1 'gpumemstat: none.gml: no such file' diff old.gml none.gml
	expect 1 'gpumemstat: none.gml: no such file' diff none.gml old.gml
	mklog lies.gml map:0:64M:1us alloc:0:1M:1us count:allocate_pool:1
	status=0
	"$TOOL" diff old.gml lies.gml >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -q '^gpumemstat: lies.gml: contradicts itself: ' err
	grep -q '^new           lies.gml: ' out
}
