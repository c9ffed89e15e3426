#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# report: the page's structure and data, for logs with known contents (mklog.c), and the page in a browser.
source "$BATS_TEST_DIRNAME/cli.bash"

# At 1 s 21 MiB are alive, the peak. At 2 s an allocation fails. At 3 s a block ends with its context. A
# function of device 1 has a name that would run in a browser.
RUN=(at:1s map:0:64M:100us map:1:64M:1us stack:7 alloc:0:10M:1us alloc:0:10M:1us stack:8 alloc:0:1M:1us stack:0 alloc:0:512:1us
	at:2s free:1:900ns stack:107 driver:0:5M:1us fail:0:7G:1G at:3s stack:67 alloc:1:3M:1us gone:2 stack:203 alloc:0:2M:1us)

# page NAME: print the page's data, and check its HTML.
page() {
	command -v python3 >/dev/null || skip "no python3"
	python3 "$BATS_TEST_DIRNAME/report_page.py" "$1"
}

@test "the page is valid HTML, and its data equal those of the other commands" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" report a.gml >out
	grep -qxE 'report        a.html: [0-9.]+ KiB, to be opened in a browser' out
	page a.html >data
	jq -e '.schema == 1 and (.logs | length) == 1 and (.logs[0].devices | length) == 2' data
	"$TOOL" --json a.gml >summary
	jq -e --slurpfile s summary '.logs[0] as $a | $s[0].logs[0] as $b | $a.findings == $b.findings and $a.length_ns == $b.length_ns
		and $a.program == $b.program and $a.devices[0].requested_peak == $b.devices[0].memory.requested.peak
		and $a.devices[0].requested_peak_ns == $b.devices[0].memory.requested.peak_ns
		and $a.devices[0].mapped_peak == $b.devices[0].memory.mapped.peak' data
	jq -e --slurpfile s summary '.logs[0] as $a | $s[0].logs[0] as $b |
		$a.counters == ($b.counters | with_entries(select(.value != 0))) and
		$a.devices[0].counters == ($b.devices[0].counters | with_entries(select(.value != 0)))' data
	for at in peak oom exit; do
		"$TOOL" live --json --at=$at a.gml >live
		jq -e --slurpfile l live --arg at $at '[.logs[0].devices[].moments[] | select(.at == $at) | {ns, bytes, blocks,
			groups: [.by_stack[] | {bytes, blocks, largest, stack}]} | select(.blocks > 0)] ==
			[$l[0].logs[0].devices[] | {ns, bytes, blocks, groups: [.groups[] | {bytes, blocks, largest, stack}]} | select(.blocks > 0)]' data
	done
	jq -e '.logs[0].devices[0].moments | map(.at) == ["peak", "oom", "exit"]' data
	jq -e '.logs[0].devices[0].moments[0].largest | map([.bytes, .ns, .driver, .stack]) ==
		[[10485760, 1000000000, false, 7], [10485760, 1000000000, false, 7], [1048576, 1000000000, false, 8], [512, 1000000000, false, null]]' data
	jq -e '.logs[0].devices[0].refusals == [{ns: 2000000000, bytes: 7516192768}]' data
	# --json prints the same data without the page.
	"$TOOL" report --json a.gml | jq -S . >json
	sed -n 's|.*<script type="application/json" id="data">\(.*\)</script>.*|\1|p' a.html | jq -S . | diff json -
	diff <(jq -S 'del(.. | .timeline?)' json) <(jq -S 'del(.. | .timeline?, .all?)' data)
}

@test "stacks equal those of live" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" report a.gml
	page a.html >data
	"$TOOL" live --json --at=exit a.gml >live
	jq -e --slurpfile l live '.logs[0] as $log | [$log.stacks[] | {key: "\(.stack)", value: [.frames[] as $f | $log.frames[$f][] | [.language, .function, .line]]}] |
		from_entries as $calls | $l[0].logs[0].devices | [.[].groups[] | select(.stack)] |
		length == 4 and all(.[]; . as $g | $calls["\($g.stack)"] == [$g.frames[] | [.language, .function, .line]])' data
	jq -e '.logs[0].stacks | map([.stack, .cut, .c_only]) ==
		[[7, false, false], [8, false, false], [67, false, false], [107, false, true], [203, true, false]]' data
	jq -e '.logs[0].objects == [{path: "/nowhere/libone.so", missing: "is not here"}]' data
}

