#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat diff, over logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

# The second block is behind the first one: idle memory is in two pieces while it is alive.
OLD=(at:1s to:4G map:0:64M:100us to:4G alloc:0:10M:1us to:4106M alloc:0:1000000:3us at:2s free:1:1us free:2:1us sample:0:60M:8M)
NEW=(at:1s to:4G map:0:128M:100us to:4G alloc:0:100M:1us to:4196M alloc:0:1000000:3us at:2s free:1:1us fail:0:7G:1G)

@test "diff of two logs: the verdict first, then call sites, findings and the counters that a reader needs" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml "${NEW[@]}"
	"$TOOL" diff --width=80 old.gml new.gml >out
	diff -u - out <<-'END'
	verdict       peak +821.6% (11.0 MiB -> 101 MiB); 1 more block never freed; 1
	              allocation failed (0 before)

	old           old.gml: mklog, 2.00 s, closed cleanly
	new           new.gml: mklog, 2.00 s, closed cleanly

	sites         at the peak of each

	     old      new     change  blocks  site
	11.0 MiB  101 MiB  +90.0 MiB       0  without a stack
	11.0 MiB  101 MiB  +90.0 MiB       0  all

	new           Out of memory: 7.00 GiB was asked for, and 6.88 GiB of the device
	              is neither this process's nor free. Look for other processes with
	              nvidia-smi.
	              1 block, 977 KiB, was never freed.

	memory                       old        new     change
	allocated in total      11.0 MiB    101 MiB  +90.0 MiB    +821.6%
	blocks, at the peak     11.0 MiB    101 MiB  +90.0 MiB    +821.6%
	the pool, at the peak   64.0 MiB    128 MiB  +64.0 MiB    +100.0%
	blocks, at the end           0 B    977 KiB   +977 KiB        new

	calls                     old        new     change
	allocations                 2          3         +1     +50.0%
	failed allocations          0          1         +1        new
	frees                       2          1         -1     -50.0%
	blocks, at the end          0          1         +1        new

	time                old        new     change
	in frees        2.00 us    1.00 us   -1.00 us     -50.0%

	ratios                        old        new     change
	fragmentation, at most      0.159      0.213     +0.054     +34.2%

	counters      7 more differ: -v
	END
}

@test "diff -v shows every counter by its name" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml "${NEW[@]}"
	"$TOOL" diff -v --width=80 old.gml new.gml | sed -n '/^memory/,$p' >out
	diff -u - out <<-'END'
	memory                    old        new     change
	allocate_bytes       11.0 MiB    101 MiB  +90.0 MiB    +821.6%
	requested_peak       11.0 MiB    101 MiB  +90.0 MiB    +821.6%
	free_bytes           11.0 MiB    100 MiB  +89.0 MiB    +812.9%
	map_bytes            64.0 MiB    128 MiB  +64.0 MiB    +100.0%
	mapped               64.0 MiB    128 MiB  +64.0 MiB    +100.0%
	mapped_peak          64.0 MiB    128 MiB  +64.0 MiB    +100.0%
	unreclaimable_peak   63.0 MiB    127 MiB  +64.0 MiB    +101.5%
	idle                 64.0 MiB    127 MiB  +63.0 MiB     +98.5%
	handed_out                0 B    977 KiB   +977 KiB        new
	requested                 0 B    977 KiB   +977 KiB        new

	calls                  old        new     change
	allocate_calls           2          3         +1     +50.0%
	allocate_failed          0          1         +1        new
	free_calls               2          1         -1     -50.0%
	live_blocks              0          1         +1        new

	time                old        new     change
	free_ns         2.00 us    1.00 us   -1.00 us     -50.0%

	ratios                     old        new     change
	external_peak            0.159      0.213     +0.054     +34.2%
	external_remap_peak      0.159      0.213     +0.054     +34.2%
	END
}

@test "diff of a log and itself" {
	mklog old.gml "${OLD[@]}"
	"$TOOL" diff old.gml old.gml >out
	diff -u - out <<-'END'
	verdict       peak as before (11.0 MiB); all blocks freed, as before

	old           old.gml: mklog, 2.00 s, closed cleanly
	new           old.gml: mklog, 2.00 s, closed cleanly

	sites         at the peak of each as before: 11.0 MiB in 2 blocks

	findings      the same

	counters      all as before
	END
	"$TOOL" diff --json old.gml old.gml | jq -e '.counters == {} and .findings == {new: [], gone: []} and
		(.sites | .at == "peak" and .level == "block" and .missing == null and .old == .new and (.rows | length) == 1)'
}

