#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Every rule of tools/finding/findings.def, on a log at its threshold, which has the finding, and on one just
# below, which has not.
source "$BATS_TEST_DIRNAME/cli.bash"
RULES=$BATS_TEST_DIRNAME/../../tools/finding/findings.def
MANUAL=$BATS_TEST_DIRNAME/../../man/gpumemstat.1

rules_of() { # rules_of WORD...: print the names of the findings in a log of these words, one a line
	rm -f f.gml
	mklog f.gml "$@"
	[ -z "${TRUNCATED:-}" ] || truncate -s "$TRUNCATED" f.gml
	"$TOOL" --json f.gml 2>/dev/null | jq -r '.logs[0].findings[].rule'
}

has() { # has RULE WORD...
	rules_of "${@:2}" >rules
	grep -qx "$1" rules || { "$TOOL" f.gml; return 1; }
}

hasnt() { # hasnt RULE WORD...
	rules_of "${@:2}" >rules
	! grep -qx "$1" rules || { "$TOOL" f.gml; return 1; }
}

says() { # says TEXT: the last log's text output has TEXT
	"$TOOL" -v --width=1000 f.gml 2>/dev/null | grep -qF "$1" || { "$TOOL" -v --width=1000 f.gml; return 1; }
}

POOL=(at:1s map:0:64M:1us alloc:0:1M:1us)
CALM=("${POOL[@]}" free:1:1us)

# over WORD...: the sample at 1 s holds from 1 s to 3 s
over() { MEAN=("$@" at:3s sample:0:1M:0); }

@test "findings: nothing stands out" {
	rules_of "${CALM[@]}" >rules
	[ ! -s rules ]
	says "Nothing stands out. 'gpumemstat --json f.gml' has every counter."
}

@test "findings: of a log that was cut, what can be read, and nothing else" {
	TRUNCATED=5000 has counters_unreadable "${POOL[@]}" fail:0:9G:8G
	[ "$(wc -l <rules)" -eq 1 ]
	says 'Of this log only its head and 0 records can be read, not its counters: nothing is judged. Copy the whole file'
	TRUNCATED=-64 has records_unreadable "${POOL[@]}" fail:0:9G:8G
	[ "$(wc -l <rules)" -eq 1 ]
	says 'records can be read, not the rest (it was cut: '
	hasnt counters_unreadable "${POOL[@]}"
	hasnt records_unreadable "${POOL[@]}"
}

