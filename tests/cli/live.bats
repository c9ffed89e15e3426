#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# live and leaks of logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"

# At 1 s 21 MiB are alive, the peak. At 2 s a third allocation fails. At 3 s a block ends with its context.
RUN=(at:1s map:0:64M:100us map:1:64M:1us stack:7 alloc:0:10M:1us alloc:0:10M:1us stack:8 alloc:0:1M:1us stack:0 alloc:0:512:1us
	at:2s free:1:900ns stack:107 driver:0:5M:1us fail:0:7G:1G at:3s stack:66 alloc:1:3M:1us gone:2 stack:203 alloc:0:2M:1us)

@test "the blocks at the end, exactly" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" live a.gml >out
	diff -u - out <<-'END'
	log           a.gml: mklog, 3.00 s, closed cleanly

	device 0      at end: 8.00 MiB in 4 blocks

	5.00 MiB      1 block
	              libone.so+0x16b
	              0xdead
	              C frames only: the thread's frames of Python are unknown

	2.00 MiB      1 block
	              libone.so+0x0
	              libone.so+0x1
	              libone.so+0x2
	              ... and further ones that the log lacks

	1.00 MiB      1 block
	              libone.so+0x108
	              0xdead
	              train (project/train.py:8)
	              <module> (project/train.py:1)

	512 B         1 block
	              without a stack: see record --stacks

	device 1      at end: 3.00 MiB in 1 block

	3.00 MiB      1 block
	              libone.so+0x142
	              0xdead
	              \x1b[31mred\nline (project/train.py:66)
	              <module> (project/train.py:1)

	symbols       /nowhere/libone.so is not here
	END
	refute grep -q $'\e' out
	"$TOOL" live --at=exit a.gml | diff out -
}

@test "each device at its own peak" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" live --at=peak a.gml >out
	head -n 8 out | diff -u - <(cat <<-'END'
	log           a.gml: mklog, 3.00 s, closed cleanly

	device 0      at the peak, 1.00 s: 21.0 MiB in 4 blocks

	20.0 MiB      2 blocks, the largest of 10.0 MiB
	              libone.so+0x107
	              0xdead
	              train (project/train.py:7)
	END
	)
	grep -qx 'device 1      at the peak, 3.00 s: 3.00 MiB in 1 block' out
}

@test "live at a refused allocation, and a number of stacks" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" live --at=oom -n 1 a.gml >out
	diff -u - out <<-'END'
	log           a.gml: mklog, 3.00 s, closed cleanly

	device 0      when memory lacked, 2.00 s: 16.0 MiB in 4 blocks
	              cuMemAlloc_v2, 7.00 GiB asked; 11.0 MiB live, 53.0 MiB idle
	              (largest 53.0 MiB); 6.94 GiB of others, 1.00 GiB free

	10.0 MiB      1 block
	              libone.so+0x107
	              0xdead
	              train (project/train.py:7)
	              <module> (project/train.py:1)

	6.00 MiB      of 3 more stacks: -n

	symbols       /nowhere/libone.so is not here
	END
	mklog b.gml at:1s map:0:64M:1us alloc:0:1M:1us
	"$TOOL" live --at=oom b.gml >out
	diff -u - out <<-'END'
	log           b.gml: mklog, 1.00 s, closed cleanly
	live          at no time: no call lacked memory of a device
	END
}

@test "live at a refused allocation, of a log without events" {
	GPUMEM_LOG=small mklog s.gml at:1s map:0:64M:1us fail:0:7G:1G held:0:1M:3 held:0:10M:2 rest:0:512:4 fail:0:8G:1G held:0:9M:1 \
		map:1:64M:1us at:2s alloc:1:1M:1us fail:1:7G:1G held:1:2M:1
	"$TOOL" live --at=oom s.gml >out
	diff -u - out <<-'END'
	log           s.gml: mklog, 2.00 s, closed cleanly

	device 0      when memory lacked, 1.00 s: 23.0 MiB in 9 blocks
	              cuMemAlloc_v2, 7.00 GiB asked; 64.0 MiB idle (largest 64.0 MiB);
	              6.94 GiB of others, 1.00 GiB free

	size             blocks      bytes
	10.0 MiB              2   20.0 MiB
	1.00 MiB              3   3.00 MiB

	2.00 KiB      4 blocks more

	device 1      when memory lacked, 2.00 s: 2.00 MiB in 1 block
	              cuMemAlloc_v2, 7.00 GiB asked; 1.00 MiB live, 63.0 MiB idle
	              (largest 63.0 MiB); 6.94 GiB of others, 1.00 GiB free

	size             blocks      bytes
	2.00 MiB              1   2.00 MiB
	END
	"$TOOL" live --at=oom --json s.gml | jq -e '.logs[0].devices[0] | .rest.bytes == 2048 and (.groups | map(.blocks) == [2, 3])'
	for at in peak exit 1s; do
		"$TOOL" live --at=$at s.gml | grep -q 'no events in this log'
	done
	GPUMEM_LOG=small mklog n.gml at:1s map:0:64M:1us
	"$TOOL" live --at=oom n.gml | grep -q 'no events in this log'
}

