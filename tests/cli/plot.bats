#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat plot: the SVG is well formed; its labels, curves and bars have the log's values.
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

SVG=$BATS_TEST_DIRNAME/svg.py

# At 1 s 21 MiB are alive, the peak. At 2 s two allocations fail.
RUN=(at:1s map:0:64M:100us map:1:16M:1us alloc:0:10M:1us alloc:0:10M:1us alloc:0:1M:1us sample:0:40M:8M
	at:2s free:1:900ns driver:0:5M:1us fail:0:7G:1G fail:0:8G:1G at:3s alloc:1:3M:1us gone:2)

# drawn LOG OPTION...: svg.py's description of the plot.
drawn() {
	local width=${WIDTH:-1200}
	command -v python3 >/dev/null || skip "no python3"
	"$TOOL" plot --size=$width "${@:2}" "$1" >out.svg
	python3 "$SVG" out.svg $width
}

@test "labels, curves and bars of a log with known contents" {
	mklog a.gml "${RUN[@]}"
	for WIDTH in 640 1200 1600; do
		drawn a.gml >said
		diff -u - said <<-'END'
			legend: in use
			legend: idle
			legend: mapped
			legend: requested
			legend: served by the driver
			label: out of memory at 2.00 s: 7.00 GiB asked, the first of 2
			label: peak 21.0 MiB requested at 1.00 s
			peak: 21 MiB at 1 s
			idle: at most 64 MiB
			wave: at most 21 MiB
			use: at most 21 MiB
			mapped: at most 64 MiB
			requested: at most 21 MiB
			requested: highest from 1 s on
			driver: at most 5 MiB
			sizes: 4 blocks
			lifetimes: 2 blocks
		END
	done
}

@test "the second device, in 640 pixels and in 1600" {
	mklog a.gml "${RUN[@]}"
	for WIDTH in 640 1600; do
		drawn a.gml --device=1 >said
		grep -qx 'label: peak 3.00 MiB requested at 3.00 s' said
		grep -qx 'peak: 3 MiB at 3 s' said
		grep -qx 'mapped: at most 16 MiB' said
		refute grep -q 'out of memory' said
		grep -q '>device 1: GPU two, 16.0 GiB; 3.00 s from 2026-11-21 12:00:00, closed cleanly<' out.svg
	done
	expect 1 'gpumemstat: a.gml: --device=2: the log has 2 devices' plot --device=2 a.gml
}

@test "a real run: the label is summary's peak, and the bars count as hist does" {
	"$TOOL" record -e GPUMEM_LOG_EVENTS=all -o r.gml -- "$DEMO" 3000 >/dev/null 2>&1
	for WIDTH in 640 1600; do
		drawn r.gml >said
		peak=$("$TOOL" -v r.gml | awk '$1 == "requested" { print $4 " " $5; exit }')
		[ -n "$peak" ]
		grep -q "^label: peak $peak requested at " said || { cat said; return 1; }
		# By the axes, the mark has the value of the label.
		[ "$(sed -n 's/^peak: \([0-9.]*\) MiB .*/\1/p' said)" = "${peak% MiB}" ]
		blocks=$("$TOOL" hist --json r.gml | jq '[.logs[0].sizes[].blocks] | add')
		grep -qx "sizes: $blocks blocks" said
		"$TOOL" plot --size=$WIDTH -o named.svg r.gml
		cmp named.svg out.svg
		grep -q '>fragmentation over time, after each event<' out.svg
	done
}

@test "two million events: waves within a pixel are drawn, in bounded memory" {
	[ -z "$TEST_UNDER" ] || skip "too many events for memcheck"
	mklog long.gml at:1s to:64G map:0:64M:1us to:64G alloc:0:4M:1us loop:0:32M:1000 at:1500ms loop:0:1000:1000000 at:2s free:1:1us
	drawn long.gml >said
	grep -qx 'sizes: 1001001 blocks' said
	grep -qx 'wave: at most 36 MiB' said
	grep -qx 'label: peak 36.0 MiB requested at 1.00 s' said
	if [ -n "${SANITIZE_LIB:-}" ] || grep -q __asan_init "$TOOL"; then skip "the sanitizer has memory of its own"; fi
	cat >most.py <<-'END'
		import resource, subprocess, sys
		subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
	END
	most=$(python3 most.py "$TOOL" plot long.gml)
	[ "$most" -lt 200000 ] || { echo "$most KiB"; return 1; }
}