@test "findings: each out-of-memory has one cause" {
	has oom_size fail:0:8589934593:8G
	says "Out of memory: 8.00 GiB was asked for, more than the device's 8.00 GiB."
	hasnt oom_size fail:0:8G:8G
	has oom_fragmented "${POOL[@]}" fail:0:63M:0
	says 'Out of memory: 63.0 MiB was asked for while 63.0 MiB was idle, the largest piece too small'
	hasnt oom_fragmented "${POOL[@]}" fail:0:66060289:0
	has oom_limit_pieces "${POOL[@]}" limit:0:64M fail:0:1M:0
	says 'Out of memory: 1.00 MiB was asked for, GPUMEM_LIMIT keeps this process at 64.0 MiB, and no idle piece was as large. Raise GPUMEM_LIMIT'
	hasnt oom_limit_pieces "${POOL[@]}" limit:0:66M fail:0:2M:0
	has oom_fragmented "${POOL[@]}" limit:0:66M fail:0:2M:0
	has oom_limit_pieces "${POOL[@]}" limit:0:67108865 fail:0:1:0 # the pool grows by at least 2 MiB
	has oom_limit map:0:2G:1us alloc:0:2G:1us limit:0:4G fail:0:2147483649:6G
	says 'Out of memory: 2.00 GiB was asked for, and GPUMEM_LIMIT keeps this process at 4.00 GiB. Raise GPUMEM_LIMIT.'
	hasnt oom_limit map:0:2G:1us alloc:0:2G:1us limit:0:4G fail:0:2G:6G
	has oom_others map:0:2G:1us alloc:0:2G:1us fail:0:3G:2G
	says "Out of memory: 3.00 GiB was asked for, and 4.00 GiB of the device is neither this process's nor free. Look for other"
	hasnt oom_others map:0:2G:1us alloc:0:2G:1us fail:0:3G:4G
	has oom_others map:0:2G:1us alloc:0:2G:1us give:foreign_async_calls:0:1G fail:0:3G:2G
	says 'and 3.00 GiB of the device is neither'
	hasnt oom_others map:0:2G:1us alloc:0:2G:1us give:foreign_async_calls:0:2G fail:0:3G:2G # the rest is the process's own
	has oom_in_use map:0:6G:1us alloc:0:6G:1us fail:0:3G:1G fail:0:3G:1G
	says "Out of memory: 3.00 GiB was asked for while 6.00 GiB was in use. 'gpumemstat live --at=oom' shows who held it, and the call stacks."
	hasnt oom_in_use fail:0:9G:8G
	# The process's own memory at the moment, not its highest, nor the pool's alone.
	has oom_in_use give:foreign_created_calls:0:7G take:foreign_created_calls:0:1G own:0:6G fail:0:3G:1G
	says 'Out of memory: 3.00 GiB was asked for while 6.00 GiB was in use.'
	has oom_others give:foreign_created_calls:0:7G take:foreign_created_calls:0:5G own:0:2G fail:0:3G:2G
	says "Out of memory: 3.00 GiB was asked for, and 4.00 GiB of the device is neither this process's nor free."
	has oom_in_use own:0:6G call:0:3G:0 # any call
	has oom_unsized own:0:6G call:0:0:1G call:0:3G:0
	says 'Out of memory in cuMemcpyHtoD_v2, while 6.00 GiB was in use by this process, and 1.00 GiB by others or not known.'
	hasnt oom_unsized own:0:6G call:0:3G:0 call:0:0:1G
	has oom_host nohost:3G nohost:2G
	says '2 calls were refused for lack of memory of the host.'
	hasnt oom_host fail:0:9G:8G
	for words in fail:0:9G:8G 'map:0:6G:1us alloc:0:6G:1us fail:0:3G:1G'; do
		[ "$(rules_of $words | grep -c '^oom_')" -eq 1 ]
	done
	has refused count:allocate_calls:1 count:allocate_failed:1
	says '1 allocation failed in the driver, without the pool.'
	hasnt refused fail:0:9G:8G
}