@test "kernels alone allocate: their heaps are shown, at the end and at the peak" {
	mklog k.gml at:1s map:1:64M:1us lend:1:8M kernel:1 at:2s grow:1:32M:1us at:3s
	for at in exit peak 2.5s; do
		"$TOOL" live --at=$at k.gml >$at
		case $at in
		exit) moment='at end' ;;
		peak) moment='at the peak, 2.00 s' ;;
		*) moment='at 2.50 s' ;;
		esac
		diff -u - $at <<-END
		log           k.gml: mklog, 3.00 s, closed cleanly

		device 1      $moment: 0 B in 0 blocks

		32.0 MiB      1 chunk of device heaps, which grew for lists_build(Node**,
		              Answer*)
		END
	done
	"$TOOL" live --json --at=peak k.gml | jq -e '.logs[0] | .missing == null and
		(.devices | map([.ordinal, .blocks, .heaps[0].bytes, .ns]) == [[1, 0, 33554432, 2000000000]])'
	# Before their growth nothing is alive; leaks has no kernels' memory.
	"$TOOL" live --at=1.5s k.gml | grep -qx 'live          nothing at any time'
	"$TOOL" leaks k.gml | grep -qx 'leaks         nothing: no call of the program allocated'
	# For a device with blocks, the peak is that of the blocks.
	mklog b.gml at:1s map:1:64M:1us alloc:1:1M:1us lend:1:8M kernel:1 at:2s grow:1:32M:1us
	"$TOOL" live --at=peak b.gml | grep -qx 'device 1      at the peak, 1.00 s: 1.00 MiB in 1 block'
}

@test "the peak includes the driver's blocks, and --at=oom is the first refusal" {
	mklog a.gml at:1s map:0:64M:1us alloc:0:4M:1us at:2s free:1:1us fail:0:7G:1G alloc:0:1M:1us driver:0:5M:1us \
		at:3s fail:0:7G:1G free:2:1us
	"$TOOL" live --at=peak a.gml | grep -qx 'device 0      at the peak, 2.00 s: 6.00 MiB in 2 blocks'
	"$TOOL" live --at=oom a.gml | grep -qx 'device 0      when memory lacked, 2.00 s: 0 B in 0 blocks'
	# The last record is the free of block 2.
	"$TOOL" live --at=3s a.gml | grep -qx 'device 0      at 3.00 s: 5.00 MiB in 1 block'
}

@test "live at a time, by size; leaks by context" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" live --at=1.5s --by=size a.gml >out
	diff -u - out <<-'END'
	log           a.gml: mklog, 3.00 s, closed cleanly

	device 0      at 1.50 s: 21.0 MiB in 4 blocks

	size             blocks      bytes
	10.0 MiB              2   20.0 MiB
	1.00 MiB              1   1.00 MiB
	512 B                 1      512 B

	device 1      at 1.50 s: 0 B in 0 blocks
	END
	"$TOOL" leaks --by=context --units=M a.gml >out
	diff -u - out <<-'END'
	log           a.gml: mklog, 3.00 s, closed cleanly

	device 0      never freed: 18.0 MiB in 5 blocks; 1 of these went with the
	              context

	context          blocks      bytes
	1                     4   13.0 MiB
	0                     1    5.0 MiB

	device 1      never freed: 3.0 MiB in 1 block

	context          blocks      bytes
	2                     1    3.0 MiB
	END
	# A free counts from the begin of its call, an allocation from the end of its call.
	[ "$("$TOOL" live --json --at=2s a.gml | jq '.logs[0].devices[0].bytes')" -eq $((16777216 + 512)) ]
	[ "$("$TOOL" live --json --at=999999us a.gml | jq '.logs[0].devices[0].bytes')" -eq 0 ]
	[ "$("$TOOL" live --json --at=100ms a.gml | jq '.logs[0].devices[0].bytes')" -eq 0 ]
	[ "$("$TOOL" live --json --at=3s a.gml | jq '.logs[0].devices[0].bytes')" -eq $((8388608 + 512)) ]
}

