# SPDX-License-Identifier: BSD-3-Clause
# Ordinary CUDA programs, which know nothing of gpumem: doc/programs.md. `make programs` compiles them into PROGRAMS_TO, for all
# GPUs that this nvcc knows; so do gpu-bundle and bench-bundle. On the simulated driver they are tests/programs.
OOC_BUILT = oocmap oocstencil
PROGRAMS_TO = programs
PROGRAMS_ARCH = all-major
OOC_SHARED = main host run plan plan_stencil
ooc_sources = %D%/ooc/main.c %D%/ooc/host.c %D%/ooc/run.c %D%/ooc/plan.c %D%/ooc/plan_stencil.c \
	%D%/ooc/cells.h %D%/ooc/kernels.h %D%/ooc/ooc.h %D%/ooc/plan.h %D%/ooc/plan_tile.h $(common_sources)
EXTRA_DIST += %D%/ooc/kernels.cu %D%/sparse/spgemm_kernels.cu
SPGEMM_C = spgemm spgemm_matrix spgemm_rival spgemm_run
spgemm_sources = %D%/sparse/spgemm.c %D%/sparse/spgemm_matrix.c %D%/sparse/spgemm_rival.c %D%/sparse/spgemm_run.c %D%/sparse/spgemm.h %D%/sparse/spgemm_rows.h \
	$(coordinates_sources) $(common_sources)
# What all of them share.
COORDINATES_C = coordinates reader
coordinates_sources = %D%/common/coordinates.c %D%/common/reader.c %D%/common/coordinates.h
COMMON_C = args program
common_sources = %D%/common/args.c %D%/common/args.h %D%/common/both.h %D%/common/program.c %D%/common/program.h %D%/common/lane.h
JOIN_C = hashjoin join_run
join_sources = %D%/join/hashjoin.c %D%/join/join_run.c %D%/join/join.h %D%/join/join_lane.h %D%/common/page_heap.h %D%/join/policies.def \
	$(common_sources)
walk_sources = %D%/walk/pagesteps.c %D%/walk/walk.h %D%/walk/walk_lane.h %D%/common/page_heap.h $(common_sources)
nodes_sources = %D%/nodes/nodes.c %D%/nodes/nodes.h %D%/nodes/nodes_lane.h $(common_sources)
octree_sources = %D%/octree/barneshut.c %D%/octree/octree_cpu.c %D%/octree/octree.h %D%/octree/octree_lane.h $(common_sources)
list_sources = %D%/list/arraylist.c %D%/list/list.h %D%/list/list_lane.h $(common_sources)
objects_sources = %D%/objects/expressions.c %D%/objects/objects.h %D%/objects/expression.h $(common_sources)
arrays_sources = %D%/arrays/hostarrays.c %D%/arrays/arrays_cpu.c %D%/arrays/arrays.h %D%/arrays/arrays_lane.h $(common_sources)
EXTRA_DIST += %D%/arrays/arrays_kernels.cu %D%/list/list_kernels.cu %D%/objects/objects_kernels.cu
EXTRA_DIST += %D%/join/join_kernels.cu %D%/nodes/nodes_kernels.cu %D%/octree/octree_kernels.cu %D%/walk/walk_kernels.cu
# FOLDER:KERNELS:PROGRAM:SOURCES:OPTIONS of those that share COMMON_C alone.
SMALL_BUILT = walk:walk_kernels:pagesteps:pagesteps nodes:nodes_kernels:smallnodes:nodes \
	octree:octree_kernels:barneshut:barneshut,octree_cpu:-fmad=false \
	list:list_kernels:arraylist:arraylist objects:objects_kernels:expressions:expressions:-Xptxas=-suppress-stack-size-warning \
	arrays:arrays_kernels:hostarrays:hostarrays,arrays_cpu:-fmad=false
GRAPH_C = dyngraph graph_make graph_model graph_names graph_run graph_update graph_vertices
graph_sources = %D%/graph/dyngraph.c %D%/graph/graph_make.c %D%/graph/graph_model.c %D%/graph/graph_names.c %D%/graph/graph_run.c %D%/graph/graph_update.c %D%/graph/graph_vertices.c %D%/graph/dyngraph.h \
	%D%/graph/graph_team.h %D%/graph/graph_pages.h %D%/graph/graph_aim.h %D%/graph/graph_faim.h %D%/graph/graph_ouro.h %D%/graph/graph_sorted.h %D%/graph/graph_lane.h %D%/graph/graph_vertices.h %D%/graph/graph_session.h \
	%D%/graph/ways.def %D%/common/page_heap.h $(coordinates_sources) $(common_sources)
