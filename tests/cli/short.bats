#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The summary's first screen, exactly, for logs with known contents (mklog.c).
source "$BATS_TEST_DIRNAME/cli.bash"
export TZ=UTC0

# 64 MiB mapped at 1 s, two blocks, one freed at 2 s, and one failed allocation at 3 s.
RUN=(at:1s map:0:64M:100us alloc:0:10M:1us alloc:0:32M:3us sample:0:20M:20M
	at:2s free:1:900ns sample:0:30M:30M at:3s fail:0:7G:1G sample:0:30M:30M at:4s)

@test "the first screen of one log, exactly" {
	mklog a.gml "${RUN[@]}"
	"$TOOL" a.gml >out
	sed 's/^|//' <<-'END' | diff -u - out
	|program  mklog, 4.00 s, closed cleanly; a.gml, all events
	|GPU 0    GPU one, 8.00 GiB; pool, driver 13.0; GPUMEM_LOG_EVENTS=all
	|
	|peak     42.0 MiB requested at 1.00 s; 64.0 MiB mapped (66% used)
	|calls    3 allocations, 1 free, 1 alive; 1 failed, 0 by the driver
	|time     allocate 1.33 us, free 900 ns (mean)
	|64.0 MiB |               .............................................
	|         |               ################.............................
	|         |               #############################################
	|         |               #############################################
	|         |               #############################################
	|         +------------------------------------------------------------ 4.00 s
	|          # requested  . mapped
	|
	|!!       Out of memory: 7.00 GiB was asked for, and 6.94 GiB of the device is
	|         neither this process's nor free. Look for other processes with
	|         nvidia-smi.
	|!        1 block, 32.0 MiB, was never freed.
	|next     gpumemstat live --at=oom a.gml
	|         gpumemstat leaks a.gml
	|         gpumemstat report a.gml
	|         gpumemstat -v a.gml
	END
	"$TOOL" --width=100 | tail -n 1 >out
	diff -u - out <<<'next     gpumemstat live --at=oom; gpumemstat leaks; gpumemstat report; gpumemstat -v'
	"$TOOL" --width=40 a.gml >out
	sed 's/^|//' <<-'END' | diff -u - out
	|program  mklog, 4.00 s, closed cleanly;
	|         a.gml, all events
	|GPU 0    GPU one, 8.00 GiB; pool,
	|         driver 13.0;
	|         GPUMEM_LOG_EVENTS=all
	|
	|peak     42.0 MiB requested at 1.00 s;
	|         64.0 MiB mapped (66% used)
	|calls    3 allocations, 1 free, 1
	|         alive; 1 failed, 0 by the
	|         driver
	|time     allocate 1.33 us, free 900 ns
	|         (mean)
	|64.0 MiB |     ...............
	|         |     ######.........
	|         |     ###############
	|         |     ###############
	|         |     ###############
	|         +-------------------- 4.00 s
	|          # requested  . mapped
	|
	|!!       Out of memory: 7.00 GiB was
	|         asked for, and 6.94 GiB of the
	|         device is neither this
	|         process's nor free. Look for
	|         other processes with
	|         nvidia-smi.
	|!        1 block, 32.0 MiB, was never
	|         freed.
	|next     gpumemstat live --at=oom a.gml
	|         gpumemstat leaks a.gml
	|         gpumemstat report a.gml
	|         gpumemstat -v a.gml
	END
}

@test "a curve without events is drawn from samples and peaks" {
	# The third block lives between two samples: only the counters have its peak.
	GPUMEM_LOG=small mklog s.gml at:1s map:0:64M:1us alloc:0:10M:1us sample:0:54M:0 at:2s alloc:0:50M:1us at:2100ms free:2:1us \
		at:3s free:1:1us sample:0:64M:0 at:4s
	"$TOOL" --width=60 s.gml >out
	diff -u - out <<-'END'
	program  mklog, 4.00 s, closed cleanly; s.gml, no events
	GPU 0    GPU one, 8.00 GiB; pool, driver 13.0;
	         GPUMEM_LOG_EVENTS=all

	peak     60.0 MiB requested at 2.00 s; 64.0 MiB mapped (94%
	         used)
	calls    2 allocations, 2 frees, 0 alive; 0 failed, 0 by
	         the driver
	time     allocate 1.00 us, free 1.00 us (mean)
	64.0 MiB |          ..........#...................
	         |          ..........#...................
	         |          ..........#...................
	         |          ..........#...................
	         |          #####################.........
	         +---------------------------------------- 4.00 s
	          # requested  . mapped

	-        Nothing stands out.
	next     gpumemstat record COMMAND; gpumemstat -v s.gml
	END
}

