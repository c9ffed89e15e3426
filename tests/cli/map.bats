#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat map, over logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

# Chunks: 8 MiB at 64 GiB; 4 MiB at 132 MiB after it, which is returned; 4 MiB at 70 GiB, which moves to 80
# GiB. Blocks: 2 MiB (until 2 s), 100 KiB (until 3 s), two small ones, and from 3 s to 4 s one of 6 MiB at the
# second MiB.
RUN=(at:1s to:64G map:0:8M:1us to:64G alloc:0:2M:1us to:65538M alloc:0:100K:1us to:65543M alloc:0:1000:1us
	to:65543.5M alloc:0:3000:1us to:65668M map:0:4M:1us to:70G map:0:4M:1us at:2s fail:0:7G:1G free:1:1us
	at:3s free:2:1us move:3:80G unmap:2 to:65537M alloc:0:6M:1us at:4s free:5:1us at:5s)

@test "map at the peak" {
	mklog m.gml "${RUN[@]}"
	"$TOOL" map --width=80 m.gml >out
	diff -u - out <<-'END'
	log           m.gml: mklog, 5.00 s, closed cleanly

	device 0      GPU one
	peak          3.00 s: 12.0 MiB mapped, 6.00 MiB in use (4.00 KiB in slabs),
	              6.00 MiB idle
	              a row is 4.00 MiB, a character 64.0 KiB; from 0x1000000000

	+0 B          ................################################################
	+4.00 MiB     ################################################s.......s.......
	              16.0 GiB not mapped; from 0x1400000000
	+0 B          ................................................................

	              # in use, + in part, s blocks of up to 64 KiB in slabs, . idle
	END
}

@test "map at a refused allocation" {
	mklog m.gml "${RUN[@]}"
	"$TOOL" map --at=oom m.gml >out
	diff -u - out <<-'END'
	log           m.gml: mklog, 5.00 s, closed cleanly

	device 0      GPU one
	out of memory 2.00 s: 16.0 MiB mapped, 2.10 MiB in use (4.00 KiB in slabs),
	              13.9 MiB idle
	              a row is 4.00 MiB, a character 64.0 KiB; from 0x1000000000

	+0 B          #################################+..............................
	+4.00 MiB     ................................................s.......s.......
	              124 MiB not mapped; from 0x1008400000
	+0 B          ................................................................
	              5.87 GiB not mapped; from 0x1180000000
	+0 B          ................................................................

	              # in use, + in part, s blocks of up to 64 KiB in slabs, . idle
	END
	mklog fine.gml at:1s to:64G map:0:8M:1us to:64G alloc:0:2M:1us
	"$TOOL" map --at=oom fine.gml | grep -qx 'map           no request to the pool of this device was refused'
	"$TOOL" map --at=oom --json fine.gml | jq -e '.logs[0].devices[0] | has("rows") | not'
}

@test "map at the end, and at a time" {
	mklog m.gml "${RUN[@]}"
	"$TOOL" map --at=exit --json m.gml >out
	jq -e '.logs[0].devices[0] | .ns == 5e9 and .mapped == 12582912 and .handed_out == 4096 and .in_slabs == 4096 and .lent == 0' out
	jq -e '.logs[0].devices[0] | .row_bytes == 4194304 and .cell_bytes == 65536' out
	jq -e '.logs[0].devices[0].rows | map(.address) == [68719476736, 68723671040, 85899345920]' out
	jq -e '.logs[0].devices[0].rows[1].cells == "." * 48 + "s......." * 2' out
	for at in 0:0 999ms:0 1s:16777216 2s:16777216 3s:12582912; do
		"$TOOL" map --at=${at%:*} --json m.gml | jq -e ".logs[0].devices[0].mapped == ${at#*:}"
	done
	"$TOOL" map --at=1h m.gml | grep -qx 'map           at no time: the log ends at 5.00 s'
	"$TOOL" map --at=1h --json m.gml | jq -e '.logs[0].devices[0] | .missing == "at no time: the log ends at 5.00 s" and (has("mapped") | not)'
	"$TOOL" map --at=2.5s m.gml | grep -qx 'at            2.50 s: 16.0 MiB mapped, 104 KiB in use (4.00 KiB in slabs), 15.9'
}