@test "live at a time behind the end, before the start, and of an incomplete log" {
	mklog a.gml "${RUN[@]}"
	for at in 1h 3.1s 0s..3.1s; do
		"$TOOL" live --at=$at a.gml >out
		diff -u - out <<-'END'
		log           a.gml: mklog, 3.00 s, closed cleanly
		live          at no time: the log ends at 3.00 s
		END
	done
	"$TOOL" live --json --at=1h a.gml | jq -e '.logs[0] | .missing == "at no time: the log ends at 3.00 s" and .devices == []'
	# A time as the output rounds it is not behind the end.
	mklog b.gml at:1s map:0:64M:1us alloc:0:1M:1us at:2996ms
	"$TOOL" live b.gml | grep -q '3.00 s, closed'
	"$TOOL" live --at=3s b.gml | grep -qx 'device 0      at 3.00 s: 1.00 MiB in 1 block'
	expect 2 "gpumemstat: --at=-1s: expected peak, oom, exit, a time like 1.5s or a range like 1s..2.5s
Try 'gpumemstat live --help'" live --at=-1s a.gml
	expect 2 "gpumemstat: --at=2s..1s: expected peak, oom, exit, a time like 1.5s or a range like 1s..2.5s
Try 'gpumemstat live --help'" live --at=2s..1s a.gml
	expect 2 "gpumemstat: --at: expected a moment, not a range
Try 'gpumemstat map --help'" map --at=1s..2s a.gml
}

@test "live of a range: allocated within it, and not freed at its end" {
	mklog a.gml "${RUN[@]}"
	# The rows are those of the end, without the blocks from before.
	"$TOOL" live --at=2s..3s a.gml | grep -A1 -E '^(device|[0-9])' | grep . >out
	diff -u - out <<-'END'
	device 0      allocated from 2.00 s on and alive at 3.00 s: 7.00 MiB in 2 blocks
	5.00 MiB      1 block
	              libone.so+0x16b
	--
	2.00 MiB      1 block
	              libone.so+0x0
	--
	device 1      allocated from 2.00 s on and alive at 3.00 s: 3.00 MiB in 1 block
	3.00 MiB      1 block
	              libone.so+0x142
	END
	sum() { "$TOOL" live --json --at="$1" a.gml | jq '[.logs[0].devices[].bytes] | add'; }
	# The blocks before a range do not count, those freed within it neither.
	[ "$(sum 0s..1s)" -eq $((21 * 1048576 + 512)) ]
	[ "$(sum 0s..3s)" -eq "$(sum 3s)" ]
	[ "$(sum 1s..2s)" -eq "$(sum 2s)" ]
	[ "$(sum 1.5s..2s)" -eq $((5 * 1048576)) ]
	[ "$(sum 1.5s..1.9s)" -eq 0 ]
	"$TOOL" live --json --at=1.5s..3s a.gml | jq -e '.logs[0] | .at == "range" and .from_ns == 1500000000 and .devices[0].ns == 3000000000'
	"$TOOL" live --at=1.5s..3s --by=size a.gml | grep -qx '5.00 MiB              1   5.00 MiB'
}

@test "JSON has every frame" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" live --json a.gml >out
	jq -e '.schema == 1 and (.logs | length) == 1' out
	jq -e '.logs[0] | .program == "mklog" and .at == "exit" and .missing == null and .older_known' out
	jq -e '.logs[0].devices[0] | .ordinal == 0 and .ns == 3000000000 and .bytes == 8389120 and .blocks == 4' out
	jq -e '.logs[0].devices[0].groups | map(.bytes) == [5242880, 2097152, 1048576, 512]' out
	jq -e '.logs[0].devices[0].groups | map(.stack) == [107, 203, 8, null]' out
	jq -e '.logs[0].devices[0].groups | map(.c_only) == [true, false, false, false]' out
	jq -e '.logs[0].devices[0].groups | map(.cut) == [false, true, false, false]' out
	jq -e '.logs[0].devices[0].groups[2].frames == [
		{language: "c", function: null, file: null, line: null, fold: null, operator: null, inlined: false, object: "/nowhere/libone.so", offset: 264},
		{language: "c", function: null, file: null, line: null, fold: null, operator: null, inlined: false, object: null, offset: 57005},
		{language: "python", function: "train", file: "/home/me/project/train.py", line: 8, fold: null},
		{language: "python", function: "<module>", file: "/home/me/project/train.py", line: 1, fold: null}]' out
	jq -e '.logs[0].devices[1].groups[0].frames[2].function == "\u001b[31mred\nline"' out
	refute grep -q $'\e' out
	jq -e '.logs[0].objects == [{path: "/nowhere/libone.so", missing: "is not here"}]' out
	"$TOOL" leaks --json a.gml | jq -e '.logs[0].devices | map(.gone_with_context) == [1, 0]'
	"$TOOL" live --json --by=size a.gml | jq -e '.logs[0].devices[0].groups[0] == {size: 5242880, blocks: 1, bytes: 5242880}'
}

