#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat top: real processes on the simulated device, and a stand-in for NVML. Other processes of this
# machine may be there, too: only those of the test count.
source "$BATS_TEST_DIRNAME/cli.bash"
PRELOAD=${GPUMEM_TEST_PRELOAD:-$PWD/.libs/libgpumem.so}
NVML=$PWD/tests/cli/nvml

# started LOG...: BACKGROUND is a program that has allocated and is stopped; its counters are in
# counters.json.
started() {
	env "$@" LD_PRELOAD=$PRELOAD "$DEMO" 1000000000 >/dev/null 2>&1 &
	BACKGROUND=$!
	until "$TOOL" top --json | jq -e ".processes[] | select(.pid == $BACKGROUND and .requested > 1000000)" >/dev/null; do sleep 0.1; done
	kill -STOP $BACKGROUND
}

of_process() { # of_process FILTER: FILTER is true for its row
	jq -e ".processes[] | select(.pid == $BACKGROUND) | $1" json
}

@test "top shows a process with a log: its memory equals the log's" {
	started GPUMEM_LOG=small GPUMEM_LOG_NAME=a.gml
	"$TOOL" top --json >json
	"$TOOL" summary --json a.gml >summary
	jq '.logs[0].devices[0].counters' summary >counters
	of_process ".program == \"demo\" and .requested == $(jq .requested counters) and .pool == $(jq .mapped counters)"
	of_process ".memory == $(jq '.mapped + .lent + .foreign' counters) and .heap == 0"
	mean=$(jq '.logs[0].devices[0].fragmentation.external.mean // 0' summary)
	of_process "(.external - $mean) * 1e6 | fabs < 2"
	gpu=$(of_process .gpu)
	jq -e ".devices[$gpu] | .name == \"Simulated GPU\" and .total == 2147483648 and .processes >= 1" json
	jq -e ".devices[$gpu].pool == ([.processes[] | select(.gpu == $gpu).pool] | add)" json
	"$TOOL" top -o >out
	[ "$(wc -L <out)" -le 80 ]
	grep -qE '^ *gpu +memory +used +requested +pool +heap +foreign +name$' out
	grep -qE '^ *pid +gpu +memory +requested +pool +heap +foreign +frag +program$' out
	grep -qE "^ *$BACKGROUND +$gpu +[0-9.]+ MiB +[0-9.]+ MiB +[0-9.]+ MiB +0 B +[0-9.]+ [KM]?i?B +0\.[0-9]+ +demo$" out
}

@test "top shows a process without a log" {
	started GPUMEM_LOG=off
	"$TOOL" top --json >json
	of_process '.program == "demo" and .requested > 1000000 and .pool >= .requested'
	kill -KILL $BACKGROUND
	wait $BACKGROUND || true
	"$TOOL" top --json | jq -e "[.processes[] | select(.pid == $BACKGROUND)] == []"
}

@test "top orders by every key" {
	started GPUMEM_LOG=off
	first=$BACKGROUND
	started GPUMEM_LOG=off
	for key in memory requested pool heap foreign external; do
		"$TOOL" top --json --by=$key | jq -e "[.processes[].$key // 0] | . == (sort | reverse)" || { echo "$key"; return 1; }
	done
	for key in pid program; do
		"$TOOL" top --json --by=$key | jq -e "[.processes[].$key] | . == sort" || { echo "$key"; return 1; }
	done
	kill -KILL $first
	[ "$("$TOOL" top -o -n 1 | sed '1,/^ *pid /d' | wc -l)" -le 2 ]
}

@test "top shows processes without gpumem through NVML" {
	started GPUMEM_LOG=small GPUMEM_LOG_NAME=a.gml
	sleep 3600 &
	other=$!
	export LD_LIBRARY_PATH=$NVML:$SIM
	NVML_PROCESSES="$other:1073741824,999999999:-" "$TOOL" top --json >json
	jq -e '.devices[0] | .name == "Fake \u001b[1mH100" and .total == 85899345920 and .used == 5368709120 and .processes >= 2' json
	jq -e ".processes[] | select(.pid == $other) | .gpu == 0 and .memory == 1073741824 and .program == \"sleep\"" json
	jq -e '.processes[] | select(.pid == 999999999) | .gpu == 0 and .memory == null' json
	# The simulated device is another one than NVML's.
	of_process '.gpu > 0'
	NVML_PROCESSES="$other:1073741824,999999999:-" "$TOOL" top -o >out
	grep -qE "^ *$other +0 +1.00 GiB +(0 B|-) .* sleep$" out
	grep -qE '^999999999 +0 +- ' out
	refute grep $'\e' out
	kill $other
}

