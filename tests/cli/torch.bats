#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Logs of PyTorch with known contents (mklog_torch.c): stacks without the frames of PyTorch itself.
source "$BATS_TEST_DIRNAME/cli.bash"

# stack N: the part of live for one tensor with the stack N
stack() {
	mklog "$1.gml" at:1s map:0:128M:1us alloc:0:64M:1us stack:"$1" tensor:0:8M
	"$TOOL" live "$1.gml" | sed -n '/^8.00 MiB/,/^$/p' | sed '1d; s/^ *//; /^$/d'
}

# shows N LINE...: these are the lines of stack N
shows() {
	command -v addr2line >/dev/null || skip "no addr2line"
	stack "$1" | diff -u - <(printf '%s\n' "${@:2}")
}

@test "operators have the names that users know; frames of PyTorch itself are folded" {
	shows 300 aten::addmm aten::linear 'Block.forward (project/model.py:34)' 'train (project/model.py:55)'
	shows 306 aten::add_ AccumulateGrad
	"$TOOL" live --json 300.gml | jq -e '.logs[0].devices[0].groups[0].frames | map(.fold) == ["cache", "cache", "cache",
		"operator", "dispatch", null, "dispatch", null, "operator", null, "dispatch", null, "dispatch", null]'
	"$TOOL" live --json 300.gml | jq -e '.logs[0].devices[0].groups[0].frames | map(.operator) | unique == [null, "aten::addmm", "aten::linear"]'
}

@test "a stack of the backward pass has the lines of its forward call" {
	shows 301 aten::mm 'backward of addmm, whose forward call was' 'Block.forward (project/model.py:34)' 'train (project/model.py:55)'
	"$TOOL" live --json 301.gml | jq -e '.logs[0].devices[0].groups[0].frames | .[8] == {language: "forward", operator: "backward of addmm",
		stack: 300} and length == 23 and .[19].operator == null and .[20].function == "Block.forward"'
	shows 302 aten::mm 'backward of mm, whose forward call was' aten::mm 'backward of addmm, whose forward call was' \
		'Block.forward (project/model.py:34)' 'train (project/model.py:55)'
	# The log lacks the forward call; a damaged log has a circle.
	shows 303 'backward of log_softmax, whose forward call is not known'
	[ "$(stack 305 | grep -cx 'backward of an operator, whose forward call was')" = 7 ]
	[ "$(stack 305 | tail -n 1)" = 'backward of an operator, whose forward call is not known' ]
}

@test "a stack of folded frames alone is shown as it is" {
	command -v addr2line >/dev/null || skip "no addr2line"
	stack 304 >out
	grep -q '^c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::a$' out
	grep -qE '^execute_native_thread_routine (\(|in )' out
}

@test "without the libraries of PyTorch their files are folded" {
	xz -dc "$BATS_TEST_DIRNAME/samples/gpt.gml.xz" >gpt.gml
	"$TOOL" live --at=peak -n 3 gpt.gml >out
	sed -n '/^42.0 MiB/,/^$/p' out | head -n 6 | diff -u - <(cat <<-'END'
		42.0 MiB      4 blocks, the largest of 10.5 MiB
		              Linear.forward (modules/linear.py:134)
		              Block.forward (/tmp/gpt.py:34)
		              Model.forward (/tmp/gpt.py:47)
		              train (/tmp/gpt.py:55)
		              main (/tmp/gpt.py:84)
	END
	)
	sed -n '/^32.0 MiB/,/^$/p' out | sed -n 2,3p | diff -u - <(cat <<-'END'
		              libcublas.so.13
		              Linear.forward (modules/linear.py:134)
	END
	)
}

@test "report and chrome have the forward call, too" {
	command -v addr2line >/dev/null || skip "no addr2line"
	stack 301 >/dev/null
	"$TOOL" report --json 301.gml | jq -e '.logs[0] as $log | $log.stacks | map(select(.stack == 301))[0].frames | map($log.frames[.][0]) |
		map(select(.fold | not)) | map(.operator // .function // .language) == ["aten::mm", "backward of addmm", "forward",
		"aten::addmm", "aten::addmm", "aten::linear", "Block.forward", "train"]'
}