@test "findings: each time that PyTorch's cache gave up has one cause, and one remedy" {
	local cache=(at:1s map:0:2G:1us to:4G alloc:0:1G:1us stack:7 to:4G tensor:0:700M)
	has torch_oom_size "${cache[@]}" refuse:0:8589934593:1G
	says "Out of memory in PyTorch: 8.00 GiB was asked for, more than the device's 8.00 GiB. Ask for less at a time, or spread it over devices."
	hasnt torch_oom_size "${cache[@]}" refuse:0:8G:1G
	has torch_oom_pieces "${cache[@]}" fail:0:324M:0 refuse:0:324M:1G
	says "Out of memory in PyTorch: 324 MiB was asked for while 324 MiB of its cache was in no tensor: the cache is in pieces. PYTORCH_ALLOC_CONF=expandable_segments:True joins them, GPUMEM_LEND=1 lends what no tensor uses, and 'gpumemstat run --torch' runs without the cache."
	hasnt torch_oom_pieces "${cache[@]}" fail:0:325M:0 refuse:0:325M:1G
	hasnt torch_oom_pieces "${cache[@]}" count:lend_bytes:2097152 fail:0:324M:0 refuse:0:324M:1G # no piece is left
	has torch_oom_fraction "${cache[@]}" refuse:0:325M:1G
	says "Out of memory in PyTorch: 325 MiB was asked for, and no call was refused: a limit of PyTorch's own kept its cache at 1.00 GiB. Raise torch.cuda.set_per_process_memory_fraction()."
	has torch_oom_fraction "${cache[@]}" fail:0:325M:0 refuse:1:325M:1M # the refusal was of another device
	hasnt torch_oom_fraction "${cache[@]}" fail:0:325M:0 refuse:0:325M:1G
	has torch_oom_limit "${cache[@]}" limit:0:2G fail:0:325M:5G refuse:0:325M:1G
	says 'Out of memory in PyTorch: 325 MiB was asked for, and GPUMEM_LIMIT keeps this process at 2.00 GiB. Raise GPUMEM_LIMIT.'
	hasnt torch_oom_limit "${cache[@]}" limit:0:2374M fail:0:325M:5G refuse:0:325M:1G # with 326 MiB in granules
	has torch_oom_others "${cache[@]}" fail:0:3G:2G refuse:0:3G:1G
	says 'Out of memory in PyTorch: 3.00 GiB was asked for, and 4.00 GiB of the device was of other processes, and of contexts and libraries of this one: the log cannot tell them apart. nvidia-smi names the processes.'
	hasnt torch_oom_others "${cache[@]}" fail:0:3221225473:2G refuse:0:3221225473:1G
	has torch_oom_line "${cache[@]}" to:5G stack:8 tensor:0:600M to:6G stack:7 tensor:0:50M fail:0:3G:5G refuse:0:3G:2G
	says "Out of memory in PyTorch: 3.00 GiB was asked for while 1.32 GiB was in tensors, 750 MiB of it of train (project/train.py:7). 'gpumemstat live --at=oom' shows the other lines."
	hasnt torch_oom_line "${cache[@]}" fail:0:3G:2G refuse:0:3G:1G
	has torch_oom_line "${cache[@]}" lack:0:3G refuse:0:3G:1G # as a run that is only watched has it
	GPUMEM_LOG=small has torch_oom_line "${cache[@]}" fail:0:3G:5G refuse:0:3G:2G
	says '3.00 GiB was asked for while 700 MiB was in tensors, 700 MiB of it of lines that only a log of events has.'
	# The refusals of the driver before it are no finding; those that the cache survived are.
	for words in fail:0:3G:2G "fail:0:3G:5G fail:0:2G:5G" ''; do
		[ "$(rules_of "${cache[@]}" $words refuse:0:3G:1G refuse:0:1G:1G | grep -c 'oom_\|refused')" -eq 1 ]
	done
	has oom_others "${cache[@]}" fail:0:3G:1G
}

@test "findings: mistakes of the program" {
	has bounds "${CALM[@]}" count:bounds_refused:2
	says '2 copies or memsets were refused'
	hasnt bounds "${CALM[@]}"
	has bad_free "${CALM[@]}" count:free_failed:1
	says '1 free of addresses that are no live block'
	hasnt bad_free "${CALM[@]}"
	has never_freed "${POOL[@]}"
	says '1 block, 1.00 MiB, was never freed.'
	has never_freed "${POOL[@]}" alloc:0:1M:1us
	says '2 blocks, 2.00 MiB, were never freed.'
	hasnt never_freed "${POOL[@]}" kill
}

@test "findings: the log itself" {
	has killed "${POOL[@]}" kill
	says 'The program was killed or crashed: the figures are those of its last sign of life.'
	hasnt killed "${POOL[@]}"
	has records_missing "${CALM[@]}" count:log_dropped_records:1
	says '1 record is missing from this log'
	hasnt records_missing "${CALM[@]}"
	GPUMEM_LOG=small has no_events "${CALM[@]}"
	says "No events in this log: 'gpumemstat record COMMAND' also keeps every call, with its size and time."
	hasnt no_events "${CALM[@]}"
	GPUMEM_MODE=trace has watched driver:0:1M:1us
	says "This run was only watched; all memory was the driver's. 'gpumemstat record' without --trace runs it on the pool."
	hasnt watched "${CALM[@]}"
	has no_memory at:1s
	says 'The program started CUDA and allocated no device memory.'
	hasnt no_memory "${CALM[@]}"
	hasnt no_memory at:1s give:foreign_created_calls:0:2G
	has torch_cache "${POOL[@]}" count:torch_cache:1
	says "PyTorch's cache was on: blocks are its segments, not tensors; it keeps freed segments. PYTORCH_NO_CUDA_MEMORY_CACHING=1 shows tensors, torch.cuda.memory._snapshot() the cache."
	hasnt torch_cache "${POOL[@]}"
	hasnt torch_cache "${POOL[@]}" count:torch_cache:1 tensor:0:1M
	has torch_tensors "${POOL[@]}" count:torch_cache:1 tensor:0:1M back:1 tensor:0:1M
	says "PyTorch's cache was on: blocks are its segments, which had 2 tensors in turn. 'gpumemstat live --at=peak' shows them, with --blocks the segments."
	hasnt torch_tensors "${POOL[@]}" count:torch_cache:1
	hasnt never_freed "${POOL[@]}" count:torch_cache:1
}

