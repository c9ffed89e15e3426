# SPDX-License-Identifier: BSD-3-Clause
# The cost of a warm pair of cuMemAlloc and cuMemFree, and of a small copy, without a GPU. Prints times; a time
# is never a failure.
EXTRA_DIST += tests/bench/small.c tests/bench/small.sh tests/bench/warm.c tests/bench/warm.sh tests/bench/warm_driver.c
BENCH_WARM = tests/bench/warm tests/bench/small tests/bench/lib/libcuda.so.1
BENCH_WARM_CALLS = cuCtxGetCurrent cuCtxGetId cuThreadExchangeStreamCaptureMode cuCtxRecordEvent cuEventQuery cuEventSynchronize \
	cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2
CLEANFILES += $(BENCH_WARM) tests/bench/lib/sim.o

tests/bench/lib/sim.o: $(sim_libcuda_sources) $(sim_h_files) tests/bench/warm.mk
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(sim_compile) -fvisibility=default -DSIM_EXPORT_SYMBOLS -r -nostdlib -o $@ \
		`for f in $(sim_libcuda_sources); do echo $(srcdir)/$$f; done` \
		&& objcopy `for call in $(BENCH_WARM_CALLS); do echo --weaken-symbol=$$call; done` $@
tests/bench/lib/libcuda.so.1: tests/bench/lib/sim.o tests/bench/warm_driver.c
	$(AM_V_CCLD)$(sim_compile) -fvisibility=default $(sim_link) -Wl,-soname,libcuda.so.1 \
		-Wl,--version-script=$(srcdir)/tests/sim/libcuda.map -o $@ \
		$(srcdir)/tests/bench/warm_driver.c tests/bench/lib/sim.o -lpthread -ldl
tests/bench/warm tests/bench/small: tests/bench/%: tests/bench/%.c tests/bench/lib/libcuda.so.1
	$(AM_V_CCLD)$(CC) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -o $@ $< tests/bench/lib/libcuda.so.1 -lpthread

.PHONY: bench-warm bench-small
bench-small: $(BENCH_WARM) libgpumem.la
	@$(top_srcdir)/tests/bench/small.sh
bench-warm: $(BENCH_WARM) libgpumem.la
	@$(top_srcdir)/tests/bench/warm.sh
