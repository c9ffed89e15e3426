#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Output of summary, env and hooks for a known run. Times differ from run to run; counts do not.
source "$BATS_TEST_DIRNAME/cli.bash"

record() {
	"$TOOL" record "$@" >/dev/null 2>&1
	log=$(echo gpumem.*.gml)
}

@test "summary -v has all numbers" {
	record -- "$DEMO" 500
	"$TOOL" -v >out
	"$TOOL" summary --verbose "$log" | diff - out
	grep -qE "^log  *$log: events, [0-9,]+ records, complete$" out
	grep -qE '^program  *demo, pid [0-9]+ on ' out
	grep -qE '^run .*, closed cleanly$' out
	grep -q '^mode  *pool, driver 13.4$' out
	grep -q '^device 0  *Simulated GPU, 2.00 GiB$' out
	served=$("$TOOL" --json | jq '.logs[0].devices[0].counters.allocate_pool')
	[ "$served" -gt 100 ]
	grep -qE "^allocate +$served +$served +0 +0 " out
	grep -qE '^requested .* MiB' out
	grep -qE '^mapped ' out
	grep -qE '^unreclaimable ' out
	grep -qE '^findings ' out
	[ "$(wc -L <out)" -le 80 ]
}

@test "summary --json has the schema, the counters, and no contradiction" {
	record -- "$DEMO" 500
	"$TOOL" --json "$log" >out
	jq -e '.schema == 1 and (.logs | length) == 1 and .logs[0].contradiction == null and .logs[0].closed' out
	jq -e '.logs[0].devices[0].counters | .allocate_calls == .allocate_pool + .allocate_driver + .allocate_failed' out
	jq -e '.logs[0].devices[0].counters | .allocate_pool - .free_calls - .free_context == .live_blocks' out
	jq -e '.logs[0].devices[0].counters | .mapped == .handed_out + .idle + .retired' out
	for counter in $(sed -n 's/^GM_COUNTER([A-Z]*, *[A-Z]*, *\([a-z0-9_]*\),.*/\1/p' "$BATS_TEST_DIRNAME/../../src/log/counters.def"); do
		jq -e --arg name "$counter" '[.. | objects | has($name)] | any' out >/dev/null || { echo "$counter"; return 1; }
	done
}

@test "summary of mode trace: the driver served all allocations" {
	"$TOOL" record --trace -- "$DEMO" 200 2>&1 >/dev/null | grep -E '^gpumemstat: gpumem.*: peak [0-9.]+ MiB requested, 0 B mapped; '
	log=$(echo gpumem.*.gml)
	"$TOOL" >out
	grep -qE '^peak +[0-9.]+ MiB requested$' out
	grep -qE '^GPU 0 .*; trace, driver ' out
	grep -q 'This run was only watched' out
	grep -qE '^calls +([0-9]+) allocations, \1 frees, 0 alive; 0 failed, \1 by the driver$' out
	"$TOOL" -v >out
	grep -q '^mode  *trace, ' out
	grep -q 'This run was only watched' out
	grep -qE '^requested +0 B +[0-9.]+ MiB ' out
	if grep -q '^of the driver' out; then false; fi
	jq -e '.logs[0].devices[0].counters | .allocate_pool == 0 and .allocate_driver > 10 and .mapped == 0' <("$TOOL" --json)
}

@test "summary of a small log reports that it has no events" {
	record -e GPUMEM_LOG=small -- "$DEMO" 200
	[ "$(stat -c %s "$log")" -le 1048576 ]
	"$TOOL" -v >out
	grep -q "No events in this log: 'gpumemstat record" out
	"$TOOL" >out
	grep -qE "^program .*; $log, no events$" out
	grep -qE '^next +gpumemstat record COMMAND; gpumemstat -v$' out
	"$TOOL" --json | jq -e '.logs[0].level == "small" and .logs[0].devices[0].counters.allocate_pool > 10'
}

@test "summary reports an out-of-memory" {
	SIM_MEMORY=64M record -- "$DEMO" 500 || true
	"$TOOL" >out
	grep -q 'Out of memory: ' out
	"$TOOL" --json | jq -e '.logs[0].devices[0].counters.allocate_failed > 0'
}