@test "the timeline has every event" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" report a.gml
	page a.html >data
	jq -e '.logs[0].devices[0].timeline.steps | map([.from, .events, .requested[2], .in_use[2], .mapped[2], .driver[2]]) == [
		[1000000000, 1, 0, 0, 67108864, 0], [1000000000, 1, 10485760, 10485760, 67108864, 0],
		[1000000000, 1, 20971520, 20971520, 67108864, 0], [1000000000, 1, 22020096, 22020096, 67108864, 0],
		[1000000000, 1, 22020608, 22020608, 67108864, 0], [2000000000, 1, 11534848, 11534848, 67108864, 0],
		[2000000000, 1, 11534848, 11534848, 67108864, 5242880], [3000000000, 1, 1049088, 1049088, 67108864, 5242880],
		[3000000000, 1, 3146240, 3146240, 67108864, 5242880]]' data
	jq -e '.logs[0].devices[1].timeline.most == {requested: 3145728, in_use: 3145728, mapped: 67108864, driver: 0, lent: 0, tensors: 0}' data
}

@test "the timeline of a log without events has the peaks between samples" {
	# 30 MiB at 2 s; the samples have 0 and 10.
	GPUMEM_LOG=small mklog a.gml at:1s map:0:32M:1us sample:0:32M:0 at:2s alloc:0:10M:1us alloc:0:20M:1us at:3s free:2:1us \
		sample:0:12M:0
	"$TOOL" report a.gml
	page a.html >data
	jq -e '.logs[0].devices[0].timeline | .events == 2 and (.steps | map([.from, .events, .requested[2], .in_use[2], .mapped[2]])) == [
		[1000000000, 1, 0, 0, 33554432], [2000000000, 0, 0, 0, 33554432], [3000000000, 1, 10485760, 10485760, 33554432]]' data
	jq -e '.logs[0].devices[0].timeline.most.requested == 31457280 and .logs[0].devices[0].requested_peak_ns == 2000000000' data
	# Before the first sample the values are those of the sample, not 0.
	GPUMEM_LOG=small mklog b.gml at:1s map:0:64M:1us alloc:0:20M:1us alloc:0:20M:1us at:2s free:2:1us at:3s sample:0:12M:0
	"$TOOL" report b.gml
	page b.html >data
	jq -e '.logs[0].devices[0].timeline.steps | map([.from, .requested[0], .requested[1], .mapped[0]]) ==
		[[1000000000, 20971520, 41943040, 67108864], [3000000000, 20971520, 20971520, 67108864]]' data
}

@test "the chunks and the largest blocks stay of many blocks around tensors" {
	mklog a.gml map:0:64M:1us alloc:0:2M:1us tensor:0:1M at:1ms churn:0:4K:150000 at:9s
	"$TOOL" report a.gml
	page a.html >data
	jq -e '.logs[0].devices[0].chunks | .points == 32768 and .omitted > 30000' data
	jq -e '.logs[0].devices[0].chunks.all | any(.[3] == 67108864 and .[4] == 0) and any(.[3] == 2097152 and .[4] == 2)' data
}

# alive LOG TIMES TICK BLOCKS: what the report says was alive equals live at so many times each; the report has ticks of at
# least TICK ns, and once BLOCKS blocks or more were alive.
alive() {
	command -v python3 >/dev/null || skip "no python3"
	python3 "$BATS_TEST_DIRNAME/report_lives.py" "$TOOL" "$1" "$2" >compared
	read -r n tick most <compared
	[ "$n" -ge "$2" ] && [ "$tick" -ge "$3" ] && [ "$most" -ge "$4" ] || { cat compared; return 1; }
}

@test "what was alive at any time equals live, call stack by call stack" {
	mklog a.gml "${RUN[@]}"
	alive a.gml 20 1 4
	mklog b.gml at:1s map:0:1G:1us churn:0:1M:20000
	alive b.gml 20 1 200
	# The sums of the call sites are those of the run.
	"$TOOL" report --json b.gml | jq -e '.logs[0].devices[0] | (.call_sites | map(.calls) | add) == .counters.allocate_calls and
		(.call_sites | map(.bytes) | add) == .counters.allocate_bytes and (.call_sites | map(.live) | add) == .counters.requested and
		(.call_sites | length) == 20 and all(.call_sites[]; .rest | not)'
	# Two of three blocks were freed before the next allocation.
	mklog d.gml at:1s map:0:64M:1us stack:7 alloc:0:1M:1us free:1:1us alloc:0:1M:1us alloc:0:1M:1us free:2:1us free:3:1us
	"$TOOL" report --json d.gml | jq -e '.logs[0].devices[0].call_sites | map([.calls, .brief]) == [[3, 2]]'
	mklog c.gml at:1s map:0:128M:1us stack:7 alloc:0:64M:1us tensor:0:20M tensor:0:10M at:2s back:1 alloc:0:32M:1us
	alive c.gml 10 1 1
}

