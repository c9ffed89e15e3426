#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# run and record: the command's status, signals and environment, and the line at the end.
source "$BATS_TEST_DIRNAME/cli.bash"

@test "record leaves one log and prints one line" {
	"$TOOL" record -- "$DEMO" 500 >out 2>err
	[ "$(wc -l <out)" -eq 1 ]
	[ "$(wc -l <err)" -eq 1 ]
	log=$(echo gpumem.*.gml)
	[ -f "$log" ]
	grep -qE "^gpumemstat: $log: peak [0-9.]+ [KM]iB requested, [0-9.]+ MiB mapped; next: gpumemstat $log$" err
	[ "$(stat -c %a "$log")" = 600 ]
}

@test "run leaves no log, and prints the amount of used memory" {
	"$TOOL" run -- "$DEMO" 500 >out 2>err
	[ "$(echo *.gml)" = '*.gml' ]
	[ "$(wc -l <err)" -eq 1 ]
	grep -qE "^gpumemstat: 1 process used CUDA: peak [0-9.]+ [KM]iB requested, [0-9.]+ MiB mapped; next: gpumemstat record -- " err
	[ -z "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'gpumem-run.*' -newer out)" ]
}

@test "run and record leave the command's output unchanged" {
	"$DEMO" 500 >native
	"$TOOL" run "$DEMO" 500 >preloaded 2>/dev/null
	diff native preloaded
}

@test "record of several processes: several logs, and the command that shows them" {
	# One process after the other: plain gpumemstat would show only the last log.
	"$TOOL" record -o logs.%p.gml -- sh -c "'$DEMO' 100; '$DEMO' 100" >/dev/null 2>err
	[ "$(echo logs.*.gml | wc -w)" -eq 2 ]
	grep -qE '^gpumemstat: 2 logs, the first logs\.[0-9]+\.gml: highest peak .* mapped; next: gpumemstat logs\.[0-9]+\.gml logs\.[0-9]+\.gml$' err
	next=$(sed 's/.*next: gpumemstat //' err)
	"$TOOL" --json $next | jq -e '.logs | length == 2'
	"$TOOL" record -o many.%p.gml -- sh -c "for i in 1 2 3 4 5; do '$DEMO' 10; done" >/dev/null 2>err
	grep -q '; next: gpumemstat many\.\*\.gml$' err
	# Logs of one job are one run.
	SLURM_JOB_ID=881 "$TOOL" record -- sh -c "'$DEMO' 10; '$DEMO' 10" >/dev/null 2>err
	grep -q '^gpumemstat: 2 logs, .*; next: gpumemstat$' err
	"$TOOL" --json | jq -e '.logs | length == 2'
}

@test "record of a command that changes its folder leaves the log here" {
	mkdir elsewhere '100%p'
	"$TOOL" record -- sh -c "cd elsewhere && '$DEMO' 10" >/dev/null 2>err
	[ "$(echo gpumem.*.gml | wc -w)" -eq 1 ]
	[ -f gpumem.*.gml ]
	grep -qE '^gpumemstat: gpumem\.[^/]*\.gml: peak ' err
	cd '100%p'
	"$TOOL" record -o out.gml "$DEMO" 10 >/dev/null 2>err
	[ -f out.gml ]
	grep -q '^gpumemstat: out.gml: peak ' err
	"$TOOL" record -o out.gml "$DEMO" 10 >/dev/null 2>err # in place of the older one
	grep -q '^gpumemstat: out.gml: peak ' err
}

@test "record -o FOLDER/" {
	mkdir there
	mkdir -p folder
	status=0
	"$TOOL" record -o folder -- touch started 2>err || status=$?
	[ "$status" -eq 125 ]
	[ "$(<err)" = 'gpumemstat: folder: a folder; -o folder/ writes into it' ]
	mkfifo fifo
	"$TOOL" record -o fifo -- touch started 2>err || status=$?
	[ "$(<err)" = 'gpumemstat: fifo: not a regular file; no log can be written there' ]
	[ ! -e started ]
	"$TOOL" record -o there/ -- "$DEMO" 100 >/dev/null 2>err
	[ "$(echo there/gpumem.*.gml | wc -w)" -eq 1 ]
}