@test "summary of an out-of-memory under a limit shows the driver's free memory" {
	SIM_MEMORY=2G record -e GPUMEM_LIMIT=32M -- "$DEMO" 2000 || true
	"$TOOL" --json >out
	jq -e '.logs[0].out_of_memory[0] | .limit == 33554432 and .device_free > 1900 * 1048576 and
		.device_free + .mapped <= 2048 * 1048576' out
	"$TOOL" -v --width=200 | grep -qE '^out of memory .*: cuMemAlloc_v2, .* live, .*; .* of others, 1\.9[0-9] GiB free$'
	jq -e '[.logs[0].findings[].rule] | index("oom_limit_pieces") != null and index("oom_fragmented") == null' out
	"$TOOL" | tr -s ' \n' ' ' | grep -q 'GPUMEM_LIMIT keeps this process at 32.0 MiB'
	# An old log has no such value, and no message about it.
	mklog old.gml map:0:64M:1us alloc:0:60M:1us fail:0:1G:0
	"$TOOL" -v --width=200 old.gml | grep -qE '^out of memory .*\(largest 4.00 MiB\)$'
	"$TOOL" --json old.gml | jq -e '.logs[0].out_of_memory[0].device_free == null'
}

@test "summary of several logs: a line for each, then the range" {
	"$TOOL" record -- sh -c "'$DEMO' 100; '$DEMO' 300" >/dev/null 2>&1
	"$TOOL" summary gpumem.*.gml >out
	[ "$(grep -c 'gpumem\..*\.gml$' out)" -eq 2 ]
	grep -qE '^across logs +min +median +max$' out
	"$TOOL" summary --json gpumem.*.gml | jq -e '(.logs | length) == 2 and .across.calls.max > .across.calls.min'
	refute "$TOOL" summary gpumem.*.gml none.gml >with 2>err
	diff out with
	grep -qx 'gpumemstat: none.gml: no such file' err
}

@test "summary of a log that contradicts itself shows it, names it, and exits with 1" {
	record -- "$DEMO" 200
	served=$("$TOOL" --json "$log" | jq '.logs[0].devices[0].counters.allocate_pool')
	# Increase allocate_pool by one in the file.
	python3 - "$log" "$served" <<-'END'
		import struct, sys
		data = bytearray(open(sys.argv[1], "rb").read())
		served = struct.pack("<Q", int(sys.argv[2]))
		at = data.index(served + served)  # allocate_calls, then allocate_pool
		data[at + 8:at + 16] = struct.pack("<Q", int(sys.argv[2]) + 1)
		open("bad.gml", "wb").write(data)
	END
	status=0
	"$TOOL" bad.gml >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -qE '^gpumemstat: bad.gml: contradicts itself: .+' err
	grep -q '^GPU 0' out
}

@test "text of a log cannot control the terminal" {
	cp "$DEMO" $'de\e[31mmo'
	"$TOOL" record -- $'./de\e[31mmo' 50 >/dev/null 2>&1
	log=$(echo gpumem.*.gml)
	for how in '' -v; do
		"$TOOL" $how "$log" >out
		grep -qF 'de\x1b[31mmo' out
		refute grep -q $'\e' out
	done
	"$TOOL" --json "$log" | jq -e '.logs[0].program == "de\u001b[31mmo"'
}

@test "colour only on request" {
	record -- "$DEMO" 50
	"$TOOL" "$log" | refute grep -q $'\e'
	"$TOOL" --color=always "$log" >out
	"$TOOL" --color=never "$log" | diff - <(sed 's/\x1b\[[0-9;]*m//g' out)
}

@test "summary in other units" {
	record -- "$DEMO" 200
	mapped=$("$TOOL" --json "$log" | jq '.logs[0].devices[0].counters.mapped_peak')
	"$TOOL" --units=B "$log" | tr -d , | grep -q "^peak .* $mapped B mapped "
	"$TOOL" -v --units=B "$log" >out
	grep '^mapped ' out | tr -d , | grep -q "$mapped"
}