@test "findings: malloc in kernels" {
	HEAP=(taken:0:64M:1ms lend:0:32M)
	has kernels_native "${CALM[@]}" native:0:1ms
	says "malloc in kernels of 1 context stayed the driver's: the driver refused the helper module, while loading the helper (CUDA_ERROR_INVALID_IMAGE)."
	has kernels_native "${CALM[@]}" count:takeovers_native:2
	says "malloc in kernels of 2 contexts stayed the driver's: the log does not say why."
	hasnt kernels_native "${CALM[@]}" "${HEAP[@]}"
	has heap_limit "${HEAP[@]}" nogrow:0:64M:1 nogrow:0:2M:0 heap:0:1M:7:0
	says '7 mallocs in kernels got NULL: a device heap had reached its limit, with 32.0 MiB mapped. Raise GPUMEM_HEAP_LIMIT.'
	hasnt heap_limit "${HEAP[@]}" nogrow:0:64M:1 heap:0:1M:0:0
	hasnt heap_limit "${HEAP[@]}" nogrow:0:64M:0 heap:0:1M:7:0
	has heap_full "${HEAP[@]}" nogrow:0:64M:0 heap:0:1M:1:0
	says '1 malloc in kernels got NULL: there was no more memory for the device heap, which had 32.0 MiB.'
	hasnt heap_full "${HEAP[@]}" nogrow:0:64M:0 nogrow:0:2M:1 heap:0:1M:1:0
	hasnt heap_full "${HEAP[@]}" heap:0:1M:1:0
	has heap_nulls "${HEAP[@]}" heap:0:1M:1:0
	says '1 malloc in kernels got NULL, though no device heap was refused memory'
	hasnt heap_nulls "${HEAP[@]}" heap:0:1M:0:0
	hasnt heap_nulls "${HEAP[@]}" nogrow:0:2M:0 heap:0:1M:1:0
	has heap_bad_free "${HEAP[@]}" heap:0:1M:0:1
	says '1 free in kernels of addresses that the heap did not allocate'
	hasnt heap_bad_free "${HEAP[@]}" heap:0:1M:0:0
	hasnt heap_bad_free "${HEAP[@]}" heap:0:1M:0:1 wrong:0:1:0 site:1:2:0:0
	has heap_freed_twice "${HEAP[@]}" heap:0:1M:0:3 wrong:0:1:0 site:1:2:0:0 wrong:0:2:0 site:2:2:0:0
	says '3 frees in kernels of a block that is already free, 2 of them at work.cu:12 in work(int*).'
	hasnt heap_freed_twice "${HEAP[@]}" heap:0:1M:0:1 wrong:1:0:1 site:1:2:0:0
	has heap_invalid_free "${HEAP[@]}" heap:0:1M:0:1 wrong:0:0:1 site:1:1:0:0
	says '1 free in kernels of what is no block, 1 of them at work(int*)+0x1f0.'
	hasnt heap_invalid_free "${HEAP[@]}" heap:0:1M:0:1 wrong:1:1:0 site:1:2:0:0
	has heap_null_place "${HEAP[@]}" heap:0:1M:1:0 wrong:1:0:0 site:1:0:0:0
	says '1 malloc in kernels got NULL, 1 of them at 0x7f0000000010.'
	hasnt heap_null_place "${HEAP[@]}" heap:0:1M:1:0 wrong:0:1:1 site:1:2:0:0
	has heap_leaks "${HEAP[@]}" heap:0:1M:0:0 site:1:2:1K:1 site:2:2:4K:2 site:0:0:1K:1
	says '4 blocks of malloc in kernels, 6.00 KiB in total, were never freed, most of it from work.cu:12 in work(int*).'
	hasnt heap_leaks "${HEAP[@]}" heap:0:1M:0:0 site:1:2:0:0
	hasnt no_memory "${HEAP[@]}"

	has heap_growth "${HEAP[@]}" grow:0:4M:1us grow:0:4M:1ms grow:0:4M:3ms
	says 'Device 0: each time a device heap grew (3), kernels waited, in the median for 1.00 ms, at most for 3.00 ms. GPUMEM_PREWARM maps'
	hasnt heap_growth "${HEAP[@]}" grow:0:4M:1us grow:0:4M:999999ns grow:0:4M:3ms
	has heap_growth "${HEAP[@]}" lend:1:2M grow:0:4M:1ms grow:1:4M:2ms # the finding names the worse device
	says 'Device 1: each time a device heap grew (1), kernels waited, in the median for 2.00 ms'
	# Without events the bins of the counters decide: the median must be above 1,024 us.
	GPUMEM_LOG=small has heap_growth "${HEAP[@]}" grow:0:4M:1us grow:0:4M:1025us grow:0:4M:3ms
	GPUMEM_LOG=small hasnt heap_growth "${HEAP[@]}" grow:0:4M:1us grow:0:4M:1024us grow:0:4M:3ms

	has heap_waits "${HEAP[@]}" grow:0:4M:1us waited:0:2M:10ms
	says 'Device 0: kernels waited 10.0 ms for device heaps to grow by 4.00 MiB. GPUMEM_PREWARM maps memory beforehand, which heaps then get sooner; 36.0 MiB was the most'
	hasnt heap_waits "${HEAP[@]}" grow:0:4M:1us waited:0:2M:9999999ns
	has heap_waits "${HEAP[@]}" lend:1:2M waited:0:2M:10ms waited:1:2M:11ms # the finding names the worse device
	says 'Device 1: kernels waited 11.0 ms'
	has heap_waits "${HEAP[@]}" grow:0:4M:1us count:heap_growth_bytes:33554432 waited:0:2M:10ms
	has heap_regrown "${HEAP[@]}" grow:0:4M:1us count:heap_growth_bytes:33554433 waited:0:2M:10ms
	says 'Device 0: kernels waited 10.0 ms for device heaps, which grew by a total of 36.0 MiB, for at most 36.0 MiB at a time: memory was returned and needed again. Raise GPUMEM_TRIM_AFTER.'
	hasnt heap_regrown "${HEAP[@]}" grow:0:4M:1us count:heap_growth_bytes:33554432 waited:0:2M:10ms
	hasnt heap_regrown "${HEAP[@]}" grow:0:4M:1us count:heap_growth_bytes:33554433 waited:0:2M:9999999ns
}

