#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat replay: the results of each policy for traces that are small enough for mental arithmetic, and
# for real ones.
source "$BATS_TEST_DIRNAME/cli.bash"
unset GPUMEM_TRIM_AFTER

MIB=1048576

# rmm WORD...: a CSV of RMM. Each word is ACTION:POINTER:SIZE[:SECONDS]; a time holds until the next one.
rmm() {
	local word action pointer size seconds now=0
	echo Thread,Time,Action,Pointer,Size,Stream
	for word in "$@"; do
		IFS=: read -r action pointer size seconds <<<"$word"
		now=${seconds:-$now}
		printf '17,%02d:%02d:%02d.000000,%s,0x%x,%s,0\n' $((now / 3600 % 24)) $((now / 60 % 60)) $((now % 60)) \
			$action $((pointer << 20)) $((size))
	done
}

# figures POLICY EXPRESSION ARGUMENT...: the value of EXPRESSION for the first trace.
figures() {
	"$TOOL" replay --json --policy=$1 "${@:3}" | jq -c ".traces[0].policies[0] | $2"
}

# same POLICY 'REQUESTED MAPPED FAILED ALLOC FREE CREATE' ARGUMENT...: peaks in bytes, then calls.
same() {
	local is
	is=$(figures $1 '[.requested_peak, .mapped_peak, .failed, .alloc_calls, .free_calls, .create_calls]' "${@:3}")
	diff <(echo "[$2]" | tr ' ' ,) <(echo "$is")
}

# A small request, 3, 12 and 11 MiB; all are freed; 20 MiB, and 1 MiB plus one byte.
MIXED=(allocate:1:1000 allocate:2:3*MIB allocate:3:12*MIB allocate:4:11*MIB free:1:1000 free:3:12*MIB free:2:3*MIB
	free:4:11*MIB allocate:5:20*MIB allocate:6:MIB+1)
PEAK=$((26 * MIB + 1000))

@test "replay, policy pytorch: segments of 2, 20 and more MiB, split and merged" {
	rmm "${MIXED[@]}" >t.csv
	# Segments: 2 MiB for the small request; 20 for 3 and 12; 12 for 11, as a rest of 1 is not split off.
	# The merged segment of 20 serves 20. The last request, of more than 1 MiB, is cut from the segment of
	# 12.
	same pytorch "$PEAK $((34 * MIB)) 0 3 0 0" t.csv
	# Of 14 and 12 MiB free, 11 uses the 12, so the 14 stays whole.
	rmm allocate:1:14*MIB allocate:2:12*MIB free:1:14*MIB free:2:12*MIB allocate:3:11*MIB allocate:4:14*MIB >u.csv
	same pytorch "$((26 * MIB)) $((26 * MIB)) 0 2 0 0" u.csv
	# One byte less is a small request; 10 MiB get a segment of their own, not a part of 20.
	rmm allocate:1:MIB allocate:2:MIB allocate:3:512 allocate:4:10*MIB >u.csv
	same pytorch "$((12 * MIB + 512)) $((14 * MIB)) 0 3 0 0" u.csv
	rmm allocate:1:10*MIB-1 >u.csv
	same pytorch "$((10 * MIB - 1)) $((10 * MIB)) 0 1 0 0" u.csv
	rmm allocate:1:10*MIB-512 >u.csv
	same pytorch "$((10 * MIB - 512)) $((20 * MIB)) 0 1 0 0" u.csv
}

