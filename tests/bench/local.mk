# SPDX-License-Identifier: BSD-3-Clause
# Measurements on a GPU: `make bench` here; or `make bench-bundle`, which makes the folder bench-bundle/ for a
# machine with a GPU and without a compiler, and run.sh of that folder there. TRACE: a trace in RMM's CSV, for
# the part that replays it. In `make check` the same programs run on the simulated driver, as a test that
# every part writes its rows.
include %D%/exec.mk
include %D%/stacks.mk
BENCH_C = client copies gate launches pairs replay residency serve
BENCH_COPIED = copy_suite.py framework_memory.py framework_programs.py framework_worker.py frameworks.py fresh.py fresh_table.py graphs.py graphs_plot.py graphs_table.py heap.py heap_table.py inkernel.py measure.py pool.py programs.py programs_plot.py programs_table.py record.py report.py residency.py run.sh systems.py tensors.py train.py turns.py
EXTRA_DIST += $(BENCH_COPIED:%=%D%/%) %D%/fresh.cu %D%/growth.cu %D%/peers/build.sh %D%/peers/gallatin.h %D%/peers/ground.h %D%/peers/header.h \
	%D%/peers/ouroboros.h %D%/peers/peers.txt %D%/peers/plain.h %D%/trace.py %D%/blas.c %D%/kernels.cu %D%/heap.h %D%/heap.cu %D%/inkernel.cu
GRAPHS_KEPT = README graphs.csv graphs.lines.txt.xz mesh-focused-insert.svg mesh-uniform-insert.svg rmat-uniform-insert.svg road-uniform-insert.svg
EXTRA_DIST += $(GRAPHS_KEPT:%=%D%/results/2026-11-28-H200-graphs/%)
# Data of doc/programs.md; programs.bats draws its figures again.
EXTRA_DIST += %D%/results/2026-11-23-H100-ee5f577/programs.csv $(BENCH_DRAWN:%=%D%/results/%.svg) \
	$(addprefix %D%/results/2026-11-24-H100-programs/,spgemm.txt join.txt nodes.txt) \
	$(addprefix %D%/results/2026-11-25-H100-,programs/ooc.txt programs/nodes.txt dyngraph/dyngraph.txt dyngraph/second.txt)
BENCH_DRAWN = $(addprefix 2026-11-23-H100-ee5f577/,ooc oocmap oocstencil) \
	$(addprefix 2026-11-24-H100-programs/,growth hashjoin pagesteps smallnodes spgemm) \
	$(addprefix 2026-11-25-H100-,programs/ooc programs/arraylist dyngraph/dyngraph-uniform dyngraph/dyngraph-focused \
		dyngraph/dyngraph-allocators)
BENCH_SRC = $(top_srcdir)/tests/bench
BENCH_CC = $(CC) -std=gnu11 -O2 -D_GNU_SOURCE $(CUDA_CPPFLAGS)
BENCH_RESULTS = bench-results
BENCH_SUITES = pool heap fresh inkernel programs graphs copy residency record frameworks
TRACE =
# A folder for the allocators of peers/peers.txt, outside of the project; empty: without these allocators.
PEERS =
BENCH_FRESH = $(GPU_NVCC) -I$(top_srcdir) -I$(top_srcdir)/src
BENCH_PEER = -DFRESH_PEER='"tests/bench/peers/$(1).h"' $(BENCH_SRC)/fresh.cu -o bench-bundle/fresh-$(2)

check_PROGRAMS += %D%/client
%C%_client_SOURCES = %D%/client.c %D%/client.h %D%/copies.c %D%/gate.c %D%/kernels_sim.c %D%/launches.c %D%/own.h %D%/pairs.c %D%/replay.c %D%/residency.c %D%/serve.c
%C%_client_LDADD = tests/sim/lib/libcudart.so.13 tests/sim/lib/libcuda.so.1 -lpthread -ldl
check_DATA += $(BENCH_EXEC)
BENCH_BATS = %D%/bench.bats %D%/copy.bats %D%/frameworks.bats %D%/fresh.bats %D%/graphs.bats \
	%D%/heap.bats %D%/inkernel.bats %D%/programs.bats %D%/record.bats %D%/residency.bats