@test "findings: calls that the driver served" {
	has to_driver "${CALM[@]}" count:allocate_calls:99 count:allocate_pool:98 count:allocate_driver:1
	says '1 of 100 allocations went to the driver'
	hasnt to_driver "${CALM[@]}" count:allocate_calls:100 count:allocate_pool:99 count:allocate_driver:1
	GPUMEM_MODE=trace hasnt to_driver driver:0:1M:1us
	has retries "${CALM[@]}" count:retry_calls:1
	says '1 call of the program ran out of memory'
	hasnt retries "${CALM[@]}"
}

@test "findings: lost memory" {
	over at:1s map:0:1G:1us alloc:0:700M:1us sample:0:300M:256M
	has unreclaimable "${MEAN[@]}"
	says 'Device 0: on average 256 MiB of 1.00 GiB mapped was idle in chunks that also held live blocks'
	over at:1s map:0:1G:1us alloc:0:700M:1us sample:0:300M:255M
	hasnt unreclaimable "${MEAN[@]}"
	over at:1s map:0:128M:1us alloc:0:1M:1us sample:0:100M:63M # half of the memory, but too little
	hasnt unreclaimable "${MEAN[@]}"

	over at:1s map:0:1G:1us alloc:0:824M:1us sample:0:140M:0
	has in_pieces "${MEAN[@]}"
	says 'Device 0: on average 30% of 200 MiB idle lay outside the largest piece, even after remapping'
	over at:1s map:0:1G:1us alloc:0:824M:1us sample:0:141M:0
	hasnt in_pieces "${MEAN[@]}"
	over at:1s map:0:1G:1us alloc:0:824M:1us remap:0:200M sample:0:10M:0 # remapping would help
	hasnt in_pieces "${MEAN[@]}"
	over at:1s map:0:1G:1us alloc:0:924M:1us sample:0:10M:0 # a tenth of the mapped memory is not idle
	hasnt in_pieces "${MEAN[@]}"

	over at:1s map:0:2G:1us count:requested:0 sample:0:1M:0
	has internal "${MEAN[@]}" count:internal_seconds:200M count:requested_seconds:1800M
	says 'Device 0: on average 100 MiB of 0.98 GiB handed out was only rounding up'
	hasnt internal "${MEAN[@]}" count:internal_seconds:200M count:requested_seconds:1900M
	hasnt internal "${MEAN[@]}" count:internal_seconds:100M count:requested_seconds:300M # too little

	over at:1s map:0:1G:1us alloc:0:512M:1us sample:0:512M:0
	has kept_idle "${MEAN[@]}"
	says 'Device 0: on average 512 MiB of 1.00 GiB mapped was idle.'
	over at:1s map:0:1G:1us alloc:0:513M:1us sample:0:511M:0
	hasnt kept_idle "${MEAN[@]}"
	over at:1s map:0:300M:1us alloc:0:50M:1us sample:0:250M:0 # too little
	hasnt kept_idle "${MEAN[@]}"

	has foreign "${CALM[@]}" give:foreign_async_calls:0:64M
	says "Device 0: up to 64.0 MiB was not the pool's but foreign, of a total of up to 128 MiB"
	hasnt foreign "${CALM[@]}" map:0:2M:1us give:foreign_async_calls:0:64M
	hasnt foreign map:0:1M:1us give:foreign_async_calls:0:63M # too little
	hasnt foreign "${CALM[@]}" give:foreign_managed_calls:0:1G # managed memory can leave the device
	GPUMEM_MODE=trace hasnt foreign give:foreign_async_calls:0:1G

	CAPTURE=(map:0:1000M:1us alloc:0:1M:1us free:1:1us)
	has captures "${CAPTURE[@]}" count:retired_peak:100M count:captures:1
	says 'Device 0: up to 100 MiB of 0.98 GiB mapped had been freed'
	hasnt captures "${CAPTURE[@]}" count:retired_peak:99M count:captures:1
	hasnt captures "${CAPTURE[@]}" count:retired_peak:100M
	hasnt captures map:0:100M:1us count:retired_peak:63M count:captures:1 # too little

	has not_ordered "${CALM[@]}" count:ordered_early:50 count:ordered_streams:30 count:ordered_off:20
	says 'Device 0: memory of 50 of 100 frees had to wait for its work'
	hasnt not_ordered "${CALM[@]}" count:ordered_early:51 count:ordered_streams:29 count:ordered_off:20
	hasnt not_ordered "${CALM[@]}" count:ordered_streams:99 # too few

	has mapped_again "${CALM[@]}" count:map_bytes:192M count:unmap_bytes:192M
	says 'Device 0: a total of 256 MiB was mapped, for at most 64.0 MiB at a time'
	hasnt mapped_again "${CALM[@]}" count:map_bytes:191M count:unmap_bytes:191M
	# Growth of device heaps does not count as mapping again.
	hasnt mapped_again "${CALM[@]}" lend:0:100M grow:0:100M:1us
}

