#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run every program beside this script natively and under the preload, and compare the outputs. Usage: run.sh
# RESULTS [NAME]... Results are in RESULTS/DATE-DEVICExCOUNT. A case that cannot run here (exit status 77:
# needs two GPUs, or PyTorch; 127: a library is missing) is counted as skipped; with GPU_STRICT=1 a skip is a
# failure. GPU_JOBS (4): cases at a time. GPU_SECONDS: no case begins later; those that are left are named, and
# another run takes their names. Ends with a line "N passed, N failed, N skipped"; exit status 1 if
# any failed.
set -u

# NAME  LIMIT  LOGS  SERVED  COMMAND
# LIMIT: seconds for each of the two runs. LOGS: the number of processes that use CUDA, and leave a log (0:
# ncu loads a driver of its own before the library).
# SERVED pool: every log has allocations of cuMemAlloc's family, all of them served by the pool.
# SERVED N: as pool, and exactly N allocations. heap: in every log kernels made a device heap grow.
# copied: as pool, and the logs count exactly the copied bytes that the program prints (to_device_bytes=,
# to_host_bytes=). slept:X: as X, and the processes together slept and woke twenty times. early: as pool, and freed
# memory was used again at once (GPUMEM_FREE=ordered); early:N: after N percent of the frees at least. moved: as
# early, and chunks of such memory moved to other addresses at once. any: the case
# may allocate by other calls, too.
# JAX allocates its arrays by cuMemCreate or cuMemAllocAsync, so none is the pool's. The pool serves its 64.2
# MiB in 9 blocks at the start. N+created or N+async: the log also counts JAX's own calls.
# In COMMAND, assignments are first, and @ stands for the folders of the toolkit's libraries. "--": the
# running cases have to end first, because the following ones need the whole device, a quiet one, or much of
# its memory.
cases() {
	cat <<'END'
runtime             120  1  pool  ./runtime
runtime_shared      120  1  pool  LD_LIBRARY_PATH=. ./runtime_shared
runtime_ptds        120  1  pool  ./runtime_ptds
capture             120  1  pool  ./capture
graph               120  1  pool  ./graph all
peer                120  1  pool  ./peer
driver              120  1  pool  ./driver kernels.cubin
odd                 240  26 pool  GPUMEM_VERBOSE=0 ./odd kernels.cubin
odd_ordered         240  26 any   GPUMEM_VERBOSE=0 GPUMEM_FREE=ordered ./odd kernels.cubin
odd_defer           240  26 pool  GPUMEM_VERBOSE=0 GPUMEM_FREE=defer ./odd kernels.cubin
inkernel            120  1  pool  ./inkernel
inkernel_debug      120  1  pool  ./inkernel_debug
inkernel_rdc        120  1  pool  ./inkernel_rdc
inkernel_orders     120  1  pool  ./inkernel_load modules orders
inkernel_contexts   120  1  pool  ./inkernel_load modules contexts
inkernel_captures   120  1  pool  ./inkernel_load modules captures
inkernel_devices    120  1  pool  ./inkernel_load modules devices
inkernel_nvrtc      120  1  pool  LD_LIBRARY_PATH=@ ./inkernel_jit modules nvrtc
inkernel_nvjitlink  120  1  pool  LD_LIBRARY_PATH=@ ./inkernel_jit modules nvjitlink
inkernel_link       120  1  pool  ./inkernel_jit modules driver
inkernel_cupy       180  1  pool  python3 with_cupy_inkernel.py
inkernel_restore    120  1  pool  GPUMEM_HEAP=off ./inkernel_restore modules
inkernel_limit      120  1  pool  ./inkernel_many 1000000 64 1073741824
sites_tree          120  0  any   ./sited.sh sites_tree
sites_unload        120  0  any   ./sited.sh sites_unload
sites_twice         120  0  any   ./sited.sh sites_twice
sites_null          120  0  any   ./sited.sh sites_null
faults              180  1  pool  ./faults
faults_copy         180  1  pool  GPUMEM_COPY=4 ./faults
conditional         120  1  heap  ./conditional
many_16             240  1  heap  ./inkernel_many 1000000 16 none
many_256            240  1  heap  ./inkernel_many 1000000 256 none
policy_bump         240  1  heap  GPUMEM_HEAP=policy:bump ./inkernel_many 1000000 64 1073741824
policy_kma          240  1  heap  GPUMEM_HEAP=policy:kma ./inkernel_many 1000000 64 1073741824
policy_ouro_s_p     240  1  heap  GPUMEM_HEAP=policy:ouro-s-p ./inkernel_many 1000000 64 1073741824
policy_ouro_s_c     240  1  heap  GPUMEM_HEAP=policy:ouro-s-c ./inkernel_many 1000000 64 1073741824
policy_ouro_va_p    240  1  heap  GPUMEM_HEAP=policy:ouro-va-p ./inkernel_many 1000000 64 1073741824
policy_ouro_va_c    240  1  heap  GPUMEM_HEAP=policy:ouro-va-c ./inkernel_many 1000000 64 1073741824
policy_ouro_vl_p    240  1  heap  GPUMEM_HEAP=policy:ouro-vl-p ./inkernel_many 1000000 64 1073741824
policy_ouro_vl_c    240  1  heap  GPUMEM_HEAP=policy:ouro-vl-c ./inkernel_many 1000000 64 1073741824
policy_rw           240  1  heap  GPUMEM_HEAP=policy:rw ./inkernel_many 1000000 64 1073741824
policy_rw_bm        240  1  heap  GPUMEM_HEAP=policy:rw-bm ./inkernel_many 1000000 64 1073741824
policy_corw         240  1  heap  GPUMEM_HEAP=policy:corw ./inkernel_many 1000000 64 1073741824
foreign             240  1  pool  ./foreign_free
foreign_rw          240  1  pool  GPUMEM_HEAP=policy:rw ./foreign_free
foreign_rw_bm       240  1  pool  GPUMEM_HEAP=policy:rw-bm ./foreign_free
foreign_corw        240  1  pool  GPUMEM_HEAP=policy:corw ./foreign_free
foreign_heap        240  1  pool  LD_LIBRARY_PATH=. ./foreign_heap
aligned             120  1  any   ./aligned
aligned_debug       120  1  any   ./aligned_debug
memcheck_aligned    240  1  any   ./under.sh memcheck ./aligned native
gdb_aligned         240  1  any   ./under.sh gdb ./aligned native
memcheck_inkernel   240  1  pool  ./under.sh memcheck ./inkernel_many 1000 64
blas                120  1  pool  LD_LIBRARY_PATH=@ ./blas
fft                 120  1  pool  LD_LIBRARY_PATH=@ ./fft
sparse              120  1  pool  LD_LIBRARY_PATH=@ ./sparse
thrust              120  1  pool  ./thrust
cub                 120  1  pool  ./cub
train               180  1  pool  PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 train.py
train_cached        180  1  pool  python3 train.py
train_ordered       180  1  early GPUMEM_FREE=ordered PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 train.py
cupy_ordered        180  1  early GPUMEM_FREE=ordered python3 with_cupy.py none
blas_ordered        120  1  early GPUMEM_FREE=ordered LD_LIBRARY_PATH=@ ./blas
train_expandable    180  1  any   PYTORCH_ALLOC_CONF=expandable_segments:True python3 train.py
train_async         180  1  any   PYTORCH_ALLOC_CONF=backend:cudaMallocAsync python3 train.py
oocmap              120  1  copied ./oocmap --verify --untimed -n 5000011 -t 0,1,7,64 -s 1,3,8 --room=10M
oocmap_pinned       120  1  copied ./oocmap --verify --untimed -n 5000011 -t 1,64 -s 1,3,8 --room=10M --host=pinned
oocstencil          120  1  copied ./oocstencil --verify --untimed -n 5000011 -t 0,1,7,64 -s 1,3,8 --room=10M
oocstencil_pinned   120  1  copied ./oocstencil --verify --untimed -n 5000011 -t 1,64 -s 1,3,8 --room=10M --host=pinned
oocstencil_many     120  1  copied ./oocstencil --verify --untimed -n 1000003 -t 3883 -s 16 --room=2M --host=pinned
spgemm              240  1  heap  LD_LIBRARY_PATH=@ ./spgemm --verify --untimed -a cage14 --share=10 -w upper,precise,dynamic,persistent,malloc,cusparse -s 8,64,auto --heap=4000000000
hashjoin            240  1  heap  ./hashjoin --verify --untimed -n 16Ki,1M,4M
hashjoin_chains     240  1  heap  ./hashjoin --verify --untimed -n 1M --probes=64
pagesteps           120  1  pool  ./pagesteps --untimed --pages=4Mi -t 20480
smallnodes          120  1  heap  ./smallnodes --verify --untimed --edges=1M --keys=1000 --heap=4Gi
barneshut           240  1  heap  ./barneshut --verify --untimed -n 100k -s 3 --heap=4Gi
barneshut_lists     120  1  heap  ./barneshut --verify --untimed -n 4k -s 3 --levels=4
arraylist           240  1  heap  ./arraylist --verify --untimed -w fixed,bump,malloc,group,group-bump --heap=1Gi
arraylist_items     120  1  heap  ./arraylist --verify --untimed -n 1000 --group=100 --most=9 --reads=1M
expressions         240  1  heap  ./expressions --verify --untimed --depth=5 --space=1Gi --heap=4Gi
hostarrays          120  1  pool  ./hostarrays --verify --untimed --points=100k --rows=50k --steps=8 --repeat=3
dyngraph            240  1  heap  ./dyngraph --verify --untimed -w aim,faim,malloc,granule,ouro-va-p --update=edges,vertices,sorted --reinit=move,compact -b 10k --rounds=3 --vertices=0,1k --heap=4Gi
dyngraph_warp       240  1  heap  ./dyngraph --verify --untimed -w aim,faim,malloc,granule,ouro-va-p --update=edges,vertices,sorted --reinit=move,compact -b 10k --rounds=3 --vertices=0,1k --heap=4Gi --worker=warp --delete=random
dyngraph_policies   240  1  pool  ./dyngraph --verify --untimed -w bump,granule,kma,ouro-s-p,ouro-s-c,ouro-va-p,ouro-va-c,ouro-vl-p,ouro-vl-c,rw,rw-bm,corw --edges=100k -b 10k --room=2Gi
spgemm_skew         240  1  heap  ./spgemm --verify --untimed -a skew --share=1 -s 8,auto --heap=4000000000
--
many_1k             240  1  heap  ./inkernel_many 1000000 1024 none
many_4k             240  1  heap  ./inkernel_many 1000000 4096 none
bigblocks_many      240  1  heap  ./bigblocks nolimit many
bigblocks_many_limit 240 1  heap  ./bigblocks limit many
bigblocks_one       240  1  heap  ./bigblocks nolimit one
bigblocks_one_limit 240  1  heap  ./bigblocks limit one
--
many_16k            240  1  heap  ./inkernel_many 1000000 16384 none
--
bigblocks           240  1  heap  ./bigblocks nolimit sizes
--
bigblocks_limit     240  1  heap  ./bigblocks limit sizes
--
kernels40           600  1  heap  ./kernels40 kernels
kernels40_ptx       600  1  heap  ./kernels40_ptx kernels
kernels40_threads   600  1  heap  ./kernels40 threads
kernels40_rounds    600  1  heap  ./kernels40 rounds
--
heap                240  1  pool  ./heap 1000000 granule rw rw-bm corw bump
heap_queues         240  1  pool  ./heap 1000000 kma ouro-s-p ouro-va-p ouro-vl-p ouro-s-c ouro-va-c ouro-vl-c
sleep_runtime       240  1  slept:pool GPUMEM_SLEEP=1ms ./repeated.sh 5 ./runtime
sleep_capture       240  1  slept:pool GPUMEM_SLEEP=1ms ./capture slowly
sleep_graph         240  1  slept:pool GPUMEM_SLEEP=1ms ./repeated.sh 4 ./graph setters
sleep_peer          240  1  slept:pool GPUMEM_SLEEP=1ms ./peer slowly
sleep_inkernel      240  1  slept:pool GPUMEM_SLEEP=1ms ./repeated.sh 10 ./inkernel
sleep_blas          240  1  slept:pool GPUMEM_SLEEP=1ms LD_LIBRARY_PATH=@ ./repeated.sh 4 ./blas
sleep_ipc           240  9  slept:pool GPUMEM_SLEEP=1ms ./repeated.sh 4 ./ipc
sleep_jax           240  1  slept:9+created GPUMEM_SLEEP=1ms XLA_PYTHON_CLIENT_MEM_FRACTION=.20 python3 with_jax.py
sleep_questions     240  1  slept:pool GPUMEM_SLEEP=1ms ./questions
sleep_folder        240  1  slept:pool GPUMEM_SLEEP=1ms GPUMEM_SLEEP_STORE=/tmp ./repeated.sh 5 ./runtime
sleep_nccl          120  1  pool  GPUMEM_SLEEP=1 python3 with_nccl.py
sleep_nccl_two      240  2  slept:pool GPUMEM_SLEEP=1 GPUMEM_SLEEP_STORE=100% python3 with_nccl_two.py sleeps
cycles_plain        120  1  slept:pool GPUMEM_SLEEP=1 GPUMEM_SLEEP_STORE=100% ./cycled.sh ./cycles plain
cycles_folder       300  1  slept:pool GPUMEM_SLEEP=1 GPUMEM_SLEEP_STORE=/tmp ./cycled.sh ./cycles plain
cycles_graph        120  1  slept:pool GPUMEM_SLEEP=1 ./cycled.sh ./cycles graph
cycles_blas         120  1  slept:pool GPUMEM_SLEEP=1 LD_LIBRARY_PATH=@ ./cycled.sh ./cycles blas
cycles_malloc       120  1  slept:pool GPUMEM_SLEEP=1 ./cycled.sh ./cycles malloc
cycles_train        300  1  slept:pool GPUMEM_SLEEP=1 GPUMEM_SLEEP_STORE=100% PYTORCH_NO_CUDA_MEMORY_CACHING=1 TRAIN_STEPS=3000 ./cycled.sh python3 train.py
cycles_cached       300  1  slept:pool GPUMEM_SLEEP=1 TRAIN_STEPS=6000 ./cycled.sh python3 train.py
sleep_train         360  1  slept:pool PYTORCH_NO_CUDA_MEMORY_CACHING=1 GPUMEM_SLEEP=1ms GPUMEM_SLEEP_STORE=100% python3 train.py
sleep_cupy          360  1  slept:pool GPUMEM_SLEEP=1ms GPUMEM_COPY=8 python3 with_cupy.py none pool
cupy                180  1  pool  python3 with_cupy.py none pool
lt_train            240  1  early:95 GPUMEM_FREE=ordered PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 with_torch_lt.py train
lt_serve            240  1  early:95 GPUMEM_FREE=ordered PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 with_torch_lt.py serve
lt_generate         240  1  early:95 GPUMEM_FREE=ordered PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 with_torch_lt.py generate
lt_cycles           300  1  slept:early GPUMEM_FREE=ordered GPUMEM_SLEEP=1 PYTORCH_NO_CUDA_MEMORY_CACHING=1 ./cycled.sh python3 with_torch_lt.py train 1000
torch_streams       180  1  pool  python3 with_torch_streams.py
torch_streams_sync  180  1  pool  PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 with_torch_streams.py
torch_streams_defer 180  1  pool  GPUMEM_FREE=defer PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 with_torch_streams.py
torch_streams_ordered 180 1 early GPUMEM_FREE=ordered PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 with_torch_streams.py
torch_streams_core  180  1  pool  TORCH_ADAPTER=./torch_adapter.so python3 with_torch_streams.py
torch_core          180  1  pool  TORCH_ADAPTER=./torch_adapter.so python3 with_torch_core.py
cupy_core           180  1  pool  CORE_LIBRARY=./libgpumem-core.so.0 python3 with_cupy_core.py
core_contexts       180  1  pool  LD_LIBRARY_PATH=. ./core_contexts seconds 60
--
torch_recording     600  1  pool  GPUMEM_LOG=small GPUMEMSTAT=./gpumemstat python3 with_torch_recording.py
--
turns               120  2  pool  GPUMEM_SLEEP=1 ./turns
--
neighbours          120  2  pool  ./neighbours
--
managed             180  1  pool  ./managed much
--
managed_flags       120  1  pool  ./managed flags
--
grow                120  1  pool  LD_LIBRARY_PATH=. ./grow
churn               240  1  heap  ./churn 3
--
churn_header        120  1  heap  LD_LIBRARY_PATH=. ./churn_header 5
churn_inlined       120  1  heap  LD_LIBRARY_PATH=. ./churn_inlined 5
--
synccheck_churn     240  1  heap  LD_LIBRARY_PATH=. ./under.sh synccheck ./churn_header 1
memcheck_churn      240  1  heap  LD_LIBRARY_PATH=. ./under.sh memcheck ./churn_header 1 grown
--
cupy_others         180  1  any   python3 with_cupy.py async managed none
jax                 240  1  9+created XLA_PYTHON_CLIENT_MEM_FRACTION=.20 python3 with_jax.py
jax_platform        240  1  9+created XLA_PYTHON_CLIENT_ALLOCATOR=platform python3 with_jax.py
jax_async           240  1  9+async XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_MEM_FRACTION=.20 python3 with_jax.py
numba               180  1  pool  NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS=0 python3 with_numba.py
memcheck_thrust     240  1  pool  ./under.sh memcheck ./thrust
memcheck_runtime    240  1  pool  ./under.sh memcheck ./runtime churn copies pitched errors
memcheck_end        120  1  any   GPUMEM_MODE=trace ./under.sh memcheck ./overrun end
memcheck_freed      120  1  any   GPUMEM_MODE=trace ./under.sh memcheck ./overrun freed
initcheck_cub       240  1  pool  ./under.sh initcheck ./cub
racecheck_cub       240  1  pool  ./under.sh racecheck ./cub
ncu                 240  0  any   ./under.sh ncu ./cub
--
many                120  8  pool  ./many
--
limits              120  1  pool  ./limits
--
inkernel_cap        120  1  pool  GPUMEM_HEAP_LIMIT=1G ./inkernel_full 1073741824
--
memcheck_full       240  1  pool  ./under.sh memcheck ./inkernel_full 8388608
--
inkernel_whole      120  1  pool  GPUMEM_HEAP_LIMIT=95% ./inkernel_full whole
--
inkernel_idle       120  1  pool  GPUMEM_TRIM_AFTER=0 ./inkernel_idle kernels.cubin
--
inkernel_idle_later 120  1  pool  GPUMEM_TRIM_AFTER=100ms ./inkernel_idle kernels.cubin
--
idle                300  4  pool  ./idle
--
ipc                 120  9  pool  ./ipc
ipc_native          120  9  any   GPUMEM_IPC=native ./ipc
ipc_torch           180  2  pool  python3 with_torch_ipc.py
mpi                 120  2  pool  ./mpi
mpi_ordered         120  2  early GPUMEM_FREE=ordered ./mpi
peer_ordered        120  1  pool  GPUMEM_FREE=ordered ./peer
--
checkpoint          240  3  pool  ./checkpoint
--
torch_processes     240  9  pool  python3 with_torch_processes.py
torch_processes_ordered 240 9 pool GPUMEM_FREE=ordered python3 with_torch_processes.py
torch_compile       300  1  pool  TORCHINDUCTOR_COMPILE_THREADS=1 python3 with_torch_compile.py
torch_compile_ordered 300 1 pool  GPUMEM_FREE=ordered TORCHINDUCTOR_COMPILE_THREADS=1 python3 with_torch_compile.py
nccl_two            240  2  pool  NCCL_NVLS_ENABLE=0 python3 with_nccl_two.py
nccl_two_ordered    240  2  pool  GPUMEM_FREE=ordered NCCL_NVLS_ENABLE=0 python3 with_nccl_two.py
nccl_two_ipc        240  2  pool  NCCL_NVLS_ENABLE=0 NCCL_CUMEM_ENABLE=0 python3 with_nccl_two.py
ddp                 240  2  pool  NCCL_NVLS_ENABLE=0 python3 with_torch_two.py ddp
ddp_ordered         240  2  early GPUMEM_FREE=ordered PYTORCH_NO_CUDA_MEMORY_CACHING=1 NCCL_NVLS_ENABLE=0 python3 with_torch_two.py ddp
fsdp                240  2  pool  NCCL_NVLS_ENABLE=0 python3 with_torch_two.py fsdp
fsdp_ordered        240  2  early GPUMEM_FREE=ordered PYTORCH_NO_CUDA_MEMORY_CACHING=1 NCCL_NVLS_ENABLE=0 python3 with_torch_two.py fsdp
--
late                120  1  any   ./late
--
late_defer          120  1  pool  GPUMEM_FREE=defer ./late
--
late_ordered        120  1  early GPUMEM_FREE=ordered ./late
--
ordered             120  1  moved GPUMEM_FREE=ordered ./ordered
--
END
}

