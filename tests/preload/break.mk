# SPDX-License-Identifier: BSD-3-Clause
# Bugs of other libraries between programs and CUDA: BREAKAGE.md lists them.
BREAK_BATS = %D%/break_answers.bats %D%/break_device.bats %D%/break_life.bats \
	%D%/break_others.bats %D%/break_table.bats
BREAK_TESTS = %D%/break_ends %D%/break_frees %D%/break_last %D%/break_peers %D%/break_pointers \
	%D%/break_runtimes %D%/break_share %D%/break_signals %D%/break_threads %D%/cancel \
	%D%/small_stack
check_PROGRAMS += $(BREAK_TESTS)
dist_check_SCRIPTS += $(BREAK_BATS)
TESTS += $(BREAK_BATS)
BREAK_OBJECTS = %D%/libother-calls.so %D%/libother-dlsym.so %D%/libother-around.so %D%/libother-malloc.so %D%/libended.so \
	%D%/liblate.so %D%/libucp.so.0
check_DATA += $(BREAK_OBJECTS)
CLEANFILES += $(BREAK_OBJECTS)
EXTRA_DIST += %D%/BREAKAGE.md %D%/libended.c %D%/liblate.c %D%/libother.c

%D%/libother-calls.so: %D%/libother.c
	$(PRELOAD_SHARED) -DCALLS $<
%D%/libother-dlsym.so: %D%/libother.c
	$(PRELOAD_SHARED) -DDLSYM $<
%D%/libother-around.so: %D%/libother.c
	$(PRELOAD_SHARED) -DAROUND $<
%D%/libother-malloc.so: %D%/libother.c
	$(PRELOAD_SHARED) -fno-builtin -DMALLOC $<
%D%/libended.so: %D%/libended.c
	$(PRELOAD_SHARED) -fno-builtin $<
%D%/liblate.so: %D%/liblate.c
	$(PRELOAD_SHARED) $<
# A library with the name of UCX's, and nothing else.
%D%/libucp.so.0: %D%/libasker.c
	$(PRELOAD_SHARED) -DNAME='"ucp"' $<

tests_preload_break_ends_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_frees_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_last_LDADD = $(BEHAVIOUR_LDADD) -lpthread
tests_preload_break_peers_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_pointers_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_runtimes_LDADD = tests/sim/lib/libcudart_static.a -lpthread -ldl
tests_preload_break_share_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_threads_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_break_signals_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_cancel_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_small_stack_LDADD = $(BEHAVIOUR_LDADD) -lpthread