@test "record of a command that does not use CUDA" {
	expect 0 'gpumemstat: no process used CUDA; next: gpumemstat doctor -- COMMAND' record -- true
	expect 3 'gpumemstat: no process used CUDA; next: gpumemstat doctor -- COMMAND' run sh -c 'exit 3'
	[ "$(echo *.gml)" = '*.gml' ]
}

@test "record gives the reason why the library was not loaded" {
	printf '#include <unistd.h>\nint main(void) { return 0; }\n' >quiet.c
	cc -static quiet.c -o static 2>/dev/null || skip "no static libc"
	expect 0 'gpumemstat: libgpumem.so was not loaded by ./static: it is statically linked; link it dynamically (the CUDA runtime may stay static)' run ./static
	printf '#!%s\n' "$PWD/static" >script
	chmod +x script
	expect 0 'gpumemstat: libgpumem.so was not loaded by ./script: it is statically linked; link it dynamically (the CUDA runtime may stay static)' run ./script
}

@test "record of a set-user-ID program" {
	cp "$(type -P true)" setuid
	chmod u+s setuid
	# The program is the user's own, which gives it no rights, so the loader preloads.
	expect 0 'gpumemstat: no process used CUDA; next: gpumemstat doctor -- COMMAND' run ./setuid
	chown 12345 setuid 2>/dev/null && chmod u+s setuid || skip "not allowed to give files away"
	[ -u setuid ] || skip "no set-user-ID files here"
	expect 0 'gpumemstat: libgpumem.so was not loaded by ./setuid: it is set-user-ID' run ./setuid
}

@test "run and record exit with the command's status" {
	expect 127 'gpumemstat: ./nothing: No such file or directory' run ./nothing
	expect 127 'gpumemstat: no-such-command: No such file or directory' record no-such-command
	: >file
	expect 126 'gpumemstat: ./file: Permission denied' run ./file
	printf '#!/no/such/interpreter -x\n' >script
	chmod +x script
	expect 127 'gpumemstat: ./script: its interpreter /no/such/interpreter is missing' run ./script
	expect 127 'gpumemstat: ./nothing: No such file or directory' run --exec ./nothing
	run "$TOOL" run sh -c 'kill -TERM $$'
	[ "$status" -eq 143 ]
	run "$TOOL" run --exec sh -c 'exit 7'
	[ "$status" -eq 7 ]
	[ -z "$output" ]
}

@test "run and record pass signals on" {
	"$TOOL" run sh -c 'trap "exit 42" USR1; echo ready >ready; while :; do sleep 0.05; done' 2>err &
	tool=$!
	while [ ! -s ready ]; do sleep 0.05; done
	kill -USR1 $tool
	status=0
	wait $tool || status=$?
	[ "$status" -eq 42 ]
}

@test "run under a parent that ignores signals keeps the status" {
	bash -c "trap '' CHLD HUP; exec '$TOOL' run sh -c 'kill -HUP \$\$; exit 9'" 2>err && status=0 || status=$?
	[ "$status" -eq 9 ]
}

