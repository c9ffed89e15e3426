# SPDX-License-Identifier: BSD-3-Clause
# The programs of programs/ on the simulated driver, whose kernels are host functions; and compiled by nvcc, where there is one.
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
dist_check_SCRIPTS += %D%/programs.bats %D%/programs_nvcc.sh %D%/spgemm.bats %D%/hashjoin.bats
TESTS += %D%/programs.bats %D%/programs_nvcc.sh %D%/spgemm.bats %D%/hashjoin.bats
