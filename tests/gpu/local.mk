# SPDX-License-Identifier: BSD-3-Clause
# Programs that run on a GPU. `make gpu-bundle` makes one folder of them, gpu-bundle/, for a machine with a
# GPU and without a compiler. `make check-gpu` runs the folder here, and leaves the output under GPU_RESULTS.
# tests/gpu/results has the newest run of each kind on each GPU, and the older ones that documents cite.
GPU_BUILT = runtime cycles turns limits idle ipc late ordered capture peer pair many blas fft sparse thrust cub \
	churn overrun aligned foreign_free inkernel inkernel_full inkernel_idle inkernel_many kernels40 \
	bigblocks checkpoint conditional faults graph hostchunk managed mapping mpi neighbours questions roads
# Programs of README's walk to the source line: with debug information of the host code, and line numbers of
# kernels.
GPU_WALKED = words waves
# Programs whose kernels leak and free wrongly, by line; sites_cost shows the cost of the counts.
GPU_SITED = sites_tree sites_twice sites_null sites_unload sites_cost
LINES_COPIED = big.py frameworks.py named.py oom.py run.sh snapshot.py
EXTRA_DIST += $(LINES_COPIED:%=%D%/lines/%)
GPU_COPIED = cycled.sh repeated.sh sited.py sited.sh sites_cost.sh train.py with_cupy.py with_cupy_core.py with_cupy_inkernel.py with_jax.py with_nccl.py with_nccl_two.py with_numba.py with_torch_compile.py with_torch_core.py with_torch_ipc.py with_torch_lt.py with_torch_processes.py with_torch_recording.py with_torch_streams.py with_torch_tokens.py with_torch_two.py under.sh run.sh others.py others.txt roads.py two.py
dist_check_SCRIPTS += %D%/others.bats
TESTS += %D%/others.bats
EXTRA_DIST += %D%/gpu.h %D%/heap.h %D%/heap.cu %D%/hostchunk.h %D%/hostchunk_calls.h %D%/hostchunk_reach.h $(GPU_BUILT:%=%D%/%.cu) $(GPU_WALKED:%=%D%/%.cu) $(GPU_SITED:%=%D%/%.cu) $(GPU_COPIED:%=%D%/%) \
	$(ODD_SOURCES) $(ODD_ROWS) %D%/odd.h %D%/driver.cc %D%/inkernel_jit.cc %D%/inkernel_load.cc %D%/inkernel_load.h %D%/inkernel_module.cu %D%/inkernel_restore.c %D%/kernels.cu %D%/grow.cu %D%/core_contexts.c %D%/torch_adapter.cc
GPU_ARCH = sm_90
GPU_NVCC = $(NVCC) -arch=$(GPU_ARCH) -O2 -std=c++17 --extended-lambda -Wno-deprecated-gpu-targets
GPU_HEAP = -maxrregcount=24 -I$(top_srcdir)/src -I$(top_srcdir)
GPU_LIBS = -lcublas -lcublasLt -lcufft -lcusparse -lcuda
GPU_SRC = $(top_srcdir)/tests/gpu
GPU_RESULTS = gpu-results