@test "replay, policy expandable: address ranges, mapped by pages, and unmapped when the device is full" {
	rmm "${MIXED[@]}" >t.csv
	# 2 MiB for the small request; 20 for 3 and 12; 11 begins in the 5 that are left, with 20 more mapped.
	# The last two requests are in these 40.
	same expandable "$PEAK $((42 * MIB)) 0 0 0 3" t.csv
	[ "$(figures expandable '[.create_calls, .map_calls, .access_calls, .unmap_calls, .release_calls]' t.csv)" = '[3,3,3,0,0]' ]
	# 4 uses the 5 that were freed, although the 4 at the end fit better: the end can grow. So 5 needs a
	# page.
	rmm allocate:1:5*MIB allocate:2:11*MIB free:1:5*MIB allocate:3:4*MIB allocate:4:5*MIB >u.csv
	same expandable "$((20 * MIB)) $((40 * MIB)) 0 0 0 2" u.csv
	# A rest of 512 bytes is split off. 2 free MiB and 18 unmapped MiB serve 20.
	rmm allocate:1:18*MIB allocate:2:20*MIB free:1:18*MIB allocate:3:18*MIB-512 allocate:4:512 >u.csv
	same expandable "$((38 * MIB)) $((42 * MIB)) 0 0 0 3" u.csv
	# Of 40 MiB the small page is unmapped for the second 20; the failed call counts.
	rmm allocate:1:MIB free:1:MIB allocate:2:20*MIB allocate:3:20*MIB >u.csv
	same expandable "$((40 * MIB)) $((40 * MIB)) 0 0 0 4" --memory=40M u.csv
	[ "$(figures expandable '[.unmap_calls, .release_calls]' --memory=40M u.csv)" = '[1,1]' ]
	# The page between two blocks is unmapped, and leaves a hole, which the next request fills.
	rmm allocate:1:10*MIB allocate:2:40*MIB allocate:3:10*MIB free:2:40*MIB allocate:4:MIB free:4:MIB allocate:5:30*MIB >u.csv
	same expandable "$((60 * MIB)) $((62 * MIB)) 0 0 0 4" --memory=62M u.csv
	same expandable "$((60 * MIB)) $((60 * MIB)) 0 0 0 7" --memory=61M u.csv
	# A page that is half in use is not unmapped.
	rmm allocate:1:30*MIB allocate:2:10*MIB free:1:30*MIB allocate:3:MIB allocate:4:31*MIB >u.csv
	same expandable "$((40 * MIB)) $((40 * MIB)) 1 0 0 6" --memory=41M u.csv
}

@test "replay, policy malloc-async: one range, in pages of 32 MiB" {
	rmm "${MIXED[@]}" >t.csv
	same malloc-async "$PEAK $((32 * MIB)) 0 0 0 1" t.csv
	# 33 needs two pages, whose last 31 serve the next request; 32 needs another page.
	rmm allocate:1:33*MIB allocate:2:31*MIB allocate:3:32*MIB >u.csv
	same malloc-async "$((96 * MIB)) $((96 * MIB)) 0 0 0 3" u.csv
	# A free page is extended by another one.
	rmm allocate:1:20*MIB free:1:20*MIB allocate:2:40*MIB allocate:3:MIB >u.csv
	same malloc-async "$((41 * MIB)) $((64 * MIB)) 0 0 0 2" u.csv
	# The page between two blocks is too short. Of 128 MiB two more are available only after it is
	# unmapped.
	rmm allocate:1:32*MIB allocate:2:32*MIB allocate:3:32*MIB free:2:32*MIB allocate:4:40*MIB >u.csv
	same malloc-async "$((104 * MIB)) $((160 * MIB)) 0 0 0 5" u.csv
	same malloc-async "$((104 * MIB)) $((128 * MIB)) 0 0 0 7" --memory=128M u.csv
}

@test "replay, policies pool-defer and pool-ordered: the pool with other values of GPUMEM_FREE" {
	rmm "${MIXED[@]}" >t.csv
	[ "$(figures pool-ordered .mapped_peak t.csv)" = "$(figures pool .mapped_peak t.csv)" ]
	# 200 MiB alone exceed the bound of retired memory: the allocation waits for 200 us.
	rmm allocate:1:200*MIB free:1:200*MIB allocate:2:200*MIB >u.csv
	for lag in 0s 150us; do
		[ "$(figures pool-defer '[.mapped_peak, .failed]' --lag=$lag u.csv)" = "[$((200 * MIB)),0]" ]
	done
	[ "$(figures pool-defer .mapped_peak --lag=10s u.csv)" = $((400 * MIB)) ]
	[ "$(figures pool-ordered .mapped_peak --lag=10s u.csv)" = $((200 * MIB)) ]
	[ "$(figures pool .mapped_peak --lag=10s u.csv)" = $((200 * MIB)) ]
	# Beside 2 GiB they are within the bound. On a full device the allocation waits without a limit.
	rmm allocate:9:2048*MIB allocate:1:200*MIB free:1:200*MIB allocate:2:200*MIB >u.csv
	[ "$(figures pool-defer .mapped_peak --lag=500us u.csv)" = $((2448 * MIB)) ]
	[ "$(figures pool-defer .failed --lag=10s --memory=2300M u.csv)" = 0 ]
}

