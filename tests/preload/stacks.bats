#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Call stacks of allocations: gpumemstat's groups for programs with known functions.

setup() {
	. "$BATS_TEST_DIRNAME/behaviour.bash"
	SOURCES=$BATS_TEST_DIRNAME
	record_events large
	command -v addr2line >/dev/null || skip "no addr2line"
}

# shown [OPTION]...: the groups of `live` of the log, as JSON.
shown() {
	"$TOOL" live --json "$@" log >json
	jq '.logs[0].devices[0].groups' json >groups
	"$TOOL" summary --json log | jq -e '.logs[0] | .contradiction == null and .closed and .complete'
}

# functions BYTES: the functions of the group with so many bytes, the innermost first, in one line.
functions() {
	jq -r --argjson bytes "$1" 'map(select(.bytes == $bytes))[0].frames | map(.function // "?") | join(" ")' groups
}

MIB=$((1 << 20))

@test "functions, inlined ones, and names of C++" {
	preloaded "$PROGRAMS/stacks" calls
	shown
	[[ $(functions $MIB) == "known_leaf known_inlined known_caller way_calls main "* ]]
	[[ $(functions $((2 * MIB))) == "known_leaf test::Layer<int>::forward(unsigned long) way_calls main "* ]]
	[[ $(functions $((12 * MIB))) == "known_leaf way_calls main "* ]]
	jq -e 'map(select(.bytes == 12582912))[0].blocks == 3' groups
	jq -e 'map(select(.bytes == 1048576))[0].frames | map(select(.inlined).function) == ["known_inlined"]' groups
	# In text, without parameters and arguments of templates, up to main.
	"$TOOL" live log >text
	grep -qE '^ +test::Layer::forward \(preload/stacks\.c:[0-9]+\)$' text
	refute grep -qE '^ +(_start|__libc_start)' text
	# Line numbers are those of the source.
	line=$(grep -n 'MUST(cuMemAlloc(&block, size));' "$SOURCES/stacks.c" | cut -d: -f1)
	jq -e --argjson line "$line" 'map(select(.bytes == 1048576))[0].frames[0] | .line == $line and (.file | endswith("stacks.c"))' groups
	# Allocations below 64 KiB have no stack; freed blocks are not shown.
	jq -e 'map(select(.bytes == 1000))[0] | .stack == null and .frames == []' groups
	jq -e 'length == 4' groups
}

@test "recognised stacks have the right frames" {
	preloaded "$PROGRAMS/stacks" again
	shown
	[[ $(functions $((3 * MIB))) == "known_leaf known_inlined known_caller way_again main "* ]]
	[[ $(functions $((6 * MIB))) == "known_leaf test::Layer<int>::forward(unsigned long) way_again main "* ]]
	jq -e 'length == 2 and map(.blocks) == [3, 3]' groups
	"$TOOL" summary --json log | jq -e '.logs[0].counters.stacks == 2'
}

@test "GPUMEM_STACKS=all gives every allocation a stack, off gives it to none" {
	KNOBS+=(GPUMEM_STACKS=all)
	preloaded "$PROGRAMS/stacks" calls
	shown
	[[ $(functions 1000) == "known_leaf way_calls main "* ]]
	rm log
	KNOBS+=(GPUMEM_STACKS=off)
	preloaded "$PROGRAMS/stacks" calls
	shown
	jq -e 'map(.stack) | unique == [null]' groups
	rm log
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=log GPUMEM_STACKS=all)
	preloaded "$PROGRAMS/stacks" calls
	"$TOOL" live log | grep -q 'no events in this log'
}

@test "record takes stacks, as its options select" {
	env LD_LIBRARY_PATH="$SIM" "$TOOL" record -o log "$PROGRAMS/stacks" calls
	shown
	[[ $(functions $MIB) == "known_leaf known_inlined known_caller "* ]]
	for option in off all; do
		rm log
		env LD_LIBRARY_PATH="$SIM" "$TOOL" record --stacks=$option -o log "$PROGRAMS/stacks" calls
		shown
		case $option in
		off) jq -e 'map(.stack) | unique == [null]' groups ;;
		all) jq -e 'map(.stack) | all' groups ;;
		esac
	done
	rm log
	env LD_LIBRARY_PATH="$SIM" "$TOOL" record -e GPUMEM_STACKS=off -o log "$PROGRAMS/stacks" calls
	shown
	jq -e 'map(.stack) | unique == [null]' groups
}

