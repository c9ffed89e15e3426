#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Logs of PyTorch with known contents (mklog_torch.c): stacks without the frames of PyTorch itself, the levels
# of exports, owners of memory, and out of memory.
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

@test "files of PyTorch are folded without its libraries" {
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

# A cache of three segments, of which the last one holds no tensor at the end, and a block of another library. Two
# segments are neighbours. A tensor of the first one is freed. The driver refuses twice for one refusal of the cache.
CACHE=(at:1s map:0:128M:1us stack:300 to:4G alloc:0:20M:1us to:4G tensor:0:8M to:4104M tensor:0:10M at:2s
	stack:301 to:4116M alloc:0:2M:1us to:4116M tensor:0:1M stack:0 to:5G alloc:0:30M:1us
	to:6G alloc:0:20M:1us to:6G tensor:0:20M back:1 back:4 at:3s fail:0:1G:3M fail:0:1G:5M stack:307 refuse:0:1G:42M)

@test "csv has tensors, with their level" {
	mklog a.gml "${CACHE[@]}"
	"$TOOL" export a.gml >out
	awk -F, 'NR == 1 { n = NF } NF != n { exit 1 }' out
	awk -F, -v OFS=, '{ print $2, $4, $6, $14, $23, $24 }' out | diff -u - <(cat <<-'END'
		event,id,size,stack,text,level
		map,1,134217728,,,
		allocate,1,20971520,300,,block
		tensor,1,8388608,300,,tensor
		tensor,2,10485760,300,,tensor
		allocate,2,2097152,301,,block
		tensor,3,1048576,301,,tensor
		allocate,3,31457280,,,block
		allocate,4,20971520,,,block
		tensor,4,20971520,,,tensor
		tensor_free,1,8388608,,,tensor
		tensor_free,4,20971520,,,tensor
		out_of_memory,0,1073741824,,,
		allocate_failed,0,1073741824,,,block
		out_of_memory,0,1073741824,,,
		allocate_failed,0,1073741824,,,block
		tensor_refused,11534336,1073741824,307,,tensor
	END
	)
}

@test "chrome has tensors on a track and a curve of their own" {
	mklog a.gml "${CACHE[@]}"
	"$TOOL" export --format=chrome -o out a.gml
	jq -e '.otherData | .blocks_from_bytes == 0 and .tensors_from_bytes == 0' out
	events() { jq -c "[.traceEvents[] | select(.ph == \"$1\" and .cat == \"tensor\")]" out; }
	[ "$(events b | jq -c 'map([.id, .args.bytes])')" = '[["0-t1",8388608],["0-t2",10485760],["0-t3",1048576],["0-t4",20971520]]' ]
	[ "$(events e | jq -c 'map(select(.args.alive_at_end | not) | .id)')" = '["0-t1","0-t4"]' ]
	jq -e '[.traceEvents[] | select(.name == "device 0: tensors of PyTorch") | [.ts, .args.bytes]] ==
		[[1000000, 8388608], [1000000, 18874368], [2000000, 11534336], [2000000, 40894464], [2000000, 11534336]]' out
	jq -e '[.traceEvents[] | select(.name == "out of memory in PyTorch") | [.s, .args.bytes, .args.device]] == [["p", 1073741824, 0]]' out
	command -v addr2line >/dev/null || skip "no addr2line"
	events b | jq -e '.[2].args.stack == ["backward of addmm, whose forward call was", "Block.forward (/home/me/project/model.py:34)",
		"train (/home/me/project/model.py:55)"]'
	jq -e '[.traceEvents[] | select(.ph == "b" and .cat == "block")] | length == 4' out
}

