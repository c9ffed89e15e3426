#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat export: the formats csv and openmetrics, and features common to all formats.
source "$BATS_TEST_DIRNAME/cli.bash"

FORMATS=$(sed -n 's/^GM_FORMAT(\([a-z]*\),.*/\1/p' "$BATS_TEST_DIRNAME/../../tools/export/formats.def")

# At 1 s 21 MiB are alive. At 2 s an allocation fails. At 3 s a block ends with its context.
RUN=(at:1s map:0:64M:100us map:1:64M:1us stack:7 alloc:0:10M:1us alloc:0:10M:1us stack:0 alloc:0:1M:1us sample:0:40M:8M
	at:2s free:1:900ns driver:0:5M:1us fail:0:7G:1G h2d:1M:2us at:3s stack:66 alloc:1:3M:1us gone:2 image:1)

@test "csv: every event is a row" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" export --format=csv a.gml >out
	"$TOOL" export a.gml | diff out -
	# The thread number is that of mklog.
	awk -F, -v OFS=, 'NR > 1 { $9 = "T" } 1' out | diff -u - <(cat <<-'END'
		time_ns,event,device,id,address,size,held,context,thread,call,duration_ns,status,flags,stack,requested,handed_out,mapped,idle,retired,lent,largest_idle,unreclaimable,text
		1000000000,map,0,1,0x0,67108864,0,0,T,,100000,0,,,,,,,,,,,
		1000000000,map,1,2,0x0,67108864,0,0,T,,1000,0,,,,,,,,,,,
		1000000000,allocate,0,1,0x100000000,10485760,10485760,1,T,"cuMemAlloc_v2",1000,0,,7,,,,,,,,,
		1000000000,allocate,0,2,0x200000000,10485760,10485760,1,T,"cuMemAlloc_v2",1000,0,,7,,,,,,,,,
		1000000000,allocate,0,3,0x300000000,1048576,1048576,1,T,"cuMemAlloc_v2",1000,0,,,,,,,,,,,
		1000000000,sample,0,0,0x0,0,248,0,T,,0,0,,,22020096,22020096,67108864,45088768,0,0,41943040,8388608,
		2000000000,free,0,1,0x100000000,10485760,10485760,0,T,"cuMemFree_v2",900,0,,,,,,,,,,,
		2000000000,allocate,0,18446744073709551615,0x400000000000,5242880,5242880,0,T,"cuMemAlloc_v2",1000,0,driver,,,,,,,,,,
		2000000000,out_of_memory,0,0,0x0,7516192768,304,0,T,"cuMemAlloc_v2",0,0,,,11534336,11534336,67108864,55574528,0,0,55574528,0,
		2000000000,allocate_failed,0,0,0x0,7516192768,0,0,T,"cuMemAlloc_v2",0,2,,,,,,,,,,,
		2000000000,copy,0,0,0x100000000,1048576,0,0,T,"cuMemcpyHtoD_v2",2000,0,h2d,,,,,,,,,,
		3000000000,allocate,1,4,0x400000000,3145728,3145728,2,T,"cuMemAlloc_v2",1000,0,,66,,,,,,,,,
		3000000000,free,0,2,0x200000000,10485760,10485760,0,T,,0,0,context_gone,,,,,,,,,,
		3000000000,module,,1,0x200000000,0,0,0,T,,0,0,,,,,,,,,,,"calls an allocator: malloc, free"
	END
	)
}

@test "csv: live memory at the time of a refused allocation" {
	GPUMEM_LOG=small mklog s.gml at:1s map:0:64M:1us fail:0:7G:1G stack:7 held:0:1M:3 stack:0 rest:0:512:4
	"$TOOL" export s.gml | awk -F, -v OFS=, '$2 == "held" { $9 = "T"; print }' | diff -u - <(cat <<-'END'
		1000000000,held,0,1,0x3,3145728,1048576,0,T,,0,0,,7,,,,,,,,,
		1000000000,held,0,1,0x4,2048,512,0,T,,0,0,rest,,,,,,,,,,
	END
	)
}

