# SPDX-License-Identifier: BSD-3-Clause
# A stress of all features at once: a little of it in `make check`; `make stress` under the sanitizers.
check_PROGRAMS += %D%/stress
%C%_stress_SOURCES = %D%/blocks.c %D%/heaps.c %D%/launched.c %D%/lives.c %D%/main.c %D%/share.c %D%/stress.h %D%/work.c tests/preload/steer.h
%C%_stress_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_stress_LDFLAGS = -no-install
%C%_stress_LDADD = libgpumem-core.la src/sim/libgmsim_la-kernels.lo src/sim/libgmsim_la-simt.lo \
	tests/sim/lib/libcuda.so.1 -lpthread -ldl
dist_check_SCRIPTS += %D%/stress.bats
TESTS += %D%/stress.bats
EXTRA_DIST += %D%/RESULTS %D%/stress.bash %D%/stress.sh

# Seconds under AddressSanitizer and UndefinedBehaviorSanitizer, and under ThreadSanitizer; stress-here: in
# this build. The file STRESS_RUNS has a line for each run: a later call goes on with its seeds and settings,
# and prints the sum.
STRESS_SECONDS = 3600
STRESS_SEED =
STRESS_RUNS = stress.runs
.PHONY: stress stress-here
stress-here: libgpumem.la gpumemstat tests/stress/stress
	SANITIZE_LIB='$(SANITIZE_LIB)' LSAN_OPTIONS=suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0 \
		bash $(abs_top_srcdir)/tests/stress/stress.sh '$(STRESS_SECONDS)' '$(STRESS_SEED)' '$(STRESS_RUNS)'
stress: own-sanitize own-thread
	$(MAKE) -C sanitize check TESTS= check_PROGRAMS=tests/stress/stress
	$(MAKE) -C thread check TESTS= check_PROGRAMS=tests/stress/stress
	$(MAKE) -C sanitize stress-here STRESS_SECONDS='$(STRESS_SECONDS)' STRESS_SEED='$(STRESS_SEED)'
	$(MAKE) -C thread stress-here STRESS_SECONDS='$(STRESS_SECONDS)' STRESS_SEED='$(STRESS_SEED)'
