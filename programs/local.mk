# SPDX-License-Identifier: BSD-3-Clause
# Ordinary CUDA programs, which know nothing of gpumem: doc/programs.md. `make programs` compiles them into PROGRAMS_TO, for all
# GPUs that this nvcc knows; so do gpu-bundle and bench-bundle. On the simulated driver they are tests/programs.
OOC_BUILT = oocmap oocstencil
PROGRAMS_TO = programs
PROGRAMS_ARCH = all-major
OOC_SHARED = main options host run plan plan_stencil
ooc_sources = %D%/ooc/main.c %D%/ooc/options.c %D%/ooc/host.c %D%/ooc/run.c %D%/ooc/plan.c %D%/ooc/plan_stencil.c \
	%D%/ooc/cells.h %D%/ooc/kernels.h %D%/ooc/ooc.h %D%/ooc/plan.h %D%/ooc/plan_tile.h
EXTRA_DIST += %D%/ooc/kernels.cu %D%/sparse/spgemm_kernels.cu
SPGEMM_C = spgemm spgemm_matrix spgemm_rival spgemm_run
spgemm_sources = %D%/sparse/spgemm.c %D%/sparse/spgemm_matrix.c %D%/sparse/spgemm_rival.c %D%/sparse/spgemm_run.c %D%/sparse/spgemm.h %D%/sparse/spgemm_rows.h
# What two or more of them share.
common_sources = %D%/common/args.c %D%/common/args.h
JOIN_C = hashjoin join_run
join_sources = %D%/join/hashjoin.c %D%/join/join_run.c %D%/join/join.h %D%/join/join_lane.h %D%/common/page_heap.h %D%/join/policies.def \
	$(common_sources)
walk_sources = %D%/walk/pagesteps.c %D%/walk/walk.h %D%/walk/walk_lane.h %D%/common/page_heap.h $(common_sources)
nodes_sources = %D%/nodes/nodes.c %D%/nodes/nodes.h %D%/nodes/nodes_lane.h $(common_sources)
EXTRA_DIST += %D%/join/join_kernels.cu %D%/nodes/nodes_kernels.cu %D%/walk/walk_kernels.cu
# Each operation is rounded, as the kernels do it.
OOC_CFLAGS = -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror -ffp-contract=off
OOC_CC = $(CC) $(OOC_CFLAGS) -O3 $(CUDA_CPPFLAGS)
OOC_NVCC = $(NVCC) -arch=$(PROGRAMS_ARCH) -O2 -std=c++17 -Wno-deprecated-gpu-targets -Werror all-warnings \
	-Xcompiler -Wall,-Wextra,-Werror
OOC_SRC = $(top_srcdir)/programs
# Those with the policies of the heap in their kernels.
HEAP_CC = $(OOC_CC) -I$(abs_top_srcdir)
HEAP_NVCC = $(OOC_NVCC) -I$(abs_top_srcdir) -I$(abs_top_srcdir)/src

.PHONY: programs
programs:
	@test -n "$(NVCC)" || { echo 'programs: nvcc was not found by configure' >&2; exit 1; }
	$(MKDIR_P) $(PROGRAMS_TO)/objects
	for f in $(OOC_SHARED) $(OOC_BUILT); do $(OOC_CC) -c $(OOC_SRC)/ooc/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	$(OOC_NVCC) -c $(OOC_SRC)/ooc/kernels.cu -o $(PROGRAMS_TO)/objects/kernels.o
	cd $(PROGRAMS_TO)/objects && for p in $(OOC_BUILT); do \
		$(OOC_NVCC) $$p.o $(OOC_SHARED:=.o) kernels.o -o ../$$p || exit 1; done
	for f in $(SPGEMM_C); do $(OOC_CC) -c $(OOC_SRC)/sparse/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	cd $(PROGRAMS_TO)/objects && $(OOC_NVCC) $(abs_top_srcdir)/programs/sparse/spgemm_kernels.cu $(SPGEMM_C:=.o) -o ../spgemm -lm -ldl
	$(HEAP_CC) -c $(OOC_SRC)/common/args.c -o $(PROGRAMS_TO)/objects/args.o
	for f in $(JOIN_C); do $(HEAP_CC) -c $(OOC_SRC)/join/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	cd $(PROGRAMS_TO)/objects && $(HEAP_NVCC) $(abs_top_srcdir)/programs/join/join_kernels.cu $(JOIN_C:=.o) args.o -o ../hashjoin
	$(HEAP_CC) -c $(OOC_SRC)/walk/pagesteps.c -o $(PROGRAMS_TO)/objects/pagesteps.o
	cd $(PROGRAMS_TO)/objects && $(HEAP_NVCC) $(abs_top_srcdir)/programs/walk/walk_kernels.cu pagesteps.o args.o -o ../pagesteps -lm
	$(HEAP_CC) -c $(OOC_SRC)/nodes/nodes.c -o $(PROGRAMS_TO)/objects/nodes.o
	cd $(PROGRAMS_TO)/objects && $(HEAP_NVCC) $(abs_top_srcdir)/programs/nodes/nodes_kernels.cu nodes.o args.o -o ../smallnodes
	rm -rf $(PROGRAMS_TO)/objects
CLEANFILES += $(OOC_BUILT:%=%D%/%) %D%/spgemm %D%/hashjoin %D%/pagesteps %D%/smallnodes