@test "summary shows the changed knobs, in one line" {
	shown() { "$TOOL" -v --width=300 "$1" | grep '^knobs'; }
	unset GPUMEM_PREWARM
	"$TOOL" record -o none.gml -- "$DEMO" 50 >/dev/null 2>&1
	[ -z "$(shown none.gml)" ]
	"$TOOL" none.gml | grep -q '^GPU 0 .*; pool, driver 13.4; no knobs set$'
	"$TOOL" record -o same.gml -e GPUMEM_LIMIT=100% -e GPUMEM_FREE=sync -- "$DEMO" 50 >/dev/null 2>&1
	[ -z "$(shown same.gml)" ]
	"$TOOL" record -o set.gml -e GPUMEM_LIMIT=1G -e GPUMEM_FREE=defer -e GPUMEM_PREWARM=0 --trace -- "$DEMO" 50 >/dev/null 2>&1
	[ "$(shown set.gml)" = 'knobs         GPUMEM_FREE=defer, GPUMEM_LIMIT=1G, GPUMEM_PREWARM=0' ] || { shown set.gml; return 1; }
	"$TOOL" --width=300 set.gml | grep -q '; trace, driver 13.4; GPUMEM_FREE=defer, GPUMEM_LIMIT=1G, GPUMEM_PREWARM=0$'
	(GPUMEM_TRIM_AFTER=5 mklog refused.gml 2>/dev/null)
	[ "$(shown refused.gml)" = 'knobs         GPUMEM_LOG_EVENTS=all, GPUMEM_TRIM_AFTER=10s (default; refused: 5)' ] || { shown refused.gml; return 1; }
}

@test "env of this environment, of a log, of a process" {
	GPUMEM_MODE=trace "$TOOL" env --json | jq -e '.knobs[] | select(.name == "GPUMEM_MODE") | .value == "trace" and .source == "environment" and .default == "pool"'
	GPUMEM_MODE=fast "$TOOL" env --json 2>err | jq -e '.knobs[] | select(.name == "GPUMEM_MODE") | .value == "pool"'
	grep -qx 'gpumemstat: GPUMEM_MODE=fast: expected one of pool, trace; using pool' err
	record -e GPUMEM_LIMIT=1G -- "$DEMO" 50
	"$TOOL" env --json "$log" | jq -e '.knobs[] | select(.name == "GPUMEM_LIMIT") | .value == "1G" and .source == "environment"'
	"$TOOL" env --json "$log" | jq -e '.knobs[] | select(.name == "GPUMEM_MODE") | .value == "pool" and .source == "default"'
	GPUMEM_TRIM_AFTER=5s sleep infinity &
	pid=$! BACKGROUND=$!
	while ! grep -qz GPUMEM_TRIM_AFTER=5s /proc/$pid/environ; do sleep 0.05; done
	"$TOOL" env --json $pid | jq -e '.knobs[] | select(.name == "GPUMEM_TRIM_AFTER") | .value == "5s"'
	knobs=$(grep -c '^GM_KNOB(' "$BATS_TEST_DIRNAME/../../src/knob/knob.def")
	[ "$("$TOOL" env --json | jq '.knobs | length')" -eq "$knobs" ]
}