@test "frames of a library that was closed, and of one that is stripped" {
	preloaded "$PROGRAMS/stacks" library "$PROGRAMS/libstacks.so"
	shown
	[[ $(jq -r 'map(select(.frames[0].object | endswith("libstacks.so")))[0].frames | map(.function) | join(" ")' groups) == \
		"library_inner library_allocate way_library main "* ]]
	[[ $(functions $((16 * MIB))) == "known_leaf known_inlined known_caller way_library main "* ]]
	rm log
	cp "$PROGRAMS/libstacks.so" libbare.so
	strip libbare.so
	preloaded "$PROGRAMS/stacks" library "$PWD/libbare.so"
	shown
	# The library exports one function only; the nearest symbol is not taken for another function's name.
	jq -e 'map(select(.frames[0].object | endswith("libbare.so")))[0].frames[0].function == null' groups
	[[ $(jq -r 'map(select(.frames[0].object | endswith("libbare.so")))[0].frames | map(.function)[1:] | join(" ")' groups) == \
		"library_allocate way_library main "* ]]
	# Another build with the same name is not taken for the library.
	cp "$PROGRAMS/stacks" libbare.so
	"$TOOL" live --width=1000 log | grep -q "libbare.so is not the build that ran$"
	"$TOOL" live log | grep -Eq ' libbare.so\+0x[0-9a-f]+$'
	rm libbare.so
	"$TOOL" live --width=1000 log | grep -q "libbare.so is not here$"
}

@test "frames are addresses without addr2line, and a line gives the reason" {
	preloaded "$PROGRAMS/stacks" calls
	mkdir bin
	PATH=$PWD/bin "$TOOL" live --width=1000 log >out
	grep -Eq '^ +stacks\+0x[0-9a-f]+$' out
	grep -q 'stacks was not read: there is no addr2line$' out
}