@test "pytorch has the cache's segments, and tensors in them" {
	command -v python3 >/dev/null || skip "no python3"
	mklog a.gml "${CACHE[@]}"
	"$TOOL" export --format=pytorch -o a.pickle a.gml
	python3 - <<-'END'
		import pickle
		snapshot = pickle.load(open("a.pickle", "rb"))
		M, G = 2**20, 2**30
		keys = ["address", "total_size", "allocated_size", "active_size", "requested_size", "segment_type", "is_expandable"]
		segments = [(tuple(s[k] for k in keys), [(b["address"] - s["address"], b["size"], b["requested_size"], b["state"]) for b in s["blocks"]])
		    for s in snapshot["segments"]]
		assert segments == [
		    ((4*G, 20*M, 10*M, 10*M, 10*M, "large", False), [(0, 8*M, 0, "inactive"), (8*M, 10*M, 10*M, "active_allocated"), (18*M, 2*M, 0, "inactive")]),
		    ((4*G + 20*M, 2*M, M, M, M, "small", False), [(0, M, M, "active_allocated"), (M, M, 0, "inactive")]),
		    ((6*G, 20*M, 0, 0, 0, "large", False), [(0, 20*M, 0, "inactive")])], segments
		trace = [(e["action"], e.get("addr"), e["size"]) for e in snapshot["device_traces"][0]]
		assert trace == [
		    ("segment_alloc", 4*G, 20*M), ("alloc", 4*G, 8*M), ("alloc", 4*G + 8*M, 10*M),
		    ("segment_alloc", 4*G + 20*M, 2*M), ("alloc", 4*G + 20*M, M), ("segment_alloc", 6*G, 20*M), ("alloc", 6*G, 20*M),
		    ("free_requested", 4*G, 8*M), ("free_completed", 4*G, 8*M), ("free_requested", 6*G, 20*M), ("free_completed", 6*G, 20*M),
		    ("oom", None, G)], trace
		oom = snapshot["device_traces"][0][-1]
		assert oom["device_free"] == 5*M
		assert {"name": "Block.forward", "filename": "/home/me/project/model.py", "line": 12} in oom["frames"]
		names = [f["name"] for f in snapshot["segments"][1]["blocks"][0]["frames"]]
		assert names[-3:] == ["Block.forward", "Module._call_impl", "train"], names
		assert any(name.endswith(", whose forward call was") for name in names), names
		assert [f["name"] for f in snapshot["segments"][0]["frames"]][-1] == "train"
	END
	# A segment that the cache gave back, and a refusal without a record of the cache.
	mklog b.gml at:1s map:0:128M:1us to:4G alloc:0:20M:1us to:4G tensor:0:8M back:1 free:1:1us fail:0:1G:3M
	"$TOOL" export --format=pytorch -o b.pickle b.gml
	python3 - <<-'END'
		import pickle
		snapshot = pickle.load(open("b.pickle", "rb"))
		assert snapshot["segments"] == []
		assert [e["action"] for e in snapshot["device_traces"][0]] == ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "oom"]
	END
}

@test "live says who has each byte of the device" {
	command -v addr2line >/dev/null || skip "no addr2line"
	mklog a.gml "${CACHE[@]}"
	"$TOOL" live --at=oom a.gml | head -n 23 | diff -u - <(cat <<-'END'
		log           a.gml: mklog, 3.00 s, closed cleanly

		device 0      when memory lacked, 3.00 s: 11.0 MiB in 2 tensors
		              of 72.0 MiB in 4 blocks, 61.0 MiB of it without a tensor: --blocks
		              1.00 GiB was asked for by Block.forward (project/model.py:12)
		              Out of memory in PyTorch: 1.00 GiB was asked for, and 7.87 GiB of
		              the device was of other processes, and of contexts and libraries
		              of this one: the log cannot tell them apart. nvidia-smi names the
		              processes.

		in use on the device                                         bytes      share
		tensors of PyTorch                                        11.0 MiB      0.001
		PyTorch's cache, without a tensor                         31.0 MiB      0.004
		other blocks of the program                               30.0 MiB      0.004
		the pool, idle and rounding                               56.0 MiB      0.007
		other processes, and contexts and libraries of this one   7.87 GiB      0.984
		all                                                       8.00 GiB      1.000

		10.0 MiB      1 tensor
		              aten::addmm
		              aten::linear
		              Block.forward (project/model.py:34)
		              train (project/model.py:55)
	END
	)
	# The sum is the use of the device by the driver's answer, less what was free at the last refusal.
	"$TOOL" live --json --at=oom a.gml | jq -e '.logs[0].devices[0] | .owners.all.bytes == 8589934592 - 5 * 1048576 and .others_ns == .ns and
		.refused == {asked: 1073741824, segments: 44040192, tensors: 11534336, stack: 307}'
}