@test "replay, policy pytorch-pool: segments of the pool" {
	rmm "${MIXED[@]}" >t.csv
	[ "$(figures pytorch-pool '[.requested_peak, .mapped_peak, .failed, .alloc_calls]' t.csv)" = "[$PEAK,$((34 * MIB)),0,0]" ]
	[ "$(GPUMEM_LIMIT=32M figures pytorch-pool .failed t.csv)" -ge 1 ]
}

@test "near a limit the pool serves PyTorch's cache as well as the driver does" {
	# Whether the cache fits a limit depends on chance, for both.
	for steps in 10 15 20 23 27 30 35 40; do
		python3 "$BATS_TEST_DIRNAME/growing.py" "$steps" 16728 >t.csv
		for limit in 13200 13600 14000 14400 14800 15200 15600 16000; do
			"$TOOL" replay --json --memory=80G --limit=${limit}M --policy=pytorch,pytorch-pool t.csv
		done
	done >runs
	jq -s 'map(.traces[0].policies | map(.failed > 0))' runs >failed
	jq -e 'length == 64 and (map(select(.[0])) | length) > 8' failed
	jq -e '(map(select(.[1])) | length) <= (map(select(.[0])) | length) + 2' failed
}

@test "replay, policy first-fit: the lowest address, and an arena that grows at its end" {
	rmm "${MIXED[@]}" >t.csv
	# Growth: 2; 2 more for 3 beside 1024 bytes; 12; 12. The 20 and the last request use freed memory.
	same first-fit "$PEAK $((28 * MIB)) 0 0 0 4" t.csv
	# Holes of 6 and 4: 3 uses the 6 although the 4 fits better, so that 5 needs the end.
	rmm allocate:1:6*MIB allocate:2:2*MIB allocate:3:4*MIB allocate:4:2*MIB free:1:6*MIB free:3:4*MIB \
		allocate:5:3*MIB allocate:6:5*MIB >u.csv
	same first-fit "$((14 * MIB)) $((20 * MIB)) 0 0 0 5" u.csv
	[ "$(figures first-fit '[.create_calls, .map_calls, .access_calls, .unmap_calls, .release_calls, .calls]' u.csv)" = \
		'[5,5,5,0,0,15]' ]
}

@test "replay, policy exact-size: a block serves only its own size" {
	rmm "${MIXED[@]}" >t.csv
	# Allocated from the device: 1024, 4 MiB, 12 MiB, 12 MiB, 20 MiB and 1 MiB + 512.
	same exact-size "$PEAK $((49 * MIB + 1536)) 0 6 0 0" t.csv
	rmm allocate:1:1000 free:1:1000 allocate:2:1024 free:2:1024 allocate:3:1025 >u.csv
	same exact-size "1025 $((1024 + 1536)) 0 2 0 0" u.csv
}

@test "replay, policy round-2m: the driver serves every request" {
	rmm "${MIXED[@]}" >t.csv
	same round-2m "$PEAK $((30 * MIB)) 0 6 4 0" t.csv
}

