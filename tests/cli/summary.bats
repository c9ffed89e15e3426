#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# What summary, env and hooks show of a known run. Times differ from run to run; figures do not.
source "$BATS_TEST_DIRNAME/cli.bash"

record() {
	"$TOOL" record "$@" >/dev/null 2>&1
	log=$(echo gpumem.*.gml)
}

@test "the first screen answers" {
	record -- "$DEMO" 500
	"$TOOL" >out
	"$TOOL" summary "$log" | diff - out
	grep -qE "^log  *$log: events, [0-9,]+ records, complete$" out
	grep -qE '^program  *demo, pid [0-9]+ on ' out
	grep -qE '^run .*, closed cleanly$' out
	grep -q '^mode  *pool, driver 13.0$' out
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

@test "JSON has the schema, the counters and nothing that contradicts" {
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

@test "only watched: the driver served" {
	record --trace -- "$DEMO" 200
	"$TOOL" >out
	grep -q '^mode  *trace, ' out
	grep -q 'This run was only watched' out
	jq -e '.logs[0].devices[0].counters | .allocate_pool == 0 and .allocate_driver > 10 and .mapped == 0' <("$TOOL" --json)
}

@test "a small log says that it has no events" {
	record -e GPUMEM_LOG=small -- "$DEMO" 200
	[ "$(stat -c %s "$log")" -le 1048576 ]
	"$TOOL" >out
	grep -q "No events in this log: 'gpumemstat record" out
	"$TOOL" --json | jq -e '.logs[0].level == "small" and .logs[0].devices[0].counters.allocate_pool > 10'
}

@test "out of memory is found" {
	SIM_MEMORY=64M record -- "$DEMO" 500 || true
	"$TOOL" >out
	grep -q 'Out of memory: ' out
	"$TOOL" --json | jq -e '.logs[0].devices[0].counters.allocate_failed > 0'
}

@test "several logs: a line each, then the range" {
	"$TOOL" record -- sh -c "'$DEMO' 100; '$DEMO' 300" >/dev/null 2>&1
	"$TOOL" summary gpumem.*.gml >out
	[ "$(grep -c 'gpumem\..*\.gml$' out)" -eq 2 ]
	grep -qE '^across logs +min +median +max$' out
	"$TOOL" summary --json gpumem.*.gml | jq -e '(.logs | length) == 2 and .across.calls.max > .across.calls.min'
	"$TOOL" summary gpumem.*.gml none.gml >with 2>err && return 1
	diff out with
	grep -qx 'gpumemstat: none.gml: no such file' err
}

@test "a log that contradicts itself is shown, named, and status 1" {
	record -- "$DEMO" 200
	served=$("$TOOL" --json "$log" | jq '.logs[0].devices[0].counters.allocate_pool')
	# One more allocation than there was, where the counters lie.
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
	grep -q '^device 0' out
}

@test "what a log says cannot speak to the terminal" {
	cp "$DEMO" $'de\e[31mmo' && "$TOOL" record -- $'./de\e[31mmo' 50 >/dev/null 2>&1
	log=$(echo gpumem.*.gml)
	"$TOOL" "$log" >out
	! grep -q $'\e' out
	"$TOOL" --json "$log" | jq -e '.logs[0].program == "de\u001b[31mmo"'
}

@test "colour only when asked for" {
	record -- "$DEMO" 50
	! "$TOOL" "$log" | grep -q $'\e'
	"$TOOL" --color=always "$log" >out
	"$TOOL" --color=never "$log" | diff - <(sed 's/\x1b\[[0-9;]*m//g' out)
}

@test "units" {
	record -- "$DEMO" 200
	"$TOOL" --units=B "$log" >out
	mapped=$("$TOOL" --json "$log" | jq '.logs[0].devices[0].counters.mapped_peak')
	grep '^mapped ' out | tr -d , | grep -q "$mapped"
}

@test "env: of this environment, of a log, of a process" {
	GPUMEM_MODE=trace "$TOOL" env --json | jq -e '.knobs[] | select(.name == "GPUMEM_MODE") | .value == "trace" and .source == "environment" and .default == "pool"'
	GPUMEM_MODE=fast "$TOOL" env --json 2>err | jq -e '.knobs[] | select(.name == "GPUMEM_MODE") | .value == "pool"'
	grep -qx 'gpumemstat: GPUMEM_MODE=fast: expected one of pool, trace; using pool' err
	record -e GPUMEM_LIMIT=1G -- "$DEMO" 50
	"$TOOL" env --json "$log" | jq -e '.knobs[] | select(.name == "GPUMEM_LIMIT") | .value == "1G" and .source == "environment"'
	"$TOOL" env --json "$log" | jq -e '.knobs[] | select(.name == "GPUMEM_MODE") | .value == "pool" and .source == "default"'
	GPUMEM_SAMPLE=5s sleep 60 &
	pid=$!
	while ! grep -qz GPUMEM_SAMPLE=5s /proc/$pid/environ; do sleep 0.05; done
	"$TOOL" env --json $pid | jq -e '.knobs[] | select(.name == "GPUMEM_SAMPLE") | .value == "5s"'
	kill $pid
	knobs=$(grep -c '^GM_KNOB(' "$BATS_TEST_DIRNAME/../../src/knob/knob.def")
	[ "$("$TOOL" env --json | jq '.knobs | length')" -eq "$knobs" ]
}

@test "hooks: every row" {
	rows=$(grep -c '^GM_HOOK(' "$BATS_TEST_DIRNAME/../../src/driver/hooks.def")
	[ "$("$TOOL" hooks --json | jq '.hooks | length')" -eq "$rows" ]
	"$TOOL" hooks --json | jq -e '.hooks[] | select(.symbol == "cuMemCreate") | .retry'
	"$TOOL" hooks | grep -q '^cuMemAlloc_v2 '
}
