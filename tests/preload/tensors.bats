#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Tensors in the segments of a cache like PyTorch's, whose libraries are loaded into no global scope.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	record_events large
}

# counters COUNTER...: their values, of device 0, in one line; the log contradicts itself nowhere.
counters() {
	"$TOOL" summary --json log >json
	jq -e '.logs[0] | .contradiction == null and .closed' json >/dev/null
	jq -r --args '.logs[0].devices[0].counters as $c | [$ARGS.positional[] as $name | $c[$name]] | join(" ")' "$@" <json
}

@test "the report behind ours is called as often, with the same values" {
	local mode
	for mode in few "many 1000" threads fork; do
		same tensors $mode
	done
	same tensors few
	[ "$(tail -n 1 native)" != "0 reports, sum 0" ]
	KNOBS=(GPUMEM_ENABLE=0)
	same tensors few
}

@test "tensors and their bytes are counted, those of the host are not" {
	preloaded "$PROGRAMS/tensors" few >/dev/null
	[ "$(counters tensor_calls tensor_frees tensor_bytes tensor_peak cache_bytes)" = "6 3 $(((8 + 2 + 3 - 1) * 1048576 + 512)) $((32 * 1048576)) $((64 * 1048576))" ]
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=log)
	rm log
	preloaded "$PROGRAMS/tensors" few >/dev/null
	[ "$(counters tensor_calls tensor_frees)" = "6 3" ]
}

@test "live shows tensors by call stack, above the blocks that have them" {
	command -v addr2line >/dev/null || skip "no addr2line"
	preloaded "$PROGRAMS/tensors" few >/dev/null
	"$TOOL" live log >text
	grep -qx 'device 0      at end: 13.0 MiB in 4 tensors' text
	grep -qx '              of 64.0 MiB in 1 block, 51.0 MiB of it without a tensor: --blocks' text
	"$TOOL" live --json log | jq '.logs[0].devices[0]' >json
	jq -e '.level == "tensor" and .under_bytes == 67108864 and .under_blocks == 1' json
	jq -e '[.groups[] | select([.frames[].function] | contains(["forward"])).bytes] == [8388608]' json
	"$TOOL" live --at=peak log >text
	grep -qx 'device 0      at the peak, [0-9.]* [mu]s: 32.0 MiB in 3 tensors' text
	grep -qE '^ +backward \(preload/tensors\.c:[0-9]+\)$' text
	"$TOOL" live --blocks log >text
	grep -qx 'device 0      at end: 64.0 MiB in 1 block' text
	"$TOOL" leaks log | grep -qx 'device 0      never freed: 13.0 MiB in 4 tensors'
}

@test "tensors that stay are known after the log dropped its oldest events" {
	[ -z "$TEST_UNDER" ] || skip "valgrind is too slow for 1.2 million events"
	KNOBS+=(GPUMEM_LOG_LIMIT=32M)
	preloaded "$PROGRAMS/tensors" many 600000 >/dev/null
	"$TOOL" summary --json log | jq -e '.logs[0] | .complete == false and .contradiction == null'
	"$TOOL" live --json log | jq -e '.logs[0].devices[0] | .level == "tensor" and .bytes == 12582912 and .blocks == 2 and
		all(.groups[]; .stack > 0)'
}

@test "threads report tensors at once" {
	preloaded "$PROGRAMS/tensors" threads >/dev/null
	[ "$(counters tensor_calls tensor_frees tensor_bytes)" = "16008 16000 $((8 << 16))" ]
	"$TOOL" live --json log | jq -e '.logs[0].devices[0] | .blocks == 8 and .bytes == 524288'
}

@test "GPUMEM_LOG_EVENTS without tensor leaves the blocks" {
	KNOBS+=(GPUMEM_LOG_EVENTS=all,-tensor)
	preloaded "$PROGRAMS/tensors" few >/dev/null
	[ "$(counters tensor_calls)" = 6 ]
	"$TOOL" live log | grep -qx 'device 0      at end: 64.0 MiB in 1 block'
}

# needs_python: the released lock of this Python is no hindrance.
needs_python() {
	command -v python3 >/dev/null || skip "no python3"
	[ -z "$TEST_UNDER" ] || skip "valgrind is too slow for Python"
	# ThreadSanitizer cannot follow the interpreter's locks.
	[[ ${SANITIZE_LIB:-} != *tsan* ]] || skip "not under ThreadSanitizer"
	python3 -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 14))' || skip "the layout of this Python is unknown"
}

# segment.py CACHE: 64 MiB, and the cache's functions.
segment_py() {
	cat >segment.py <<-'END'
		import ctypes
		import sys
		import threading
		cuda = ctypes.PyDLL("libcuda.so.1")
		context, segment = ctypes.c_void_p(), ctypes.c_uint64()
		assert cuda.cuInit(0) == 0
		assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
		assert cuda.cuCtxSetCurrent(context) == 0
		assert cuda.cuMemAlloc_v2(ctypes.byref(segment), ctypes.c_size_t(64 << 20)) == 0
		cache = ctypes.CDLL(sys.argv[1])
		cache.node_make.restype = ctypes.c_void_p
		def at(mib):
		    return ctypes.c_void_p(segment.value + (mib << 20))
		def size(mib):
		    return ctypes.c_size_t(mib << 20)
	END
}

