#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Logs of so many events that they are read in passes: their numbers, the memory that takes, and the bar meanwhile.
source "$BATS_TEST_DIRNAME/cli.bash"

# 2.2 million events in nine segments, a block that lives throughout, and one that is never freed.
long() {
	mklog long.gml at:1s to:64G map:0:64M:1us to:64G alloc:0:1M:1us alloc:0:7:1us loop:0:1000:1000000 loop:0:70000:100000 \
		at:2s sample:0:50M:8M free:1:1us
	[ "$(stat -c %s long.gml)" -gt 140000000 ]
}

@test "a long log gives the numbers of all its events" {
	long
	"$TOOL" hist --json long.gml >out
	jq -e '.logs[0].sizes | map([.least, .blocks, .bytes]) ==
		[[4, 1, 7], [512, 1000000, 1000000000], [65536, 100000, 7000000000], [1048576, 1, 1048576]]' out
	jq -e '.logs[0].lifetimes | map([.least_ns, .blocks]) == [[0, 1100000], [536870912, 1]]' out
	jq -e '.logs[0].never_freed == {blocks: 1, bytes: 7}' out
	"$TOOL" summary --json long.gml | jq -e '.logs[0] | .complete and .records == 2200005 and .contradiction == null'
	"$TOOL" map --json --at=1s long.gml | jq -e '.logs[0].devices[0] | .handed_out == 1049088 and .mapped == 67108864'
	"$TOOL" replay --policy=first-fit --json long.gml | jq -e '.. | .allocations? // empty | . == 1100002'
}

@test "a long log that contradicts itself is found out" {
	mklog long.gml map:0:64M:1us alloc:0:1M:1us loop:0:1000:1000000 count:allocate_pool:1 count:allocate_calls:1
	for command in hist check; do
		status=0
		"$TOOL" $command long.gml >out 2>err || status=$?
		[ "$status" -eq 1 ]
		grep -q '^gpumemstat: long.gml: contradicts itself: ' err
	done
}

@test "commands need less memory than a long log has" {
	command -v python3 >/dev/null || skip "no python3"
	[ -z "$TEST_UNDER" ] || skip "not under valgrind"
	if grep -q __asan_init "$TOOL"; then skip "not under sanitizers"; fi
	long
	cat >most.py <<-'END'
		import resource, subprocess, sys
		subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
	END
	for command in summary hist 'map --at=exit' check 'live --at=peak' leaks 'report --output=page.html'; do
		most=$(python3 most.py "$TOOL" $command long.gml)
		[ "$most" -lt 110000 ] || { echo "$command: $most KiB"; return 1; }
	done
}

@test "a bar on a terminal while a long log is read, and none elsewhere" {
	command -v python3 >/dev/null || skip "no python3"
	long
	cat >bar.py <<-'END'
		import os, pty, subprocess, sys
		master, slave = pty.openpty()
		child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=slave)
		os.close(slave)
		seen = b""
		try:
		    while more := os.read(master, 65536):
		        seen += more
		except OSError:
		    pass
		print(child.wait())
		sys.stdout.flush()
		sys.stdout.buffer.write(seen)
	END
	TERM=xterm python3 bar.py "$TOOL" hist long.gml >out
	[ "$(head -n 1 out)" = 0 ]
	grep -q 'gpumemstat \[######\.*\]  22% long.gml' out
	[ "$(tail -c 4 out)" = $'\r\e[K' ]
	[ "$(TERM=dumb python3 bar.py "$TOOL" hist long.gml)" = 0 ]
	"$TOOL" hist long.gml >out 2>err
	[ ! -s err ]
	mklog short.gml map:0:64M:1us alloc:0:1M:1us
	[ "$(TERM=xterm python3 bar.py "$TOOL" hist short.gml)" = 0 ]
}