@test "top: a process with gpumem that NVML lists, too, has one row, with NVML's memory" {
	# No process of a test that runs at the same time has such a device.
	started SIM_MEMORY=1999M GPUMEM_LOG=small GPUMEM_LOG_NAME=a.gml
	uuid=$("$TOOL" summary --json a.gml | jq -r '.logs[0].devices[0].uuid')
	LD_LIBRARY_PATH=$NVML:$SIM NVML_UUID=$uuid NVML_PROCESSES=$BACKGROUND:4294967296 "$TOOL" top --json >json
	[ "$(jq "[.processes[] | select(.pid == $BACKGROUND)] | length" json)" -eq 1 ]
	of_process '.gpu == 0 and .memory == 4294967296 and .requested > 0 and .requested < 4294967296'
	jq -e '.devices[0].name | startswith("Fake")' json
	jq -e '[.devices[] | select(.name == "Simulated GPU" and .total == 1999 * 1048576)] == []' json
}

@test "top: many processes, and an NVML that fails" {
	export LD_LIBRARY_PATH=$NVML:$SIM
	NVML_PROCESSES=$(seq -s, -f '%.0f:1048576' 900000001 900000100) "$TOOL" top --json | jq -e '[.processes[] | select(.pid > 900000000)] | length == 100'
	for function in nvmlInit_v2 nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetUUID; do
		NVML_BROKEN=$function "$TOOL" top --json | jq -e '[.devices[] | select(.total == 85899345920)] == []' || { echo "$function"; return 1; }
	done
	NVML_BROKEN=nvmlDeviceGetComputeRunningProcesses_v3 "$TOOL" top --json | jq -e '.devices[0].total == 85899345920'
	NVML_UUID=MIG-x "$TOOL" top --json | jq -e '[.devices[] | select(.total == 85899345920)] == []'
}

terminal() { # terminal HOW ARGUMENT...
	python3 "$BATS_TEST_DIRNAME/terminal.py" "$1" "$TOOL" top --delay=1h "${@:2}" >out
	cat out
}

@test "top restores the terminal in every way to end" {
	command -v python3 >/dev/null || skip "no python3"
	[ -z "$TEST_UNDER" ] || skip "signals end valgrind another way"
	terminal key:q
	[ "$(tail -n 4 out)" = $'ended: 0\ndrawn with echo: False\nterminal: as before\nscreen: as before' ]
	for number in 1 2 3 6 8 11 13 14 15; do
		terminal signal:$number
		[ "$(<out)" = $'ended: signal '$number$'\ndrawn with echo: False\nterminal: as before\nscreen: as before' ]
	done
}

@test "top: stopped, continued, resized" {
	command -v python3 >/dev/null || skip "no python3"
	[ -z "$TEST_UNDER" ] || skip "signals end valgrind another way"
	terminal stop
	[ "$(<out)" = $'stopped: as before\ncontinued: as when drawn\nended: 0\ndrawn with echo: False\nterminal: as before\nscreen: as before' ]
	started GPUMEM_LOG=off
	terminal resize:60
	[ "$(sed '/^ended:/,$d' out | wc -L)" -le 60 ]
	grep -q "^ *$BACKGROUND " out
}

@test "top: keys change the order" {
	command -v python3 >/dev/null || skip "no python3"
	started GPUMEM_LOG=off
	terminal keys:' '
	grep -qE '^gpumemstat top [0-9:]+  by memory$' out
	for key in m:memory r:requested o:pool h:heap f:foreign x:external p:pid n:program; do
		terminal keys:${key%:*}
		grep -qE "^gpumemstat top [0-9:]+  by ${key#*:}$" out
	done
	grep -qE "^ *$BACKGROUND .* demo$" out
}
