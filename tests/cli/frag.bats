#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat frag, over logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

# 64 MiB mapped, two blocks; at 2 s the idle memory is in pieces, at 4 s the first block is freed.
RUN=(at:1s map:0:64M:100us alloc:0:10M:1us alloc:0:1000000:3us run:0:54473216 sample:0:54473216:50M
	at:2s run:0:40M run:0:12M run:0:32K remap:0:42M sample:0:40M:50M at:4s free:1:900ns run:0:62M sample:0:62M:8M)

LEGEND='              external: share of idle memory that is not in the longest run
              after remap: the same, with idle chunks mapped side by side
              unreclaimable: idle, in chunks that also hold live blocks'

@test "frag of one log" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" frag --width=80 --size=16M a.gml >out
	diff -u - out <<-END
	log           a.gml: mklog, 4.00 s, closed cleanly

	device 0      GPU one, 3 samples, its peak at 2.00 s
	fragmentation     at end       peak       mean
	internal           448 B      448 B      448 B
	external           0.017      0.246      0.171
	  after remap      0.017      0.208      0.146
	unreclaimable   8.00 MiB   50.0 MiB   50.0 MiB
	utilisation        0.015      0.171      0.171
	              from only 3 samples
	$LEGEND

	idle runs of        at end     bytes  below  at peak     bytes  below
	slots of slabs           -  1.05 MiB      -        -  1.01 MiB      -
	less than 64.0 KiB       -         -  0.017        1  32.0 KiB  0.019
	8.00 MiB and more        -         -  0.017        1  12.0 MiB  0.020
	32.0 MiB and more        1  62.0 MiB  0.017        1  40.0 MiB  0.246
	all                      1  63.0 MiB      -        3  53.0 MiB      -
	              below: share of idle memory in runs too short for such a block

	unusable          at end    at peak
	for 16.0 MiB       0.017      0.246
	  after remap      0.017      0.208

	over time        mapped       idle   external  unreclaimable  of 64.0 MiB
	1.00 s         64.0 MiB   53.0 MiB      0.021       50.0 MiB  ###...........
	2.00 s         64.0 MiB   53.0 MiB      0.246       50.0 MiB  ###...........
	4.00 s         64.0 MiB   63.0 MiB      0.017       8.00 MiB  #.............
	              # handed out, = retired, . idle
	END
}

@test "frag --json has every sample" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" frag --json --size=16M a.gml >out
	jq -e '.schema == 1 and (.logs | length) == 1 and .logs[0].length_ns == 4e9 and (.logs[0].devices | length) == 2' out
	jq -e '.logs[0].devices[0] | .samples == 3 and (.course | length) == 3 and .course[1] == .at_peak and .course[2] == .end' out
	jq -e '.logs[0].devices[0].at_peak | .ns == 2e9 and .mapped == 67108864 and .idle == 55622656 and .idle_runs == 3' out
	jq -e '.logs[0].devices[0].at_peak.histogram | map([.least, .runs, .bytes]) ==
		[[0, 1, 32768], [8388608, 1, 12582912], [33554432, 1, 41943040]]' out
	jq -e '.logs[0].devices[0].at_peak | .histogram[2].below == ((.idle - 41943040) / .idle * 1e6 | floor / 1e6)' out
	jq -e '.logs[0].devices[0].at_peak | .unusable | .size == 16777216 and .least == .most and .after_remap_most < .most' out
	jq -e '.logs[0].devices[0].fragmentation | .external.peak == 0.245936 and .unreclaimable.mean == 52428800' out
	jq -e '.logs[0].devices[1] | .samples == 0 and .course == [] and (has("end") | not)' out
	"$TOOL" frag --json a.gml | jq -e '.logs[0].devices[0].end | has("unusable") | not'
}