@test "replay on a full device" {
	rmm allocate:1:12*MIB free:1:12*MIB allocate:2:24*MIB allocate:3:16*MIB free:3:16*MIB free:2:24*MIB >t.csv
	# The cache is returned, and the driver asked once more; in vain for 16, whose free is left out.
	for policy in pytorch exact-size; do
		same $policy "$((24 * MIB)) $((24 * MIB)) 1 5 1 0" --memory=32M t.csv
	done
	same round-2m "$((24 * MIB)) $((24 * MIB)) 1 3 2 0" --memory=32M t.csv
	same first-fit "$((24 * MIB)) $((24 * MIB)) 1 0 0 3" --memory=32M t.csv
	for policy in pool pool-defer pool-ordered first-fit exact-size round-2m pytorch pytorch-pool; do
		[ "$(figures $policy '[.requested_peak, .failed, .operations]' --memory=32M t.csv)" = "[$((24 * MIB)),1,5]" ]
		# A limit acts as a device of that size, whether by option or knob; the option has priority
		# over the knob.
		[ "$(figures $policy .failed --memory=64M --limit=50% t.csv)" = 1 ]
		[ "$(figures $policy .failed --limit=32M t.csv)" = 1 ]
		[ "$(GPUMEM_LIMIT=32M figures $policy .failed t.csv)" = 1 ]
		[ "$(GPUMEM_LIMIT=32M figures $policy .failed --limit=48M t.csv)" = 0 ]
		[ "$(figures $policy .failed t.csv)" = 0 ]
	done
	"$TOOL" replay --json --memory=64M --limit=50% t.csv | jq -e '.traces[0] | .memory == 67108864 and .limit == 33554432'
	"$TOOL" replay --json t.csv | jq -e '.traces[0] | .memory == 151397597184 and .limit == .memory'
}

@test "replay, policy pool: its knobs are in force, in the time of the trace" {
	rmm "${MIXED[@]}" >t.csv
	figures pool . t.csv >out
	jq -e ".requested_peak == $PEAK and .failed == 0 and .operations == 10 and .alloc_calls == 0" out
	jq -e '.mapped_peak >= .requested_peak and .mapped_peak % 2097152 == 0 and .create_calls == .map_calls' out
	jq -e '.utilisation == (.requested_peak / .mapped_peak * 1e6 | floor / 1e6)' out
	# Idle for 20 s; the last row advances the time.
	rmm allocate:1:64*MIB free:1:64*MIB allocate:2:1000:20 >u.csv
	[ "$(figures pool '.release_calls > 0' u.csv)" = true ]
	[ "$(GPUMEM_TRIM_AFTER=30s figures pool .release_calls u.csv)" = 0 ]
	[ "$(GPUMEM_TRIM_AFTER=off figures pool .release_calls u.csv)" = 0 ]
	[ "$(GPUMEM_TRIM_AFTER=10s,1G figures pool .release_calls u.csv)" = 0 ]
	# 23:59:50 to 00:00:10 is 20 s, too; a step back by a second is no new day.
	rmm allocate:1:64*MIB:86390 free:1:64*MIB allocate:2:1000:86410 >u.csv
	grep -q '^17,00:00:10.000000,' u.csv
	[ "$(figures pool '.release_calls > 0' u.csv)" = true ]
	rmm allocate:1:64*MIB:50 free:1:64*MIB allocate:2:1000:49 >u.csv
	[ "$(figures pool .release_calls u.csv)" = 0 ]
	GPUMEM_LIMIT=lots "$TOOL" replay --policy=pool u.csv 2>err >out
	grep -q '^gpumem: GPUMEM_LIMIT=lots: ' err
}

@test "replay of MiniMalloc: frees before allocations, sizes in units" {
	# At 5 the first two are freed before the third begins, although it is listed first.
	printf '%s\n' id,lower,upper,size c,5,9,4 a,0,5,3 b2,2,5,1 >m.csv
	same round-2m "$((4 * MIB)) $((6 * MIB)) 0 3 3 0" --unit=1M m.csv
	same round-2m "4 $((4 * MIB)) 0 3 3 0" m.csv
	same round-2m "$((4 * 65536)) $((4 * MIB)) 0 3 3 0" --unit=64K m.csv
	same first-fit "$((4 * MIB)) $((4 * MIB)) 0 0 0 1" --unit=1M m.csv
	printf '%s\n' id,lower,upper,size,offset c,5,9,4,0 a,0,5,3,17 b2,2,5,1,x >o.csv
	same round-2m "$((4 * MIB)) $((6 * MIB)) 0 3 3 0" --unit=1M o.csv
	# Its own files have other names, in any order, and `end` is the last moment of a block.
	printf '%s\n' buffer,start,end,size c,5,8,4 a,0,4,3 b2,2,4,1 >n.csv
	same round-2m "$((4 * MIB)) $((6 * MIB)) 0 3 3 0" --unit=1M n.csv
	printf '%s\n' size,alignment,buffer_id,end,begin,gaps,offset 4,1,c,8,5,,0 3,8,a,4,0,,4 1,1,b2,4,2,,7 >n.csv
	same round-2m "$((4 * MIB)) $((6 * MIB)) 0 3 3 0" --unit=1M n.csv
	printf '%s\n' id,lower,upper,size none,1,2,0 >z.csv
	"$TOOL" replay --json z.csv | jq -e '.traces[0] | .format == "minimalloc" and .empty == 1 and .allocations == 0'
	"$TOOL" replay --json z.csv | jq -e '.traces[0].policies | map(.utilisation == 1 and .operations == 0) | all'
	for only in Thread,Time,Action,Pointer,Size,Stream id,lower,upper,size; do
		echo $only >e.csv
		"$TOOL" replay --json e.csv | jq -e '.traces[0].policies | length == 10'
	done
}