# In the new run line 8 allocates more, line 9 for the first time, and line 7 no more; line 5 does as before.
SITES_OLD=(at:1s map:0:256M:1us stack:7 alloc:0:4M:1us stack:8 alloc:0:10M:1us stack:5 alloc:0:1M:1us alloc:0:1M:1us)
SITES_NEW=(to:64G at:1s map:0:256M:1us stack:5 alloc:0:1M:1us alloc:0:1M:1us stack:9 alloc:0:6M:1us stack:8 alloc:0:10M:1us alloc:0:20M:1us)

@test "diff by call site: the largest difference first, then the others in one row, and the sum" {
	mklog old.gml "${SITES_OLD[@]}"
	mklog new.gml "${SITES_NEW[@]}"
	sites() { "$TOOL" diff --width=80 "$@" old.gml new.gml | sed -n '/^sites/,/ all$/p'; }
	sites | diff -u - <(cat <<-'END'
	sites         at the peak of each

	     old       new     change  blocks  site
	10.0 MiB  30.0 MiB  +20.0 MiB      +1  train (project/train.py:8)
	     0 B  6.00 MiB  +6.00 MiB      +1  only new: train (project/train.py:9)
	4.00 MiB       0 B  -4.00 MiB      -1  only old: train (project/train.py:7)
	2.00 MiB  2.00 MiB        0 B       0  1 other, as before
	16.0 MiB  38.0 MiB  +22.0 MiB      +1  all
	END
	)
	sites -n 1 --units=M | diff -u - <(cat <<-'END'
	sites         at the peak of each

	     old       new     change  blocks  site
	10.0 MiB  30.0 MiB  +20.0 MiB      +1  train (project/train.py:8)
	 6.0 MiB   8.0 MiB   +2.0 MiB       0  3 others: -n
	16.0 MiB  38.0 MiB  +22.0 MiB      +1  all
	END
	)
	"$TOOL" diff --json old.gml new.gml >out
	jq -e '.sites.rows | map([.bytes, .blocks, .old.bytes, .new.bytes]) == [[20971520, 1, 10485760, 31457280],
		[6291456, 1, null, 6291456], [-4194304, -1, 4194304, null], [0, 0, 2097152, 2097152]]' out
	jq -e '.sites.rows[1].new.site == "train (project/train.py:9)" and .sites.rows[1].old == null' out
	# The sum of the rows is that of the blocks.
	jq -e '.sites | (.rows | map(.old.bytes) | add) == .old.bytes and (.rows | map(.new.blocks) | add) == .new.blocks and
		(.rows | map(.bytes) | add) == .new.bytes - .old.bytes' out
}

@test "diff: a site whose line alone moved is one site, unless the function has several" {
	mklog old.gml at:1s map:0:64M:1us stack:7 alloc:0:4M:1us
	mklog new.gml at:1s map:0:64M:1us stack:9 alloc:0:6M:1us
	"$TOOL" diff old.gml new.gml >out
	grep -qx '4.00 MiB  6.00 MiB  +2.00 MiB       0  train (project/train.py:9), line 7 before' out
	mklog two.gml at:1s map:0:64M:1us stack:9 alloc:0:6M:1us stack:11 alloc:0:1M:1us
	"$TOOL" diff old.gml two.gml >out
	grep -q 'only old: train (project/train.py:7)$' out
	grep -q 'only new: train (project/train.py:9)$' out
	grep -q 'only new: train (project/train.py:11)$' out
	refute grep -q 'line 7 before' out
}

@test "diff: sites of C match by the file and the place in it, code of no file is one site" {
	mklog old.gml at:1s map:0:64M:1us stack:107 alloc:0:4M:1us stack:0 alloc:0:1M:1us
	mklog new.gml at:1s map:0:64M:1us stack:0 alloc:0:1M:1us stack:107 alloc:0:6M:1us
	"$TOOL" diff old.gml new.gml >out
	grep -qx '4.00 MiB  6.00 MiB  +2.00 MiB       0  libone.so+0x16b' out
	grep -qx '1.00 MiB  1.00 MiB        0 B       0  1 other, as before' out
	grep -qx 'symbols       sites without a name: 1 of old, 1 of new; live says why' out
}