@test "what was alive is exact at each tick where the lives do not fit, and in a log without its oldest events" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	mklog a.gml at:1s map:0:1G:1us churn:0:1M:300000
	alive a.gml 10 2 200
	"$TOOL" report --json a.gml | jq -e '.logs[0].devices[0] | .lives.points <= 65536 and .areas.points <= 32768 and
		.lives.passed > 0 and .areas.omitted + .areas.points == .counters.allocate_calls'
	GPUMEM_LOG_LIMIT=32M mklog b.gml at:1s map:0:1G:1us stack:9 alloc:0:1M:1us churn:0:1M:900000
	"$TOOL" report --json b.gml | jq -e '.logs[0] | .since_ns > 1000000000 and (.older_known | not)'
	alive b.gml 5 2 200
}

@test "the map of addresses has blocks and chunks, and the curve the fragmentation of each event" {
	# 16 MiB idle in two pieces of 8 MiB; then the chunk moves, with its blocks.
	mklog a.gml at:1s to:4G map:0:32M:1us to:4G alloc:0:8M:1us to:4104M alloc:0:16M:1us at:2s free:1:1us
	"$TOOL" report a.gml
	page a.html >data
	jq -e '.logs[0].devices[0].areas.all == [[1000000000, 2000000000, 4294967296, 8388608, 0], [1000000000, 2000000001, 4303355904, 16777216, 0]]' data
	jq -e '.logs[0].devices[0].chunks.all == [[1000000000, 2000000001, 4294967296, 33554432, 0]]' data
	jq -e '.logs[0].devices[0].frag | .computed and .states == 4 and (.all | map([.[0], .[1], .[4]])) ==
		[[1000000000, 0, 33554432], [1000000000, 0, 25165824], [1000000000, 0, 8388608], [2000000000, 500000, 16777216]]' data
}

@test "the map tells chunks of heaps and blocks with tensors from the pool's idle memory" {
	# A heap is lent 16 MiB at 1 s and 8 MiB at 2 s.
	mklog a.gml at:1s to:4G map:0:32M:1us to:5G lend:0:8M to:4G alloc:0:8M:1us at:2s to:6G grow:0:8M:100us at:3s free:1:1us
	"$TOOL" report a.gml
	page a.html >data
	jq -e '.logs[0].devices[0] | [.chunks.all[] | [.[0], .[2], .[3], .[4]]] == [[1000000000, 4294967296, 33554432, 0],
		[1000000000, 5368709120, 16777216, 1], [2000000000, 6442450944, 8388608, 1]]' data
	# What the heap has is neither mapped by the pool nor idle.
	jq -e '.logs[0].devices[0] | .timeline.most.mapped == 33554432 and .timeline.most.lent == 25165824' data
	jq -e '.logs[0].devices[0].frag.all | map([.[0], .[4]]) == [[1000000000, 33554432], [1000000000, 33554432],
		[1000000000, 25165824], [2000000000, 25165824], [2000000000, 25165824], [3000000000, 33554432]]' data
	mklog b.gml at:1s to:4G map:0:32M:1us to:4G alloc:0:16M:1us to:4G tensor:0:4M at:2s back:1 free:1:1us
	"$TOOL" report b.gml
	page b.html >data
	jq -e '.logs[0].devices[0] | (.areas.all | length) == 1 and ([.chunks.all[] | [.[0], .[1], .[3], .[4]]] | sort) ==
		[[1000000000, 2000000000, 16777216, 2], [1000000000, 2000000001, 33554432, 0]]' data
}