@test "map: rows, columns and units follow -n and --width" {
	mklog m.gml "${RUN[@]}"
	for width in 40 60 80 140 1000; do
		"$TOOL" map --width=$width m.gml >out
		[ "$(wc -L <out)" -le $width ]
		refute grep -nE '[[:blank:]]$' out
	done
	"$TOOL" map -n 2 --json m.gml | jq -e '.logs[0].devices[0] | (.rows | length) == 2 and .row_bytes == 8388608 and .cell_bytes == 131072'
	"$TOOL" map -n 1 --json m.gml | jq -e '.logs[0].devices[0] | (.rows | length) == 1'
}

@test "map: memory that is lent to kernels" {
	mklog k.gml at:1s to:64G map:0:4M:1us to:64G alloc:0:4M:1us to:68G taken:0:64M:12ms to:1T lend:0:2M at:2s heap:0:1M:0:0
	"$TOOL" map --at=exit k.gml >out
	"$TOOL" map --at=exit --width=200 k.gml | grep -q ', 0 B idle; 4.00 MiB lent to kernels$'
	grep -qx ' *960 GiB not mapped; from 0x10000000000' out
	grep -qE '^\+0 B +k+$' out
	grep -q ', k$' out
}

@test "map: chunks that end beyond the address space are not drawn" {
	mklog w.gml at:1s to:17179869183G map:0:4G:1us to:64G alloc:0:4M:1us
	"$TOOL" map w.gml >out
	tail -n 1 out | grep -q '# in use, + in part'
	refute grep -q 'a row is' out
	"$TOOL" map --json w.gml | jq -e '.logs[0].devices[0] | .rows == [] and .mapped == 4294967296'
}

@test "map: no pool, a device by number, several logs" {
	GPUMEM_MODE=trace mklog t.gml driver:0:1M:1us
	"$TOOL" map t.gml | grep -qx 'pool          never had any memory'
	mklog two.gml to:64G map:0:2M:1us to:64G map:1:2M:1us to:64G alloc:1:2M:1us
	[ "$("$TOOL" map two.gml | grep -c '^device ')" -eq 2 ]
	"$TOOL" map --device=1 two.gml >out
	[ "$(grep '^device ' out)" = 'device 1      GPU two' ]
	"$TOOL" map --device=0 two.gml | grep -qx 'map           the pool of this device handed out no block'
	expect 1 'gpumemstat: two.gml: --device=2: the log has 2 devices' map --device=2 two.gml
	"$TOOL" map --json t.gml two.gml | jq -e '[.logs[].path] == ["t.gml", "two.gml"]'
}

@test "map of a real run: drawn memory equals the pool's" {
	"$TOOL" record -o r.gml -- "$DEMO" 300 >/dev/null 2>&1
	"$TOOL" summary --json r.gml >summary
	"$TOOL" map --json -n 1000 r.gml >map
	peak=$(jq '.logs[0].devices[0].counters.requested_peak' summary)
	jq -e --argjson peak "$peak" '.logs[0].devices[0] | .handed_out >= $peak and .handed_out <= .mapped' map
	# At the end all memory is idle, and the drawn cells are the mapped memory.
	"$TOOL" map --json --at=exit -n 1000 r.gml >end
	jq -e --slurpfile s summary '.logs[0].devices[0] | .mapped == $s[0].logs[0].devices[0].counters.mapped and .handed_out == 0' end
	jq -e '.logs[0].devices[0] | (.rows | map(.cells | gsub(" "; "") | length) | add) * .cell_bytes == .mapped' end
	jq -e '.logs[0].devices[0].rows | map(.cells | gsub("[ .]"; "") == "") | all' end
}
