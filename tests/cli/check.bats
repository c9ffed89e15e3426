#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat check, over logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"
PRELOAD=${GPUMEM_TEST_PRELOAD:-$PWD/.libs/libgpumem.so}

good() {
	mklog good.gml at:1s map:0:64M:100us alloc:0:10M:1us sample:0:50M:8M free:1:1us
}

# Writes a log with a block that is not freed, and a refused allocation.
bad() {
	mklog bad.gml at:1s map:0:128M:100us map:1:96M:1us alloc:0:100M:1us alloc:0:1000000:3us free:1:1us fail:0:7G:1G
}

# exceeds LINES ARGUMENT...: status 3, and exactly these lines.
exceeds() {
	local status=0
	"$TOOL" check "${@:2}" >out 2>err || status=$?
	[ "$status" -eq 3 ]
	diff -u <(printf '%s\n' "$1") out
	[ ! -s err ]
}

@test "check passes at a limit, and fails above it" {
	good
	"$TOOL" check --max mapped_peak=64M --max=requested_peak=10MiB --max allocate_calls=1 good.gml >out
	[ "$(<out)" = '1 log, 3 limits: none is exceeded' ]
	"$TOOL" check --max allocate_ns=1us --no-leaks good.gml >out
	exceeds 'good.gml: device 0: mapped_peak is 64.0 MiB, above 63.0 MiB' --max mapped_peak=63M good.gml
	exceeds 'good.gml: device 0: allocate_ns is 1.00 us, above 999 ns' --max allocate_ns=999ns good.gml
	# If rounding hides the difference, all digits are shown.
	exceeds 'good.gml: device 0: mapped_peak is 67,108,864 B, above 67,108,863 B' --max mapped_peak=67108863 good.gml
}

@test "check of fragmentation: after any event of a complete log, of other logs by sample" {
	# Two pieces of 10 and of 53 MiB, between samples; in the sample 8 of 54 are not in the longest.
	local words=(at:1s to:4G map:0:64M:1us to:4G alloc:0:10M:1us to:4106M alloc:0:1M:1us at:2s free:1:1us
		at:3s free:2:1us alloc:0:10M:1us sample:0:50M:8M free:3:1us)
	mklog all.gml "${words[@]}"
	GPUMEM_LOG=small mklog small.gml "${words[@]}"
	exceeds 'all.gml: device 0: external_peak is 0.159, above 0.158' --max external_peak=0.158 all.gml
	"$TOOL" check --max external_peak=0.159 --max unreclaimable_peak=63M all.gml
	# All digits that other commands print are a limit.
	"$TOOL" check --max external_peak=0.158730 all.gml
	exceeds 'all.gml: device 0: external_peak is 0.158730, above 0.158729' --max external_peak=0.158729 all.gml
	exceeds 'small.gml: device 0: external_peak is 0.074, above 0.070' --max external_peak=0.07 small.gml
	"$TOOL" export --format=openmetrics all.gml | grep '^# HELP gpumem_external_peak_ratio .* (here: of the state after each event)$'
	"$TOOL" export --format=openmetrics small.gml | grep '^# HELP gpumem_external_peak_ratio .* of a sample$'
	for log in all:0.158730 small:0.074074; do
		"$TOOL" export --format=openmetrics "${log%:*}.gml" | grep "^gpumem_external_peak_ratio{.* ${log#*:}$"
		"$TOOL" summary --json "${log%:*}.gml" >out
		jq -e '.logs[0].devices[0] | .counters.external_peak == 1e6 * .fragmentation.external.peak and .fragmentation.external.peak > 0' out
	done
}

@test "check names every exceeded limit, on each device" {
	bad
	exceeds 'bad.gml: device 0: mapped_peak is 128 MiB, above 64.0 MiB
bad.gml: device 1: mapped_peak is 96.0 MiB, above 64.0 MiB
bad.gml: device 0: allocate_failed is 1, above 0
bad.gml: device 0: live_blocks is 1, above 0 (--no-leaks)' --max mapped_peak=64M --max allocate_failed=0 --no-leaks bad.gml
	exceeds 'bad.gml: log_records is 7, above 1' --max log_records=1 bad.gml
	good
	exceeds 'bad.gml: device 0: live_blocks is 1, above 0 (--no-leaks)' --no-leaks good.gml bad.gml
}

@test "check --json lists what exceeds a limit" {
	bad
	status=0
	"$TOOL" check --json --max mapped_peak=100M --max log_records=1 bad.gml >out || status=$?
	[ "$status" -eq 3 ]
	jq -e '.logs == 1 and .limits == 2' out
	jq -e '.exceeded == [
		{path: "bad.gml", device: 0, counter: "mapped_peak", value: 134217728, limit: 104857600},
		{path: "bad.gml", device: null, counter: "log_records", value: 7, limit: 1}]' out
	good
	"$TOOL" check --json --no-leaks good.gml | jq -e '.exceeded == [] and .limits == 1'
}