@test "csv: the rows of a real run are right, and the manual has every column" {
	"$TOOL" record -e GPUMEM_LOG_EVENTS=all -o r.gml -- "$DEMO" 300 >/dev/null 2>&1
	"$TOOL" export -o r.csv r.gml >out
	[ ! -s out ]
	"$TOOL" --json r.gml >summary
	[ "$(grep -c '^[0-9]*,allocate,' r.csv)" -eq "$(jq '[.logs[0].devices[].counters | .allocate_pool + .allocate_driver] | add' summary)" ]
	awk -F, 'NR == 1 { n = NF } NF != n { exit 1 }' r.csv
	for column in $(head -n 1 r.csv | tr , ' '); do
		grep -qE "^\.(It )?Li (.* )?$column( |$)" "$BATS_TEST_DIRNAME/../../man/gpumemstat.1" || { echo "$column"; return 1; }
	done
}

@test "csv: after dropped events each live block is listed once, and each free has its block" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	# One thread: no other event is between the live blocks.
	"$TOOL" record -e GPUMEM_TRIM_AFTER=off -e GPUMEM_LOG_EVENTS=all -e GPUMEM_LOG_LIMIT=32M -o r.gml -- "$DEMO" 300000 >/dev/null 2>&1
	"$TOOL" --json r.gml | jq -e '.logs[0].complete | not'
	"$TOOL" export r.gml >out
	# Before them is the call that began the segment: it allocates one of them, or frees
	# another block.
	awk -F, '$2 == "live" { if (($2, $4) in born || called) exit 1; n++ }
		$2 == "allocate" && (($2, $4) in born || ("live", $4) in born) { exit 1 }
		$2 == "live" || $2 == "allocate" { born[$2, $4]; known[$4] }
		n && $2 != "live" && $10 != "" { called = 1 }
		$2 == "free" && !($4 in known) && n { exit 1 }
		END { if (!n) exit 1 }' out
}

@test "openmetrics: the grammar holds, and every counter has its name and unit" {
	# Text of a log that would end a label, or control a terminal.
	SLURM_JOB_ID=$'\e[31m"red\\\n\xff' SLURM_PROCID=3 mklog a.gml "${RUN[@]}" take:foreign_driver_calls:0:5M
	"$TOOL" export --format=openmetrics a.gml >out
	awk -f "$BATS_TEST_DIRNAME/openmetrics.awk" out
	grep -qF 'rank="3",host="node7",job="\\x1b[31m\"red\\\\\\n\\xff",mode="pool"} 1' out
	# One family for each counter, and five more.
	[ "$(grep -c '^# TYPE ' out)" -eq $(("$("$TOOL" --completions | grep -c '^counter')" + 5)) ]
	of='device="0",program="mklog",pid="4711",rank="3"'
	for line in "allocate_calls_total{$of} 5" "allocate_bytes_total{$of} 22020096" "allocate_seconds_total{$of} 0.000004000" \
		"requested_bytes{$of} 1048576" "requested_peak_bytes{$of} 22020096" "live_blocks{$of} 1" \
		"requested_peak_timestamp_seconds{$of} 1795262401.000000000" "foreign_driver_bytes_total{$of} 5242880" \
		"foreign_driver_live_bytes{$of} 0" "foreign_driver_peak_bytes{$of} 5242880" \
		"external_peak_ratio{$of} 0.069767" "copy_h2d_bytes_total{program=\"mklog\",pid=\"4711\",rank=\"3\"} 1048576" \
		"log_end_timestamp_seconds{program=\"mklog\",pid=\"4711\",rank=\"3\"} 1795262403.000000000"; do
		grep -qxF "gpumem_$line" out || { echo "$line"; return 1; }
	done
	# No timestamp of an event that did not happen; no unused device.
	mklog b.gml at:1s map:0:2M:1us
	"$TOOL" export --format=openmetrics b.gml >out
	awk -f "$BATS_TEST_DIRNAME/openmetrics.awk" out
	refute grep -q 'gpumem_requested_peak_timestamp_seconds{\|device="1"' out
}

@test "openmetrics: this test's checker finds faults" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" export --format=openmetrics a.gml >good
	for fault in '$d' 's/_total{/{/' 's/"mklog"/"mk"log"/' 's/"mklog"/"mk\\log"/' '4d' '/^# HELP/d' 's/} 1$/} one/' \
		's/^# UNIT \(.*\) bytes$/# UNIT \1 meters/' '/^# TYPE gpumem_live_blocks/d' 's/^# EOF$/&\n&/' '3p'; do
		sed "$fault" good >bad
		refute awk -f "$BATS_TEST_DIRNAME/openmetrics.awk" bad
	done
}