@test "findings: the worse of two devices is named" {
	has unreclaimable at:1s map:0:1G:1us map:1:1G:1us alloc:0:500M:1us alloc:1:200M:1us sample:0:300M:300M sample:1:300M:600M \
		at:2s sample:0:300M:300M sample:1:300M:600M
	says 'Device 1: on average 600 MiB of 1.00 GiB mapped'
	[ "$(grep -cx unreclaimable rules)" -eq 1 ]
}

@test "findings: lost time" {
	# 1 s of run; 2 us in the calls of CALM.
	has fence_waits "${CALM[@]}" count:free_ns:19998000 count:fence_ns:10000000
	says 'Of 20.0 ms in allocations and frees, 10.0 ms was waiting for the GPU'
	hasnt fence_waits "${CALM[@]}" count:free_ns:19998000 count:fence_ns:9999999 # just less than half, and than 1% of the run
	hasnt fence_waits "${CALM[@]}" count:free_ns:19998002 count:fence_ns:10000000
	hasnt fence_waits "${CALM[@]}" count:free_ns:1000 count:fence_ns:9999999

	# Copies, in a run of 1 s.
	has copy_pageable "${CALM[@]}" count:copy_h2d_pageable_ns:60000000 count:copy_h2d_pageable_bytes:600000000 \
		count:copy_d2h_pageable_ns:40000000 count:copy_d2h_pageable_bytes:400000000
	says 'Of a run of 1.00 s, 100 ms went into copies of pageable memory by the driver, at 9.31 GiB/s. Pin that memory'
	hasnt copy_pageable "${CALM[@]}" count:copy_h2d_pageable_ns:99999999
	hasnt copy_pageable "${CALM[@]}" at:2s count:copy_h2d_pageable_ns:100000000
	has copy_waits "${CALM[@]}" count:copy_wait_ns:250000000
	says 'Of a run of 1.00 s, the host waited 250 ms for other copies. cudaMemcpyAsync'
	hasnt copy_waits "${CALM[@]}" count:copy_wait_ns:249999999
	hasnt copy_waits "${CALM[@]}" count:copy_wait_ns:250000000 count:copy_h2d_pageable_ns:1
	has copy_small "${CALM[@]}" count:copy_h2d_calls:8000 count:copy_other_calls:2000 count:copy_small_calls:5000
	says '5,000 of 10,000 copies were of less than 64 KiB, and the least of them takes microseconds. Gather them'
	hasnt copy_small "${CALM[@]}" count:copy_h2d_calls:8000 count:copy_other_calls:2000 count:copy_small_calls:4999
	hasnt copy_small "${CALM[@]}" count:copy_h2d_calls:9999 count:copy_small_calls:9999

	churn() { # churn N: a block is allocated and freed N times, and ten blocks stay
		LOOP=(map:0:64M:1us)
		local i
		for ((i = 0; i < 10; i++)); do LOOP+=(alloc:0:2M:1us); done
		LOOP+=(loop:0:1M:$1)
	}
	churn 1000
	has churn "${LOOP[@]}"
	says 'Blocks of 1.00 MiB were allocated and freed 1,000 times, at most 1 of them alive at a time. Allocate them once'
	churn 999
	hasnt churn "${LOOP[@]}"
	GPUMEM_LOG=small hasnt churn "${LOOP[@]}"
}

