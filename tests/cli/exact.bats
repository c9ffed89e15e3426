#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Exact output for logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

# 64 MiB mapped at 1 s, two blocks, one freed at 2 s, one copy, and one failed allocation at 3 s.
RUN=(at:1s map:0:64M:100us alloc:0:10M:1us alloc:0:1000000:3us sample:0:40M:50M
	at:2s free:1:900ns sample:0:40M:50M h2d:1G:100ms at:3s fail:0:7G:1G sample:0:60M:8M)

# job: four processes of a job, the last one killed.
job() {
	local rank
	for rank in 0 1 2; do
		SLURM_JOB_ID=881 SLURM_PROCID=$rank mklog gpumem.node7.$rank.gml at:$((rank + 1))s \
			map:0:$((64 * (rank + 1)))M:100us alloc:0:$((10 * (3 - rank)))M:1us driver:0:1M:1us free:1:1us
	done
	GPUMEM_LOG=small SLURM_JOB_ID=881 SLURM_PROCID=3 mklog gpumem.node7.3.gml at:2s map:0:2M:1us alloc:0:1M:1us kill
}

@test "summary of one log, exactly" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" -v --width=80 a.gml >out
	diff -u - out <<-'END'
	log           a.gml: events, 10 records, complete
	program       mklog, pid 4711 on node7
	command       train at:1s map:0:64M:100us alloc:0:10M:1us alloc:0:1000000:3us
	              sample:0:40M:50M at:2s free:1:900ns sample:0:40M:50M h2d:1G:100ms
	              at:3s fail:0:7G:1G sample:0:60M:8M
	run           3.00 s from 2026-11-21 12:00:00, closed cleanly
	mode          pool, driver 13.0
	knobs         GPUMEM_LOG_EVENTS=all

	device 0      GPU one, 8.00 GiB
	memory           at end       peak         at      total      calls
	requested       977 KiB   11.0 MiB     1.00 s   11.0 MiB          2
	handed out      977 KiB          -          -          -          -
	mapped         64.0 MiB   64.0 MiB     1.00 s   64.0 MiB          1
	idle           63.0 MiB          -          -          -          -
	retired             0 B        0 B          -          -          -
	returned              -          -          -        0 B          0

	calls             total       pool     driver     failed  mean time
	allocate              3          2          0          1    1.33 us
	free                  1          1          0          0     900 ns

	fragmentation     at end       peak       mean
	internal           448 B      448 B      448 B
	unreclaimable   8.00 MiB   50.0 MiB   50.0 MiB
	utilisation        0.015      0.171      0.093
	              from only 3 samples

	growth        1 chunk mapped in 100 us, 0 returned
	waits         0 fences, 0 ns; 0 retries for lack of memory
	unused        1 device

	copies              calls      bytes   in calls        rate
	host to device          1   1.00 GiB     100 ms  10.0 GiB/s

	time of a call       calls     errors     median        99%        max
	cuMemcpyHtoD_v2          1          0     100 ms     100 ms     100 ms
	cuMemAlloc_v2            3          1    1.00 us    3.00 us    3.00 us
	cuMemFree_v2             1          0     900 ns     900 ns     900 ns

	out of memory at 3.00 s, device 0: cuMemAlloc_v2, 7.00 GiB asked; 977 KiB live,
	              63.0 MiB idle (largest 63.0 MiB); 6.94 GiB of others, 1.00 GiB
	              free

	findings      Out of memory: 7.00 GiB was asked for, and 6.94 GiB of the device
	              is neither this process's nor free. Look for other processes with
	              nvidia-smi.
	              1 block, 977 KiB, was never freed.
	END
}