@test "openmetrics: prometheus_client parses it" {
	python3 -c 'import prometheus_client.openmetrics.parser' 2>/dev/null || skip "no prometheus_client"
	mklog a.gml "${RUN[@]}"
	"$TOOL" export --format=openmetrics a.gml >out
	python3 - out <<-'END'
		import sys
		from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
		found = {s.name: s.value for f in parse(open(sys.argv[1]).read()) for s in f.samples if s.labels.get("device", "0") == "0"}
		assert found["gpumem_requested_peak_bytes"] == 22020096, found
		assert found["gpumem_allocate_failed_total"] == 1, found
	END
}

@test "openmetrics: promtool makes blocks of it" {
	command -v promtool >/dev/null || skip "no promtool"
	mklog a.gml "${RUN[@]}"
	# Its parser of OpenMetrics needs samples with a time.
	"$TOOL" export --format=openmetrics a.gml | sed '/^#/!s/$/ 1795262403/' >timed
	promtool tsdb create-blocks-from openmetrics timed blocks
	[ -n "$(ls blocks)" ]
}

@test "prometheus: promtool check metrics accepts it as it is" {
	command -v promtool >/dev/null || skip "no promtool"
	SLURM_JOB_ID=$'\e[31m"red\\\n\xff' mklog a.gml "${RUN[@]}"
	"$TOOL" export --format=prometheus a.gml >out
	[ -z "$(promtool check metrics <out 2>&1)" ]
	# It finds faults.
	sed 's/_total/_sum/' out >bad
	[ -n "$(promtool check metrics <bad 2>&1)" ]
}

@test "prometheus: the samples are those of openmetrics, and each family has the name of its samples" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" export --format=prometheus a.gml >out
	formed prometheus
	"$TOOL" export --format=openmetrics a.gml >other
	cmp <(grep -v '^#' out) <(grep -v '^#' other)
	[ "$(grep -c '^# TYPE gpumem_.* counter$' out)" -eq "$(grep -c '^# TYPE gpumem_.*_total counter$' out)" ]
	[ "$(grep -c '^# TYPE .* counter$' out)" -eq "$(grep -c '^# TYPE .* counter$' other)" ]
	refute grep -qv -e '^# TYPE ' -e '^# HELP ' -e '^[^#]' out
}

@test "chrome: counters, blocks with their stacks, and instants" {
	mklog a.gml "${RUN[@]}" grow:0:2M:1us unmap:2
	"$TOOL" export --format=chrome -o out a.gml
	refute grep -q $'[\x01-\x09\x0b-\x1f\x7f]' out
	events() { jq -c "[.traceEvents[] | select(.ph == \"$1\")]" out; }
	# Every event has a type, a process, a thread and a time.
	jq -e '[.traceEvents[] | (.name | type == "string") and .pid == 4711 and (.tid | type) == "number" and (.ts | type) == "number"] | all' out
	curve() { events C | jq -c "[.[] | select(.name == \"$1\") | [.ts, .args.bytes]]"; }
	[ "$(curve 'device 0: requested')" = '[[1000000,10485760],[1000000,22020096],[2000000,11534336],[3000000,1048576]]' ]
	[ "$(curve 'device 0: mapped' | jq -c .[0])" = '[1000000,67108864]' ]
	[ "$(curve 'device 0: served by the driver')" = '[[2000000,5242880]]' ]
	[ "$(curve 'device 1: in use')" = '[[3000000,3145728]]' ]
	events i | jq -e 'map([.name, .ts, .args.bytes]) | index([["out of memory", 2000000, 7516192768]]) and index([["memory mapped", 1000000, 67108864]])
		and index([["device heap grew", 3000000, 2097152]]) and index([["memory returned", 3000000, 67108864]])'
	events b | jq -e 'map([.id, .name, .args.bytes]) | length == 5 and .[0] == ["0-1", "10.0 MiB, train (project/train.py:7)", 10485760]'
	events b | jq -e '.[0].args.stack == ["train (/home/me/project/train.py:7)", "<module> (/home/me/project/train.py:1)"]'
	events b | jq -e '[.[] | select(.args.device == 1)] | .[0].args.stack[0] == "\u001b[31mred\nline (/home/me/project/train.py:66)"'
	events b | jq -e '[.[] | select(.args.driver)] | length == 1'
	# Each begin has an end of the same name; blocks that were not freed have it at the end of the log.
	at=', train (project/train.py:7)'
	[ "$(events e | jq -c 'map([.id, .name, .ts, .args.alive_at_end])[:2]')" = "[[\"0-1\",\"10.0 MiB$at\",2000000,null],[\"0-2\",\"10.0 MiB$at\",3000000,null]]" ]
	events e | jq -e '.[2:] | length == 3 and all(.args.alive_at_end and .ts == 3000000)'
}

