#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Logs with so many events that they are read in passes: their numbers, the memory use, and the progress bar.
source "$BATS_TEST_DIRNAME/cli.bash"

# 2.2 million events in nine segments, a block that lives until 2 s, and one that is never freed.
long() {
	mklog long.gml at:1s to:64G map:0:64M:1us to:64G alloc:0:1M:1us alloc:0:7:1us loop:0:1000:1000000 loop:0:70000:100000 \
		at:2s sample:0:50M:8M free:1:1us
	[ "$(stat -c %s long.gml)" -gt 140000000 ]
}

@test "commands count all events of a long log" {
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

@test "a contradiction in a long log is reported" {
	mklog long.gml map:0:64M:1us alloc:0:1M:1us loop:0:1000:1000000 count:allocate_pool:1 count:allocate_calls:1
	for command in hist 'check --max=mapped_peak=1T'; do
		status=0
		"$TOOL" $command long.gml >out 2>err || status=$?
		[ "$status" -eq 1 ]
		grep -q '^gpumemstat: long.gml: contradicts itself: ' err
	done
}

@test "commands need less memory than the size of a long log" {
	command -v python3 >/dev/null || skip "no python3"
	[ -z "$TEST_UNDER" ] || skip "not under valgrind"
	if grep -q __asan_init "$TOOL"; then skip "not under sanitizers"; fi
	long
	cat >most.py <<-'END'
		import resource, subprocess, sys
		subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, check=sys.argv[1] == "0")
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
	END
	mklog nested.gml map:0:64M:1us nest:0:1000:150000 # whose blocks go in another order than they came
	for command in 'summary long.gml' 'hist long.gml' 'map --at=exit long.gml' 'check --max=mapped_peak=1T long.gml' 'check --max=mapped_peak=1T nested.gml' \
		'live --at=peak long.gml' 'leaks long.gml' 'report --output=page.html long.gml'; do
		most=$(python3 most.py 0 "$TOOL" $command)
		[ "$most" -lt 110000 ] || { echo "$command: $most KiB"; return 1; }
	done
	# All blocks by records of a kind that a later version may have: there are none, which the counters contradict.
	python3 - <<-'END'
		data = bytearray(open("nested.gml", "rb").read())
		data[63::64] = data[63::64].translate(bytes(200 if kind in (1, 2) else kind for kind in range(256)))
		open("later.gml", "wb").write(data)
	END
	most=$(python3 most.py 1 "$TOOL" hist later.gml 2>said)
	grep -q 'later.gml: contradicts itself: device 0: 0 ALLOCATE events' said
	[ "$most" -lt 110000 ] || { echo "of a later version: $most KiB"; return 1; }
}

@test "a progress bar on a terminal while a long log is read, and none elsewhere" {
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