@test "threads that allocate while libraries are loaded and unloaded" {
	# The path's length is a multiple of 8 bytes: see tsan.supp.
	local path=$PROGRAMS/libstacks.so
	while [ $((${#path} % 8)) -ne 0 ]; do
		path=${path%/*}//${path##*/}
	done
	preloaded "$PROGRAMS/stacks" threads "$path"
	shown
	# Each thread has kept one block; all blocks were allocated at one place.
	[[ $(functions $((4 * MIB))) == "known_leaf known_inlined known_caller thread_allocate "* ]]
	jq -e 'length == 1' groups
}

@test "the line of a refused allocation names the largest groups by stack, and the log has all of them" {
	export SIM_MEMORY=256M
	preloaded "$PROGRAMS/stacks" full 2>said
	[ "$(wc -l <said)" -eq 3 ]
	grep -c 'failure [24])' said | grep -qx 2
	# The linker chooses the frames' addresses; the log has their names.
	sed -i 's/stacks+0x[0-9a-f]*/PLACE/g' said
	grep -qx 'gpumem: out of memory on device 0: cuMemAlloc_v2 asked 512 MiB, .*; of this process: live [^;]*; of others [^;]*; largest live: 20.0 MiB in 2 blocks by PLACE, 3.00 MiB in 1 block by PLACE, 2.00 MiB in 1 block by PLACE; all: gpumemstat live --at=oom log' said
	shown --at=oom
	[[ $(functions $((20 * MIB))) == "known_leaf way_full main "* ]]
	[[ $(functions $((3 * MIB))) == "known_leaf known_inlined known_caller way_full main "* ]]
	# Without frees in the log only the refusals' records are known: of the first one, 64 groups, and the
	# sum of the others.
	rm log
	KNOBS+=(GPUMEM_LOG_EVENTS=allocate)
	preloaded "$PROGRAMS/stacks" full 2>/dev/null
	"$TOOL" live --json --at=oom log >json
	jq '.logs[0].devices[0].groups' json >groups
	[[ $(functions $((3 * MIB))) == "known_leaf known_inlined known_caller way_full main "* ]]
	jq -e '.[:4] | map(.bytes) == [20971520, 3145728, 2097152, 7000]' groups
	jq -e --argjson mib $MIB '.logs[0].devices[0] | (.groups | length) == 64 and .blocks == 74 and .bytes == 25 * $mib + 248500' json
	jq -e '.logs[0].devices[0].rest == {"bytes": 4500, "blocks": 9}' json
}

@test "a log without events has the blocks by size at a refused allocation" {
	export SIM_MEMORY=256M
	KNOBS=(GPUMEM_LOG=small GPUMEM_LOG_NAME=log)
	preloaded "$PROGRAMS/stacks" full 2>said
	grep -q '; largest live: 20.0 MiB in 2 blocks of 10.0 MiB, 3.00 MiB in 1 block of 3.00 MiB, 2.00 MiB in 1 block of 2.00 MiB; all: gpumemstat live --at=oom log$' said
	"$TOOL" live --at=oom log >out
	grep -qx 'device 0      when memory lacked, .*: 25.2 MiB in 74 blocks' out
	grep -qx '10.0 MiB              2   20.0 MiB' out
	[ "$(grep -cE '^[0-9.]+ (B|KiB)  +1  ' out)" -eq 61 ]
	tail -n 1 out | grep -qx '4.39 KiB      9 blocks more'
	"$TOOL" live --at=oom --by=context log | grep -q 'no events in this log'
	"$TOOL" summary --json log | jq -e '.logs[0] | .contradiction == null and .dropped == 0'
}

@test "the line of a refused allocation names a function of Python" {
	command -v python3 >/dev/null || skip "no python3"
	cat >full.py <<-'END'
		import ctypes
		cuda = ctypes.PyDLL("libcuda.so.1") # keeps Python's lock
		def fill(size):
		    return cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size))
		context = ctypes.c_void_p()
		assert cuda.cuInit(0) == 0
		assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
		assert cuda.cuCtxSetCurrent(context) == 0
		assert fill(20 << 20) == 0
		assert fill(512 << 20) == 2
	END
	export SIM_MEMORY=256M
	preloaded "$(command -v python3)" full.py 2>said
	grep -q '; largest live: 20.0 MiB in 1 block by fill (full.py:4); all: gpumemstat live --at=oom log$' said
}

@test "a block keeps its stack when the log segment of its allocation is dropped" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	[[ ${SANITIZE_LIB:-} != *tsan* ]] || skip "too many events for ThreadSanitizer"
	KNOBS+=(GPUMEM_LOG_LIMIT=32M)
	preloaded "$PROGRAMS/stacks" segments
	"$TOOL" live --json log >json
	jq '.logs[0].devices[0].groups' json >groups
	jq -e '.logs[0].older_known' json
	[[ $(functions $MIB) == "known_leaf known_inlined known_caller way_segments main "* ]]
	jq -e 'length == 1' groups
	"$TOOL" summary --json log | jq -e '.logs[0] | .contradiction == null and .dropped > 0'
}

@test "a forked child does not change the stacks of its parent" {
	preloaded "$PROGRAMS/stacks" fork
	shown
	jq -e 'map(.blocks) == [1, 1]' groups
	jq -e '[.[].frames[0].function] == ["known_leaf", "known_leaf"]' groups
}

# python WAY: run stacks.py preloaded, in the CPython that PYTHON names, or in python3.
python() {
	local python
	# ThreadSanitizer cannot follow the interpreter's locks.
	[[ ${SANITIZE_LIB:-} != *tsan* ]] || skip "not under ThreadSanitizer"
	[ -z "$TEST_UNDER" ] || skip "not under memcheck"
	python=$("${PYTHON:-python3}" -c 'import sys; print(sys.version_info >= (3, 9) and sys.executable)' || true)
	[ -x "$python" ] || skip "no python3 of 3.9 or later"
	preloaded "$python" "$SOURCES/stacks.py" "$1" >out
	[ "$(<out)" = done ]
}

@test "functions of Python are named while their code objects live" {
	python calls
	shown
	jq -r 'map(select(.bytes == 1048576))[0].frames | map(select(.language == "python").function) | join(" ")' groups >found
	[[ $(<found) =~ ^allocate\ deep\ deep\ deep\ (Layer\.)?forward\ way_calls\ \<module\>$ ]]
	line=$(grep -n 'cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size))' "$SOURCES/stacks.py" | cut -d: -f1)
	jq -e --argjson line "$line" 'map(select(.bytes == 1048576))[0].frames | map(select(.language == "python"))[0] |
		.line == $line and (.file | endswith("/stacks.py"))' groups
	# 100 calls deep, twice at one place: the outer frames are cut, and C frames end at the interpreter.
	jq -e 'map(select(.bytes == 4194304 and .cut))[0] | .blocks == 2 and
		(.frames | map(select(.language == "python")) | length) == 64' groups
	# A block of another thread, which had released the lock.
	[[ $(released $((6 * MIB))) == "allocate:"*" in_another:"*" Thread.run:"* || $(released $((6 * MIB))) == "allocate:"*" in_another:"*" run:"* ]]
	# The last of 200 functions, each with a code object at the address of the one before.
	[[ $(jq -r 'map(select(.bytes == 8388608))[0].frames | map(select(.language == "python").function)[1]' groups) == made_199 ]]
	[[ $(jq -r 'map(select(.bytes == 8388608))[0].frames | map(select(.language == "python").file)[1]' groups) == made_199.py ]]
}

# released BYTES: Python functions and lines of the group with so many bytes, in one line.
released() {
	jq -r --argjson bytes "$1" 'map(select(.bytes == $bytes))[0].frames | map(select(.language == "python") |
		"\(.function // "?"):\(.line)") | join(" ")' groups
}