@test "replay of RMM's CSV" {
	cat >t.csv <<-'END'
		Thread,Time,Action,Pointer,Size,Stream
		140,09:00:00:000001,allocate,0x7F0000000000,4096,0
		141,09:00:00.000002,allocate failure,(nil),99999999999,default

		140,09:00:00.000003,allocate,(nil),0,0x0
		140,09:00:00.000003,free,(nil),0,0x0
		140,09:00:00.000004,free,0x7f0000000000,4096,legacy
		140,09:00:00.000005,allocate,0x7f0000000000,100,0
	END
	"$TOOL" replay --json t.csv >out
	jq -e '.traces[0] | [.format, .allocations, .frees, .refused, .empty, .missing, .requested, .requested_peak, .device] ==
		["rmm", 2, 1, 1, 1, 0, 100, 4096, 0]' out
	# A spreadsheet writes a mark before the text, and other ends of lines.
	sed '1s/^/\xef\xbb\xbf/; s/$/\r/' t.csv | "$TOOL" replay --json - | jq '.traces[0].path = "t.csv" | del(.. | .ns_per_operation?)' >crlf
	jq 'del(.. | .ns_per_operation?)' out | diff - crlf
	# As RMM's documentation shows it.
	sed '1!{s/09:00:00[:.]/1634567890./; s/,free,/,deallocate,/}' t.csv >epoch.csv
	"$TOOL" replay --json epoch.csv | jq '.traces[0].path = "t.csv" | del(.. | .ns_per_operation?)' | diff - crlf
	# The last line needs no newline.
	printf %s "$(<t.csv)" | "$TOOL" replay --json - | jq -e '.traces[0].path == "standard input" and .traces[0].allocations == 2'
}

@test "replay of compressed traces" {
	rmm "${MIXED[@]}" >t.csv
	gzip -k t.csv
	cp t.csv.gz under_another_name
	"$TOOL" replay --json --policy=round-2m t.csv | jq 'del(.. | .ns_per_operation?, .path?)' >plain
	for file in t.csv.gz under_another_name -; do
		"$TOOL" replay --json --policy=round-2m $file <t.csv.gz | jq 'del(.. | .ns_per_operation?, .path?)' | diff plain -
	done
	expect 1 'gpumemstat: standard input: compressed, and no file: put gzip -dc in front of it' replay - < <(cat t.csv.gz)
	head -c -9 t.csv.gz >cut.gz
	expect 1 'gpumemstat: cut.gz: compressed, and damaged or cut off: gzip cannot read all of it' replay cut.gz
	head -c 40 t.csv.gz >cut.gz
	expect 1 'gpumemstat: cut.gz: compressed, and damaged or cut off: gzip cannot read all of it' replay cut.gz
	printf '\037' >cut.gz
	expect 1 'gpumemstat: cut.gz: compressed, and damaged or cut off: gzip cannot read all of it' replay cut.gz
	# Data that gzip can read are checked as usual, also long before their end.
	{ rmm free:1:1; seq 100000; } | gzip >bad.gz
	expect 1 'gpumemstat: bad.gz:2: free of 0x100000, which is not allocated' replay bad.gz
	[ -z "${TEST_UNDER:-}" ] || return 0
	ln -s "$(command -v diff)" . # the only program that expect needs
	PATH=$PWD expect 1 'gpumemstat: t.csv.gz: compressed, and gzip cannot be run: No such file or directory' replay t.csv.gz
}

