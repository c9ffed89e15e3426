#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# run and record with a missing, full, closed or invalid resource: exact message, exact status.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/wrong.bash"

# each STATUS MESSAGE COMMAND...: for run, record, and both with --exec.
each() {
	local start
	for start in run record 'run --exec' 'record --exec'; do
		fails "$1" "gpumemstat: $2" $start -- "${@:3}"
	done
	[ -z "$(find . -name '*.gml*')" ]
}

@test "record of a command that cannot be run" {
	: >file
	mkdir folder
	mkfifo pipe
	ln -s loop loop
	printf '#!/no/such/interpreter -x\n' >script
	printf '#!./file\n' >chained
	printf '#!\n' >none
	chmod +x script chained none pipe
	each 127 "'': No such file or directory" ''
	each 127 'no-such-command: No such file or directory' no-such-command
	each 127 './nothing: No such file or directory' ./nothing
	each 127 'a\x1b[1m\n: No such file or directory' $'a\e[1m\n'
	each 127 './script: its interpreter /no/such/interpreter is missing' ./script
	each 126 './file: Permission denied' ./file
	each 126 './folder: Permission denied' ./folder
	each 126 '/: Permission denied' /
	each 126 './pipe: Permission denied' ./pipe
	each 126 './chained: Permission denied' ./chained
	each 126 './file/x: Not a directory' ./file/x
	each 126 './loop: Too many levels of symbolic links' ./loop
	long=./$(printf 'x%.0s' {1..300})
	each 126 "$long: File name too long" "$long"
	status=0
	PATH=$PWD/folder:/nowhere "$TOOL" run ls 2>err || status=$?
	[ "$status" -eq 127 ]
	[ "$(<err)" = 'gpumemstat: ls: No such file or directory' ]
}

@test "record of a command that dies of any signal" {
	# The signals must come from the shell, not from a sanitizer.
	for tool in ASAN TSAN UBSAN; do
		options=${tool}_OPTIONS
		export "$options=${!options:+${!options}:}handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0"
	done
	for signal in HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM XCPU XFSZ VTALRM PROF IO PWR SYS; do
		# Ignored since before the shell, as under nohup: a shell cannot change that.
		[[ $(trap -p "$signal") != "trap -- '' "* ]] || continue
		for start in run record; do
			status=0
			(ulimit -c 0; exec "$TOOL" $start sh -c "kill -$signal \$\$") >out 2>err || status=$?
			[ "$status" -eq $((128 + $(kill -l $signal))) ] || { echo "$start, $signal: $status"; return 1; }
			[ "$(<err)" = 'gpumemstat: no process used CUDA; next: gpumemstat doctor -- COMMAND' ]
		done
	done
	# A program that used CUDA has a log.
	status=0
	(ulimit -c 0; exec "$TOOL" record -o killed.gml sh -c "'$DEMO' 5; kill -SEGV \$\$") >out 2>err || status=$?
	[ "$status" -eq 139 ]
	grep -qx 'gpumemstat: killed.gml: peak .*; next: gpumemstat killed.gml' err
}

@test "record of a command that exits with any status" {
	for code in 0 1 2 77 125 126 127 128 143 255; do
		for start in run record 'run --exec'; do
			status=0
			"$TOOL" $start sh -c "exit $code" 2>err || status=$?
			[ "$status" -eq $code ]
		done
	done
}

@test "record of a 32-bit program" {
	[ "$(uname -m)" = x86_64 ] || skip "made for x86-64"
	# exit(42), written by hand
	printf '\177ELF\001\001\001\0\0\0\0\0\0\0\0\0\002\0\003\0\001\0\0\0\124\200\004\010\064\0\0\0\0\0\0\0\0\0\0\0\064\0\040\0\001\0\050\0\0\0\0\0\001\0\0\0\0\0\0\0\0\200\004\010\0\200\004\010\140\0\0\0\140\0\0\0\005\0\0\0\0\020\0\0\270\001\0\0\0\273\052\0\0\0\315\200' >small
	chmod +x small
	./small && status=0 || status=$?
	[ "$status" -eq 42 ] || skip "this kernel runs none"
	fails 42 'gpumemstat: libgpumem.so was not loaded by ./small: it is a 32-bit program' run ./small
	fails 42 'gpumemstat: libgpumem.so was not loaded by ./small: it is a 32-bit program' record ./small
}

@test "record of a script, and of a program under another name" {
	printf '#!/bin/sh\nexec "%s" 5\n' "$DEMO" >script
	chmod +x script
	"$TOOL" record -o script.gml ./script >out 2>err
	[ "$(<out)" = "$("$DEMO" 5)" ]
	[ "$("$TOOL" --json script.gml | jq -r '.logs[0].program')" = demo ]
	# execvp passes a text without #! to the shell.
	printf 'exec "%s" 5\n' "$DEMO" >plain
	chmod +x plain
	"$TOOL" record -o plain.gml ./plain >out 2>err
	[ "$(<out)" = "$("$DEMO" 5)" ]
	[ -f plain.gml ]
}