# Skip unless this release's frames are read after the lock was released.
needs_layout() {
	"${PYTHON:-python3}" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 14))' || skip "not of this release of CPython"
}

line_of() {
	grep -nF "$1" "$SOURCES/stacks.py" | head -n 1 | cut -d: -f1
}

@test "functions of Python are named after the main thread released the lock" {
	local allocate module deep
	needs_layout
	python released
	shown
	jq -e 'map(select(.c_only)) == []' groups
	allocate=allocate:$(line_of 'must(driver.cuMemAlloc_v2') module="<module>:$(line_of 'globals()["way_"')"
	deep=deep_released:$(line_of 'return allocate(size, without_lock) if')
	[ "$(released $((15 * MIB)))" = "$allocate generated:$(line_of 'yield allocate(size') \
way_released:$(line_of 'for _ in generated()') $module" ]
	[[ $(released $MIB) =~ ^$allocate\ $deep\ $deep\ $deep\ $deep\ (way_released.<locals>.)?\<lambda\>:.*\ $module$ ]]
	[[ $(released $((2 * MIB))) == "$allocate größe:2 way_released:"* ]]
	# The last of 200 functions with code objects at one address.
	[[ $(released $((12 * MIB))) == "$allocate made_199:4 way_released:"* ]]
	jq -e 'map(select(.bytes == 3145728 and .cut))[0].frames | map(select(.language == "python")) | length == 64' groups
}

@test "functions of Python are named after a release of the lock, while another thread reads them, traced, and awaited" {
	local allocate deep
	needs_layout
	python watched
	shown
	allocate=allocate:$(line_of 'must(driver.cuMemAlloc_v2')
	deep=deep_released:$(line_of 'return allocate(size, without_lock) if')
	[[ $(released $((5 * MIB))) == "$allocate $deep $deep $deep $deep way_watched:"*" <module>:"* ]]
	[[ $(released $((6 * MIB))) == "$allocate awaited:$(line_of 'return allocate(size, driver=without_lock)') \
awaits:$(line_of 'return await awaited') way_watched:"* ]]
	[[ $(released $((7 * MIB))) == "$allocate $deep $deep $deep $deep way_watched:"*" <module>:"* ]]
	# One of the three places was used 2001 times.
	jq -e 'map(.blocks) == [1, 1, 1]' groups
}

@test "functions of Python that call one another at random, by turns with and without the lock" {
	needs_layout
	[[ ${SANITIZE_LIB:-} != *tsan* ]] || skip "not under ThreadSanitizer"
	[ -z "$TEST_UNDER" ] || skip "not under memcheck"
	local seed=${TEST_SEED:-1}
	echo "TEST_SEED=$seed"
	KNOBS+=(GPUMEM_STACKS=all)
	preloaded "${PYTHON:-python3}" "$SOURCES/stacks_random.py" run "$seed" 1000 expected >out
	[ "$(<out)" = done ]
	"$TOOL" live --json log >json
	"$TOOL" export --format=csv -o csv log
	python3 "$SOURCES/stacks_random.py" check expected json csv >out
	[ "$(<out)" = "1000 of 1000" ]
}

@test "an interpreter ends while its threads allocate" {
	needs_layout
	python ends
	# Not by `shown`: a daemon thread may end in the middle of a call.
	"$TOOL" live --json log | jq '.logs[0].devices[0].groups' >groups
	[[ $(released $((8 * MIB))) == "allocate:"* ]]
	# After its end has begun, the interpreter is not read.
	jq -e 'map(select(.bytes == 9437184))[0].frames | length > 0 and all(.language != "python")' groups
}

@test "where the interpreter may not be read, threads that released the lock have C frames only" {
	KNOBS+=(GPUMEM_STACKS=held)
	python watched
	shown
	jq -e 'map(.blocks) | add == 3' groups
	jq -e 'all(.c_only and (.frames | all(.language != "python")))' groups
	rm log
	python calls
	shown
	[[ $(released $MIB) == "allocate:"*" <module>:"* ]]
}

@test "finalizers that free device memory while a stack is taken" {
	python finalizers
	shown
	jq -e 'length == 0' groups
}

@test "threads of Python, with and without the lock" {
	python threads
	shown
	jq -e 'length == 1' groups
	"$TOOL" summary --json log | jq -e '.logs[0].counters.stacks == 2 and .logs[0].counters.stacks_lost == 0'
}

@test "blocks of subinterpreters have their stacks" {
	python interpreters
	shown
	jq -e 'map(.blocks) | add == 6' groups
	jq -e '[.[].frames[].function] | index("way_interpreters") != null' groups
}

@test "a fork in Python" {
	python fork
	shown
	jq -e '[.[].frames[].function] | index("way_fork") != null' groups
}
