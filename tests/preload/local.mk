# SPDX-License-Identifier: BSD-3-Clause
# Programs, libraries and drivers to test the way from a program to its driver. Built by hand: the same source
# is needed at -O0 and -O2, and in libraries whose names libtool would not give. A program of one source of its own
# name has no _SOURCES.
EXTRA_DIST += %D%/ahead.h %D%/apart.h %D%/cases.h %D%/ipc_turns.h %D%/lend/open.h %D%/library_threads.h %D%/private.h \
	%D%/program.h %D%/programmatic.h %D%/releases.h %D%/spoil.h %D%/steer.h %D%/taken_calls.h %D%/taken_helper.h %D%/taken_sleep.h \
	%D%/turn.h
include %D%/behaviour.mk
include %D%/chunks.mk
include %D%/cores.mk
include %D%/defer.mk
include %D%/launched.mk
include %D%/ordered.mk
include %D%/failed.mk
include %D%/faults.mk
include %D%/faulty.mk
include %D%/fill.mk
include %D%/staged.mk
include %D%/idle.mk
include %D%/give.mk
include %D%/sleep.mk
include %D%/inkernel.mk
include %D%/inkernel_log.mk
include %D%/ipc.mk
include %D%/newer.mk
include %D%/odd.mk
include %D%/stderr.mk
include %D%/update.mk

# The preload of a test: a sanitizer's runtime has to be first.
AM_TESTS_ENVIRONMENT += SANITIZE_LIB='$(SANITIZE_LIB)'; export SANITIZE_LIB; \
	GPUMEM_TEST_PRELOAD="$${SANITIZE_LIB:+$$SANITIZE_LIB:}$(abs_top_builddir)/.libs/libgpumem.so"; \
	export GPUMEM_TEST_PRELOAD; CUDA_HOME='$(CUDA_HOME)'; export CUDA_HOME;

PRELOAD_BATS = %D%/exports.bats %D%/quiet.bats %D%/resolve.bats %D%/sweep.bats
PRELOAD_ASKERS = %D%/ask-O0 %D%/ask-O2 %D%/ask-secure %D%/linked-O0 %D%/linked-O2 %D%/quiet-O0 %D%/quiet-O2 %D%/sweep-O0 %D%/sweep-O2 \
	%D%/weak
PRELOAD_OBJECTS = %D%/libfirst-O0.so %D%/libfirst-O2.so %D%/libsecond.so %D%/libneeds.so
PRELOAD_DRIVERS = %D%/plain/libcuda.so.1 %D%/shared/libcuda.so.1 %D%/loader/libcuda.so.1 %D%/loader/libcuda.so.1.1
check_DATA = $(PRELOAD_ASKERS) $(PRELOAD_OBJECTS) $(PRELOAD_DRIVERS)
dist_check_SCRIPTS += $(PRELOAD_BATS)
TESTS += $(PRELOAD_BATS)
CLEANFILES += $(check_DATA)
EXTRA_DIST += %D%/ask.c %D%/fakecuda.c %D%/libasker.c %D%/linked.c %D%/quiet.c %D%/resolve.bash %D%/sweep.c %D%/weak.c

PRELOAD_CC = $(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -fvisibility=default
PRELOAD_DRIVER = -Wl,-Bsymbolic,-soname,libcuda.so.1
PRELOAD_SHARED = $(PRELOAD_CC) -O2 -shared -fPIC -o $@

%D%/%-O0: %D%/%.c
	$(PRELOAD_CC) -O0 -o $@ $< -ldl
%D%/%-O2: %D%/%.c
	$(PRELOAD_CC) -O2 -o $@ $< -ldl
%D%/sweep-O0 %D%/sweep-O2: src/driver/hooks.def
%D%/linked-O0: %D%/linked.c tests/sim/lib/libcuda.so.1
	$(PRELOAD_CC) -O0 -o $@ $(srcdir)/tests/preload/linked.c tests/sim/lib/libcuda.so.1
%D%/linked-O2: %D%/linked.c tests/sim/lib/libcuda.so.1
	$(PRELOAD_CC) -O2 -o $@ $(srcdir)/tests/preload/linked.c tests/sim/lib/libcuda.so.1
# Loads the preload itself: for a set-group-id program the loader ignores LD_PRELOAD, and gpumem's own check
# would not run.
%D%/ask-secure: %D%/ask.c libgpumem.la
	$(PRELOAD_CC) -o $@ $(srcdir)/tests/preload/ask.c -Wl,--no-as-needed,-rpath,$(abs_top_builddir)/.libs \
		.libs/libgpumem.so -ldl
%D%/weak: %D%/weak.c
	$(PRELOAD_CC) -o $@ $<

%D%/libfirst-O0.so: %D%/libasker.c
	$(PRELOAD_SHARED) -O0 -DNAME='"first"' $<
%D%/libfirst-O2.so: %D%/libasker.c
	$(PRELOAD_SHARED) -DNAME='"first"' $<
%D%/libsecond.so: %D%/libasker.c
	$(PRELOAD_SHARED) -DNAME='"second"' $<
%D%/libneeds.so: %D%/libasker.c %D%/plain/libcuda.so.1
	$(PRELOAD_SHARED) -DNAME='"needs"' $(srcdir)/tests/preload/libasker.c -Wl,--no-as-needed %D%/plain/libcuda.so.1

include %D%/containers.mk
include %D%/tables.mk
include %D%/recording.mk
include %D%/stacks.mk

%D%/plain/libcuda.so.1: %D%/fakecuda.c
	$(PRELOAD_SHARED) $(PRELOAD_DRIVER) -Wl,--hash-style=gnu $<
%D%/shared/libcuda.so.1: %D%/fakecuda.c
	$(PRELOAD_SHARED) $(PRELOAD_DRIVER) -Wl,--hash-style=sysv -DSHARED $<
%D%/loader/libcuda.so.1: %D%/fakecuda.c
	$(PRELOAD_SHARED) $(PRELOAD_DRIVER) -DLOADER $< -ldl
%D%/loader/libcuda.so.1.1: %D%/fakecuda.c
	$(PRELOAD_SHARED) -Wl,-Bsymbolic,-soname,libcuda.so.1.1 $<

include %D%/break.mk
include %D%/torch.mk
include %D%/lend.mk