@test "diff: sites of two builds match, whose addresses and lines differ" {
	command -v "${CC:-cc}" >/dev/null || skip "no C compiler"
	command -v addr2line >/dev/null || skip "no addr2line"
	[ -z "${SANITIZE_LIB:-}" ] || skip "the programs are built without the sanitizer"
	cat >old.c <<-'END'
		#include <stddef.h>
		int cudaMalloc(void **pointer, size_t size);
		static void *blocks[4];
		void same(void)
		{
			cudaMalloc(&blocks[0], 4 << 20);
		}
		void more(void)
		{
			for (int i = 1; i < 1 + MORE; i++)
				cudaMalloc(&blocks[i], 2 << 20);
		}
		int main(void)
		{
			same();
			more();
			return 0;
		}
	END
	mkdir old new
	cp old.c old/program.c
	mkdir -p far/near
	cp old.c far/near/program.c
	sed '2a int pad(int n) { return n * n + n / 7; }' old.c >new/program.c
	"${CC:-cc}" -g -O0 -DMORE=1 -o old/program old/program.c -L"$SIM" -lcudart
	(cd new && "${CC:-cc}" -g -O0 -DMORE=3 -o program program.c -L"$SIM" -lcudart)
	(cd far && "${CC:-cc}" -g -O0 -DMORE=3 -o program near/program.c -L"$SIM" -lcudart)
	"$TOOL" record -o far.gml -- far/program 2>err
	"$TOOL" record -o old.gml -- old/program 2>err
	"$TOOL" record -o new.gml -- new/program 2>err
	"$TOOL" diff --json old.gml new.gml >out
	jq -e '.sites.rows | map([.bytes, .blocks]) == [[4194304, 2], [0, 0]]' out
	jq -e '.sites.rows | map(.old.site) == ["more (old/program.c:11)", "same (old/program.c:6)"]' out
	jq -e '.sites.rows | map(.new.site) == ["more (new/program.c:12)", "same (new/program.c:7)"]' out
	"$TOOL" diff old.gml new.gml | grep -qx '2.00 MiB  6.00 MiB  +4.00 MiB      +2  more (new/program.c:12), line 11 before'
	# In another folder, at the same line.
	"$TOOL" diff old.gml far.gml >out
	grep -qx '2.00 MiB  6.00 MiB  +4.00 MiB      +2  more (near/program.c:11), before more' out
	"$TOOL" diff --json old.gml far.gml | jq -e '.sites.rows | length == 2'
}

@test "diff by call site at other moments" {
	mklog old.gml "${SITES_OLD[@]}" at:2s free:2:1us fail:0:7G:1G at:3s free:1:1us
	mklog new.gml "${SITES_NEW[@]}" at:2s free:5:1us fail:0:7G:1G at:3s free:4:1us
	at() { "$TOOL" diff --json --at="$1" old.gml new.gml | jq -c '.sites | [.at, .old.bytes / 1048576, .new.bytes / 1048576]'; }
	[ "$(at peak)" = '["peak",16,38]' ]
	[ "$(at oom)" = '["oom",6,18]' ]
	[ "$(at exit)" = '["exit",2,8]' ]
	[ "$(at 1.5s)" = '["time",16,38]' ]
	[ "$(at 0s..3s)" = '["range",2,8]' ]
	[ "$(at 1.5s..3s)" = '["range",0,0]' ]
	"$TOOL" diff --at=exit old.gml new.gml | grep -qx 'sites         at the end of each'
	"$TOOL" diff --at=1.5s..3s old.gml new.gml | grep -qx 'sites         allocated from 1.50 s on and alive at 3.00 s none'
	"$TOOL" diff --at=1h old.gml new.gml | grep -qx 'sites         not known: old.gml: at no time: the log ends at 3.00 s'
}

@test "diff by call site when memory lacked, of logs without events" {
	GPUMEM_LOG=small mklog old.gml at:1s map:0:64M:1us fail:0:7G:1G held:0:1M:3 held:0:10M:2 rest:0:512:4
	GPUMEM_LOG=small mklog new.gml at:1s map:0:64M:1us fail:0:7G:1G held:0:1M:3 held:0:10M:3 rest:0:512:6
	"$TOOL" diff --at=oom old.gml new.gml | sed -n '/^sites/,/ all$/p' >out
	diff -u - out <<-'END'
	sites         when memory lacked first

	     old       new     change  blocks  site
	23.0 MiB  33.0 MiB  +10.0 MiB      +1  without a stack
	2.00 KiB  3.00 KiB  +1.00 KiB      +2  not in the record of the refusal
	23.0 MiB  33.0 MiB  +10.0 MiB      +3  all
	END
}

@test "diff by call site of tensors, if both runs have them" {
	mklog old.gml at:1s map:0:128M:1us stack:7 alloc:0:64M:1us stack:8 tensor:0:20M
	mklog new.gml at:1s map:0:128M:1us stack:7 alloc:0:64M:1us stack:8 tensor:0:30M
	mklog blocks.gml at:1s map:0:128M:1us stack:7 alloc:0:32M:1us
	"$TOOL" diff --json old.gml new.gml | jq -e '.sites | .level == "tensor" and .old.bytes == 20971520 and .new.bytes == 31457280'
	"$TOOL" diff --json --blocks old.gml new.gml | jq -e '.sites | .level == "block" and .old.bytes == 67108864'
	"$TOOL" diff --json old.gml blocks.gml | jq -e '.sites | .level == "block" and .new.bytes == 33554432'
}