@test "memory of device heaps is drawn above the pool's" {
	mklog a.gml at:1s map:0:16M:1us alloc:0:4M:1us at:2s taken:0:1G:1ms map:0:2M:1us grow:0:8M:1us at:3s free:1:1us
	drawn a.gml >said
	grep -qx 'legend: lent to device heaps' said
	grep -qx 'lent: at most 26 MiB' said
	grep -qx 'mapped: at most 18 MiB' said
}

@test "a log without events is drawn from its samples, mode trace from the driver's blocks, and an empty log, too" {
	GPUMEM_LOG=small mklog s.gml at:1s map:0:64M:1us alloc:0:20M:1us sample:0:40M:8M at:2s free:1:1us sample:0:60M:0
	drawn s.gml >said
	grep -qx 'use: at most 20 MiB' said
	# The peak of 30 MiB is between the samples.
	GPUMEM_LOG=small mklog p.gml at:1s map:0:32M:1us sample:0:32M:0 at:2s alloc:0:10M:1us alloc:0:20M:1us at:3s free:2:1us sample:0:12M:0
	"$TOOL" plot -o p.svg p.gml
	drawn p.gml >peak
	grep -qx 'label: peak 30.0 MiB requested at 2.00 s' peak
	grep -qx 'requested: at most 30 MiB' peak
	drawn s.gml >said
	grep -q '>fragmentation over time, by sample<' out.svg
	grep -qx 'sizes: needs a log of events: gpumemstat record' said
	GPUMEM_MODE=trace mklog t.gml at:1s driver:0:5M:1us at:2s
	drawn t.gml >said
	grep -qx 'label: peak 5.00 MiB requested at 1.00 s' said
	grep -qx 'driver: at most 5 MiB' said
	mklog e.gml
	drawn e.gml >said
	grep -qx 'sizes: none' said
	refute grep -q ^label said
}

@test "texts of the log are escaped, and the SVG refers to no other file" {
	# The program's name is the file's name.
	name=$'<script>&"\'\e[31m\xff]]>\xef\xbf\xbf'
	cp "$MKLOG" "$name"
	MKLOG=$PWD/$name mklog a.gml "${RUN[@]}"
	drawn a.gml >said
	grep -qF '&lt;script&gt;&amp;"'"'"'\x1b[31m\xff]]&gt;?, pid 4711' out.svg
	name=$(printf 'long%.0s' {1..40})
	cp "$MKLOG" "$name"
	MKLOG=$PWD/$name mklog b.gml "${RUN[@]}"
	WIDTH=640 drawn b.gml >said
	grep -q 'longlon*g*\.\.\.<' out.svg
	[ "$(grep -o 'https*://[^"]*' out.svg)" = http://www.w3.org/2000/svg ]
	refute grep -qi '<script\|href\|@import\|url(' out.svg
}

@test "xmllint accepts it" {
	command -v xmllint >/dev/null || skip "no xmllint"
	mklog a.gml "${RUN[@]}"
	"$TOOL" plot a.gml | xmllint --noout -
}

@test "plot ends well on damaged logs, with an image" {
	command -v python3 >/dev/null || skip "no python3"
	MUTATE=${MKLOG%/*}/mutate
	mklog good.gml "${RUN[@]}" sample:0:40M:50M taken:0:1G:1ms lend:0:2M grow:0:2M:1us heap:0:1M:1:2 last:0 move:1:1G unmap:1
	for seed in {1..60}; do
		"$MUTATE" good.gml bad.gml $seed
		status=0
		"$TOOL" plot bad.gml >out.svg 2>err </dev/null || status=$?
		[ "$status" -le 1 ] || { echo "$seed: exit $status"; cat err; return 1; }
		[ "$(grep -c "" err)" -eq "$status" ] || { echo "$seed"; cat err; return 1; }
		[ ! -s out.svg ] || echo $seed
		[ ! -s out.svg ] || cp out.svg $seed.svg
	done
	cat >all.py <<-'END'
		import glob, re, xml.etree.ElementTree as tree
		files = glob.glob("[0-9]*.svg")
		assert len(files) > 20, files
		for file in files:
		    for node in tree.parse(file).iter():
		        for name in ("x", "y", "d", "width", "height", "cx", "cy", "x1", "y2"):
		            assert not re.search("nan|inf|-0*[1-9]", node.get(name) or ""), (file, node.attrib)
	END
	python3 all.py
}