@test "names from a log are no markup" {
	GPUMEM_PROGRAM='</script><script>hacked = 1//' mklog '<!--<script>.gml' "${RUN[@]}"
	"$TOOL" report '<!--<script>.gml' -o a.html
	page a.html >data
	jq -e '.logs[0].path == "<!--<script>.gml"' data
	jq -e '.logs[0].knobs | any(. == "GPUMEM_PROGRAM=</script><script>hacked = 1// (environment)")' data
	jq -e '[.logs[0].frames[][] | .function // ""] | any(startswith("</script><!--<script>hacked = 1"))' data
	[ "$(grep -o '<script' a.html | wc -l)" -eq 2 ]
	[ "$(grep -o '</script' a.html | wc -l)" -eq 2 ]
	mklog b.gml at:1s map:0:64M:1us stack:66 alloc:0:1M:1us
	"$TOOL" report b.gml
	refute grep -q $'\e' b.html
	page b.html | jq -e '[.logs[0].frames[][] | .function // ""] | any(. == "\u001b[31mred\nline")'
}

@test "two million events make a small page, in bounded memory, and no peak is lost" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	command -v python3 >/dev/null || skip "no python3"
	# The peak is the second event of a joined pair.
	words=(at:1s map:0:64M:1us loop:0:512:1000 loop:0:2M:1)
	for i in {1..20}; do words+=(loop:0:512:25000 at:$((1000 + 20 * i))ms loop:0:1M:1 loop:0:70000:25000 at:$((1010 + 20 * i))ms); done
	mklog a.gml "${words[@]}"
	cat >most.py <<-'END'
		import resource, subprocess, sys
		subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
	END
	most=$(python3 most.py "$TOOL" report a.gml)
	if ! grep -q __asan_init "$TOOL"; then [ "$most" -lt $((200 * 1000)) ] || { echo "$most KB"; return 1; }; fi
	[ "$(stat -c %s a.html)" -lt 5000000 ]
	page a.html >data
	jq -e '.logs[0].devices[0] | .timeline.events == 2002043 and .timeline.points <= 65536 and .timeline.points > 16
		and .timeline.most.requested == .requested_peak and .requested_peak == 2097152' data
	jq -e '.logs[0].devices[0].timeline.last[0] | .requested[2] == 0 and .mapped[2] == 67108864' data
}

@test "a log without its oldest events ends with the values of the counters" {
	GPUMEM_LOG_LIMIT=32M mklog a.gml at:1s map:0:64M:1us alloc:0:1M:1us loop:0:512:400000 at:2s alloc:0:2M:1us driver:0:3M:1us
	"$TOOL" report a.gml
	page a.html >data
	jq -e '.logs[0].complete | not' data
	jq -e '.logs[0].devices[0].timeline.last[0] | [.requested[2], .mapped[2], .driver[2]] == [3145728, 67108864, 3145728]' data
	jq -e '.logs[0].devices[0].timeline.steps[0].requested | .[0] >= 1048576 and .[1] <= 1048576 + 512' data
}

@test "a small log has its samples, and reports that it has no blocks" {
	GPUMEM_LOG=small mklog a.gml at:1s map:0:64M:1us alloc:0:10M:1us sample:0:50M:0 at:2s alloc:0:5M:1us sample:0:40M:0
	"$TOOL" report a.gml
	page a.html >data
	jq -e '.logs[0].missing == "no events in this log: '"'gpumemstat record'"' keeps them" and .logs[0].devices[0].moments == []' data
	jq -e '.logs[0].devices[0].timeline.steps | map([.from, .requested[2], .mapped[2]]) ==
		[[1000000000, 10485760, 67108864], [2000000000, 15728640, 67108864]]' data
}

@test "several logs share a page" {
	SLURM_JOB_ID=7 SLURM_PROCID=0 mklog 7.0.gml at:1s map:0:2M:1us alloc:0:1M:1us
	SLURM_JOB_ID=7 SLURM_PROCID=1 mklog 7.1.gml at:1s map:0:2M:1us alloc:0:512:1us
	"$TOOL" report >out
	grep -q '^report        7.0.html: ' out
	page 7.0.html >data
	jq -e '.logs | map([.rank, .devices[0].requested_peak]) == [[0, 1048576], [1, 512]]' data
}