@test "record with a library that cannot be preloaded" {
	mkdir 'a b' c:d plain
	mkfifo pipe
	: >empty
	ln -s none dangling
	for folder in 'a b' c:d; do
		cp "$(dirname "$TOOL")/.libs/libgpumem.so" "$folder"
		export GPUMEM_LIBRARY_PATH=$folder/libgpumem.so
		each 125 "$PWD/$folder/libgpumem.so: LD_PRELOAD cannot name a file with a blank or a colon" true
	done
	for name in none dangling $'a\e' none/x; do
		export GPUMEM_LIBRARY_PATH=$name
		each 125 "GPUMEM_LIBRARY_PATH=$(shown "$name"): no such file" true
	done
	for name in /tmp /dev/null pipe empty "$BATS_TEST_FILENAME"; do
		export GPUMEM_LIBRARY_PATH=$name
		each 125 "GPUMEM_LIBRARY_PATH=$name: not a library" true
	done
	cp "$(dirname "$TOOL")/.libs/libgpumem.so" plain/other.so
	ln -s plain/other.so link.so
	export GPUMEM_LIBRARY_PATH=link.so
	[[ $("$TOOL" run sh -c 'echo "$LD_PRELOAD"' 2>/dev/null) == "$PWD"/plain/other.so* ]]
}

@test "record keeps the libraries of LD_PRELOAD" {
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer's runtime has to come first"
	library=$(dirname "$TOOL")/.libs/libgpumem.so
	preload() { LD_PRELOAD=$1 "$TOOL" run sh -c 'echo "$LD_PRELOAD"' 2>/dev/null; }
	[ "$(preload '')" = "$library" ]
	[ "$(preload libdl.so.2)" = "libdl.so.2:$library" ]
	[ "$(preload ' libdl.so.2  libpthread.so.0:')" = "libdl.so.2:libpthread.so.0:$library" ]
	[ "$(preload "$library")" = "$library" ]
	# record under run.
	"$TOOL" run "$TOOL" record -o inner.gml "$DEMO" 5 >out 2>err
	[ "$(<out)" = "$("$DEMO" 5)" ]
	grep -q '^gpumemstat: inner.gml: peak ' err
}

@test "record in a folder that was removed" {
	mkdir gone
	cd gone
	rmdir ../gone
	status=0
	"$TOOL" record "$DEMO" 5 >../out 2>../err || status=$?
	[ "$status" -eq 125 ]
	[ ! -s ../out ]
	[ "$(<../err)" = 'gpumemstat: no log can be written in ./: No such file or directory' ] || { cat ../err; return 1; }
	# Commands that need no folder work.
	"$TOOL" record -o "$BATS_TEST_TMPDIR/there.gml" "$DEMO" 5 >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	[ "$(<"$BATS_TEST_TMPDIR/out")" = "$("$DEMO" 5)" ]
	[ -f "$BATS_TEST_TMPDIR/there.gml" ]
	"$TOOL" run "$DEMO" 5 >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	grep -q '^gpumemstat: 1 process used CUDA: ' "$BATS_TEST_TMPDIR/err"
}

@test "record with closed descriptors" {
	expected=$("$DEMO" 5)
	n=0
	for closed in 0 1 2 '0 1' '0 2' '1 2' '0 1 2'; do
		n=$((n + 1))
		for start in run "record -o closed.$n.gml"; do
			: >out
			: >err
			status=0
			(
				exec >out 2>err </dev/null
				for fd in $closed; do eval "exec $fd>&-"; done
				exec "$TOOL" $start "$DEMO" 5
			) || status=$?
			# Natively, too, a program that cannot print its line may have any status.
			native=0
			(
				exec >/dev/null 2>&1 </dev/null
				for fd in $closed; do eval "exec $fd>&-"; done
				exec "$DEMO" 5
			) || native=$?
			[ "$status" -eq "$native" ]
			if [[ $closed == *1* ]]; then [ ! -s out ]; else [ "$(<out)" = "$expected" ]; fi
			if [[ $closed == *2* ]]; then [ ! -s err ]; else [ "$(wc -l <err)" -eq 1 ]; fi
		done
		"$TOOL" --json closed.$n.gml | jq -e '.logs[0] | .complete and .contradiction == null'
	done
}

@test "record into a folder that does not exist is refused" {
	: >file
	mkdir folder
	for start in record 'record --exec' 'run -e GPUMEM_LOG=events -e GPUMEM_LOG_NAME=none/x.gml'; do
		name='-o none/x.gml'
		[[ $start == record* ]] || name=
		fails 125 "gpumemstat: no log can be written in $PWD/none/: No such file or directory" $start $name true
	done
	fails 125 "gpumemstat: no log can be written in $PWD/none/: No such file or directory" record -o none/ true
	fails 125 "gpumemstat: no log can be written in $PWD/file/: Not a directory" record -o file/x.gml true
	fails 125 "gpumemstat: no log can be written in /proc/: No such file or directory" record -o /proc/ true
	fails 125 "gpumemstat: no log can be written in $PWD/: File name too long" record -o "$(printf 'x%.0s' {1..300})" true
	long=$(printf 'x%.0s' {1..4090})
	fails 2 "gpumemstat: record: expected a COMMAND
Try 'gpumemstat record --help'" record -o "$long"
	fails 125 "gpumemstat: $PWD/$long: the name is too long" record -o "$long" true
	# The name of this folder depends on the process, so record cannot check it.
	"$TOOL" record -o 'logs.%j/x.gml' true 2>err
	[ "$(<err)" = 'gpumemstat: no process used CUDA; next: gpumemstat doctor -- COMMAND' ]
	mkdir 100%
	"$TOOL" record -o '100%%/x%%y.gml' "$DEMO" 5 >out 2>err
	[ -f '100%/x%y.gml' ]
	# The check of the folder leaves no file.
	[ -z "$(find . -name '*~*')" ]
}