@test "summary of several logs, exactly" {
	job
	mklog gpumem.other.gml at:1s # outside the job
	"$TOOL" gpumem.node7.*.gml >out
	diff -u - out <<-'END'
	rank  requested    mapped  calls  driver  failed  log
	   0   30.0 MiB  64.0 MiB      2       1       0  gpumem.node7.0.gml
	   1   20.0 MiB   128 MiB      2       1       0  gpumem.node7.1.gml
	   2   10.0 MiB   192 MiB      2       1       0  gpumem.node7.2.gml
	   3   1.00 MiB  2.00 MiB      1       0       0  gpumem.node7.3.gml (killed,
	                                                  or crashed)

	across logs             min     median        max
	peak requested     1.00 MiB   15.0 MiB   30.0 MiB
	peak mapped        2.00 MiB   96.0 MiB    192 MiB
	allocations               1          2          2
	of these, driver          0          1          1
	failed                    0          0          0
	length               1.00 s     2.00 s     3.00 s

	findings      The ranks are not balanced: the peaks of what they requested go
	              from 1.00 MiB to 30.0 MiB. The largest decides what fits.
	              rank 3: The program was killed or crashed: the figures are those
	              of its last sign of life.
	              rank 0 and 2 more: 1 of 2 allocations went to the driver, because
	              the pool could not serve them. GPUMEM_VERBOSE=3 says more.
	              rank 0 and 2 more: 1 block, 1.00 MiB, was never freed.
	next          gpumemstat gpumem.node7.2.gml, the one with the most mapped
	END
	"$TOOL" >newest 2>err
	diff -u out newest
	[ ! -s err ]
}

@test "summary of a log in mode trace, exactly" {
	GPUMEM_MODE=trace mklog e.gml at:1s driver:1:1G:5us
	"$TOOL" -v e.gml >out
	diff -u - out <<-'END'
	log           e.gml: events, 1 record, complete
	program       mklog, pid 4711 on node7
	command       train at:1s driver:1:1G:5us
	run           1.00 s from 2026-11-21 12:00:00, closed cleanly
	mode          trace, driver 13.0
	knobs         GPUMEM_LOG_EVENTS=all

	device 1      GPU two, 16.0 GiB
	memory           at end       peak         at      total      calls
	requested      1.00 GiB   1.00 GiB          -   1.00 GiB          1

	calls             total       pool     driver     failed  mean time
	allocate              1          0          1          0    5.00 us
	free                  0          0          0          0          -
	unused        1 device

	time of a call      calls     errors     median        99%        max
	cuMemAlloc_v2           1          0    5.00 us    5.00 us    5.00 us

	findings      1 block, 1.00 GiB, was never freed.
	              This run was only watched; all memory was the driver's.
	              'gpumemstat record' without --trace runs it on the pool.
	END
	# Other kinds of memory in mode trace are shown as foreign; JSON has all kinds.
	GPUMEM_MODE=trace mklog f.gml at:1s driver:0:8M:5us give:foreign_async_calls:0:2M
	"$TOOL" -v f.gml | sed -n '/^foreign/,/^$/p' >out
	diff -u - out <<-'END'
	foreign            at end       peak      total      calls      frees
	stream-ordered   2.00 MiB   2.00 MiB   2.00 MiB          1          0
	unused        1 device

	END
	"$TOOL" --json f.gml | jq -e '.logs[0].devices[0] | .memory.requested.peak == 8388608 and .foreign.driver.peak == 8388608 and
		.foreign.on_device.peak == 10485760'
	"$TOOL" --json e.gml f.gml | jq -e '.across.requested == {min: 8388608, median: 541065216, max: 1073741824}'
}

# A heap of at most 64 MiB grows three times and is refused once. It is read twice, the second time with 1, 3
# and 2 allocations.
KERNELS=(at:1s image:0 image:1 image:2 taken:0:64M:12ms lend:0:32M at:2s grow:0:4M:50us grow:0:4M:60us grow:0:4M:300us
	slack:0:6M:2 waited:0:11M:7ms nogrow:0:64M:1 heap:0:20M:0:0 at:3s size:0:1 size:5:3 size:32:2 heap:0:6M:8:1 last:0 native:0:3us)