@test "run and record append to LD_PRELOAD, replace another libgpumem.so there, and set knobs" {
	# Not libm: before a sanitizer's runtime it ends a program whose preload has a sanitizer.
	before=${LD_PRELOAD:-}
	library=$(GPUMEM_LOG=off "$TOOL" run sh -c 'echo "${LD_PRELOAD##*:}"' 2>/dev/null)
	[[ $library == /*/libgpumem.so ]]
	mkdir other
	cp "$library" other/libgpumem.so
	LD_PRELOAD="${before:+$before:}libdl.so.2:$PWD/other/libgpumem.so librt.so.1:" \
		"$TOOL" run -e GPUMEM_LIMIT=50% sh -c 'echo "$LD_PRELOAD"; echo "$GPUMEM_LIMIT"' >out 2>/dev/null
	[ "$(sed -n 1p out)" = "${before:+$before:}libdl.so.2:librt.so.1:$library" ]
	[ "$(sed -n 2p out)" = 50% ]
	"$TOOL" record --trace -- sh -c 'echo "$GPUMEM_MODE $GPUMEM_LOG"' >out 2>/dev/null
	[ "$(cat out)" = 'trace events' ]
	"$TOOL" record -e GPUMEM_LOG=small -- sh -c 'echo "$GPUMEM_LOG"' >out 2>/dev/null
	[ "$(cat out)" = small ]
}

@test "run and record with --fast: GPUMEM_FREE=ordered, and a line that says what the program gives up" {
	line='gpumemstat: GPUMEM_FREE=%s: cudaFree does not wait for the GPU; a program whose host reads results after a cudaFree alone'
	line+=' has to wait itself, and errors of kernels come with a later call: gpumem-knobs(7)\n'
	for command in run record; do
		[ "$("$TOOL" $command --fast -- sh -c 'echo "$GPUMEM_FREE"' 2>err)" = ordered ]
		diff <(grep -v '^gpumemstat: .* left no log' err | head -n 1) <(printf "$line" ordered)
		[ "$(GPUMEM_FREE=sync "$TOOL" $command --fast --exec -- sh -c 'echo "$GPUMEM_FREE"' 2>err)" = ordered ]
		diff err <(printf "$line" ordered)
		[ "$("$TOOL" $command --fast -e GPUMEM_FREE=defer --exec -- sh -c 'echo "$GPUMEM_FREE"' 2>err)" = defer ]
		diff err <(printf "$line" defer)
	done
	"$TOOL" run --fast -e GPUMEM_FREE=sync --exec -- true 2>err
	diff err - <<<'gpumemstat: --fast: GPUMEM_FREE=sync: cudaFree waits for the GPU, as natively'
	for ignores in GPUMEM_MODE=trace GPUMEM_ENABLE=0; do
		"$TOOL" run --fast -e $ignores --exec -- true 2>err
		diff err - <<<"gpumemstat: --fast: GPUMEM_FREE=ordered, which $ignores ignores"
	done
}

@test "run and record with --torch: PyTorch without its cache, GPUMEM_FREE=ordered, and a line that reports both" {
	show='echo "$PYTORCH_NO_CUDA_MEMORY_CACHING $GPUMEM_FREE"'
	line='gpumemstat: PyTorch runs without its cache, as PYTORCH_NO_CUDA_MEMORY_CACHING=1 says, with GPUMEM_FREE='
	for command in run record; do
		[ "$("$TOOL" $command --torch -- sh -c "$show" 2>err)" = '1 ordered' ]
		grep -qx "${line}ordered" err
		[ "$("$TOOL" $command --torch -e GPUMEM_FREE=defer -- sh -c "$show" 2>err)" = '1 defer' ]
		grep -qx "${line}defer" err
		[ "$(GPUMEM_FREE=sync "$TOOL" $command --torch --exec -- sh -c "$show" 2>err)" = '1 ordered' ]
		grep -qx "${line}ordered" err
	done
	"$TOOL" record --torch --trace -- true 2>err
	grep -qx "${line}ordered, which GPUMEM_MODE=trace ignores" err
	[ "$(env -u PYTORCH_NO_CUDA_MEMORY_CACHING "$TOOL" run -- sh -c "$show" 2>err)" = ' ' ]
	refute grep PyTorch err
}

@test "record without the library" {
	GPUMEM_LIBRARY_PATH=./none.so expect 125 'gpumemstat: GPUMEM_LIBRARY_PATH=./none.so: no such file' run true
}