@test "PyTorch's cache: segments, neither utilisation nor leaks, and a remedy" {
	mklog t.gml at:1s map:0:4G:1us alloc:0:2G:1us alloc:0:1G:1us count:torch_cache:1 at:2s
	"$TOOL" t.gml | grep -v '[|+]' >out
	diff -u - out <<-'END'
	program  mklog, 2.00 s, closed cleanly; t.gml, all events
	GPU 0    GPU one, 8.00 GiB; pool, driver 13.0; GPUMEM_LOG_EVENTS=all

	peak     3.00 GiB in segments of PyTorch's cache at 1.00 s; 4.00 GiB mapped
	calls    2 allocations, 0 frees, 2 alive; 0 failed, 0 by the driver
	time     allocate 1.00 us (mean)
	          # requested  . mapped

	-        PyTorch's cache was on: blocks are its segments, not tensors; it keeps
	         freed segments. PYTORCH_NO_CUDA_MEMORY_CACHING=1 shows tensors,
	         torch.cuda.memory._snapshot() the cache.
	next     gpumemstat live --at=peak t.gml
	         gpumemstat report t.gml
	         gpumemstat -v t.gml
	END
}

@test "JAX maps memory by itself: it is counted, and has no blocks" {
	mklog j.gml at:1s give:foreign_created_calls:0:6G give:foreign_async_calls:0:1M at:4s
	"$TOOL" j.gml >out
	sed 's/^|//' <<-'END' | diff -u - out
	|program  mklog, 4.00 s, closed cleanly; j.gml, all events
	|GPU 0    GPU one, 8.00 GiB; pool, driver 13.0; GPUMEM_LOG_EVENTS=all
	|
	|foreign  at most 1.00 MiB stream-ordered, 6.00 GiB by cuMemCreate: not the
	|         pool's
	|
	|!        Device 0: up to 6.00 GiB was not the pool's but foreign, of a total of
	|         up to 6.00 GiB: gpumem could only count it. The table of foreign
	|         memory has its kinds; a framework with a pool of its own takes it past
	|         cudaMalloc.
	|next     gpumemstat -v j.gml
	END
	mklog n.gml at:1s
	"$TOOL" n.gml >out
	diff -u - out <<-'END'
	program  mklog, 1.00 s, closed cleanly; n.gml, all events
	GPU      none used; pool, driver 13.0; GPUMEM_LOG_EVENTS=all

	-        The program started CUDA and allocated no device memory.
	next     gpumemstat -v n.gml
	END
}

@test "malloc in kernels and several devices on the first screen" {
	mklog k.gml at:1s taken:0:64M:12ms lend:0:32M at:2s grow:0:4M:50us waited:0:11M:7ms heap:0:20M:0:0 last:0 map:1:32M:1us alloc:1:1M:1us free:1:1us
	"$TOOL" k.gml | grep -v '[|+]' >out
	diff -u - out <<-'END'
	program  mklog, 2.00 s, closed cleanly; k.gml, all events
	GPU 0    GPU one, 8.00 GiB; pool, driver 13.0; GPUMEM_LOG_EVENTS=all

	kernels  malloc: 20.0 MiB live, 36.0 MiB mapped at most; waited 7.00 ms for
	         growth; 0 got NULL
	          . mapped, with the heaps of kernels

	GPU 1    GPU two, 16.0 GiB
	peak     1.00 MiB requested at 2.00 s; 32.0 MiB mapped (3% used)
	calls    1 allocation, 1 free, 0 alive; 0 failed, 0 by the driver
	time     allocate 1.00 us, free 1.00 us (mean)
	          # requested  . mapped

	-        Nothing stands out.
	next     gpumemstat live --at=peak k.gml
	         gpumemstat report k.gml
	         gpumemstat -v k.gml
	END
}

@test "the three gravest of many findings are shown, and every note" {
	mklog m.gml at:1s map:0:64M:1us alloc:0:63M:1us fail:0:2M:0 count:bounds_refused:2 count:free_failed:1 count:retry_calls:1 count:torch_cache:1
	"$TOOL" --width=200 m.gml | sed -n '/^!!/,$p' >out
	[ "$(grep -c '^!! ' out)" -eq 3 ]
	refute grep -q '^! ' out
	grep -qE '^ +1 more with -v$' out
	grep -q "^- .*PyTorch's cache was on" out
	"$TOOL" --color=always --width=200 m.gml | grep -c $'^\e\[1;31m!!\e\[0m ' | grep -qx 3
}

@test "a path is quoted for a shell" {
	mklog "a b.gml" at:1s
	"$TOOL" "a b.gml" | grep -qx "next     gpumemstat -v 'a b.gml'"
	mv "a b.gml" "it's.gml"
	"$TOOL" "it's.gml" | grep -qx 'next     gpumemstat -v LOG'
}

@test "mode trace on the first screen: requested, peak and live blocks are the driver's" {
	GPUMEM_MODE=trace mklog e.gml at:1s driver:0:1G:5us driver:0:1M:5us at:2s
	"$TOOL" e.gml | grep -E '^(peak|calls|time|1.00 GiB)' >out
	diff -u - out <<-'END'
	peak     1.00 GiB requested
	calls    2 allocations, 0 frees, 2 alive; 0 failed, 2 by the driver
	time     allocate 5.00 us (mean)
	1.00 GiB |                              ##############################
	END
}