@test "summary of malloc in kernels, exactly" {
	mklog a.gml "${KERNELS[@]}"
	"$TOOL" -v a.gml | sed -n '/^in kernels/,$p' >out
	diff -u - out <<-'END'
	in kernels    context 1: malloc and free of kernels are gpumem's, in 12.0 ms
	              context 2: malloc is the driver's: the driver refused the helper
	              module, while loading the helper (CUDA_ERROR_INVALID_IMAGE), in
	              3.00 us

	device heaps     at end       peak      grown      times
	live           6.00 MiB   20.0 MiB          -          -
	mapped         44.0 MiB   44.0 MiB   12.0 MiB          3
	slack          6.00 MiB   6.00 MiB          -          2
	heap growth   total 410 us, median 60.0 us, longest 300 us; 1 refused, 1 of
	              them for the heap's limit
	heap use      kernels waited 7.00 ms for growth; at most 11.0 MiB in use, 25.0%
	              of the most mapped; 0 B returned in use
	heap calls    8 mallocs got NULL, 1 frees of addresses not allocated; read 2
	              times

	allocations of  when last read      bytes
	16 B                         1       16 B
	128 B                        3      384 B
	larger                       2          -
	unused        1 device
	images        3 loaded, 2 may call malloc in kernels, 1 of them unknown

	malloc   images that may call it
	yes      calls an allocator: malloc, free
	unknown  kernels.fatbin: is compressed, and there is no liblz4.so.1

	findings      8 mallocs in kernels got NULL: a device heap had reached its
	              limit, with 44.0 MiB mapped. Raise GPUMEM_HEAP_LIMIT.
	              1 free in kernels of addresses that the heap did not allocate:
	              freed twice, or not the address that malloc gave.
	              compute-sanitizer finds the place.
	              malloc in kernels of 1 context stayed the driver's: the driver
	              refused the helper module, while loading the helper
	              (CUDA_ERROR_INVALID_IMAGE). GPUMEM_VERBOSE=3 says so as it
	              happens; 'gpumemstat doctor' looks at the machine.
	END
	GPUMEM_LOG=small mklog b.gml "${KERNELS[@]}"
	"$TOOL" -v b.gml | sed -n '/^in kernels/,/^findings/p' >out
	diff -u - out <<-'END'
	in kernels    context 1: malloc and free of kernels are gpumem's, in 12.0 ms
	              context 2: malloc is the driver's: the driver refused the helper
	              module, while loading the helper (CUDA_ERROR_INVALID_IMAGE), in
	              3.00 us

	device heaps     at end       peak      grown      times
	live           6.00 MiB   20.0 MiB          -          -
	mapped         44.0 MiB   44.0 MiB   12.0 MiB          3
	slack          6.00 MiB   6.00 MiB          -          2
	heap growth   total 410 us, median within 64.0 us, longest 300 us; 1 refused, 1
	              of them for the heap's limit
	heap use      kernels waited 7.00 ms for growth; at most 11.0 MiB in use, 25.0%
	              of the most mapped; 0 B returned in use
	heap calls    8 mallocs got NULL, 1 frees of addresses not allocated; read 2
	              times

	allocations of  when last read      bytes
	16 B                         1       16 B
	128 B                        3      384 B
	larger                       2          -
	unused        1 device
	images        3 loaded, 2 may call malloc in kernels, 1 of them unknown

	findings      8 mallocs in kernels got NULL: a device heap had reached its
	END
	"$TOOL" --json a.gml | jq -S '.logs[0] | {contradiction, images, contexts: .devices[0].contexts, heaps: .devices[0].heaps,
		growth: .devices[0].heap_growth, memory: .devices[0].heap_memory, use: .devices[0].heap_use, sizes: .devices[0].heap_sizes}' >out
	diff -u - out <<-'END'
	{
	  "contexts": [
	    {
	      "context": 1,
	      "heap": 1099511627776,
	      "limit": 67108864,
	      "ns": 1000000000,
	      "status": 0,
	      "taken_over": true,
	      "text": "malloc and free of kernels are gpumem's",
	      "took_ns": 12000000
	    },
	    {
	      "context": 2,
	      "heap": null,
	      "limit": null,
	      "ns": 3000000000,
	      "status": 200,
	      "taken_over": false,
	      "text": "the driver refused the helper module, while loading the helper (CUDA_ERROR_INVALID_IMAGE)",
	      "took_ns": 3000
	    }
	  ],
	  "contradiction": null,
	  "growth": {
	    "median_least_ns": 60000,
	    "median_most_ns": 60000
	  },
	  "heaps": [
	    {
	      "books": 33554432,
	      "chunks": 4,
	      "context": 1,
	      "ended": true,
	      "foreign_frees": 1,
	      "grown": 4,
	      "growth_longest": 300000,
	      "growth_ns": 410000,
	      "growths": {
	        "16ms": 0,
	        "1ms": 1,
	        "256us": 0,
	        "4ms": 0,
	        "64us": 2,
	        "longer": 0
	      },
	      "heap": 1099511627776,
	      "limit": 67108864,
	      "live": 6291456,
	      "live_peak": 20971520,
	      "mapped": 46137344,
	      "mapped_peak": 46137344,
	      "nulls": 8,
	      "own": false,
	      "policy": "granule",
	      "refused": 1,
	      "refused_limit": 1,
	      "shrunk": 0,
	      "sizes": {
	        "128": 3,
	        "16": 1,
	        "larger": 2
	      },
	      "slack": 6291456,
      "used": 6291456,
      "wait_ns": 7000000
	    }
	  ],
	  "images": [
	    {
	      "address": 8589934592,
	      "device": null,
	      "malloc": "no",
	      "text": "calls no allocator"
	    },
	    {
	      "address": 8589934592,
	      "device": null,
	      "malloc": "yes",
	      "text": "calls an allocator: malloc, free"
	    },
	    {
	      "address": 8589934592,
	      "device": null,
	      "malloc": "unknown",
	      "text": "kernels.fatbin: is compressed, and there is no liblz4.so.1"
	    }
	  ],
	  "memory": {
	    "live": {
	      "calls": null,
	      "current": 6291456,
	      "peak": 20971520,
	      "total": null
	    },
	    "mapped": {
	      "calls": 3,
	      "current": 46137344,
	      "peak": 46137344,
	      "total": 12582912
	    },
	    "slack": {
	      "calls": 2,
	      "current": 6291456,
	      "peak": 6291456,
	      "total": null
	    }
	  },
	  "sizes": [
	    {
	      "bytes": 16,
	      "live": 1,
	      "size": 16
	    },
	    {
	      "bytes": 384,
	      "live": 3,
	      "size": 128
	    },
	    {
	      "bytes": null,
	      "live": 2,
	      "size": null
	    }
	  ],
	  "use": {
	    "full": 0.25,
	    "shed": 0,
	    "used_peak": 11534336,
	    "wait_ns": 7000000
	  }
	}
	END
}