@test "live and leaks report a log without the data" {
	GPUMEM_LOG=small mklog a.gml at:1s map:0:64M:1us alloc:0:10M:1us
	for command in live leaks; do
		"$TOOL" $command a.gml >out
		[ "$(sed -n 2p out)" = "$command$(printf '%*s' $((14 - ${#command})))no events in this log: 'gpumemstat record' keeps them" ]
	done
	(unset GPUMEM_PREWARM && export GPUMEM_LOG=events GPUMEM_LOG_NAME=b.gml GPUMEM_LOG_EVENTS=all,-free &&
		exec "$MKLOG" at:1s map:0:64M:1us alloc:0:10M:1us)
	"$TOOL" live b.gml >out
	grep -qx 'live          not in this log: GPUMEM_LOG_EVENTS was without allocate and free' out
	"$TOOL" live --json b.gml | jq -e '.logs[0].missing != null and .logs[0].devices == []'
}

@test "after dropped events the other blocks count, and earlier times are refused" {
	GPUMEM_LOG_LIMIT=32M mklog a.gml at:1s map:0:64M:1us alloc:0:1M:1us loop:0:512:400000 at:2s alloc:0:2M:1us
	"$TOOL" live a.gml >out
	# The block of 1 MiB is unknown: mklog has no pool to walk.
	grep -qx 'device 0      at end: 2.00 MiB in 1 block' out
	grep -q 'older blocks are not known: the log lacks their events' out
	"$TOOL" live --at=500ms a.gml >out
	grep -qx 'live          not known: events as old as that were dropped' out
	"$TOOL" live --at=500ms..2s a.gml | grep -qx 'live          not known: events as old as that were dropped'
	"$TOOL" live --at=2s..2s a.gml | grep -qx 'device 0      allocated from 2.00 s on and alive at 2.00 s: 2.00 MiB in 1 block'
}

@test "leaks of a killed program are its live blocks" {
	mklog a.gml at:1s map:0:64M:1us stack:3 alloc:0:1M:1us alloc:0:2M:1us free:1:1us kill
	"$TOOL" leaks a.gml >out
	head -n 1 out | grep -q 'killed, or crashed$'
	grep -qx 'device 0      never freed: 2.00 MiB in 1 block' out
}

@test "live of two million events needs less than 200 MB" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	[ -z "${SANITIZE_LIB:-}" ] || skip "the sanitizer has memory of its own"
	command -v python3 >/dev/null || skip "no python3"
	mklog a.gml map:0:64M:1us alloc:0:1M:1us loop:0:512:1000000
	"$TOOL" --json a.gml | jq -e '.logs[0].records > 2000000 and .logs[0].complete'
	for at in peak exit; do
		python3 - "$TOOL" live --at=$at a.gml <<-'END' >peak
			import resource, subprocess, sys
			subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
			print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
		END
		[ "$(<peak)" -lt $((200 * 1000)) ] || { echo "$at: $(<peak) KB"; return 1; }
	done
}

# PyTorch's cache has one segment of 64 MiB; its tensors have their peak at 2 s, that of blocks is at 3 s.
CACHE=(at:1s map:0:128M:1us stack:7 alloc:0:64M:1us stack:8 tensor:0:20M at:2s stack:7 tensor:0:10M tensor:0:2M at:3s back:1 stack:0
	alloc:0:32M:1us tensor:0:1M)