@test "chrome: each pair is closed, counters do not run backwards; the checker of this finds faults" {
	command -v python3 >/dev/null || skip "no python3"
	mklog a.gml "${RUN[@]}"
	"$TOOL" export --format=chrome a.gml >good
	count() { jq "[.traceEvents[] | select(.ph == \"$1\")] | length" good; }
	[ "$(python3 "$BATS_TEST_DIRNAME/trace.py" good)" = "5 $(count C) $(count i)" ]
	jq -c . good >one
	for fault in '.traceEvents |= map(select(.ph != "e"))' '.traceEvents |= map(select(.ph != "b"))' '.traceEvents |= map(select(.ph != "M"))' \
		'.traceEvents |= map(if .ph == "e" then .name = "x" else . end)' '.traceEvents |= map(if .ph == "e" then .cat = "x" else . end)' \
		'.traceEvents |= map(if .ph == "e" then .ts = 0 else . end)' '.traceEvents |= map(if .ph == "C" then .args.bytes = "x" else . end)' \
		'.traceEvents |= map(if .ph == "C" then .ts = 9999999 - .ts else . end)' '.traceEvents[3] |= del(.ts)' '.traceEvents[3].tid = 0' \
		'.traceEvents[3].ph = "Z"' '{otherData} + .' '.more = 1' '.traceEvents += [.traceEvents[] | select(.ph == "b")]'; do
		jq -c "$fault" one >bad
		refute python3 "$BATS_TEST_DIRNAME/trace.py" bad
	done
}

@test "chrome: Perfetto's trace processor reads it without an error" {
	shell=$(command -v trace_processor_shell || command -v trace_processor) || skip "no trace_processor_shell"
	mklog a.gml "${RUN[@]}"
	"$TOOL" export --format=chrome a.gml >out.json
	# A slice without an end has the duration -1.
	echo "select count(*), sum(dur < 0) from slice where category = 'block';" >blocks.sql
	echo "select count(*), sum(value) from stats where severity in ('error', 'data_loss');" >stats.sql
	"$shell" -q blocks.sql out.json | grep -qx '5,0'
	"$shell" -q stats.sql out.json | grep -qE '^[0-9]+,0(\.0+)?$'
}

@test "chrome: of very many events the peaks are kept, and of very many blocks the large ones" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	words=(to:64G map:0:256M:1us)
	for ((i = 1; i < 100; i++)); do
		words+=(at:${i}ms loop:0:1000:500 loop:0:70000:500 loop:0:$((i + 10))M:1)
	done
	mklog a.gml "${words[@]}"
	"$TOOL" export --format=chrome a.gml >out
	[ "$(stat -c %s out)" -lt 20000000 ]
	jq -e '.otherData.blocks_from_bytes == 131072' out
	formed chrome
	jq -e '[.traceEvents[] | select(.ph == "b").args.bytes] | length == 20000 and (map(select(. > 70000)) | length == 99 and max == 114294784)
		and (map(select(. == 70000)) | length) == 19901' out
	# Every peak is there, although a millisecond covers many intervals.
	jq -e '[.traceEvents[] | select(.name == "device 0: requested").args.bytes] | . as $v |
		[range(1; 100) | . + 10 | . * 1048576] - $v == []' out
}

@test "chrome: of very many blocks of one size the first ones are kept" {
	mklog a.gml at:1s map:0:64M:1us loop:0:1M:20001 map:1:64M:1us
	"$TOOL" export --format=chrome a.gml >out
	formed chrome
	jq -e '[.traceEvents[] | select(.ph == "b")] | length == 20000' out
	jq -e '[.traceEvents[] | select(.ph == "e")] | length == 20000' out
}