here=$(cd "$(dirname "$0")" && pwd)
gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1)
[ -n "$gpu" ] || {
	echo "run.sh: no GPU here: nvidia-smi finds none"
	exit 77
}
count=$(nvidia-smi -L | wc -l)
name=${gpu%%,*} name=${name#NVIDIA }
results=$1/$(date -u +%F)-${name// /-}x$count
results=$(mkdir -p "$results" && cd "$results" && pwd) || exit 1
shift
only=" $* "
export GPUMEM_LIBRARY_PATH="$here/libgpumem.so" LC_ALL=C
# cuBLAS, cuFFT and cuSPARSE: the toolkit's, else those of NVIDIA's Python packages. Only programs of this
# folder use this path: Python's packages find their own.
libraries=/usr/local/cuda/lib64$(python3 -c '
import glob, site, sys
for where in site.getsitepackages() + sys.path:
    for folder in glob.glob(where + "/nvidia/*/lib") if where else ():
        print(end=":" + folder)' 2>/dev/null)

note() { # note ok|no|skip NAME TEXT
	printf '%-5s %s\n' "$1" "$2: $3" >>"$results/$2.verdict"
}

# Prints, for the logs of a case: their number; the least and the sum of allocations by the pool; the sum by
# the driver; the sums of sleeps, of wakes, and of frees whose memory could be used again at once, also in percent; the least
# growth of device heaps in bytes; the program's own calls of cuMemCreate and cuMemAllocAsync (calls of both,
# bytes of both); the chunks that moved while hot; the bytes copied to devices and back.
served() { # served LOG...
	"$here/gpumemstat" summary --json "$@" | python3 -c '
import json, sys
names = ("allocate_pool", "allocate_driver", "heap_growth_bytes", "foreign_created_calls", "foreign_async_calls",
         "foreign_created_bytes", "foreign_async_bytes")
found = json.load(sys.stdin)["logs"]
logs = [[sum(device["counters"][name] for device in log["devices"]) for name in names] for log in found]
pool, driver, heap, created, queued, created_bytes, queued_bytes = zip(*logs)
ways = ("early", "streams", "capture", "context", "pinned", "off")
freed = [sum(device["counters"]["ordered_" + way] for log in found for device in log["devices"]) for way in ways]
slept = (sum(log["counters"][name] for log in found) for name in ("sleeps", "wakes"))
copied = (sum(log["counters"]["copy_%s_bytes" % way] for log in found) for way in ("h2d", "d2h"))
print(len(logs), min(pool), sum(pool), sum(driver), *slept, freed[0], freed[0] * 100 // max(sum(freed), 1), min(heap), sum(created), sum(queued), sum(created_bytes), sum(queued_bytes),
      sum(device["counters"]["ordered_moves"] for log in found for device in log["devices"]), *copied)'
}

# The bytes copied to the device and back, by the program's output.
said_copied() { # said_copied FILE
	awk '{
		for (i = 1; i <= NF; i++) {
			split($i, part, "=")
			sum[part[1]] += part[2]
		}
	}
	END {printf "%.0f %.0f\n", sum["to_device_bytes"], sum["to_host_bytes"]}' "$1"
}

# gpumemstat must read a case's logs without an error, and the driver must have served no allocation.
read_logs() { # read_logs NAME LOGS SERVED
	local name=$1 found least pool driver sleeps wakes early share heap created async created_bytes async_bytes moves copied by=${3#slept:} own served
	local slept= wanted=1 wanted_moves=0
	case $by in
	early:*) wanted=${by#early:} by=early ;;
	moved) wanted_moves=1 by=early ;;
	esac
	own=${by#*+} served=${by%+*}
	local -a logs=("$results/logs/$name"/*)
	[ -e "${logs[0]}" ] || logs=()
	if [ ${#logs[@]} -lt "$2" ]; then
		note no "$name" "${#logs[@]} logs, not $2"
		return
	fi
	if ! (cd "$results/logs/$name" && "$here/gpumemstat" summary -v -- *) >"$results/$name.summary.txt" 2>"$results/$name.summary.err" ||
		[ -s "$results/$name.summary.err" ]; then
		note no "$name" "gpumemstat summary: $(head -n 1 "$results/$name.summary.err")"
		return
	fi
	rm -f "$results/$name.summary.err"
	read -r found least pool driver sleeps wakes early share heap created async created_bytes async_bytes moves copied <<<"$(served "${logs[@]}")"
	case $3 in slept:*) slept=", slept $sleeps times" ;; esac
	[ "$by" != early ] || slept+=", $share% of the frees early, $moves chunks moved"
	if [ -z "$driver" ]; then
		note no "$name" "gpumemstat summary --json gave no counters"
	elif [[ $3 = slept:* ]] && { [ "$sleeps" -lt 20 ] || [ "$wakes" -lt 20 ]; }; then
		note no "$name" "it slept $sleeps times and woke $wakes times, not 20"
	elif [ "$by" = heap ]; then
		note "$([ "$heap" != 0 ] && echo ok || echo no)" "$name" "device heaps grew by $heap bytes or more; logs: $found"
	elif [ "$by" != any ] && { [ "$least" = 0 ] || [ "$driver" != 0 ]; }; then
		note no "$name" "$pool allocations served by the pool, $driver by the driver; logs: $found, with at least $least of the pool's in each"
	elif [ "$by" = early ] && { [ "$early" = 0 ] || [ "$share" -lt "$wanted" ]; }; then
		note no "$name" "$early frees, $share% of all, with memory usable again at once; wanted: $wanted%"
	elif [ "$by" = early ] && [ "$moves" -lt "$wanted_moves" ]; then
		note no "$name" "no chunk of freed memory moved before its work had ended"
	elif [ "$by" = copied ] && [ "$copied" != "$(said_copied "$results/$name.preloaded.txt")" ]; then
		note no "$name" "copies to devices and back, bytes: $copied in the logs, $(said_copied "$results/$name.preloaded.txt") said"
	elif [[ $served =~ ^[0-9]+$ ]] && [ "$pool" != "$served" ]; then
		note no "$name" "$pool allocations served by the pool, not $served"
	elif [ "$own" != "$by" ]; then
		local bytes=${own}_bytes
		note "$([ "${!own}" != 0 ] && echo ok || echo no)" "$name" \
			"$pool allocations served by the pool, ${!own} by the program's own calls ($own), ${!bytes} bytes$slept; logs: $found"
	else
		note ok "$name" "$pool allocations served by the pool, $driver by the driver$slept; logs: $found"
	fi
}

compare() { # compare NAME LIMIT LOGS SERVED COMMAND...
	local name=$1 limit=$2 least=$3 by=$4 native preloaded said
	shift 4
	rm -f "$results/$name".*
	timeout -k 5 "$limit" "$@" >"$results/$name.native.txt" 2>"$results/$name.native.err"
	native=$?
	rm -rf "$results/logs/$name" && mkdir -p "$results/logs/$name"
	timeout -k 5 "$limit" "$here/gpumemstat" record -o "$results/logs/$name/" -- "$@" \
		>"$results/$name.preloaded.txt" 2>"$results/$name.preloaded.err"
	preloaded=$?
	if [ $native = $preloaded ] && { [ $native = 77 ] || [ $native = 127 ]; }; then
		note skip "$name" "$(cat "$results/$name.native.err" "$results/$name.native.txt" | tail -n 1)"
		rm -f "$results/$name".{native,preloaded}.*
		return
	fi
	if [ $native = 0 ] && [ $preloaded = 0 ] && [ -s "$results/$name.native.txt" ] &&
		cmp -s "$results/$name.native.txt" "$results/$name.preloaded.txt"; then
		note ok "$name" "$(wc -l <"$results/$name.native.txt") lines equal, natively and preloaded"
		rm -f "$results/$name.native.err"
	else
		note no "$name" "exit $native natively, $preloaded preloaded (124: over $limit s); see the two files"
		{
			diff "$results/$name.native.txt" "$results/$name.preloaded.txt" | head -n 20
			tail -n 5 "$results/$name.native.err" "$results/$name.preloaded.err"
		} >>"$results/$name.verdict"
	fi
	# Some programs ask for more memory than there is, and the library reports that.
	said=$(grep '^gpumem: ' "$results/$name.preloaded.err" | grep -m 1 -v 'out of memory on device') && note no "$name" "$said"
	[ "$least" = 0 ] || read_logs "$name" "$least" "$by"
}

rm -f "$results/SUMMARY.txt"
{
	echo "# $(date -u +%F) $gpu"
	echo "# devices: $count, commit $(cat "$here/COMMIT" 2>/dev/null || echo unknown)"
} | tee "$results/SUMMARY.txt"

cd "$here" || exit 1 # results must name no folder of this machine
names= left=
while read -r name limit logs served command; do
	if [ "$name" = -- ]; then
		wait
		continue
	fi
	[ "$only" = "  " ] || case "$only" in *" $name "*) ;; *) continue ;; esac
	if [ "$SECONDS" -ge "${GPU_SECONDS:-1000000}" ]; then
		left="$left $name"
		continue
	fi
	names="$names $name"
	while [ "$(jobs -rp | wc -l)" -ge "${GPU_JOBS:-4}" ]; do
		wait -n
	done
	# shellcheck disable=SC2086
	compare "$name" "$limit" "$logs" "$served" env ${command//@/$libraries} </dev/null &
done < <(cases)
wait
for name in $names; do
	cat "$results/$name.verdict" || echo "no    $name: no verdict"
	rm -f "$results/$name.verdict"
done 2>/dev/null | tee -a "$results/SUMMARY.txt"

echo "# warm cudaMalloc + cudaFree pair, us (size, native, preloaded with the small log, with events)" |
	tee -a "$results/SUMMARY.txt"
mkdir -p "$results/logs"
paste -d ' ' <("$here/pair") \
	<(cd "$results/logs" && GPUMEM_LOG=small LD_PRELOAD="$here/libgpumem.so" "$here/pair" | cut -d ' ' -f 2) \
	<(cd "$results/logs" && GPUMEM_LOG=events LD_PRELOAD="$here/libgpumem.so" "$here/pair" | cut -d ' ' -f 2) |
	tee -a "$results/SUMMARY.txt"
tally() { # tally VERDICT
	grep -c "^$1 " "$results/SUMMARY.txt"
}
passed=$(tally ok) failed=$(tally no) skipped=$(tally skip)
[ -z "$left" ] || echo "# not run:$left" | tee -a "$results/SUMMARY.txt"
[ "${GPU_STRICT:-0}" = 1 ] && failed=$((failed + skipped)) skipped=0
echo "$passed passed, $failed failed, $skipped skipped" | tee -a "$results/SUMMARY.txt"
[ "$failed" = 0 ] && [ -z "$left" ]