@test "owners at the peak and at the end, by the last answer of the driver" {
	mklog b.gml at:1s map:0:128M:1us to:4G alloc:0:20M:1us to:4G tensor:0:8M at:2s driver:0:16M:1us \
		give:foreign_created_calls:0:7M used:0:1G at:3s back:1 tensor:0:1M
	"$TOOL" live --at=peak b.gml >out
	sed -n '/^in use/,/^$/p' out | diff -u - <(cat <<-'END'
		in use on the device                                         bytes      share
		tensors of PyTorch                                        8.00 MiB      0.008
		PyTorch's cache, without a tensor                         12.0 MiB      0.012
		the pool, idle and rounding                                108 MiB      0.107
		other processes, and contexts and libraries of this one    880 MiB      0.873
		all                                                       0.98 GiB      1.000
		              The memory of others is that of 2.00 s.

	END
	)
	"$TOOL" live --json b.gml | jq -e '.logs[0].devices[0].owners | map_values(.bytes / 1048576) ==
		{tensors: 1, cache: 19, blocks: 16, pool: 108, heaps: 0, others: 880, all: 1024}'
	"$TOOL" live --json b.gml | jq -e '.logs[0].devices[0].others_ns == 2000000000'
	"$TOOL" report --json b.gml | jq -e '.logs[0].devices[0].moments | map([.at, .owners.all.bytes]) == [["peak", 1056964608], ["exit", 1073741824]]'
	# Never asked; and tensors outside of all blocks.
	mklog c.gml at:1s map:0:128M:1us to:4G alloc:0:20M:1us to:4G tensor:0:8M
	"$TOOL" live c.gml | grep -qx '              The driver was not asked what others use.'
	"$TOOL" live --json c.gml | jq -e '.logs[0].devices[0] | .owners.others.bytes == null and .others_ns == null'
	mklog d.gml at:1s map:0:128M:1us tensor:0:8M
	"$TOOL" live --json d.gml | jq -e '.logs[0].devices[0].owners == null'
	"$TOOL" leaks c.gml >out
	refute grep -q '^in use' out
	"$TOOL" live --blocks c.gml >out
	refute grep -q '^in use' out
}

@test "PyTorch gives up at a limit of its own; refusals that its cache survived are no moment" {
	mklog a.gml at:1s map:0:128M:1us to:4G alloc:0:20M:1us stack:7 to:4G tensor:0:8M fail:0:1G:3M at:2s to:4104M tensor:0:4M refuse:0:16M:20M \
		at:3s to:4108M tensor:0:1M
	"$TOOL" live --at=oom a.gml >out
	grep -qx 'device 0      when memory lacked, 2.00 s: 12.0 MiB in 2 tensors' out
	grep -qx '              16.0 MiB was asked for by train (project/train.py:7)' out
	"$TOOL" report --json a.gml | jq -e '.logs[0].devices[0].moments[1] | [.at, .ns, .bytes] == ["oom", 2000000000, 12582912]'
	"$TOOL" a.gml | grep -q '^next     gpumemstat live --at=oom a.gml'
	# A log without a record of the cache has the first refusal.
	mklog b.gml at:1s map:0:128M:1us to:4G alloc:0:20M:1us to:4G tensor:0:8M fail:0:1G:3M at:2s to:4104M tensor:0:4M
	"$TOOL" live --at=oom b.gml >out
	grep -qx 'device 0      when memory lacked, 1.00 s: 8.00 MiB in 1 tensor' out
	refute grep -q 'was asked for' out
	# The moment of blocks is the first refusal.
	"$TOOL" live --at=oom --blocks a.gml >out
	grep -qx 'device 0      when memory lacked, 1.00 s: 20.0 MiB in 1 block' out
	refute grep -q 'was asked for' out
}

@test "pytorch: the sums of a program with a cache are those that the cache reports" {
	command -v python3 >/dev/null || skip "no python3"
	"$TOOL" record --stacks=all -o r.gml -- "${DEMO%/*/*}/preload/tensors" few >/dev/null 2>&1
	"$TOOL" export --format=pytorch -o r.pickle r.gml
	"$TOOL" --json r.gml >summary
	python3 - <<-'END'
		import json, pickle
		segments = pickle.load(open("r.pickle", "rb"))["segments"]
		counters = json.load(open("summary"))["logs"][0]["devices"][0]["counters"]
		assert sum(s["total_size"] for s in segments) == counters["cache_bytes"] > 0
		# The program takes back 1 MiB of a tensor that it never reported.
		tensors = counters["tensor_bytes"] + 2**20
		assert sum(s["allocated_size"] for s in segments) == sum(s["active_size"] for s in segments) == tensors
		assert all(s["total_size"] == sum(b["size"] for b in s["blocks"]) for s in segments)
	END
	# All that the driver says is used has an owner.
	"$TOOL" live --json r.gml | jq -e '.logs[0].devices[0].owners | .tensors.bytes == '"$(jq '.logs[0].devices[0].counters.tensor_bytes + 1048576' summary)"' and
		([to_entries[] | select(.key != "all").value.bytes] | add) == .all.bytes'
}