@test "frag: idle memory unusable for a size has bounds if it shares a bin with usable memory" {
	# Idle: 40 MiB in runs of 12, 10, 9 and 9 MiB, all in one bin; 2 MiB in slots.
	mklog b.gml at:1s map:0:64M:1us alloc:0:22M:1us run:0:12M run:0:10M run:0:9M run:0:9M sample:0:12M:0
	unusable() { "$TOOL" frag --json --size=$1 b.gml | jq -c '.logs[0].devices[0].end | .idle as $n | .unusable |
		[.least, .most] | map(. * $n / 1048576 | round)'; }
	[ "$(unusable 8M)" = '[2,2]' ]    # all four runs serve
	[ "$(unusable 9M)" = '[2,20]' ]   # at least two serve, of up to 12 MiB, at most all four
	[ "$(unusable 12M)" = '[18,30]' ] # the longest serves, and perhaps another
	[ "$(unusable 12289K)" = '[42,42]' ] # longer than the longest run
	[ "$(unusable 1G)" = '[42,42]' ]
}

@test "frag: rows over time, and their number by -n" {
	words=(map:0:64M:1us alloc:0:22M:1us)
	for i in $(seq 1 40); do words+=(at:${i}s run:0:${i}M sample:0:${i}M:0); done
	mklog c.gml "${words[@]}"
	[ "$("$TOOL" frag c.gml | grep -cE '^[0-9.]+ s ')" -eq 12 ]
	[ "$("$TOOL" frag -n 5 c.gml | grep -cE '^[0-9.]+ s ')" -eq 5 ]
	[ "$("$TOOL" frag -n 100 c.gml | grep -cE '^[0-9.]+ s ')" -eq 40 ]
	"$TOOL" frag -n 1 c.gml | grep -qE '^1.00 s +64.0 MiB +42.0 MiB +0.976 ' # the worst sample
	# Rows cover the whole run at any width, and no line is wider than the screen.
	"$TOOL" frag --width=60 c.gml >out
	"$TOOL" frag --width=132 c.gml >wide
	[ "$(wc -L <wide)" -le 132 ]
	[ "$(wc -L <out)" -le 60 ]
	[ "$(grep -cE '^[0-9.]+ s ' out)" -eq 24 ] # rows with bars
	if grep -nE '[[:blank:]]$' out wide; then return 1; fi
}

@test "frag: samples without runs by size" {
	mklog d.gml at:1s map:0:64M:1us alloc:0:1M:1us sample:0:60M:0
	"$TOOL" frag --size=1M d.gml >out
	grep -qx 'idle runs     not in this log: an older libgpumem.so wrote it' out
	refute grep '^unusable ' out
	grep -qE '^1.00 s +64.0 MiB ' out
	"$TOOL" frag --json --size=1M d.gml | jq -e '.logs[0].devices[0].end | has("histogram") or has("unusable") | not'
}

@test "frag: no sample, no pool, several logs" {
	mklog e.gml map:0:64M:1us alloc:0:1M:1us
	"$TOOL" frag e.gml >out
	grep -qx 'device 0      GPU one, 0 samples' out
	grep -qE '^external +- +- +-$' out
	refute grep '^over time' out
	GPUMEM_MODE=trace mklog f.gml driver:0:1M:1us
	"$TOOL" frag f.gml >out
	grep -qx 'pool          never had any memory' out
	"$TOOL" frag e.gml f.gml >out
	[ "$(grep -c '^log ' out)" -eq 2 ]
	"$TOOL" frag --json e.gml f.gml | jq -e '[.logs[].path] == ["e.gml", "f.gml"]'
	expect 1 'gpumemstat: none.gml: no such file' frag none.gml
	mklog gpumem.1.gml map:0:64M:1us
	"$TOOL" frag | grep -q '^log           gpumem.1.gml: '
}

@test "frag: runs whose sum exceeds the idle memory are a contradiction" {
	mklog g.gml at:1s map:0:64M:1us alloc:0:1M:1us run:0:65M sample:0:60M:0
	status=0
	"$TOOL" frag g.gml >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -qx 'gpumemstat: g.gml: contradicts itself: sample at 1001000000000: runs of 68157440 bytes, above idle, which is 66060288' err
	grep -q '^device 0 ' out
}

# At 1 s 64 MiB in two chunks; blocks at 0, 10, 12 and 40 MiB, the second one and a slab's go. Addresses are
# known, so no sample is needed.
PLACED=(at:1s to:4G map:0:32M:1us to:4128M map:0:32M:1us to:4G alloc:0:10M:1us to:4106M alloc:0:2M:1us to:4108M alloc:0:20M:1us
	to:4136M alloc:0:1000:1us at:2s free:2:1us at:4s)

@test "frag, summary and plot compute from addresses if a log has every event" {
	mklog p.gml "${PLACED[@]}"
	"$TOOL" frag --size=16M p.gml >out
	diff -u - out <<-END
	log           p.gml: mklog, 4.00 s, closed cleanly

	device 0      GPU one, 7 moments, its peak at 2.00 s
	fragmentation     at end       peak       mean
	internal            24 B       24 B       24 B
	external           0.298      0.298      0.254
	  after remap      0.298      0.298      0.254
	unreclaimable   34.0 MiB   34.0 MiB   32.0 MiB
	utilisation        0.469      0.500      0.500
	              computed from the addresses of all events
	$LEGEND

	idle runs of       at end     bytes  below  at peak     bytes  below
	slots of slabs          -   127 KiB      -        -   127 KiB      -
	2.00 MiB and more       1  2.00 MiB  0.004        1  2.00 MiB  0.004
	8.00 MiB and more       1  8.00 MiB  0.062        1  8.00 MiB  0.062
	16.0 MiB and more       1  23.9 MiB  0.298        1  23.9 MiB  0.298
	all                     3  34.0 MiB      -        3  34.0 MiB      -
	              below: share of idle memory in runs too short for such a block

	unusable          at end    at peak
	for 16.0 MiB       0.298      0.298
	  after remap      0.298      0.298

	over time        mapped       idle   external  unreclaimable  of 64.0 MiB
	1.00 s         64.0 MiB   32.0 MiB      0.254       32.0 MiB  ########......
	2.00 s         64.0 MiB   34.0 MiB      0.298       34.0 MiB  #######.......
	              # handed out, = retired, . idle
	END
	"$TOOL" -v p.gml | grep -qE '^unreclaimable   34.0 MiB   34.0 MiB   32.0 MiB$'
	"$TOOL" --json p.gml | jq -e '.logs[0].devices[0] | .fragmentation_computed and .fragmentation.external.peak == 0.297773'
	"$TOOL" frag --json p.gml | jq -e '.logs[0].devices[0] | .samples == 0 and .computed and (.course | length) == 7'
	# They are computed beside samples, too, but a log without every event has nothing else.
	words=()
	for i in {31..40}; do words+=(at:${i}00ms sample:0:1M:0); done
	mklog s.gml "${PLACED[@]:0:14}" "${words[@]}"
	"$TOOL" frag --json s.gml | jq -e '.logs[0].devices[0] | .samples == 10 and .computed'
	GPUMEM_LOG=small mklog t.gml "${PLACED[@]}" sample:0:20M:0
	"$TOOL" frag t.gml | grep -qx '              from only 1 sample'
}

@test "frag: of more than 1024 events JSON has three of each part of the time, and none of the highest is missing" {
	# Within one part of 2 s: three chunks that lie apart, then 1,500 short blocks. External fragmentation is highest without
	# a block; memory is in pieces even after remapping with one.
	words=(at:1s to:4G map:0:64M:1us to:8G map:0:64M:1us to:12G map:0:64M:1us)
	for ((i = 1; i <= 1500; i++)); do words+=(to:4G alloc:0:1M:1us free:$i:1us); done
	words+=(at:3s)
	mklog l.gml "${words[@]}"
	"$TOOL" frag --json l.gml >out
	jq -e '.logs[0].devices[0] | .computed and (.course | length == 3) and .course[1] == .at_peak and .course[2] == .end and
		.at_peak.handed_out == 1048576 and .fragmentation.external.peak == 0.666666 and
		(.course[0] | .idle == 201326592 and .largest_idle == 67108864)' out
	"$TOOL" frag l.gml | grep -qx 'device 0      GPU one, 3,003 moments, its peak at 1.00 s'
	"$TOOL" --json l.gml | jq -e '.logs[0].devices[0].fragmentation.external.peak == 0.666666'
}

@test "frag computes what samples of every event have" {
	for log in small,0 events; do
		SIM_MEMORY=128M "$TOOL" record -e GPUMEM_LOG=$log -o $log.gml -- "${DEMO%demo}fragments" >/dev/null 2>&1 || true
		"$TOOL" frag --json $log.gml >$log.json
		jq '.logs[0].devices[0] | .fragmentation.external.peak, .fragmentation.unreclaimable.peak,
			(.end, .at_peak | .idle, .largest_idle, .largest_after_remap, .unreclaimable, .histogram)' $log.json >$log
	done
	jq -e '.logs[0].devices[0].computed | not' small,0.json
	jq -e '.logs[0].devices[0].computed' events.json
	[ "$(jq -s length events)" -eq 12 ]
	diff small,0 events
}

@test "summary -v: runs at the end are not known if the last sample is older" {
	GPUMEM_LOG=small mklog k.gml at:1s map:0:64M:1us alloc:0:1M:1us sample:0:60M:8M at:2s alloc:0:10M:1us kill
	"$TOOL" frag k.gml >out
	grep -qE '^external +- +0\.048 +-$' out
	grep -qE '^unreclaimable +- +8.00 MiB +-$' out
	GPUMEM_LOG=small mklog l.gml at:1s map:0:64M:1us alloc:0:1M:1us sample:0:60M:8M at:2s kill
	"$TOOL" frag l.gml | grep -qE '^unreclaimable +8.00 MiB +8.00 MiB +-$'
}

@test "frag refuses invalid sizes" {
	for size in 0 1 63K 65535 -1 x '' 1Q; do
		expect 2 "gpumemstat: --size=$size: expected a size of 64K or more
Try 'gpumemstat frag --help'" frag --size=$size
	done
	mklog h.gml map:0:64M:1us
	"$TOOL" frag --size=64K h.gml >out
}

@test "frag of a real run: the runs of every sample add up" {
	"$TOOL" record -e GPUMEM_LOG=events,0 -- "$DEMO" 300 >/dev/null 2>&1
	"$TOOL" frag --json --size=1M gpumem.*.gml >out
	jq -e '.logs[0].devices[0].course | length > 100' out
	jq -e '.logs[0].devices[0].course | map(.idle_runs == ([.histogram[].runs] | add // 0)) | all' out
	jq -e '.logs[0].devices[0].course | map(([.histogram[].bytes] | add // 0) <= .idle) | all' out
	jq -e '.logs[0].devices[0].course | map(.largest_idle >= ([.histogram[].least] | max // 0)) | all' out
	jq -e '.logs[0].devices[0].course | map(.unusable.after_remap_most <= .unusable.most) | all' out
}