# ranks PEAK...: a log for each rank, with this peak of requested memory; "-" leaves the rank out
ranks() {
	local rank=0 peak
	rm -f r.*.gml
	for peak; do
		[ "$peak" = - ] || RANK=$rank WORLD_SIZE=9 mklog r.$rank.gml at:1s map:0:1G:1us alloc:0:$peak:1us free:1:1us
		rank=$((rank + 1))
	done
	"$TOOL" --json r.*.gml | jq -r '.findings[].rule' >rules
	"$TOOL" --width=1000 r.*.gml >out
}

@test "findings: several logs together" {
	has_of_ranks() { ranks "${@:2}" && grep -qx "$1" rules || { cat out; return 1; }; }
	hasnt_of_ranks() { ranks "${@:2}" && ! grep -qx "$1" rules || { cat out; return 1; }; }
	has_of_ranks unbalanced 75M 100M 80M
	grep -q '^findings      The ranks are not balanced: the peaks of what they requested go from 75.0 MiB to 100 MiB. The largest decides what fits.$' out
	hasnt_of_ranks unbalanced 76M 100M 80M
	hasnt_of_ranks unbalanced 75M
	has_of_ranks ranks_missing 1M - 1M - 1M
	grep -q '^findings      Of the ranks up to 4, 2 left no log among these. ' out
	hasnt_of_ranks ranks_missing 1M 1M 1M
	rm -f r.*.gml
	mklog r.0.gml "${CALM[@]}"
	mklog r.1.gml map:0:64M:1us # without a rank
	"$TOOL" --json r.*.gml | jq -e '.findings == []'
}