@test "tensors have the place of blocks, and their own peak" {
	mklog a.gml "${CACHE[@]}"
	"$TOOL" live --at=peak a.gml | head -n 10 | diff -u - <(cat <<-'END'
	log           a.gml: mklog, 3.00 s, closed cleanly

	device 0      at the peak, 2.00 s: 32.0 MiB in 3 tensors
	              of 64.0 MiB in 1 block, 32.0 MiB of it without a tensor: --blocks

	20.0 MiB      1 tensor
	              libone.so+0x108
	              0xdead
	              train (project/train.py:8)
	              <module> (project/train.py:1)
	END
	)
	"$TOOL" live --at=peak --blocks a.gml | grep -qx 'device 0      at the peak, 3.00 s: 96.0 MiB in 2 blocks'
	"$TOOL" live --at=peak --by=context a.gml | grep -qx 'device 0      at the peak, 3.00 s: 96.0 MiB in 2 blocks'
	"$TOOL" leaks a.gml | grep -qx 'device 0      never freed: 13.0 MiB in 3 tensors'
	"$TOOL" live --at=2s..3s a.gml >out
	grep -qx 'device 0      allocated from 2.00 s on and alive at 3.00 s: 13.0 MiB in 3' out
	grep -qx '              tensors' out
	refute grep -q -e --blocks out
	"$TOOL" live --json a.gml | jq -e '.logs[0].devices[0] | .level == "tensor" and .bytes == 13631488 and .blocks == 3 and
		.under_bytes == 100663296 and .under_blocks == 2'
	"$TOOL" live --json --blocks a.gml | jq -e '.logs[0].devices[0] | .level == "block" and has("under_bytes") == false'
}

@test "live shows what was lent of PyTorch's cache, leaks does not" {
	mklog a.gml at:1s map:0:128M:1us alloc:0:64M:1us count:lend_calls:1 count:lend_bytes:4194304 count:lend_returned:1 \
		count:lend_ns:90000 count:lend_vacant:2097152 count:lend_vacant_peak:4194304
	"$TOOL" live a.gml | head -n 6 | diff -u - <(cat <<-'END'
		log           a.gml: mklog, 1.00 s, closed cleanly

		device 0      at end: 64.0 MiB in 1 block
		lending       4.00 MiB taken from PyTorch's cache, at 1 call without memory and
		              for tensors; 1 chunk mapped again in 90.0 us
		              saved 2.00 MiB at end, 4.00 MiB at most
	END
	)
	"$TOOL" live --json a.gml | jq -e '.logs[0].devices[0].lending | .taken == 4194304 and .vacant == 2097152'
	"$TOOL" leaks --json a.gml | jq -e '.logs[0].devices[0] | has("lending") | not'
	refute grep lending <("$TOOL" leaks a.gml)
}

@test "leaks and live show malloc in kernels by call, those with most bytes first" {
	mklog a.gml map:0:32M:1us alloc:0:1M:1us taken:0:64M:1ms lend:0:32M heap:0:1M:0:0 wrong:3:2:1 site:1:2:1K:1 site:2:1:4K:2 \
		wrong:0:1:0 site:3:2:0:0 site:0:0:1K:1 site:4:2:0:0
	for command in leaks live; do
		"$TOOL" "$command" a.gml >out
		sed -n '/malloc in kernels/,$p' out | diff -u - <(cat <<-'END'
			4.00 KiB      2 blocks of malloc in kernels, at most 8.00 KiB
			              work(int*)+0x1f0

			1.00 KiB      1 block of malloc in kernels, at most 2.00 KiB; 3 mallocs got
			              NULL, 2 frees of a free block, 1 free of no block
			              work.cu:11 in work(int*)

			1.00 KiB      1 block of malloc in kernels, at most 2.00 KiB
			              unknown calls

			0 B           in kernels: 1 free of a free block
			              work.cu:13 in work(int*)
		END
		)
	done
	# Calls of one line, as in an unrolled loop, are one row; others in the same function are not.
	mklog b.gml map:0:32M:1us alloc:0:1M:1us taken:0:64M:1ms lend:0:32M heap:0:1M:0:0 wrong:1:0:0 site:1:3:1K:1 site:2:1:4K:2 \
		wrong:2:0:0 site:3:3:2K:5 site:4:1:1K:1
	"$TOOL" leaks --json b.gml | jq -e '.logs[0].devices[0].sites | map([.line, .calls, .bytes, .blocks, .nulls, .mallocs]) == [
		[null, 1, 4096, 2, 0, 3], [10, 2, 3072, 6, 3, 8], [null, 1, 1024, 1, 0, 2]]'
	"$TOOL" leaks b.gml | grep -A1 '^3.00 KiB' | diff -u - <(cat <<-'END'
		3.00 KiB      6 blocks of malloc in kernels, at most 6.00 KiB; 3 mallocs got
		              NULL
	END
	)
	"$TOOL" leaks -n 1 a.gml | grep -qx ' *3 more calls in kernels: -n'
	"$TOOL" leaks --json a.gml | jq -e '.logs[0].devices[0].sites | length == 5 and .[1].line == 11 and
		.[1].file == "work.cu" and .[1].nulls == 3 and .[1].freed_twice == 2 and .[1].invalid_frees == 1 and
		.[0].function == "_Z4workPi" and .[0].offset == 496 and .[0].blocks == 2 and .[2].address == null'
}