# The interpreter must not be called here: the cache's mutex is held, which another thread of Python may want.
@test "lines of Python, with its lock and without it" {
	needs_python
	segment_py
	cat >model.py <<-'END'
		from segment import *
		def take(cache, where, mib):
		    cache.tensor_take(at(where), size(mib))
		def held():
		    take(ctypes.PyDLL(sys.argv[1]), 0, 8)
		def released():
		    take(cache, 8, 4)
		held()
		released()
	END
	preloaded "$(command -v python3)" model.py "$PROGRAMS/libtensors_cuda.so"
	"$TOOL" live --json log | jq -e '.logs[0].devices[0].groups | map([.bytes, ([.frames[] | select(.language == "python") | "\(.function):\(.line)"] | join(" "))]) ==
		[[8388608, "take:3 held:5 <module>:8"], [4194304, "take:3 released:7 <module>:9"]]'
}

# groups: of each group of live its bytes and its frames of Python; "of" is before those of a forward call.
groups() {
	"$TOOL" live --json log | jq -c '.logs[0].devices[0].groups[] | [.bytes / 1048576,
		([.frames[] | if .language == "python" then "\(.function):\(.line)" elif .language == "forward" then "of" else empty end] | join(" "))]' |
		sort
}

@test "a tensor of the backward pass has the lines of its forward call" {
	needs_python
	segment_py
	cat >model.py <<-'END'
		from segment import *
		def mm():
		    return cache.node_make()
		def forward():
		    return mm(), mm(), (
		        mm())
		first, second, third = forward()
		for node, where, mib in ((second, 0, 8), (first, 8, 4), (third, 12, 2)):
		    assert cache.node_run(ctypes.c_void_p(node), at(where), size(mib)) == 1
		lines = []
		def in_thread():
		    lines.append(mm())
		thread = threading.Thread(target=in_thread)
		thread.start()
		thread.join()
		assert cache.node_run(ctypes.c_void_p(lines[0]), at(20), size(1)) == 1
	END
	preloaded "$(command -v python3)" model.py "$PROGRAMS/libtensors_cuda.so"
	groups >got
	cat got
	[ "$(wc -l <got)" = 3 ]
	grep -qx '\[12,"of mm:3 forward:5 <module>:7"\]' got
	grep -qx '\[2,"of mm:3 forward:6 <module>:7"\]' got
	grep -qE '^\[1,"of mm:3 in_thread:12 (Thread\.)?run:' got
}

@test "a node that was made before the log's stacks, or by another release of PyTorch, has no forward call" {
	needs_python
	segment_py
	cat >model.py <<-'END'
		from segment import *
		node = (ctypes.c_uint64 * 7)()
		node[3], node[6] = 12345, 1
		assert cache.node_make()
		assert cache.node_run(ctypes.byref(node), at(0), size(8)) == 1
	END
	preloaded "$(command -v python3)" model.py "$PROGRAMS/libtensors_cuda.so"
	[ "$(groups)" = '[8,""]' ]
}

@test "forward calls are known after the log dropped its oldest events" {
	needs_python
	segment_py
	cat >model.py <<-'END'
		from segment import *
		def mm():
		    return cache.node_make()
		assert cache.node_run(ctypes.c_void_p(mm()), at(0), size(8)) == 1
		for _ in range(300000):
		    cache.tensor_take(at(8), size(1))
		    cache.tensor_give(at(8), size(1))
	END
	KNOBS+=(GPUMEM_LOG_LIMIT=32M)
	preloaded "$(command -v python3)" model.py "$PROGRAMS/libtensors_cuda.so"
	"$TOOL" summary --json log | jq -e '.logs[0] | .complete == false and .contradiction == null'
	[ "$(groups)" = '[8,"of mm:3 <module>:4"]' ]
}

@test "a forked child starts without the parent's forward calls, and keeps its own" {
	[ -z "$SANITIZE_LIB" ] || skip "the sanitizer's allocator may be locked by a thread of the parent"
	needs_python
	segment_py
	cat >model.py <<-'END'
		from segment import *
		import os
		def mm():
		    return cache.node_make()
		def after():
		    return cache.node_make()
		before = mm()
		child = os.fork()
		assert cache.node_run(ctypes.c_void_p(before if child else after()), at(0), size(8)) == 1
		if not child:
		    os._exit(0)
		assert os.waitpid(child, 0)[1] == 0
	END
	preloaded "$(command -v python3)" model.py "$PROGRAMS/libtensors_cuda.so"
	[ "$(groups)" = '[8,"of mm:4 <module>:7"]' ]
}

@test "what the cache refused is in the log, with its call stack" {
	needs_python
	segment_py
	cat >model.py <<-'END'
		from segment import *
		def hold():
		    cache.tensor_take(at(0), size(8))
		def ask():
		    cache.tensor_refuse(size(100))
		cache.segment_add(size(64))
		hold()
		ask()
	END
	preloaded "$(command -v python3)" model.py "$PROGRAMS/libtensors_cuda.so"
	"$TOOL" live --at=oom log >text
	cat text
	grep -qE '^ *hold \(.*model\.py:3\)$' text
	grep -qE '100 MiB' text
}