# Two adjacent chunks, one of which moves; a block across them; a block of the driver; an idle chunk
# elsewhere.
CHUNKS=(at:1s to:4G map:0:16M:1us to:4112M map:0:16M:1us to:8G map:0:8M:1us to:16G map:1:4M:1us stack:7 to:4104M alloc:0:12M:1us stack:0
	to:4G alloc:0:1000:1us at:2s driver:0:5M:1us fail:0:7G:1G free:2:1us to:4097M alloc:0:700:1us move:3:512G stack:66 alloc:1:3M:1us)

@test "pytorch: Python unpickles the snapshot, which uses only opcodes known to the viewer page" {
	command -v python3 >/dev/null || skip "no python3"
	mklog a.gml "${CHUNKS[@]}"
	"$TOOL" export --format=pytorch -o a.pickle a.gml
	"$TOOL" export --format=pytorch a.gml | cmp a.pickle
	python3 - <<-'END'
		import pickle, pickletools
		data = open("a.pickle", "rb").read()
		known = """APPENDS BINGET BININT BININT1 BININT2 EMPTY_DICT EMPTY_LIST LONG1 LONG_BINGET MARK MEMOIZE PROTO
		    SETITEMS SHORT_BINUNICODE STOP TUPLE2 NEWFALSE BINUNICODE NEWTRUE""".split()
		used = {op.name for op, _, _ in pickletools.genops(data)}
		assert used <= set(known), used - set(known)
		snapshot = pickle.loads(data)
		M, G = 2**20, 2**30
		of = lambda d: [(e["action"], e.get("addr"), e["size"], e["time_us"] - 1795262400000000) for e in snapshot["device_traces"][d]]
		assert of(0) == [
		    ("segment_map", 4*G, 16*M, 1000000), ("segment_map", 4*G + 16*M, 16*M, 1000000), ("segment_map", 8*G, 8*M, 1000000),
		    ("alloc", 4*G + 8*M, 12*M, 1000000), ("alloc", 4*G, 1000, 1000000),
		    ("segment_alloc", 2**46, 5*M, 2000000), ("alloc", 2**46, 5*M, 2000000),
		    ("oom", None, 7*G, 2000000), ("free_requested", 4*G, 1000, 2000000), ("free_completed", 4*G, 1000, 2000000),
		    ("alloc", 4*G + M, 700, 2000000),
		    ("segment_unmap", 8*G, 8*M, 2000000), ("segment_map", 512*G, 8*M, 2000000)], of(0)
		assert of(1) == [("segment_map", 16*G, 4*M, 1000000), ("alloc", 16*G, 3*M, 2000000)], of(1)
		oom = [e for e in snapshot["device_traces"][0] if e["action"] == "oom"][0]
		assert oom["device_free"] == G
		frames = snapshot["device_traces"][0][3]["frames"]
		assert frames[2] == {"name": "train", "filename": "/home/me/project/train.py", "line": 7}, frames
		assert frames[0] == {"name": "0x107", "filename": "/nowhere/libone.so", "line": 0}, frames
		assert snapshot["device_traces"][0][4]["frames"] == []
		assert snapshot["device_traces"][1][1]["frames"][2]["name"] == "\\x1b[31mred\\nline"
		segments = [(s["device"], s["address"], s["total_size"], s["requested_size"],
		    [(b["address"] - s["address"], b["size"], b["requested_size"], b["state"]) for b in s["blocks"]]) for s in snapshot["segments"]]
		assert segments == [
		    (0, 4*G, 32*M, 12*M + 700, [(0, M, 0, "inactive"), (M, 1024, 700, "active_allocated"), (M + 1024, 7*M - 1024, 0, "inactive"),
		        (8*M, 12*M, 12*M, "active_allocated"), (20*M, 12*M, 0, "inactive")]),
		    (0, 512*G, 8*M, 0, [(0, 8*M, 0, "inactive")]),
		    (0, 2**46, 5*M, 5*M, [(0, 5*M, 5*M, "active_allocated")]),
		    (1, 16*G, 4*M, 3*M, [(0, 3*M, 3*M, "active_allocated"), (3*M, M, 0, "inactive")])], segments
		assert snapshot["segments"][0]["blocks"][3]["frames"] == frames
		assert snapshot["segments"][0]["segment_pool_id"] == (0, 0)
	END
}