@test "env lists the values of knobs with a fixed set, and the knob accepts each" {
	"$TOOL" env --json >out
	sed -n 's/^GM_KNOB([a-z_]*, *CHOICE, *\([A-Z_]*\), *"[^"]*", *"\([^"]*\)".*/\1 \2/p' "$BATS_TEST_DIRNAME/../../src/knob/knob.def" >choices
	[ "$(wc -l <choices)" -gt 6 ]
	while read -r name words; do
		listed=$(jq -r --arg name $name '.knobs[] | select(.name == $name).values' out)
		[ "$listed" = "${words//|/, }" ] || { echo "$name: $listed"; return 1; }
		for word in ${words//|/ }; do
			env $name=$word "$TOOL" env --json | jq -e --arg name $name --arg word $word \
				'.knobs[] | select(.name == $name) | .value == $word and .source == "environment"' >taken || { echo $name=$word; return 1; }
		done
	done <choices
	jq -e '[.knobs[] | select(.values == "0, 1").name] == ["GPUMEM_ENABLE", "GPUMEM_HEAP_SITES"]' out
	jq -e '.knobs[] | select(.name == "GPUMEM_LOG_EVENTS").values | startswith("all, none, or a list of allocate, free, ")' out
	jq -e '.knobs[] | select(.name == "GPUMEM_LIMIT").values == null' out
	"$TOOL" env | grep -qx '    what is written to the log; LEVEL,TIME: .*'
	"$TOOL" env | grep -A 2 '^GPUMEM_LIMIT ' | refute grep values
}

@test "hooks shows every row" {
	rows=$(grep -c '^GM_HOOK(' "$BATS_TEST_DIRNAME/../../src/driver/hooks.def")
	[ "$("$TOOL" hooks --json | jq '.hooks | length')" -eq "$rows" ]
	"$TOOL" hooks --json | jq -e '.hooks[] | select(.symbol == "cuMemCreate") | .retry'
	"$TOOL" hooks | grep -q '^cuMemAlloc_v2 '
}

@test "summary: copies by kind, in JSON and in one line" {
	mklog c.gml at:1s map:0:64M:1us h2d:1G:100ms count:copy_h2d_staged_calls:1 count:copy_h2d_staged_bytes:536870912 \
		count:copy_h2d_staged_ns:10000000 count:copy_h2d_pageable_calls:1 count:copy_h2d_pageable_bytes:268435456 \
		count:copy_h2d_pageable_ns:20000000 count:copy_small_calls:3 count:copy_wait_ns:40000000
	"$TOOL" --json c.gml >out
	jq -e '.logs[0].copy_kinds.h2d_staged | .bytes == 536870912 and .ns == 1e7 and .bytes_per_second == 53687091200' out
	jq -e '.logs[0].copy_kinds.h2d_pageable | .calls == 1 and .bytes_per_second == 13421772800' out
	jq -e '.logs[0].copy_kinds.h2d_pinned | .calls == 0 and .bytes == 268435456 and .ns == 7e7' out
	jq -e '.logs[0].copy_kinds.d2h_pinned | .calls == 0 and .bytes_per_second == null' out
	"$TOOL" -v c.gml >out
	grep -qE '^pageable  +512 MiB of 768 MiB staged; 3 copies below 64 KiB; 40.0 ms waited$' out
	mklog d.gml at:1s map:0:64M:1us h2d:1G:100ms
	"$TOOL" -v d.gml >out
	refute grep '^pageable' out
}

@test "summary -v shows the number of ordered frees, and the reasons why others had to wait" {
	mklog o.gml at:1s map:0:64M:1us count:ordered_early:1991 count:ordered_streams:7 count:ordered_context:1 count:ordered_off:1 count:ordered_refused:1234 count:ordered_moves:5
	"$TOOL" summary -v o.gml | tr -s ' \n' ' ' >out
	grep -q ' reuse possible at once after 99% of 2,000 frees; not 7 while several streams had work, 1 of memory of another context, 1 for this process acted as defer 1,234 pieces of memory found no use before another stream had work 5 chunks of such memory were mapped at other addresses ' out
	mklog n.gml at:1s map:0:64M:1us count:ordered_capture:3 count:ordered_pinned:1
	"$TOOL" summary -v n.gml | tr -s ' \n' ' ' >out
	grep -q ' reuse possible at once after 0% of 4 frees; not 3 while a capture was open, 1 of memory with a known physical address ' out
	mklog none.gml at:1s map:0:64M:1us
	"$TOOL" summary -v none.gml >out
	refute grep '^reuse' out
}

# What a run with GPUMEM_LEND took, and what went wrong.
LENT=(count:lend_calls:3 count:lend_bytes:4294967296 count:lend_returned:120 count:lend_ns:10440000 count:lend_vacant:104857600
	count:lend_vacant_peak:2147483648)
TROUBLE=(count:lend_host:33554432 count:lend_host_peak:67108864 count:lend_refused:2 count:lend_off:1)

@test "summary shows what was lent of PyTorch's cache" {
	mklog l.gml at:1s map:0:64M:1us "${LENT[@]}"
	for verbose in '' -v; do
		"$TOOL" summary $verbose --width=200 l.gml | grep -A 1 '^lending' >out
		sed -E 's/^(lending)? +//' out | diff -u - <(cat <<-'END'
			4.00 GiB taken from PyTorch's cache, at 3 calls without memory and for tensors; 120 chunks mapped again in 10.4 ms
			saved 100 MiB at end, 2.00 GiB at most
		END
		)
	done
	mklog t.gml at:1s map:0:64M:1us "${LENT[@]}" "${TROUBLE[@]}"
	for verbose in '' -v; do
		"$TOOL" summary $verbose --width=200 t.gml | grep -A 4 '^lending' | tail -n +3 >out
		sed -E 's/^ +//' out | diff -u - <(cat <<-'END'
			32.0 MiB of tensors in memory of the host at end, 64.0 MiB at most
			2 tensors got no memory: torch.OutOfMemoryError
			ended: PyTorch's cache did what gpumem does not know of it
		END
		)
	done
	"$TOOL" --json t.gml | jq -e '.logs[0].devices[0] | .lending == {on: false, calls: 3, taken: 4294967296, returned: 120, ns: 10440000,
		vacant: 104857600, vacant_peak: 2147483648, host: 33554432, host_peak: 67108864, refused: 2, ended: true}
		and .counters.lend_bytes == 4294967296'
}