@test "check --no-leaks in mode trace, and of unclosed logs" {
	GPUMEM_MODE=trace mklog t.gml at:1s driver:0:1M:1us
	exceeds 't.gml: device 0: foreign_driver_calls - foreign_driver_frees is 1, above 0 (--no-leaks)' --no-leaks t.gml
	expect 1 "gpumemstat: t.gml: mapped_peak is the pool's, and this run was only watched; foreign_peak has the driver's memory" \
		check --max mapped_peak=1G t.gml
	expect 1 "gpumemstat: t.gml: live_blocks is the pool's, and this run was only watched; foreign_peak has the driver's memory" \
		check --max live_blocks=0 t.gml
	exceeds 't.gml: device 0: alive is 1, above 0' --max alive=0 t.gml
	mklog both.gml at:1s map:0:64M:1us alloc:0:1M:1us driver:0:3M:1us driver:0:3M:1us
	exceeds 'both.gml: device 0: alive is 3, above 0
both.gml: device 0: live_blocks is 1, above 0 (--no-leaks)
both.gml: device 0: foreign_driver_calls - foreign_driver_frees is 2, above 0 (--no-leaks)' --no-leaks --max alive=0 both.gml
	"$TOOL" both.gml | grep -q '^calls    3 allocations, 0 frees, 3 alive; 0 failed, 2 by the driver$'
	mklog killed.gml at:1s map:0:64M:100us alloc:0:10M:1us kill
	expect 1 'gpumemstat: killed.gml: killed, or crashed: --partial checks it up to there' check --no-leaks killed.gml
	expect 1 'gpumemstat: killed.gml: killed, or crashed: --partial checks it up to there' check --max live_blocks=1 killed.gml
	expect 1 'gpumemstat: killed.gml: killed, or crashed: what it leaks is not known' check --partial --no-leaks killed.gml
	"$TOOL" check --partial --max live_blocks=1 killed.gml
	exceeds 'killed.gml: device 0: mapped_peak is 64.0 MiB, above 63.0 MiB' --partial --max mapped_peak=63M killed.gml
}

@test "check of logs that cannot be read, and of the newest run" {
	expect 1 'gpumemstat: none.gml: no such file' check --no-leaks none.gml
	mklog lies.gml map:0:64M:1us alloc:0:1M:1us count:allocate_pool:1
	status=0
	"$TOOL" check --max failed=0 lies.gml >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -q '^gpumemstat: lies.gml: contradicts itself: ' err
	rm lies.gml
	mklog gpumem.1.gml map:0:64M:1us
	exceeds 'gpumem.1.gml: device 0: mapped_peak is 64.0 MiB, above 1 B' --max mapped_peak=1
	GPUMEM_LOG=small mklog small.gml map:0:64M:1us
	exceeds 'small.gml: device 0: mapped_peak is 64.0 MiB, above 1 B' --max mapped_peak=1 small.gml
}

@test "check: an unknown counter is named, with the nearest one" {
	good
	expect 2 "gpumemstat: --max=mapped_peek=1: no counter 'mapped_peek'; did you mean 'mapped_peak'?
Try 'gpumemstat check --help'" check --max mapped_peek=1 good.gml
	expect 2 "gpumemstat: --max=$(printf 'x%.0s' {1..100})=1: no counter '$(printf 'x%.0s' {1..100})=1'; gpumem-log(5) lists them
Try 'gpumemstat check --help'" check --max "$(printf 'x%.0s' {1..100})=1" good.gml
}

@test "check knows the words of the summary's first screen" {
	bad
	exceeds 'bad.gml: device 0: failed is 1, above 0
bad.gml: device 0: alive is 1, above 0
bad.gml: device 0: allocations is 3, above 2
bad.gml: device 0: frees is 1, above 0' --max failed=0 --max alive=0 --max allocations=2 --max frees=0 bad.gml
}

@test "check without a limit is a usage error" {
	good
	expect 2 "gpumemstat: check: expected a limit: --max=COUNTER=VALUE or --no-leaks
Try 'gpumemstat check --help'" check good.gml
	expect 2 "gpumemstat: check: expected a limit: --max=COUNTER=VALUE or --no-leaks
Try 'gpumemstat check --help'" check -- touch ran
	[ ! -e ran ]
	expect 2 "gpumemstat: -o: only before -- COMMAND
Try 'gpumemstat check --help'" check --no-leaks -o x.gml good.gml
	expect 2 "gpumemstat: --stacks: only before -- COMMAND
Try 'gpumemstat check --help'" check --no-leaks --stacks=all good.gml
}

@test "check of a log refuses if a later run found its name taken" {
	good
	mklog good.gml at:1s map:0:64M:1us alloc:0:1M:1us
	[ -f good.gml.1 ]
	expect 1 'gpumemstat: good.gml: good.gml.1 is newer: name it, or remove both and record again' check --no-leaks good.gml
	exceeds 'good.gml.1: device 0: live_blocks is 1, above 0 (--no-leaks)' --no-leaks good.gml good.gml.1
	# Without a name, and with one that stands for several logs, the newest run counts.
	exceeds 'good.gml.1: device 0: live_blocks is 1, above 0 (--no-leaks)' --no-leaks good.gml.1
	mv good.gml 'x[1]%p.gml'
	mv good.gml.1 'x[1]%p.gml.7'
	expect 1 'gpumemstat: x[1]%p.gml: x[1]%p.gml.7 is newer: name it, or remove both and record again' check --no-leaks 'x[1]%p.gml'
}

