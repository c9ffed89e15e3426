# SPDX-License-Identifier: BSD-3-Clause
# The programs of programs/ on the simulated driver, with host functions as kernels; and compiled by nvcc, if
# there is one.
check_PROGRAMS += %D%/oocmap %D%/oocstencil
OOC_SIM_LDADD = tests/sim/lib/libcudart.so.13 -lpthread
%C%_oocmap_SOURCES = programs/ooc/oocmap.c $(ooc_sources) %D%/kernels_sim.c
%C%_oocmap_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_oocmap_CFLAGS = $(AM_CFLAGS) $(OOC_CFLAGS)
%C%_oocmap_LDADD = $(OOC_SIM_LDADD)
%C%_oocmap_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
%C%_oocstencil_SOURCES = programs/ooc/oocstencil.c $(ooc_sources) %D%/kernels_sim.c
%C%_oocstencil_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_oocstencil_CFLAGS = $(AM_CFLAGS) $(OOC_CFLAGS)
%C%_oocstencil_LDADD = $(OOC_SIM_LDADD)
%C%_oocstencil_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
check_PROGRAMS += %D%/reader_test
TESTS += %D%/reader_test
%C%_reader_test_SOURCES = %D%/reader_test.c tests/tap.h $(coordinates_sources)
%C%_reader_test_LDADD =
%C%_reader_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
check_PROGRAMS += %D%/spgemm
%C%_spgemm_SOURCES = $(spgemm_sources) %D%/spgemm_sim.c
%C%_spgemm_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_spgemm_CFLAGS = $(AM_CFLAGS) $(OOC_CFLAGS)
%C%_spgemm_LDADD = $(OOC_SIM_LDADD) -lm -ldl
%C%_spgemm_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
check_PROGRAMS += %D%/hashjoin
%C%_hashjoin_SOURCES = $(join_sources) %D%/hashjoin_sim.c
%C%_hashjoin_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_hashjoin_CFLAGS = $(AM_CFLAGS)
%C%_hashjoin_LDADD = $(OOC_SIM_LDADD) libgmsim.la libgm.la -lpthread -ldl
%C%_hashjoin_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
check_PROGRAMS += %D%/pagesteps
%C%_pagesteps_SOURCES = $(walk_sources) %D%/pagesteps_sim.c
%C%_pagesteps_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_pagesteps_CFLAGS = $(AM_CFLAGS)
%C%_pagesteps_LDADD = $(OOC_SIM_LDADD) libgmsim.la libgm.la -lm -lpthread -ldl
%C%_pagesteps_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
check_PROGRAMS += %D%/smallnodes
%C%_smallnodes_SOURCES = $(nodes_sources) %D%/nodes_sim.c
%C%_smallnodes_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_smallnodes_CFLAGS = $(AM_CFLAGS)
%C%_smallnodes_LDADD = $(OOC_SIM_LDADD)
%C%_smallnodes_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
check_PROGRAMS += %D%/barneshut
%C%_barneshut_SOURCES = $(octree_sources) %D%/barneshut_sim.c %D%/threads_sim.h
%C%_barneshut_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_barneshut_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
%C%_barneshut_LDADD = $(OOC_SIM_LDADD) -lm
%C%_barneshut_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
check_PROGRAMS += %D%/arraylist
%C%_arraylist_SOURCES = $(list_sources) %D%/arraylist_sim.c %D%/threads_sim.h
%C%_arraylist_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_arraylist_CFLAGS = $(AM_CFLAGS)
%C%_arraylist_LDADD = $(OOC_SIM_LDADD)
%C%_arraylist_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
# Its classes are C++, and configure does not look for a C++ compiler.
check_PROGRAMS += %D%/expressions
%C%_expressions_SOURCES = $(objects_sources)
%C%_expressions_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_expressions_CFLAGS = $(AM_CFLAGS)
%C%_expressions_LDADD = %D%/expressions_sim.o $(OOC_SIM_LDADD) -lstdc++
%C%_expressions_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
EXTRA_DIST += %D%/expressions_sim.cc
CLEANFILES += %D%/expressions_sim.o
%D%/expressions_sim.o: %D%/expressions_sim.cc programs/objects/expression.h programs/objects/objects.h programs/common/lane.h
	$(MKDIR_P) %D%
	$(CXX) -std=c++17 -O2 -g -Wall -Wextra $(WERROR) $(CUDA_CPPFLAGS) -I$(top_srcdir) -c $(top_srcdir)/%D%/expressions_sim.cc -o $@
check_PROGRAMS += %D%/hostarrays
%C%_hostarrays_SOURCES = $(arrays_sources) %D%/hostarrays_sim.c %D%/threads_sim.h
%C%_hostarrays_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_hostarrays_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
%C%_hostarrays_LDADD = $(OOC_SIM_LDADD)
%C%_hostarrays_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
check_PROGRAMS += %D%/dyngraph
%C%_dyngraph_SOURCES = $(graph_sources) %D%/dyngraph_sim.c
%C%_dyngraph_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) -DGRAPH_FEW_RUNS=64
%C%_dyngraph_CFLAGS = $(AM_CFLAGS)
%C%_dyngraph_LDADD = $(OOC_SIM_LDADD) libgmsim.la libgm.la -lm -lpthread -ldl
%C%_dyngraph_LDFLAGS = -Wl,-rpath-link,tests/sim/lib
# The same, with all of the emulation, under ThreadSanitizer, to which a lane is a thread.
dist_check_SCRIPTS += %D%/dyngraph_race.bats
if RACE
check_PROGRAMS += %D%/dyngraph_race
%C%_dyngraph_race_SOURCES = $(graph_sources) %D%/dyngraph_sim.c src/sim/simt.c
%C%_dyngraph_race_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) -DGRAPH_FEW_RUNS=64
%C%_dyngraph_race_CFLAGS = $(AM_CFLAGS) -fsanitize=thread
%C%_dyngraph_race_LDADD = $(OOC_SIM_LDADD) libgmsim.la libgm.la -lm -lpthread -ldl
%C%_dyngraph_race_LDFLAGS = -Wl,-rpath-link,tests/sim/lib -fsanitize=thread
TESTS += %D%/dyngraph_race.bats
endif
EXTRA_DIST += %D%/programs.bash
PROGRAMS_BATS = %D%/arraylist.bats %D%/barneshut.bats %D%/dyngraph.bats %D%/expressions.bats \
	%D%/hashjoin.bats %D%/hostarrays.bats %D%/pagesteps.bats %D%/programs.bats \
	%D%/smallnodes.bats %D%/spgemm.bats
dist_check_SCRIPTS += $(PROGRAMS_BATS) %D%/programs_nvcc.sh
TESTS += $(PROGRAMS_BATS)
NVCC_TESTS += %D%/programs_nvcc.sh