@test "summary shows that lending is on, and nothing if it is off" {
	GPUMEM_LEND=1 mklog on.gml at:1s map:0:64M:1us
	"$TOOL" on.gml | grep -qx "lending  on; nothing was taken from PyTorch's cache"
	"$TOOL" --json on.gml | jq -e '.logs[0].devices[0].lending | .on and .taken == 0 and (.ended | not)'
	GPUMEM_LEND=0 mklog off.gml at:1s map:0:64M:1us
	refute grep '^lending' <("$TOOL" off.gml; "$TOOL" -v off.gml)
	"$TOOL" --json off.gml | jq -e '.logs[0].devices[0].lending | .on == false and .taken == 0'
	GPUMEM_LEND=2 mklog bad.gml at:1s map:0:64M:1us
	refute grep '^lending' <("$TOOL" bad.gml)
	mklog one.gml at:1s map:0:64M:1us count:lend_calls:1 count:lend_bytes:2097152 count:lend_returned:1 count:lend_refused:1
	"$TOOL" --width=200 one.gml | grep -q "at 1 call without memory and for tensors; 1 chunk mapped again in 0 ns$"
	"$TOOL" one.gml | grep -q ' 1 tensor got no memory: torch.OutOfMemoryError$'
}

@test "external fragmentation is shown from 64 MiB of idle memory on, but always in JSON and by frag" {
	mklog much.gml map:0:128M:1us alloc:0:64M:1us sample:0:64M:64M
	mklog few.gml map:0:128M:1us alloc:0:65M:1us sample:0:63M:63M
	"$TOOL" -v much.gml | grep -qE '^external +0\.'
	refute grep -E '^external|^  after remap' <("$TOOL" -v few.gml)
	"$TOOL" frag few.gml | grep -qE '^external +0\.'
	"$TOOL" --json few.gml | jq -e '.logs[0].devices[0].fragmentation.external.current == 0'
}

@test "the kernels for which device heaps grew, with C++ names if c++filt is there" {
	mklog k.gml taken:0:256M:1ms lend:0:32M kernel:1 grow:0:32M:1ms grow:0:16M:1ms kernel:2 grow:0:8M:1ms kernel:0 \
		grow:0:4M:1ms kernel:4 grow:0:2M:1ms
	"$TOOL" --json k.gml | jq -c '.logs[0].devices[0].heap_kernels[] | [.bytes, .growths, .kernel]' | diff -u - <(cat <<-'END'
	[50331648,2,"_Z11lists_buildPP4NodeP6Answer"]
	[8388608,1,"a graph"]
	[4194304,1,null]
	[2097152,1,"bad\u001b[31m"]
	END
	)
	mkdir bin
	printf '#!/bin/sh\nread name && [ "$name" = _Z11lists_buildPP4NodeP6Answer ] && ! read name && echo "lists_build(Node**, Answer*)"\n' >bin/c++filt
	chmod +x bin/c++filt
	PATH=$PWD/bin "$TOOL" -v k.gml >named
	grep -qx '  48.0 MiB      2  lists_build(Node\*\*, Answer\*)' named
	grep -qx '  2.00 MiB      1  bad\\x1b\[31m' named
	grep -qx '  4.00 MiB      1  not known' named
	# An endless c++filt, or a missing one, changes no name.
	printf '#!/bin/sh\nwhile :; do echo _Z; done\n' >bin/c++filt
	PATH=$PWD/bin "$TOOL" -v k.gml | grep -qx '  48.0 MiB      2  _Z11lists_buildPP4NodeP6Answer'
	rm bin/c++filt
	PATH=$PWD/bin "$TOOL" -v k.gml | grep -qx '  48.0 MiB      2  _Z11lists_buildPP4NodeP6Answer'
	# No table without a known name.
	mklog none.gml taken:0:256M:1ms lend:0:32M grow:0:4M:1ms
	refute grep -q 'heaps grew' <("$TOOL" -v none.gml)
}