EXTRA_DIST += %D%/graph/graph_kernels.cu
# Each operation is rounded, as the kernels do it.
OOC_CFLAGS = -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(WERROR) -ffp-contract=off
OOC_CC = $(CC) $(OOC_CFLAGS) -O3 $(CUDA_CPPFLAGS)
OOC_NVCC = $(NVCC) -arch=$(PROGRAMS_ARCH) -O2 -std=c++17 -Wno-deprecated-gpu-targets $(WERROR:%=% all-warnings) \
	-Xcompiler -Wall,-Wextra $(WERROR:%=-Xcompiler %)
OOC_SRC = $(top_srcdir)/programs
# Those with the policies of the heap in their kernels.
HEAP_CC = $(OOC_CC) -I$(abs_top_srcdir)
GRAPH_CC = $(HEAP_CC) -I$(abs_top_srcdir)/src
HEAP_NVCC = $(OOC_NVCC) -I$(abs_top_srcdir) -I$(abs_top_srcdir)/src

.PHONY: programs
programs:
	@test -n "$(NVCC)" || { echo 'programs: nvcc was not found by configure' >&2; exit 1; }
	$(MKDIR_P) $(PROGRAMS_TO)/objects
	for f in $(COMMON_C); do $(HEAP_CC) -c $(OOC_SRC)/common/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	for f in $(OOC_SHARED) $(OOC_BUILT); do $(HEAP_CC) -c $(OOC_SRC)/ooc/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	$(OOC_NVCC) -c $(OOC_SRC)/ooc/kernels.cu -o $(PROGRAMS_TO)/objects/kernels.o
	cd $(PROGRAMS_TO)/objects && for p in $(OOC_BUILT); do \
		$(OOC_NVCC) $$p.o $(OOC_SHARED:=.o) $(COMMON_C:=.o) kernels.o -o ../$$p || exit 1; done
	for f in $(COORDINATES_C); do $(HEAP_CC) -c $(OOC_SRC)/common/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	for f in $(SPGEMM_C); do $(HEAP_CC) -c $(OOC_SRC)/sparse/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	cd $(PROGRAMS_TO)/objects && $(HEAP_NVCC) $(abs_top_srcdir)/programs/sparse/spgemm_kernels.cu $(SPGEMM_C:=.o) $(COMMON_C:=.o) $(COORDINATES_C:=.o) -o ../spgemm -lm -ldl
	for f in $(JOIN_C); do $(HEAP_CC) -c $(OOC_SRC)/join/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	cd $(PROGRAMS_TO)/objects && $(HEAP_NVCC) $(abs_top_srcdir)/programs/join/join_kernels.cu $(JOIN_C:=.o) $(COMMON_C:=.o) -o ../hashjoin
	for p in $(SMALL_BUILT); do \
		IFS=:; set -- $$p; IFS=' '; objects='$(COMMON_C:=.o)'; \
		for f in `echo $$4 | tr , ' '`; do \
			$(HEAP_CC) -c $(OOC_SRC)/$$1/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; objects="$$objects $$f.o"; done; \
		(cd $(PROGRAMS_TO)/objects && \
			$(HEAP_NVCC) $$5 $(abs_top_srcdir)/programs/$$1/$$2.cu $$objects -o ../$$3 -lm) || exit 1; done
	for f in $(GRAPH_C); do $(GRAPH_CC) -c $(OOC_SRC)/graph/$$f.c -o $(PROGRAMS_TO)/objects/$$f.o || exit 1; done
	cd $(PROGRAMS_TO)/objects && $(HEAP_NVCC) $(abs_top_srcdir)/programs/graph/graph_kernels.cu $(GRAPH_C:=.o) $(COMMON_C:=.o) $(COORDINATES_C:=.o) -o ../dyngraph -lm
	rm -rf $(PROGRAMS_TO)/objects
CLEANFILES += $(OOC_BUILT:%=%D%/%) %D%/spgemm %D%/hashjoin %D%/pagesteps %D%/smallnodes %D%/barneshut %D%/arraylist %D%/expressions %D%/hostarrays %D%/dyngraph