# The manual's example for CI: the second run must not pass by the log of the first.
@test "record -o overwrites the log of an earlier run and of its other processes" {
	"$TOOL" record -o t.gml -- sh -c "'$DEMO' 10 && '$DEMO' 10" >/dev/null 2>&1
	[ -f t.gml.1 ]
	"$TOOL" check --no-leaks t.gml t.gml.1
	"$TOOL" record -o t.gml -- "${DEMO%demo}fragments" >/dev/null 2>err
	grep -q '^gpumemstat: t.gml: peak ' err
	[ ! -e t.gml.1 ]
	status=0
	"$TOOL" check --no-leaks t.gml >out || status=$?
	[ "$status" -eq 3 ]
	# A command that uses no CUDA leaves no log of another one.
	"$TOOL" record -o t.gml -- true 2>/dev/null
	expect 1 'gpumemstat: t.gml: no such file' check --no-leaks t.gml
	# The words that do not differ from process to process: host, rank and job.
	for i in 1 2; do
		SLURM_JOB_ID=7 SLURM_PROCID=3 "$TOOL" record -o 'j%j-r%r%%.gml' -- "$DEMO" 10 >/dev/null 2>&1
		[ "$(echo j*)" = 'j7-r3%.gml' ]
	done
}

@test "record -o overwrites no log that is being written, and nothing that is no log" {
	echo text >train.py
	expect 125 'gpumemstat: train.py: not a gpumem log; not overwritten' record -o train.py -- touch ran
	[ "$(<train.py)" = text ]
	[ ! -e ran ]
	: >empty
	"$TOOL" record -o empty -- "$DEMO" 10 >/dev/null 2>&1
	[ ! -e empty.1 ]
	"$TOOL" check --no-leaks empty
	head -c 5000 empty >cut
	"$TOOL" record -o cut -- "$DEMO" 10 >/dev/null 2>&1
	"$TOOL" check --no-leaks cut
	echo text >t.gml.1 # not of a run
	"$TOOL" record -o t.gml -- "$DEMO" 10 >/dev/null 2>&1
	[ "$(<t.gml.1)" = text ]
	# A link is replaced; its target stays.
	ln -s empty link
	"$TOOL" record -o link -- "$DEMO" 10 >/dev/null 2>&1
	[ -f link ]
	[ ! -L link ]
	"$TOOL" check --no-leaks empty link
	GPUMEM_LOG=events GPUMEM_LOG_NAME=busy.gml GPUMEM_LOG_LIMIT=32M LD_PRELOAD=$PRELOAD "$DEMO" 100000000 >/dev/null 2>&1 &
	BACKGROUND=$!
	until "$TOOL" summary busy.gml 2>/dev/null | grep -q 'still running'; do
		kill -0 "$BACKGROUND"
		sleep 0.05
	done
	expect 125 "gpumemstat: busy.gml: process $BACKGROUND still writes it; not overwritten" record -o busy.gml -- touch ran
	[ ! -e ran ]
}

@test "check -- COMMAND records and checks in one" {
	"$TOOL" check --no-leaks --max failed=0 -- "$DEMO" 10 >out 2>err
	tail -n 1 out | grep -qx '1 log, 2 limits: none is exceeded'
	grep -q '^gpumemstat: gpumem\..*\.gml: peak ' err
	rm gpumem.*.gml
	for i in 1 2; do # the second time, the log of the first is not what is checked
		status=0
		"$TOOL" check --no-leaks -o f.gml -- "${DEMO%demo}fragments" >out 2>/dev/null || status=$?
		[ "$status" -eq 3 ]
		grep -q '^f.gml: device 0: live_blocks is .* (--no-leaks)$' out
	done
	"$TOOL" check --no-leaks --stacks=off -e GPUMEM_FREE=defer -o f.gml -- "$DEMO" 10 >/dev/null 2>&1
	"$TOOL" env f.gml | grep -q '^GPUMEM_FREE  *defer '
}

@test "check -- COMMAND fails if the command fails, or uses no CUDA" {
	expect 1 'gpumemstat: no process used CUDA; next: gpumemstat doctor -- COMMAND' check --no-leaks -- true
	expect 7 'gpumemstat: no process used CUDA; next: gpumemstat doctor -- COMMAND' check --no-leaks -- sh -c 'exit 7'
	expect 127 'gpumemstat: nosuch: No such file or directory' check --no-leaks -- nosuch
	status=0
	"$TOOL" check --max mapped_peak=1G -- sh -c "'$DEMO' 10; kill -KILL \$\$" >/dev/null 2>&1 || status=$?
	[ "$status" -eq 137 ]
}