@test "diff: the verdict" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml at:1s map:0:64M:1us alloc:0:8M:1us alloc:0:1M:1us
	mklog three.gml at:1s map:0:64M:1us alloc:0:8M:1us alloc:0:1M:1us alloc:0:1M:1us
	mklog killed.gml "${OLD[@]}" kill
	mklog cache.gml "${OLD[@]}" count:torch_cache:1
	mklog none.gml at:1s
	mklog failed.gml "${OLD[@]}" fail:0:7G:1G
	verdict() {
		"$TOOL" diff --width=200 "$1" "$2" | head -n 1 | diff -u <(echo "verdict       $3") -
	}
	verdict old.gml new.gml 'peak -17.8% (11.0 MiB -> 9.00 MiB); 2 more blocks never freed'
	verdict new.gml old.gml 'peak +21.7% (9.00 MiB -> 11.0 MiB); all blocks freed (2 never freed before)'
	verdict new.gml new.gml 'peak as before (9.00 MiB); 2 blocks never freed, as before'
	verdict new.gml three.gml 'peak +11.1% (9.00 MiB -> 10.0 MiB); 1 more block never freed (2 before)'
	verdict three.gml new.gml 'peak -10.0% (10.0 MiB -> 9.00 MiB); 1 fewer block never freed (3 before)'
	verdict old.gml killed.gml 'peak as before (11.0 MiB); not known which blocks were never freed'
	verdict cache.gml new.gml 'peak -17.8% (11.0 MiB -> 9.00 MiB); 2 blocks never freed (not known before)'
	verdict cache.gml old.gml 'peak as before (11.0 MiB); all blocks freed'
	verdict none.gml old.gml 'peak 11.0 MiB (0 B before); all blocks freed, as before'
	verdict old.gml failed.gml 'peak as before (11.0 MiB); all blocks freed, as before; 1 allocation failed (0 before)'
	verdict failed.gml old.gml 'peak as before (11.0 MiB); all blocks freed, as before; 0 allocations failed (1 before)'
	"$TOOL" diff --json old.gml new.gml | jq -e '.verdict == {requested_peak: {old: 11485760, new: 9437184},
		leaked_blocks: {old: 0, new: 2}, allocate_failed: {old: 0, new: 0}}'
	"$TOOL" diff --json killed.gml new.gml | jq -e '.verdict.leaked_blocks == {old: null, new: 2}'
}

@test "diff leaves out counters of the log itself" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml "${OLD[@]}" count:stacks:7
	"$TOOL" diff --json old.gml new.gml | jq -e '.counters == {}'
}

@test "diff --json, and findings only of the old log" {
	mklog old.gml "${OLD[@]}"
	mklog new.gml "${NEW[@]}"
	"$TOOL" diff --json old.gml new.gml >out
	jq -e '.schema == 1 and .old.paths == ["old.gml"] and .new.program == "mklog" and .new.length_ns == 2e9' out
	jq -e '.counters.mapped_peak == {old: 67108864, new: 134217728} and .counters.external_peak == {old: 0.158614, new: 0.212882}' out
	jq -e '.counters | has("allocate_ns") or has("requested_peak_time") or has("mapped_seconds") | not' out
	jq -e '[.findings.new[].rule] == ["oom_others", "never_freed"] and .findings.gone == []' out
	"$TOOL" diff --json new.gml old.gml | jq -e '[.findings.gone[].rule] == ["oom_others", "never_freed"] and .findings.new == []'
	"$TOOL" diff -v -n 3 old.gml new.gml | grep -qx '... and 7 more'
}

@test "diff of small logs, and of runs of several processes" {
	GPUMEM_LOG=small mklog old.gml "${OLD[@]}"
	for rank in 0 1; do
		GPUMEM_LOG=small SLURM_JOB_ID=7 SLURM_PROCID=$rank mklog new.$rank.gml "${OLD[@]}"
	done
	"$TOOL" diff --json old.gml new.%r.gml >out
	jq -e '.new.paths == ["new.0.gml", "new.1.gml"]' out
	# Counters are sums; shares are the highest, which is unchanged.
	jq -e '.counters.mapped_peak == {old: 67108864, new: 134217728} and (.counters | has("external_peak") | not)' out
	"$TOOL" diff old.gml new.%r.gml >out
	grep -qx 'new           new.0.gml and 1 more: mklog, 2.00 s, closed cleanly' out
	grep -qx "sites         not known: old.gml: no events in this log: 'gpumemstat record'" out
}

@test "diff of logs that cannot be read" {
	mklog old.gml "${OLD[@]}"
	expect 1 'gpumemstat: none.gml: no such file' diff old.gml none.gml
	expect 1 'gpumemstat: none.gml: no such file' diff none.gml old.gml
	mklog lies.gml map:0:64M:1us alloc:0:1M:1us count:allocate_pool:1
	status=0
	"$TOOL" diff old.gml lies.gml >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -q '^gpumemstat: lies.gml: contradicts itself: ' err
	grep -q '^new           lies.gml: ' out
}
