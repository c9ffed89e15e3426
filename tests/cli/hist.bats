#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat hist, over logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

# Blocks that live 0 ns (two), 1 us, 1 ms and 2 s, and one that is not freed; one of the driver, one refused.
RUN=(at:1s map:0:64M:1us loop:0:3000:2 alloc:0:4096:1us alloc:0:8191:1us alloc:0:10M:1us alloc:0:1:1us
	at:1000001us free:3:1us at:1001ms free:4:1us at:3s free:5:1us driver:0:1M:1us fail:0:7G:1G)

@test "hist of one log" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" hist --width=80 a.gml >out
	diff -u - out <<-'END'
	log           a.gml: mklog, 3.00 s, closed cleanly

	sizes                 blocks      share      bytes      share  blocks
	1 B and more               1      0.143        1 B      0.000  #######
	...                        0      0.000        0 B      0.000
	2.00 KiB and more          2      0.286   5.86 KiB      0.001  ##############
	4.00 KiB and more          2      0.286   12.0 KiB      0.001  ##############
	...                        0      0.000        0 B      0.000
	1.00 MiB and more          1      0.143   1.00 MiB      0.091  #######
	...                        0      0.000        0 B      0.000
	8.00 MiB and more          1      0.143   10.0 MiB      0.908  #######
	all                        7          -   11.0 MiB          -

	lifetimes           blocks      share      bytes      share  blocks
	0 ns                     2      0.400   5.86 KiB      0.001  ##############
	...                      0      0.000        0 B      0.000
	512 ns and more          1      0.200   4.00 KiB      0.000  #######
	...                      0      0.000        0 B      0.000
	524 us and more          1      0.200   8.00 KiB      0.001  #######
	...                      0      0.000        0 B      0.000
	1.07 s and more          1      0.200   10.0 MiB      0.998  #######
	all                      5          -   10.0 MiB          -

	never freed   2 blocks, 1.00 MiB
	END
}

@test "hist --json has the same numbers" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" hist --json a.gml >out
	jq -e '.schema == 1 and (.logs | length) == 1 and .logs[0].path == "a.gml" and .logs[0].device == null' out
	jq -e '.logs[0].sizes | map([.least, .below, .blocks, .bytes]) == [[1, 2, 1, 1], [2048, 4096, 2, 6000],
		[4096, 8192, 2, 12287], [1048576, 2097152, 1, 1048576], [8388608, 16777216, 1, 10485760]]' out
	jq -e '.logs[0].lifetimes | map([.least_ns, .below_ns, .blocks, .bytes]) == [[0, 1, 2, 6000], [512, 1024, 1, 4096],
		[524288, 1048576, 1, 8191], [1073741824, 2147483648, 1, 10485760]]' out
	jq -e '.logs[0].never_freed == {blocks: 2, bytes: 1048577} and .logs[0].unknown == {blocks: 0, bytes: 0}' out
}

@test "hist of one device, of a device without blocks, of several logs" {
	mklog a.gml map:0:2M:1us map:1:2M:1us alloc:0:1000:1us alloc:1:5000:1us
	"$TOOL" hist --device=1 a.gml >out
	grep -qx 'device        1' out
	grep -qE '^4.00 KiB and more +1 +1.000 +4.88 KiB ' out
	refute grep '^512 B' out
	"$TOOL" hist --device=1 --json a.gml | jq -e '.logs[0] | .device == 1 and .sizes[0].bytes == 5000 and .never_freed.blocks == 1'
	expect 1 'gpumemstat: a.gml: --device=2: the log has 2 devices' hist --device=2 a.gml
	mklog b.gml map:0:2M:1us fail:0:7G:1G
	"$TOOL" hist b.gml >out
	grep -qx 'sizes         no allocation succeeded' out
	"$TOOL" hist --json a.gml b.gml | jq -e '[.logs[].path] == ["a.gml", "b.gml"] and .logs[1].sizes == []'
}

@test "hist: frees of blocks without an allocation in the log are counted separately" {
	mklog a.gml map:0:2M:1us alloc:0:1000:1us free:1:1us free:1:1us
	status=0
	"$TOOL" hist a.gml >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -qx 'unknown       1 block, 0.98 KiB, freed; their allocation is not in the log' out
}

@test "hist and map refuse a log without events, and show the others" {
	GPUMEM_LOG=small mklog s.gml map:0:2M:1us alloc:0:1000:1us
	mklog a.gml map:0:2M:1us alloc:0:1000:1us
	for command in hist map; do
		expect 1 'gpumemstat: s.gml: a log without events: gpumemstat record makes one with them' $command s.gml
		status=0
		"$TOOL" $command s.gml a.gml >out 2>err || status=$?
		[ "$status" -eq 1 ]
		grep -q '^log           a.gml: ' out
		[ "$(wc -l <err)" -eq 1 ]
	done
}

@test "hist of a real run agrees with the counters" {
	"$TOOL" record -o r.gml -- "$DEMO" 300 >/dev/null 2>&1
	"$TOOL" hist --json r.gml >hist
	"$TOOL" summary --json r.gml >summary
	calls=$(jq '.logs[0].devices[0].counters | .allocate_pool + .allocate_driver' summary)
	[ "$calls" -gt 100 ]
	jq -e --argjson n "$calls" '.logs[0] | ([.sizes[].blocks] | add) == $n and ([.lifetimes[].blocks] | add) + .never_freed.blocks == $n' hist
	jq -e '[.logs[0].sizes[] | .blocks * .least <= .bytes and .bytes <= .blocks * .below] | all' hist
}

@test "hist is never wider than requested, and ends no line in blanks" {
	"$TOOL" record -o r.gml -- "$DEMO" 300 >/dev/null 2>&1
	for width in 80 140; do
		"$TOOL" hist --width=$width r.gml >out
		[ "$(wc -L <out)" -le $width ]
		refute grep -nE '[[:blank:]]$' out
	done
}