@test "pytorch: a real run adds up" {
	command -v python3 >/dev/null || skip "no python3"
	"$TOOL" record --stacks=all -e GPUMEM_LOG_EVENTS=all -o r.gml -- "$DEMO" 300 >/dev/null 2>&1
	"$TOOL" export --format=pytorch -o r.pickle r.gml
	"$TOOL" --json r.gml >summary
	python3 - <<-'END'
		import json, pickle
		snapshot = pickle.load(open("r.pickle", "rb"))
		counters = json.load(open("summary"))["logs"][0]["devices"][0]["counters"]
		trace, alive, mapped, most = snapshot["device_traces"][0], {}, 0, 0
		for e in trace:
		    if e["action"] == "alloc":
		        assert e["addr"] not in alive
		        alive[e["addr"]] = e["size"]
		        most = max(most, sum(alive.values()))
		    elif e["action"] == "free_completed":
		        assert alive.pop(e["addr"]) == e["size"]
		    elif e["action"].startswith("segment_"):
		        mapped += e["size"] if e["action"] == "segment_map" else -e["size"]
		assert most == counters["requested_peak"], most
		assert sum(e["action"] == "alloc" for e in trace) == counters["allocate_pool"]
		assert mapped == sum(s["total_size"] for s in snapshot["segments"]) == counters["mapped"], mapped
		assert sum(s["requested_size"] for s in snapshot["segments"]) == counters["requested"]
		for s in snapshot["segments"]:
		    assert s["total_size"] == sum(b["size"] for b in s["blocks"])
		    assert s["allocated_size"] == sum(b["size"] for b in s["blocks"] if b["state"] == "active_allocated")
		assert any(f["name"] == "main" for e in trace if e["action"] == "alloc" for f in e["frames"]) or not any(e["frames"] for e in trace)
	END
}

@test "pytorch: torch.cuda._memory_viz accepts it" {
	python3 -c 'import torch.cuda._memory_viz' 2>/dev/null || skip "no torch"
	mklog a.gml "${CHUNKS[@]}"
	"$TOOL" export --format=pytorch -o a.pickle a.gml
	python3 - <<-'END'
		import pickle, torch.cuda._memory_viz as viz
		snapshot = pickle.load(open("a.pickle", "rb"))
		assert "segments: 4" in viz.segsum(snapshot)
		assert "OutOfMemoryError" in viz.trace(snapshot)
		assert "snapshot.pickle" in viz.trace_plot(snapshot)
	END
}

@test "two million events: each format within 200 MB" {
	command -v python3 >/dev/null || skip "no python3"
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	if [ -n "${SANITIZE_LIB:-}" ] || grep -q __asan_init "$TOOL"; then skip "the sanitizer has memory of its own"; fi
	mklog long.gml to:64G map:0:64M:1us stack:7 loop:0:1000:1000000
	cat >most.py <<-'END'
		import resource, subprocess, sys
		subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
	END
	for format in $FORMATS; do
		most=$(python3 most.py "$TOOL" export --format=$format long.gml)
		[ "$most" -lt 200000 ] || { echo "$format: $most KiB"; return 1; }
	done
}

@test "pytorch needs events, and an output that is no terminal" {
	GPUMEM_LOG=small mklog s.gml at:1s map:0:64M:1us
	expect 1 'gpumemstat: s.gml: a log without events: gpumemstat record makes one with them' export --format=pytorch s.gml
	command -v python3 >/dev/null || skip "no python3"
	mklog a.gml "${RUN[@]}"
	status=0
	python3 "$BATS_TEST_DIRNAME/rows.py" 24 "$TOOL" export --format=pytorch a.gml >out || status=$?
	[ "$status" -eq 2 ]
	grep -q '^gpumemstat: a terminal shows no binary data: -o FILE' out
	python3 "$BATS_TEST_DIRNAME/rows.py" 24 "$TOOL" export --format=csv a.gml >out
	grep -q '^time_ns,' out
}