@test "run where TMPDIR does not exist" {
	TMPDIR=/no/where "$TOOL" run "$DEMO" 5 >out 2>err
	[ "$(<out)" = "$("$DEMO" 5)" ]
	[ "$(<err)" = 'gpumemstat: no log can be written in /no/where/: No such file or directory' ]
	status=0
	TMPDIR=/no/where "$TOOL" run sh -c 'exit 9' 2>err || status=$?
	[ "$status" -eq 9 ]
}

@test "record below a limit of file size" {
	expected=$("$DEMO" 5)
	(
		ulimit -f 100
		fails 125 "gpumemstat: no log can be written in $PWD/: File too large" record -o x.gml true
		TMPDIR=$PWD "$TOOL" run "$DEMO" 5 >out 2>err
		[ "$(<out)" = "$expected" ]
		grep -qxE "gpumemstat: no log can be written in $PWD/gpumem-run\.[A-Za-z0-9]{6}/: File too large" err
	)
	[ -z "$(find . -name 'gpumem-run*' -o -name '*.gml*')" ]
}

@test "record on a disk that is full, read-only, or fills up" {
	unshare -rm true 2>/dev/null || unshare -m true 2>/dev/null || skip "no namespaces here"
	unshare -m true 2>/dev/null && own=(unshare -m) || own=(unshare -rm)
	mkdir disk
	export TOOL DEMO
	cat >script <<-'END'
		mount -t tmpfs -o size=$1 none disk || exit 77
		[ "$2" != ro ] || mount -o remount,ro disk || exit 77
		shift 2
		"$@" >out 2>err
		echo $? >status
		ls disk >left
		[ ! -f disk/x.gml ] || "$TOOL" --json disk/x.gml >json 2>json.err
		exit 0
	END
	on() { "${own[@]}" sh script "$@" || skip "mounting is not allowed here"; }
	on 64k rw "$TOOL" record -o disk/x.gml true
	[ "$(<err)" = "gpumemstat: no log can be written in $PWD/disk/: No space left on device" ]
	[ "$(<status)" = 125 ]
	[ ! -s left ]
	on 64k ro "$TOOL" record -o disk/x.gml true
	[ "$(<err)" = "gpumemstat: no log can be written in $PWD/disk/: Read-only file system" ]
	[ "$(<status)" = 125 ]
	on 64k rw env TMPDIR="$PWD/disk" "$TOOL" run "$DEMO" 5
	grep -qxE "gpumemstat: no log can be written in $PWD/disk/gpumem-run\.[A-Za-z0-9]{6}/: No space left on device" err
	[ "$(<status)" = 0 ]
	[ "$(<out)" = "$("$DEMO" 5)" ]
	[ ! -s left ]
	# There is room for the first 16 MiB only.
	on 20m rw "$TOOL" record -e GPUMEM_LOG=events,0 -e GPUMEM_LOG_EVENTS=all -o disk/x.gml "$DEMO" 30000
	[ "$(<status)" = 0 ]
	[ "$(<out)" = "$("$DEMO" 30000)" ]
	[ "$(sed -n 1p err)" = "gpumem: log $PWD/disk/x.gml: No space left on device; it ends here, the program goes on" ]
	grep -qx 'gpumemstat: disk/x.gml: peak .*; next: gpumemstat disk/x.gml' err
	[ "$(wc -l <err)" -eq 2 ]
	jq -e '.logs[0] | .closed and .dropped > 0 and (.complete | not) and .contradiction == null' json
}

@test "record with knobs that turn the hooks off" {
	for value in 0 off No; do
		"$TOOL" run -e GPUMEM_ENABLE=$value "$DEMO" 5 >out 2>err
		[ "$(<err)" = "gpumemstat: nothing was hooked: GPUMEM_ENABLE=$value" ]
	done
	GPUMEM_ENABLE=0 "$TOOL" record "$DEMO" 5 >out 2>err
	[ "$(<err)" = 'gpumemstat: nothing was hooked: GPUMEM_ENABLE=0' ]
	"$TOOL" record -e GPUMEM_PROGRAM='train*' "$DEMO" 5 >out 2>err
	[ "$(<err)" = 'gpumemstat: no process whose program matches GPUMEM_PROGRAM=train* used CUDA' ]
	"$TOOL" record -e GPUMEM_PROGRAM='dem?' -o demo.gml "$DEMO" 5 >out 2>err
	grep -q '^gpumemstat: demo.gml: peak ' err
}
