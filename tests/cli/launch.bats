#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# run and record: the command's status, signals, environment, and the line at the end.
source "$BATS_TEST_DIRNAME/cli.bash"

@test "record leaves one log and says one line" {
	"$TOOL" record -- "$DEMO" 500 >out 2>err
	[ "$(wc -l <out)" -eq 1 ]
	[ "$(wc -l <err)" -eq 1 ]
	log=$(echo gpumem.*.gml)
	[ -f "$log" ]
	grep -qE "^gpumemstat: $log: peak [0-9.]+ [KM]iB requested, [0-9.]+ MiB mapped; next: gpumemstat $log$" err
	[ "$(stat -c %a "$log")" = 600 ]
}

@test "run leaves none, and says how much" {
	"$TOOL" run -- "$DEMO" 500 >out 2>err
	[ "$(echo *.gml)" = '*.gml' ]
	[ "$(wc -l <err)" -eq 1 ]
	grep -qE "^gpumemstat: 1 process used CUDA: peak [0-9.]+ [KM]iB requested, [0-9.]+ MiB mapped; next: gpumemstat record -- " err
	[ -z "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'gpumem-run.*' -newer out)" ]
}

@test "the output is the command's own" {
	"$DEMO" 500 >native
	"$TOOL" run "$DEMO" 500 >preloaded 2>/dev/null
	diff native preloaded
}

@test "several processes, several logs" {
	"$TOOL" record -o logs.%p.gml -- sh -c "'$DEMO' 100; '$DEMO' 100" >/dev/null 2>err
	[ "$(echo logs.*.gml | wc -w)" -eq 2 ]
	grep -qE '^gpumemstat: 2 logs, the first logs\.[0-9]+\.gml: highest peak .* mapped; next: gpumemstat$' err
}

@test "a folder for the logs" {
	mkdir there
	"$TOOL" record -o there/ -- "$DEMO" 100 >/dev/null 2>err
	[ "$(echo there/gpumem.*.gml | wc -w)" -eq 1 ]
}

@test "a command that does not use CUDA" {
	expect 0 'gpumemstat: no process used CUDA' record -- true
	expect 3 'gpumemstat: no process used CUDA' run sh -c 'exit 3'
	[ "$(echo *.gml)" = '*.gml' ]
}

@test "why the library was not loaded" {
	printf '#include <unistd.h>\nint main(void) { return 0; }\n' >quiet.c
	cc -static quiet.c -o static 2>/dev/null || skip "no static libc"
	expect 0 'gpumemstat: libgpumem.so was not loaded by ./static: it is statically linked' run ./static
	cp "$(type -P true)" setuid && chmod u+s setuid
	expect 0 'gpumemstat: libgpumem.so was not loaded by ./setuid: it is set-user-ID' run ./setuid
	printf '#!%s\n' "$PWD/static" >script && chmod +x script
	expect 0 'gpumemstat: libgpumem.so was not loaded by ./script: it is statically linked' run ./script
}

@test "the status is the command's" {
	expect 127 'gpumemstat: ./nothing: No such file or directory' run ./nothing
	expect 127 'gpumemstat: no-such-command: No such file or directory' record no-such-command
	: >file
	expect 126 'gpumemstat: ./file: Permission denied' run ./file
	run "$TOOL" run sh -c 'kill -TERM $$'
	[ "$status" -eq 143 ]
	run "$TOOL" run --exec sh -c 'exit 7'
	[ "$status" -eq 7 ]
	[ -z "$output" ]
}

@test "a signal is passed on" {
	"$TOOL" run sh -c 'trap "exit 42" USR1; echo ready >ready; while :; do sleep 0.05; done' 2>err &
	tool=$!
	while [ ! -s ready ]; do sleep 0.05; done
	kill -USR1 $tool
	status=0
	wait $tool || status=$?
	[ "$status" -eq 42 ]
}

@test "LD_PRELOAD is prepended to, and knobs are set" {
	before=${LD_PRELOAD:-}
	LD_PRELOAD=${before:+$before:}libdl.so.2 "$TOOL" run -e GPUMEM_LIMIT=50% sh -c 'echo "$LD_PRELOAD"; echo "$GPUMEM_LIMIT"' >out 2>/dev/null
	[[ $(sed -n 1p out) == */libgpumem.so:*libdl.so.2 ]]
	[ "$(sed -n 2p out)" = 50% ]
	"$TOOL" record --trace -- sh -c 'echo "$GPUMEM_MODE $GPUMEM_LOG"' >out 2>/dev/null
	[ "$(cat out)" = 'trace events' ]
	"$TOOL" record -e GPUMEM_LOG=small -- sh -c 'echo "$GPUMEM_LOG"' >out 2>/dev/null
	[ "$(cat out)" = small ]
}

@test "a library that is not there" {
	GPUMEM_LIBRARY_PATH=./none.so expect 125 'gpumemstat: GPUMEM_LIBRARY_PATH=./none.so: no such file' run true
}
