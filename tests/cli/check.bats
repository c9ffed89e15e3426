#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat check, over logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"

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
	"$TOOL" check --max mapped_peak=64M --max=requested_peak=10MiB --max allocate_calls=1 --max external_peak=0.08 good.gml >out
	[ "$(<out)" = '1 log, 4 limits: none is exceeded' ]
	"$TOOL" check --max allocate_ns=1us --no-leaks good.gml >out
	exceeds 'good.gml: device 0: mapped_peak is 64.0 MiB, above 63.0 MiB' --max mapped_peak=63M good.gml
	exceeds 'good.gml: device 0: allocate_ns is 1.00 us, above 999 ns' --max allocate_ns=999ns good.gml
	exceeds 'good.gml: device 0: external_peak is 0.074, above 0.070' --max external_peak=0.07 good.gml
	# If rounding hides the difference, all digits are shown.
	exceeds 'good.gml: device 0: mapped_peak is 67,108,864 B, above 67,108,863 B' --max mapped_peak=67108863 good.gml
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

@test "check --json" {
	bad
	status=0
	"$TOOL" check --json --max mapped_peak=100M --max log_records=1 bad.gml >out || status=$?
	[ "$status" -eq 3 ]
	jq -e '.logs == 1 and .limits == 2' out
	jq -e '.exceeded == [
		{path: "bad.gml", device: 0, counter: "mapped_peak", value: 134217728, limit: 104857600},
		{path: "bad.gml", device: null, counter: "log_records", value: 7, limit: 1}]' out
	good
	"$TOOL" check --json good.gml | jq -e '.exceeded == [] and .limits == 0'
}

@test "check --no-leaks in mode trace, and of unclosed logs" {
	GPUMEM_MODE=trace mklog t.gml at:1s driver:0:1M:1us
	exceeds 't.gml: device 0: foreign_driver_calls - foreign_driver_frees is 1, above 0 (--no-leaks)' --no-leaks t.gml
	mklog killed.gml at:1s map:0:64M:100us alloc:0:10M:1us kill
	expect 1 'gpumemstat: killed.gml: killed, or crashed: what it leaks is not known' check --no-leaks killed.gml
	"$TOOL" check --max live_blocks=1 killed.gml
}

@test "check of logs that cannot be read, and of the newest run" {
	expect 1 'gpumemstat: none.gml: no such file' check none.gml
	mklog lies.gml map:0:64M:1us alloc:0:1M:1us count:allocate_pool:1
	status=0
	"$TOOL" check lies.gml >out 2>err || status=$?
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
