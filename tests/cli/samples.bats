#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Kept logs of programs on an H100 (tests/gpu/results/2026-11-25-H100x1-holds): the blocks that hold the
# memory.
source "$BATS_TEST_DIRNAME/cli.bash"

# sample NAME: unpack the log to NAME.gml
sample() {
	command -v xz >/dev/null || skip "xz is not installed"
	xz -dc "$BATS_TEST_DIRNAME/samples/$1.gml.xz" >"$1.gml"
	"$TOOL" summary --json "$1.gml" >summary
	jq -e '.logs[0] | .closed and .complete and .contradiction == null' summary
}

@test "PyTorch: the lines of the program that hold memory at the peak" {
	sample train
	"$TOOL" live --json --at=peak train.gml | jq '.logs[0].devices[0]' >live
	jq -e '.blocks == 60 and .bytes == 224400200' live
	# Line 28 calls the network; lines 22 and 30 make parameters and the optimizer's states.
	jq -e '[.groups[] | .frames | map(select(.language == "python")) | last | select(.) | .line] | unique == [22, 25, 28, 30]' live
	jq -e '[.groups[].frames[] | select(.language == "python" and .function == "<module>") | .file | endswith("/train.py")] | all' live
	# The backward pass runs on a C++ thread.
	jq -e '[.groups[] | select(.c_only)] | length == 7' live
}

# tests/gpu/results/2026-11-27-H200x1-lines: PyTorch's cache is on.
@test "PyTorch, the cache on: 99.8% of the bytes of tensors have a line of Python, those of the backward pass of the forward call" {
	sample tensors
	"$TOOL" live --json --at=peak tensors.gml | jq '.logs[0].devices[0]' >live
	jq -e '.level == "tensor" and .blocks == 285 and .bytes == 434609152' live
	jq -e '[.groups[] | select([.frames[].language] | index("python")) | .bytes] | add == 434110464' live
	jq -e '[.groups[] | select([.frames[].language] | index("forward")) | .bytes] | add == 68714496' live
	# All of them are below the least size of a stack.
	jq -e '[.groups[] | select(.frames == [])] | length == 1 and .[0].bytes == 498688 and .[0].largest < 65536' live
	# 100% of the bytes in use have an owner.
	jq -e '.owners | (del(.all) | map(.bytes) | add) == .all.bytes' live
}

@test "PyTorch out of memory: the line that holds most, or the holes of the cache" {
	sample kept
	"$TOOL" live --at=oom -n 1 kept.gml | tr -s ' \n' ' ' >text
	grep -q '1.00 GiB was asked for by Net.forward (lines/oom.py:18)' text
	grep -q '1.00 GiB was asked for while 139 GiB was in tensors, 121 GiB of it of Net.forward (lines/oom.py:18)' text
	sample holes
	"$TOOL" live --at=oom -n 1 holes.gml | tr -s ' \n' ' ' >text
	grep -q '3.00 GiB was asked for while 55.2 GiB of its cache was in no tensor: the cache is in pieces. PYTORCH_ALLOC_CONF=expandable_segments:True' text
}

@test "Thrust: two stacks of twelve vectors each" {
	sample words
	"$TOOL" live --json --at=peak words.gml | jq -e '.logs[0].devices[0] | .blocks == 28 and
		([.groups[] | select(.blocks == 12) | .bytes] == [50331648, 50331648])'
	"$TOOL" leaks --json words.gml | jq -e '.logs[0].devices[0].blocks == 0'
}

@test "out of memory: 155 blocks of one stack" {
	sample waves
	"$TOOL" live --json --at=oom waves.gml | jq -e '.logs[0].devices[0] | .blocks == 157 and .groups[0].blocks == 155 and
		.groups[0].bytes == 155 * 536870912'
	jq -e '[.logs[0].findings[].rule] | index("oom_in_use") != null' summary
}

@test "malloc in kernels: the log names the kernel for which the heap grew" {
	sample lists
	jq -e '.logs[0].devices[0].heap_kernels == [{"bytes": 272629760, "growths": 4, "kernel": "_Z11lists_buildPP4NodeP6Answer"}]' summary
	"$TOOL" live --json lists.gml | jq -e '.logs[0].devices[0].heaps ==
		[{"bytes": 272629760, "chunks": 4, "kernel": "_Z11lists_buildPP4NodeP6Answer"}]'
	"$TOOL" live lists.gml | grep -qE '^260 MiB +4 chunks of device heaps, which grew for (lists_build\(|_Z11lists_build)'
	"$TOOL" live --json --at=1ms lists.gml | jq -e '.logs[0].devices[0].heaps == []'
	# Heap growth is not reported as memory that is mapped again.
	jq -e '[.logs[0].findings[].rule] | index("mapped_again") == null' summary
}