dist_check_SCRIPTS += $(BENCH_BATS)
TESTS += $(BENCH_BATS)

.PHONY: bench bench-bundle
bench-bundle: all $(BENCH_EXEC)
	@test -n "$(NVCC)" || { echo 'bench-bundle: nvcc was not found by configure' >&2; exit 1; }
	@! grep -q '^#define GM_DEBUG 1' config.h || echo 'bench-bundle: a debug build: configure without --enable-debug for real numbers'
	rm -rf bench-bundle && mkdir bench-bundle
	for f in $(BENCH_C) blas; do $(BENCH_CC) -c $(BENCH_SRC)/$$f.c -o bench-bundle/$$f.o || exit 1; done
	$(GPU_NVCC) -c $(BENCH_SRC)/kernels.cu -o bench-bundle/kernels.o
	cd bench-bundle && $(NVCC) $(BENCH_C:%=%.o) kernels.o -o client -L$(CUDA_HOME)/lib64/stubs -lcuda -ldl
	$(GPU_NVCC) -c $(BENCH_SRC)/inkernel.cu -o bench-bundle/inkernel.o
	cd bench-bundle && $(NVCC) inkernel.o kernels.o launches.o serve.o -o inkernel
	cd bench-bundle && $(NVCC) serve.o blas.o -o blas -lcublas && rm -f *.o
	$(GPU_NVCC) $(GPU_HEAP) $(BENCH_SRC)/heap.cu -o bench-bundle/heap
	$(BENCH_FRESH) -Iapi -I$(top_srcdir)/api $(call BENCH_PEER,header,header) -L.libs -lgpumem-core -Xlinker '-rpath,$$ORIGIN'
	$(BENCH_FRESH) $(call BENCH_PEER,plain,plain)
	for p in rw_bm corw; do $(BENCH_FRESH) -maxrregcount=24 -DFRESH_POLICY=policy_$$p \
		$(call BENCH_PEER,ground,`echo $$p | tr _ -`) -lcuda || exit 1; done
	$(GPU_NVCC) -I$(top_srcdir)/api $(BENCH_SRC)/growth.cu -o bench-bundle/growth -L.libs -lgpumem-core -Xlinker '-rpath,$$ORIGIN'
	test -z '$(PEERS)' || $(BENCH_SRC)/peers/build.sh '$(PEERS)' bench-bundle $(BENCH_FRESH)
	$(MAKE) programs PROGRAMS_TO=bench-bundle
	cp .libs/libgpumem-core.so.0 bench-bundle/
	g++ -std=c++11 -O2 -shared -fPIC $(CUDA_CPPFLAGS) -I$(top_srcdir)/api $(GPU_SRC)/torch_adapter.cc \
		-o bench-bundle/torch_adapter.so -L.libs -lgpumem-core -L$(CUDA_HOME)/lib64/stubs -lcuda -Wl,-rpath,'$$ORIGIN'
	test -z '$(TRACE)' || python3 $(BENCH_SRC)/trace.py '$(TRACE)' >bench-bundle/trace.txt
	cp $(BENCH_COPIED:%=$(BENCH_SRC)/%) bench-bundle/
	cp $(BENCH_EXEC) .libs/libgpumem.so gpumemstat bench-bundle/
	cd $(top_srcdir) && { git rev-parse HEAD 2>/dev/null || echo unknown; } >$(abs_builddir)/bench-bundle/COMMIT

bench: bench-bundle
	status=0; for suite in $(BENCH_SUITES); do \
		$(SHELL) bench-bundle/run.sh $$suite $(BENCH_RESULTS) || status=$$?; done; exit $$status