.PHONY: gpu-bundle check-gpu
gpu-bundle: all api/gpumem_device.cuh
	@test -n "$(NVCC)" || { echo 'gpu-bundle: nvcc was not found by configure' >&2; exit 1; }
	rm -rf gpu-bundle && mkdir gpu-bundle
	for p in $(GPU_BUILT); do \
		$(GPU_NVCC) $(GPU_SRC)/$$p.cu -o gpu-bundle/$$p -Xlinker --as-needed $(GPU_LIBS) || exit 1; done
	for p in $(GPU_WALKED); do \
		$(GPU_NVCC) -lineinfo -Xcompiler -g -Xlinker --build-id $(GPU_SRC)/$$p.cu -o gpu-bundle/$$p || exit 1; done
	for p in $(GPU_SITED); do \
		$(GPU_NVCC) -lineinfo $(GPU_SRC)/$$p.cu -o gpu-bundle/$$p -Xlinker --as-needed -lcuda || exit 1; done
	for i in 0 1; do \
		$(GPU_NVCC) -lineinfo -DPART=$$i -cubin $(GPU_SRC)/sites_unload.cu -o gpu-bundle/sites_unload$$i.cubin || exit 1; \
		done
	cp $(GPU_SITED:%=$(GPU_SRC)/%.cu) gpu-bundle/
	$(GPU_NVCC) $(top_srcdir)/tests/workloads/lists.cu -o gpu-bundle/lists
	$(GPU_NVCC) -I api -I $(top_srcdir)/api $(GPU_SRC)/grow.cu -o gpu-bundle/grow -L.libs -lgpumem-core
	for how in HEADER INLINED; do $(GPU_NVCC) -DCHURN_$$how -I api -I $(top_srcdir)/api $(GPU_SRC)/churn.cu \
		-o gpu-bundle/churn_`echo $$how | tr A-Z a-z` -L.libs -lgpumem-core || exit 1; done
	$(GPU_NVCC) -DEXPLICIT_HEAP -I api -I $(top_srcdir)/api $(GPU_SRC)/foreign_free.cu -o gpu-bundle/foreign_heap \
		-L.libs -lgpumem-core
	$(CC) -std=gnu11 -O2 $(CUDA_CPPFLAGS) -I$(top_srcdir)/api $(GPU_SRC)/core_contexts.c -o gpu-bundle/core_contexts \
		-L.libs -lgpumem-core -L$(CUDA_HOME)/lib64/stubs -lcuda -ldl -lpthread
	g++ -std=c++11 -O2 -shared -fPIC $(CUDA_CPPFLAGS) -I$(top_srcdir)/api $(GPU_SRC)/torch_adapter.cc \
		-o gpu-bundle/torch_adapter.so -L.libs -lgpumem-core -L$(CUDA_HOME)/lib64/stubs -lcuda -Wl,-rpath,'$$ORIGIN'
	$(GPU_NVCC) -cudart shared $(GPU_SRC)/runtime.cu -o gpu-bundle/runtime_shared -lcuda
	$(GPU_NVCC) -default-stream per-thread $(GPU_SRC)/runtime.cu -o gpu-bundle/runtime_ptds -lcuda
	$(GPU_NVCC) $(GPU_HEAP) $(GPU_SRC)/heap.cu -o gpu-bundle/heap
	$(GPU_NVCC) -G $(GPU_SRC)/inkernel.cu -o gpu-bundle/inkernel_debug
	$(GPU_NVCC) -G $(GPU_SRC)/aligned.cu -o gpu-bundle/aligned_debug
	$(GPU_NVCC) -rdc=true $(GPU_SRC)/inkernel.cu -o gpu-bundle/inkernel_rdc
	$(filter-out -arch=%,$(GPU_NVCC)) -gencode arch=compute_75,code=compute_75 $(GPU_SRC)/kernels40.cu -o gpu-bundle/kernels40_ptx
	mkdir gpu-bundle/modules
	$(GPU_NVCC) -cubin $(GPU_SRC)/inkernel_module.cu -o gpu-bundle/modules/plain.cubin
	$(GPU_NVCC) -G -cubin $(GPU_SRC)/inkernel_module.cu -o gpu-bundle/modules/debug.cubin
	$(GPU_NVCC) -rdc=true -cubin $(GPU_SRC)/inkernel_module.cu -o gpu-bundle/modules/rdc.o
	$(dir $(NVCC))nvlink -arch=$(GPU_ARCH) gpu-bundle/modules/rdc.o -o gpu-bundle/modules/rdc.cubin
	$(GPU_NVCC) -ptx $(GPU_SRC)/inkernel_module.cu -o gpu-bundle/modules/text.ptx
	cp $(GPU_SRC)/inkernel_module.cu gpu-bundle/modules/
	for p in inkernel_load inkernel_jit; do g++ -O2 -std=c++17 $(CUDA_CPPFLAGS) $(GPU_SRC)/$$p.cc -o gpu-bundle/$$p \
		-L$(CUDA_HOME)/lib64/stubs -lcuda -ldl -lpthread || exit 1; done
	$(CC) -std=gnu11 -O2 -include config.h $(CUDA_CPPFLAGS) -I$(top_srcdir)/src -I$(top_srcdir) \
		$(GPU_SRC)/inkernel_restore.c -o gpu-bundle/inkernel_restore .libs/libgmtakeover.a .libs/libgm.a \
		-L$(CUDA_HOME)/lib64/stubs -lcuda -ldl -lpthread
	$(GPU_NVCC) -cubin $(GPU_SRC)/kernels.cu -o gpu-bundle/kernels.cubin
	g++ -O2 $(CUDA_CPPFLAGS) $(GPU_SRC)/driver.cc -o gpu-bundle/driver -L$(CUDA_HOME)/lib64/stubs -lcuda
	$(CC) -std=gnu11 -O2 $(CUDA_CPPFLAGS) $(ODD_SOURCES:%=$(top_srcdir)/%) -o gpu-bundle/odd \
		-L$(CUDA_HOME)/lib64/stubs -lcuda -ldl -lpthread
	$(MAKE) programs PROGRAMS_TO=gpu-bundle
	cp $(GPU_COPIED:%=$(GPU_SRC)/%) $(top_srcdir)/tests/bench/measure.py gpu-bundle/
	cp -L $(CUDA_HOME)/lib64/libcudart.so.1[23] gpu-bundle/
	cp .libs/libgpumem.so gpumemstat gpu-bundle/
	cp -L .libs/libgpumem-core.so.0 gpu-bundle/
	cd $(top_srcdir) && { git rev-parse HEAD 2>/dev/null || echo unknown; } >$(abs_builddir)/gpu-bundle/COMMIT

check-gpu: gpu-bundle
	$(SHELL) gpu-bundle/run.sh $(GPU_RESULTS)