@test "replay shows policies side by side" {
	rmm allocate:1:3*MIB allocate:2:12*MIB >t.csv
	printf '%s\n' id,lower,upper,size a,0,5,3 b,1,2,0 >m.csv
	"$TOOL" replay --policy=round-2m,pytorch --limit=50% --memory=1G t.csv m.csv |
		sed -E 's/ +[0-9.]+ (n|u|m)?s$/ TIME/; s/ +time$/ TIME/' >out
	diff -u - out <<-'END'
	trace         t.csv: rmm, 2 allocations, 0 frees, at most 15.0 MiB alive
	device        1.00 GiB, limit 512 MiB

	policy    utilisation  requested    mapped  taken  calls  failed TIME
	round-2m        0.938   15.0 MiB  16.0 MiB      2      2       0 TIME
	pytorch         0.750   15.0 MiB  20.0 MiB      1      1       0 TIME

	trace         m.csv: minimalloc, 1 allocations, 1 frees, at most 3 B alive
	left out      0 refused, 1 of 0 bytes, 0 frees of blocks from before
	device        1.00 GiB, limit 512 MiB

	policy    utilisation  requested    mapped  taken  calls  failed TIME
	round-2m        0.000        3 B  2.00 MiB      1      2       0 TIME
	pytorch         0.000        3 B  2.00 MiB      1      1       0 TIME

	round-2m      the driver serves each request, in multiples of 2 MiB
	pytorch       PyTorch's cache: segments of 2, 20 and more MiB, by best fit
	taken         calls of the driver that ask for memory
	calls         these, and those that return it
	END
	"$TOOL" replay t.csv >out
	[ "$(sed -n 's/^\([a-z0-9-]*\) .* [0-9.]* [mnu]*s$/\1/p' out | tr '\n' ' ')" = 'pool pool-defer pool-ordered first-fit exact-size round-2m pytorch expandable malloc-async pytorch-pool ' ]
	# Each policy has one line below the table.
	[ "$(sed -n '/^$/h;//!H;$x;$p' out | sed -n 's/^\([a-z][a-z0-9-]*\)  *[^ ].*/\1/p' | tr '\n' ' ')" = 'pool pool-defer pool-ordered first-fit exact-size round-2m pytorch expandable malloc-async pytorch-pool taken calls ' ]
	[ "$(wc -L <out)" -le 80 ]
	"$TOOL" replay --json t.csv m.csv | jq -e '[.traces[].path] == ["t.csv", "m.csv"] and .schema == 1'
	# Two runs agree, except for the time.
	for i in 1 2; do "$TOOL" replay --json t.csv m.csv | jq 'del(.. | .ns_per_operation?)' >$i; done
	diff 1 2
}

@test "replay's exit status: limits, and traces that cannot be read" {
	rmm allocate:1:32*MIB >t.csv
	"$TOOL" replay --min-utilisation=0.001 t.csv >out
	rmm allocate:1:1000 >small.csv
	status=0
	"$TOOL" replay --policy=pool,pytorch --min-utilisation=0.001 t.csv small.csv >out 2>err || status=$?
	[ "$status" -eq 3 ]
	grep -qE '^gpumemstat: small.csv: utilisation of the pool is 0\.[0-9]{6}, below 0.001000$' err
	[ "$(wc -l <err)" -eq 1 ]
	[ "$(grep -c '^pool .* [mnu]*s$' out)" -eq 2 ]
	status=0
	"$TOOL" replay --min-utilisation=0 --limit=16M t.csv >out 2>err || status=$?
	[ "$status" -eq 3 ]
	[ "$(<err)" = 'gpumemstat: t.csv: the pool refused 1 of 1 allocations' ]
	"$TOOL" replay --limit=16M t.csv >out
	# An unreadable file sets the status; the other files are shown.
	status=0
	"$TOOL" replay --min-utilisation=0 --limit=16M none.csv t.csv >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -qx 'gpumemstat: none.csv: no such file' err
	grep -q '^pool ' out
	expect 2 "gpumemstat: --min-utilisation is about the pool, which --policy leaves out
Try 'gpumemstat replay --help'" replay --min-utilisation=0.5 --policy=pytorch t.csv
}