@test "export without LOG takes the newest run; a run of several logs, and logs without events" {
	expect 1 "gpumemstat: no log *.gml here: 'gpumemstat record COMMAND' makes one" export
	mklog a.gml "${RUN[@]}"
	"$TOOL" export | diff - <("$TOOL" export a.gml)
	mkdir run
	(cd run && SLURM_JOB_ID=9 SLURM_PROCID=0 mklog 0.gml at:1s && SLURM_JOB_ID=9 SLURM_PROCID=1 mklog 1.gml at:1s)
	expect 1 'gpumemstat: the run has 2 logs: name one of them' export run
	GPUMEM_LOG=small mklog s.gml at:1s map:0:64M:1us alloc:0:1M:1us sample:0:1M:1M
	[ "$("$TOOL" export s.gml | cut -d, -f 2 | tail -n +2)" = sample ]
}

@test "export to a file that cannot be written, or that is the log" {
	mklog a.gml "${RUN[@]}"
	cp a.gml b.gml
	ln a.gml link
	for format in $FORMATS; do
		expect 1 'gpumemstat: a.gml: is the log itself' export --format=$format -o a.gml a.gml
		expect 1 'gpumemstat: link: is the log itself' export --format=$format -o link a.gml
		cmp a.gml b.gml
		expect 1 'gpumemstat: none/x: No such file or directory' export --format=$format -o none/x a.gml
		expect 1 'gpumemstat: /dev/full: No space left on device' export --format=$format -o /dev/full a.gml
	done
}

@test "every format ends well on damaged logs" {
	MUTATE=${MKLOG%/*}/mutate
	mklog good.gml "${RUN[@]}" sample:0:40M:50M taken:0:1G:1ms lend:0:2M grow:0:2M:1us heap:0:1M:1:2 last:0 move:1:1G unmap:1
	for seed in {1..60}; do
		"$MUTATE" good.gml bad.gml $seed
		for format in $FORMATS; do
			status=0
			"$TOOL" export --format=$format bad.gml >out 2>err </dev/null || status=$?
			[ "$status" -le 1 ] || { echo "$seed $format: exit $status"; cat err; return 1; }
			[ "$(grep -c "" err)" -eq "$status" ] || { echo "$seed $format"; cat err; return 1; }
			[ ! -s out ] || formed $format || { echo "$seed $format"; return 1; }
		done
	done
}

# formed FORMAT: out is well formed.
formed() {
	case $1 in
	csv)
		[ "$(LC_ALL=C tr -d '\n -~' <out | wc -c)" -eq 0 ]
		;;
	openmetrics)
		awk -f "$BATS_TEST_DIRNAME/openmetrics.awk" out
		;;
	prometheus)
		# As OpenMetrics.
		sed -e 's/^\(# [A-Z]* [a-z0-9_]*\)_total /\1 /' -e '$a # EOF' out | awk -f "$BATS_TEST_DIRNAME/openmetrics.awk"
		;;
	chrome)
		jq -e '.traceEvents | length > 0' out >/dev/null
		! command -v python3 >/dev/null || python3 "$BATS_TEST_DIRNAME/trace.py" out
		;;
	pytorch)
		! command -v python3 >/dev/null || python3 -c 'import pickle, sys; pickle.load(open(sys.argv[1], "rb"))["segments"]' out
		;;
	*) return 1 ;;
	esac
}

@test "chrome and summary: after dropped events, memory begins with the live blocks" {
	GPUMEM_LOG_LIMIT=32M mklog cut.gml map:0:64M:1us alloc:0:8M:1us at:1s loop:0:1000:400000 at:3s alloc:0:4M:1us at:4s
	"$TOOL" summary --json cut.gml | jq -e '.logs[0] | (.complete | not) and .dropped > 0'
	"$TOOL" export --format=chrome -o cut.json cut.gml
	jq '[.traceEvents[] | select(.ph == "C") | {name, value: (.args | to_entries[0].value)}]' cut.json >counters
	jq -e 'map(select(.name | test("requested"))) | length > 2 and all(.value >= 8388608) and (last.value == 12582912)' counters
	jq -e 'map(select(.name | test("mapped"))) | length > 0 and all(.value == 67108864)' counters
	"$TOOL" --width=80 cut.gml >screen
	# Nothing is known before the first record. From there on both curves run to the end.
	grep -qE '^ +\|\.? +#+$' screen || { cat screen; return 1; }
	[ "$(grep -cE '\|\.? +\.+$' screen)" = 4 ]
}