@test "the file that report writes" {
	mklog a.gml at:1s map:0:64M:1us alloc:0:1M:1us
	mkdir logs
	"$TOOL" report a.gml -o logs/x.html | grep -q '^report        logs/x.html: '
	"$TOOL" report a.gml -o - | diff logs/x.html -
	"$TOOL" report --json -o x.json a.gml | grep -q '^report        x.json: '
	"$TOOL" report --json a.gml | diff x.json -
	mv a.gml b.txt
	"$TOOL" report b.txt | grep -q '^report        b.txt.html: '
	cp b.txt saved
	expect 1 'gpumemstat: b.txt: a log, which the report would overwrite' report b.txt -o b.txt
	ln -s b.txt link
	expect 1 'gpumemstat: link: a log, which the report would overwrite' report b.txt -o link
	cmp b.txt saved
	expect 1 'gpumemstat: logs: Is a directory' report b.txt -o logs
	expect 1 'gpumemstat: none/x.html: No such file or directory' report b.txt -o none/x.html
	expect 1 'gpumemstat: /dev/full: No space left on device' report b.txt -o /dev/full
	status=0
	"$TOOL" report b.txt -o - >/dev/full 2>err || status=$?
	[ "$status" -eq 1 ]
	[ "$(<err)" = 'gpumemstat: standard output: No space left on device' ]
}

@test "functions of the page: marks, dates, stacks, remedies" {
	command -v node >/dev/null || skip "no node"
	mklog a.gml at:1s map:0:64M:1us alloc:0:60M:1us fail:0:63M:0 fail:0:63M:0
	TZ=UTC0 "$TOOL" report a.gml
	[ "$(TZ=UTC0 node "$BATS_TEST_DIRNAME/report_functions.js" a.html)" = fine ]
}

@test "malloc and free in kernels are those of leaks" {
	mklog a.gml map:0:32M:1us alloc:0:1M:1us taken:0:64M:1ms lend:0:32M heap:0:1M:0:0 wrong:3:2:1 site:1:2:1K:1 site:2:1:4K:2 last:0
	"$TOOL" leaks --json a.gml >leaks
	"$TOOL" report --json a.gml | jq -e --slurpfile l leaks '.logs[0].devices[0].sites as $s |
		($s | length) >= 2 and $s == $l[0].logs[0].devices[0].sites and ($s | all(.place | length > 0))'
	# Heaps by the kernel that they grew for; its name is demangled if a demangler is here.
	mklog b.gml map:0:32M:1us alloc:0:1M:1us taken:0:64M:1ms lend:0:8M kernel:1 grow:0:2M:1ms grow:0:3M:1ms kernel:0 grow:0:1M:1ms
	"$TOOL" report --json --units=M b.gml | jq -e '.unit == "M" and (.logs[0].devices[0].heap_kernels |
		map([.bytes, .growths]) == [[5242880, 2], [1048576, 1]] and (.[0].kernel | test("lists_build")) and .[1].kernel == null)'
	"$TOOL" report --json b.gml | jq -e '.unit == null'
}

@test "tensors of PyTorch have the place of blocks" {
	mklog a.gml at:1s map:0:128M:1us stack:7 alloc:0:64M:1us tensor:0:20M tensor:0:10M at:2s back:1 alloc:0:32M:1us
	"$TOOL" report --json a.gml | jq -e '.logs[0].devices[0].moments | map([.at, .level, .bytes, .blocks]) ==
		[["peak", "tensor", 31457280, 2], ["exit", "tensor", 10485760, 1]]'
	"$TOOL" report a.gml
	page a.html >data
	jq -e '.logs[0].devices[0].timeline.steps | map(.tensors[2]) == [0, 0, 20971520, 31457280, 10485760, 10485760]' data
	mklog b.gml at:1s map:0:128M:1us stack:7 alloc:0:64M:1us
	"$TOOL" report --json b.gml | jq -e '.logs[0].devices[0].moments | all(.level == "block")'
}

@test "the page in a browser: no error, no request; zoom, hover, keys, search and choices work" {
	command -v python3 >/dev/null || skip "no python3"
	browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "no Chromium"
	mklog a.gml "${RUN[@]}"
	"$TOOL" report a.gml
	# 16 MiB idle in two pieces.
	mklog b.gml at:1s to:4G map:0:32M:1us to:4G alloc:0:8M:1us to:4104M alloc:0:16M:1us at:2s free:1:1us at:3s
	"$TOOL" report b.gml
	mklog c.gml at:1s map:0:64M:1us stack:8 alloc:0:8M:1us stack:107 alloc:0:16M:1us at:3s
	"$TOOL" report a.gml c.gml -o two.html
	[ "$(env -u LD_LIBRARY_PATH python3 "$BATS_TEST_DIRNAME/report_browser.py" "$browser" a.html b.html two.html)" = fine ]
}