@test "replay of a log: blocks of the pool and of the driver, of one device" {
	mklog a.gml at:1s map:0:64M:1us alloc:0:10M:1us driver:0:1M:1us map:1:64M:1us alloc:1:3M:1us fail:0:7G:1G at:2s free:1:1us free:2:1us \
		alloc:0:2M:1us
	"$TOOL" replay --json a.gml >out
	jq -e '.traces[0] | [.format, .device, .allocations, .frees, .refused, .requested, .requested_peak] ==
		["log", 0, 3, 1, 1, 3145728, 11534336]' out
	jq -e ".traces[0].memory == $("$TOOL" summary --json a.gml | jq '.logs[0].devices[0].total')" out
	"$TOOL" replay --json --device=1 a.gml | jq -e '.traces[0] | [.device, .allocations, .requested_peak] == [1, 1, 3145728]'
	"$TOOL" replay --json --device=1 --memory=2M --policy=round-2m a.gml | jq -e '.traces[0].policies[0].failed == 1'
	expect 1 'gpumemstat: a.gml: --device=2: the log has 2 devices' replay --device=2 a.gml
	mklog b.gml at:1s map:1:64M:1us alloc:1:3M:1us
	"$TOOL" replay --json b.gml | jq -e '.traces[0].device == 1'
	GPUMEM_LOG=small mklog c.gml at:1s map:0:64M:1us alloc:0:10M:1us
	expect 1 'gpumemstat: c.gml: a log without events: gpumemstat record makes one with them' replay c.gml
	mklog d.gml at:1s map:0:64M:1us alloc:0:10M:1us count:allocate_calls:1
	status=0
	"$TOOL" replay d.gml >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -q '^gpumemstat: d.gml: contradicts itself: ' err
	[ ! -s out ]
}

@test "replay of a recorded run agrees with its log" {
	# A short log, and one of two segments: the second begins with the live blocks, which are already
	# known. No samples in between: the pool joins its idle memory for a sample. ordered has shorter handles.
	export GPUMEM_FREE=sync
	for how in '2000 256' '120000 16 -e GPUMEM_LOG_EVENTS=all'; do
		read -r rounds most knobs <<<"$how"
		SIM_MEMORY=1G "$TOOL" record -e GPUMEM_LOG=events,1h $knobs -o run$rounds.gml -- "$DEMO" $rounds $most >/dev/null 2>&1
		"$TOOL" summary --json run$rounds.gml | jq '.logs[0].devices[0]' >log
		"$TOOL" replay --json run$rounds.gml | jq '.traces[0]' >out
		jq -e '.allocations > 1000' out
		[ "$(jq -c '[.allocations, .frees, .requested, .requested_peak, .memory]' out)" = \
			"$(jq -c '[.counters.allocate_calls - .counters.allocate_failed, .counters.free_calls, .counters.requested,
				.counters.requested_peak, .total]' log)" ]
		# The pool's memory is the same in the replay and in the run.
		[ "$(jq -c '.policies[0] | [.policy, .requested_peak, .mapped_peak, .create_calls]' out)" = \
			"$(jq -c '["pool", .counters.requested_peak, .counters.mapped_peak, .counters.map_calls]' log)" ]
	done
	[ "$(stat -c %s run120000.gml)" -gt $((16 * MIB)) ]
}

@test "replay of a log with dropped segments begins with the live blocks" {
	"$TOOL" record -e GPUMEM_LOG_EVENTS=all -e GPUMEM_LOG=events,0 -e GPUMEM_LOG_LIMIT=32M -o cut.gml -- "$DEMO" 40000 16 >/dev/null 2>&1
	"$TOOL" summary --json cut.gml | jq '.logs[0] | {complete, dropped} + .devices[0].counters' >log
	jq -e '.complete == false and .dropped > 0' log
	"$TOOL" replay --json cut.gml | jq '.traces[0]' >out
	# The frees since then are known, so the end equals the log's.
	[ "$(jq .requested out)" -eq "$(jq .requested log)" ]
	[ "$(jq .frees out)" -lt "$(jq .free_calls log)" ]
	jq -e '.missing == 0 and .frees > 1000 and .requested_peak > 1048576' out
	[ "$(jq .requested_peak out)" -le "$(jq .requested_peak log)" ]
}