@test "findings: of several logs, each finding names the first log that has it" {
	for rank in 0 1 2; do
		RANK=$rank WORLD_SIZE=3 mklog m.$rank.gml "${CALM[@]}" $([ $rank = 0 ] || echo count:bounds_refused:$rank)
	done
	mklog m.3.gml "${POOL[@]}" kill
	"$TOOL" --width=200 m.*.gml >out
	grep -qE '^findings      rank 1 and 1 more: 1 copy or memset was refused' out
	grep -qE '^ +m\.3\.gml: The program was killed or crashed' out
	[ "$(grep -cE 'refused, for they left' out)" -eq 1 ]
}

@test "findings in JSON have value, threshold, sentence and remedy" {
	mklog j.gml "${CALM[@]}" count:allocate_calls:1 count:allocate_driver:1
	"$TOOL" --json j.gml | jq -e '.logs[0].findings == [{rule: "to_driver", level: "warning", value: 1, of: 2, threshold: 0.01,
		text: "1 of 2 allocations went to the driver, because the pool could not serve them.",
		remedy: "GPUMEM_VERBOSE=3 says more."}]'
}

@test "every finding is tested with and without, and the manual has its threshold" {
	sed -n 's/^GM_FINDING([A-Z]*, *[A-Z]*, *\([a-z_]*\), *[A-Z]*, *\([0-9.]*\),$/\1 \2/p' "$RULES" >rows
	[ "$(wc -l <rows)" -eq "$(grep -c '^GM_FINDING(' "$RULES")" ]
	while read -r rule threshold; do
		for way in has hasnt; do
			grep -qE "^[[:blank:]]*([A-Z_]+=[a-z0-9-]+ )?${way}(_of_ranks)? $rule " "$BATS_TEST_FILENAME" ||
				{ echo "no test: $way $rule"; return 1; }
		done
		grep -qx "\.It Sy $rule Pq $threshold" "$MANUAL" || { echo "not in the manual: $rule $threshold"; return 1; }
	done <rows
	# In the manual's order, and without further ones.
	sed -n '/^\.Sh FINDINGS/,/^\.Sh ENVIRONMENT/s/^\.It Sy \([a-z_]*\) Pq \([0-9.]*\)$/\1 \2/p' "$MANUAL" | diff - rows
}

@test "churn of one size is found among 200,000 other sizes" {
	mklog a.gml map:0:1G:1us churn:0:4M:200000 loop:0:4K:5000 churn:0:4M:200000
	"$TOOL" summary --json a.gml | jq -e '.logs[0].findings |
		any(.rule == "churn" and (.text | test("Blocks of 4.00 KiB were allocated and freed 5,000 times")))'
}

@test "the longest of more than a million calls is exact" {
	GPUMEM_LOG_LIMIT=1G mklog a.gml map:0:1G:1us alloc:0:4K:77us loop:0:4K:1100000
	"$TOOL" -v a.gml | grep -qE '^cuMemAlloc_v2 +1,100,001 +0 +1 ns +1 ns +77.0 us$'
}