FOREIGN=(at:1s map:0:64M:100us alloc:0:10M:1us free:1:1us give:foreign_async_calls:0:3M give:foreign_managed_calls:0:100M
	take:foreign_async_calls:0:1M give:foreign_host_calls:0:5M at:2s used:0:600M count:foreign_unknown:2)

@test "summary of foreign memory and overhead, exactly" {
	mklog a.gml "${FOREIGN[@]}"
	"$TOOL" -v a.gml | sed -n '/^waits/,/^time of a call/p' >out
	diff -u - out <<-'END'
	waits         0 fences, 0 ns; 0 retries for lack of memory

	foreign            at end       peak      total      calls      frees
	stream-ordered   2.00 MiB   3.00 MiB   3.00 MiB          1          1
	managed           100 MiB    100 MiB    100 MiB          1          0
	on the device    2.00 MiB   3.00 MiB          -          -          -
	overhead      534 MiB for driver, contexts and other processes: at 2.00 s 600
	              MiB of the device was used, 66.0 MiB of it accounted for
	unused        1 device

	host memory      at end       peak      total      calls      frees
	pinned         5.00 MiB   5.00 MiB   5.00 MiB          1          0
	unknown       2 frees of memory that was not seen given

	time of a call      calls     errors     median        99%        max
	END
	"$TOOL" --json a.gml >out
	jq -e '.logs[0].devices[0].foreign | length == 8 and .async == {current: 2097152, peak: 3145728, total: 3145728, calls: 1, frees: 1}' out
	jq -e '.logs[0].devices[0].foreign.on_device | .current == 2097152 and .peak == 3145728' out
	jq -e '.logs[0].devices[0].overhead == {bytes: (534 * 1048576), used: (600 * 1048576), accounted: (66 * 1048576), ns: 2e9}' out
	jq -e '.logs[0].devices[1].overhead.bytes == null and (.logs[0].devices[1].used | not)' out
	jq -e '.logs[0].host_memory | .host.current == 5242880 and .registered.calls == 0' out
	# A device with nothing but foreign memory is shown. If used memory is less than accounted memory,
	# overhead is 0.
	mklog b.gml give:foreign_array_calls:1:3M used:1:2M
	"$TOOL" --json b.gml | jq -e '.logs[0].devices[1] | .used and .overhead.bytes == 0'
	"$TOOL" -v b.gml | grep -q '^overhead *0 B for driver, '
}