@test "replay of the training step and of MiniMalloc's instances" {
	[ -n "${GPUMEM_TEST_DATA:-}" ] || skip "GPUMEM_TEST_DATA does not name a folder with traces"
	"$TOOL" replay --json --min-utilisation=0.95 "$GPUMEM_TEST_DATA/traces/training_step.csv.gz" >out
	jq -e '.traces[0] | [.allocations, .frees, .requested_peak] == [13385, 13385, 2532893696]' out
	jq -e '.traces[0].policies | map(.failed == 0 and .operations == 26770 and .requested_peak == 2532893696) | all' out
	jq -e '.traces[0].policies | map(select(.policy == "round-2m"))[0] | .mapped_peak == 3611295744' out
	# 5% more than the largest optimum of the eleven, 64 GiB.
	"$TOOL" replay --json --policy=pool --limit=68812M --unit=64K "$GPUMEM_TEST_DATA"/minimalloc/*.csv >out
	jq -e '.traces | length == 11 and (map(.policies[0].failed == 0) | all)' out
	"$TOOL" replay --json --unit=64K "$GPUMEM_TEST_DATA"/minimalloc/*.csv >out
	jq -e '.traces | length == 11' out
	# Live memory never exceeds the optimum. All sizes are multiples of 2 MiB: rounding to it loses nothing.
	jq -e '.traces | map(.requested_peak <= 68719476736 and .frees == .allocations and .requested == 0) | all' out
	jq -e '.traces | map(.policies | length == 10) | all' out
	jq -e '.traces | map(.policies[0] | .failed == 0 and .mapped_peak >= .requested_peak) | all' out
}

@test "replay of a GPT's training and serving: under defer allocations wait for freed memory, for 2% of the time at most" {
	local trace
	for trace in "$BATS_TEST_DIRNAME"/traces/{train,serve}.csv.gz; do
		GPUMEM_RETIRE=0.1% "$TOOL" replay --json --policy=pool-defer,pytorch --lag=10ms "$trace" >little
		GPUMEM_RETIRE=32G "$TOOL" replay --json --policy=pool-defer --lag=10ms "$trace" >all
		jq -e '.traces[0].policies | .[0].waited_ns > 1e6 and .[0].waited_ns <= 0.02 * 16e9 and .[1].waited_ns == 0' little
		jq -e '.traces[0].policies[0].waited_ns == 0' all
		jq -es '.[0].traces[0].policies[0].mapped_peak < .[1].traces[0].policies[0].mapped_peak' little all
	done
}

# Traces of tests/bench/framework_programs.py on an H200, without PyTorch's cache: 16 steps of `train`, 60 of `serve`.
@test "replay of a GPT's training and serving: ordered maps at most 1.15 times the live peak, and 1.05 times expandable segments" {
	local traces=("$BATS_TEST_DIRNAME"/traces/{train,serve}.csv.gz)
	for lag in 0s 1ms 100ms 1s; do
		"$TOOL" replay --json --policy=pool-ordered,expandable --lag=$lag "${traces[@]}" >out
		jq -e '.traces | length == 2 and all(.requested_peak > 3e9 and .policies[0].failed == 0)' out
		jq -c '.traces[] | [.requested_peak, .policies[].mapped_peak]' out
		jq -e '.traces | all(.policies[0].mapped_peak <= 1.15 * .requested_peak)' out
		jq -e '.traces | all(.policies[0].mapped_peak <= 1.05 * .policies[1].mapped_peak)' out
		# Expandable segments need 7,448 MiB for the first one.
		"$TOOL" replay --json --policy=pool-ordered --lag=$lag --limit=7500M "${traces[0]}" >limited
		jq -e '.traces[0].policies[0].failed == 0' limited
	done
}
