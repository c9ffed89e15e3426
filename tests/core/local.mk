# SPDX-License-Identifier: BSD-3-Clause
# libgpumem-core, by itself and under the preload.
check_PROGRAMS += %D%/program
%C%_program_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
# A program, because a script that sets the library up would run tools that leak under a preload and a
# sanitizer.
%C%_program_LDFLAGS = -no-install
%C%_program_LDADD = libgpumem-core.la tests/sim/lib/libcuda.so.1 -lpthread -ldl
check_PROGRAMS += %D%/cuts
%C%_cuts_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_cuts_LDFLAGS = -no-install
%C%_cuts_LDADD = libgpumem-core.la tests/sim/lib/libcuda.so.1 -lpthread -ldl
check_PROGRAMS += %D%/heap
%C%_heap_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_heap_LDFLAGS = -no-install
%C%_heap_LDADD = libgpumem-core.la src/sim/libgmsim_la-kernels.lo src/sim/libgmsim_la-simt.lo \
	tests/sim/lib/libcuda.so.1 -lpthread -ldl
check_PROGRAMS += %D%/buffer
%C%_buffer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_buffer_LDFLAGS = -no-install
%C%_buffer_LDADD = libgpumem-core.la tests/sim/lib/libcuda.so.1 -lpthread -ldl
check_PROGRAMS += %D%/created %D%/nap
%C%_created_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_created_LDFLAGS = -no-install -Wl,--export-dynamic
%C%_created_LDADD = libgpumem-core.la tests/sim/lib/libcuda.so.1 -lpthread -ldl
%C%_nap_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_nap_LDFLAGS = -no-install
%C%_nap_LDADD = libgpumem-core.la tests/sim/lib/libcuda.so.1 -lpthread -ldl
check_PROGRAMS += %D%/contexts
%C%_contexts_SOURCES = tests/gpu/core_contexts.c
%C%_contexts_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/api
%C%_contexts_LDFLAGS = -no-install
%C%_contexts_LDADD = libgpumem-core.la tests/sim/lib/libcuda.so.1 -lpthread -ldl
CORE_BATS = %D%/buffer.bats %D%/core.bats %D%/created.bats %D%/cuts.bats %D%/heap.bats \
	%D%/nap.bats %D%/object.bats %D%/torch.bats
dist_check_SCRIPTS += $(CORE_BATS)
TESTS += $(CORE_BATS)
EXTRA_DIST += %D%/holds.h %D%/plain.c %D%/torch.cc %D%/vector.cc