@test "contradictory sums of foreign memory are reported" {
	contradicts() { # contradicts MESSAGE WORD...
		rm -f c.gml
		mklog c.gml "${@:2}"
		status=0
		"$TOOL" c.gml >/dev/null 2>err || status=$?
		[ "$status" -eq 1 ]
		diff -u - err <<<"gpumemstat: c.gml: contradicts itself: $1"
	}
	contradicts 'foreign_async_bytes - foreign_async_freed is 1048577, but foreign_async is 1048576' \
		give:foreign_async_calls:0:1M count:foreign_async_bytes:1
	contradicts 'foreign_host_frees is 2, above foreign_host_calls, which is 1' \
		give:foreign_host_calls:0:1M take:foreign_host_calls:0:1M count:foreign_host_frees:1
	contradicts 'foreign_graph is 7, above foreign_graph_peak, which is 0' count:foreign_graph_bytes:7 count:foreign_graph:7
	contradicts 'device 0: foreign is 1048577, but foreign_driver + foreign_async + foreign_created + foreign_array is 1048576' \
		give:foreign_created_calls:0:1M count:foreign:1 count:foreign_peak:1
	contradicts 'device 0: foreign is 7, above foreign_peak, which is 0' count:foreign:7
}

@test "several logs are shown in the requested order" {
	job
	for order in rank:0,1,2,3 program:0,1,2,3 requested:0,1,2,3 mapped:2,1,0,3 calls:0,1,2,3; do
		[ "$("$TOOL" --json --sort=${order%:*} | jq -r '[.logs[].rank] | join(",")')" = ${order#*:} ]
	done
	"$TOOL" --sort=mapped -n 1 >out
	grep -qE '^ +2 +10.0 MiB +192 MiB ' out
	grep -qx '... and 3 more' out
	[ "$(grep -c '^peak ' out)" -eq 2 ]
}

@test "numbers in JSON, exactly" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" --json a.gml >out
	jq -e '.logs[0] | .pid == 4711 and .host == "node7" and .rank == null and .start == "2026-11-21T12:00:00Z"' out
	jq -e '.logs[0] | .length_ns == 3e9 and .closed and .complete and .contradiction == null' out
	jq -e '.logs[0].devices | length == 2 and (.[0].used and (.[1].used | not))' out
	jq -e '.logs[0].devices[0].memory.requested | .current == 1000000 and .peak == 11485760 and .peak_ns == 1e9' out
	jq -e '.logs[0].devices[0].calls.allocate | .calls == 3 and .pool == 2 and .failed == 1' out
	jq -e '.logs[0].devices[0].fragmentation.external.peak == (1 - 40 * 1048576 / 66108416 | . * 1e6 | floor / 1e6)' out
	jq -e '.logs[0].devices[0].fragmentation.utilisation.peak == (11485760 / 67108864 * 1e6 | floor / 1e6)' out
	jq -e '.logs[0].copies.h2d | .bytes == 1073741824 and .ns == 1e8 and .bytes_per_second == 10737418240' out
	jq -e '.logs[0].latency[] | select(.hook == "cuMemAlloc_v2") | .calls == 3 and .errors == 1 and .p50_ns == 1000 and .max_ns == 3000' out
	jq -e '.logs[0].out_of_memory | length == 1 and .[0].asked == 7516192768 and .[0].ns == 3e9' out
}

@test "a contradiction is named with both numbers" {
	mklog c.gml "${RUN[@]}" count:allocate_pool:1
	status=0
	"$TOOL" -v c.gml >out 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -q '^memory ' out
	diff -u - err <<-'END'
	gpumemstat: c.gml: contradicts itself: device 0: allocate_calls is 3, but allocate_pool + allocate_driver + allocate_failed is 4
	END
	"$TOOL" --json c.gml 2>/dev/null | jq -e '.logs[0].contradiction | startswith("device 0: allocate_calls is 3, ")'
}

@test "a full standard output is an error" {
	mklog a.gml "${RUN[@]}"
	status=0
	"$TOOL" a.gml >/dev/full 2>err || status=$?
	[ "$status" -eq 1 ]
	diff -u - err <<<'gpumemstat: standard output: No space left on device'
}

@test "output has no trailing blanks, and no line wider than the screen" {
	mklog a.gml "${RUN[@]}"
	for width in 60 80 132; do
		"$TOOL" summary -v --width=$width a.gml >out
		"$TOOL" summary --width=$width a.gml >>out
		"$TOOL" env --width=$width >>out
		"$TOOL" hooks --width=$width >>out
		if grep -nE '[[:blank:]]$' out; then return 1; fi
	done
	{ "$TOOL" --width=80 a.gml; "$TOOL" -v --width=80 a.gml; "$TOOL" hooks --width=80; } >out
	[ "$(wc -L <out)" -le 80 ]
}

@test "hooks prints what a hook does below its row at 80 columns and beside it at 140 columns" {
	rows='^symbol\|^cuArrayDestroy \|^cuMemFreeAsync \|^cuMemGetInfo_v2 \|^cuPointerSetAttribute '
	"$TOOL" hooks --width=80 | grep -A 2 "$rows" | sed '/^--$/d' >out
	diff -u - out <<-'END'
	symbol                                        flags
	cuArray3DCreate_v2                            RETRY WAITS
	    counts arrays
	cuArrayDestroy                                WAITS
	    counts arrays
	cuCtxCreate_v2                                RETRY WAITS
	cuMemFreeAsync                                WAITS
	    block of the pool: waits for the stream, then frees it; counts others
	cuMemFreeAsync_ptsz                           WAITS
	cuMemGetInfo_v2                               -
	    counts idle memory of the pool as free, obeys GPUMEM_LIMIT
	cuMemGetLocationInfo                          -
	cuPointerSetAttribute                         WAITS SUBMITS
	    block: SYNC_MEMOPS is kept, and obeyed by copies; waits for those that are
	    pending; the block stays where it is
	END
	"$TOOL" hooks --width=140 | grep -A 1 "$rows" | sed '/^--$/d' >out
	diff -u - out <<-'END'
	symbol                                        flags                what the hook does
	cuArray3DCreate_v2                            RETRY WAITS          counts arrays
	cuArrayDestroy                                WAITS                counts arrays
	cuCtxCreate_v2                                RETRY WAITS          passes on; makes the pool of the device
	cuMemFreeAsync                                WAITS                block of the pool: waits for the stream, then frees it; counts others
	cuMemFreeAsync_ptsz                           WAITS                block of the pool: waits for the stream, then frees it; counts others
	cuMemGetInfo_v2                               -                    counts idle memory of the pool as free, obeys GPUMEM_LIMIT
	cuMemGetLocationInfo                          -                    block: refused, as for memory of cuMemAlloc
	cuPointerSetAttribute                         WAITS SUBMITS        block: SYNC_MEMOPS is kept, and obeyed by copies; waits for those that
	                                                                   are pending; the block stays where it is
	END
	[ "$("$TOOL" hooks --width=106 | head -n 1)" = 'symbol                                        flags' ]
	"$TOOL" hooks --width=107 | head -n 1 | grep -q 'what the hook does$'
}

@test "a table wider than the screen continues below, with its first column" {
	mklog a.gml "${RUN[@]}"
	job
	"$MKIMAGE" a.fatbin fatbin cubin:75:raw:malloc,free ptx:90a:raw:free
	for width in 40 50 60 70; do
		for command in 'summary a.gml' 'summary -v a.gml' 'summary gpumem.*.gml' 'frag a.gml' 'frag --size=1M a.gml' 'replay a.gml' 'image a.fatbin' env; do
			"$TOOL" $command --width=$width >out
			[ "$(wc -L <out)" -le $width ] || { echo "$command, $width"; cat out; return 1; }
			if grep -nE '[[:blank:]]$' out; then return 1; fi
		done
	done
	"$TOOL" -v --width=40 a.gml | sed -n '/^calls/,/^$/p' >out
	diff -u - out <<-'END'
	calls     total  pool  driver  failed
	allocate      3     2       0       1
	free          1     1       0       0
	calls     mean time
	allocate    1.33 us
	free         900 ns

	END
}
