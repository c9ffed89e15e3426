# SPDX-License-Identifier: BSD-3-Clause
# The cost of the preload for each process that is started. Prints times; a time is never a failure. libfloor.so is
# the least that a call of cudaMalloc can take.
EXTRA_DIST += tests/bench/exec.c tests/bench/exec.sh tests/bench/floor.c
BENCH_EXEC = tests/bench/exec tests/bench/libempty.so tests/bench/libfloor.so
CLEANFILES += $(BENCH_EXEC)

tests/bench/exec: tests/bench/exec.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(AM_CFLAGS) $(CFLAGS) -o $@ $<
tests/bench/libempty.so:
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(CFLAGS) -shared -fPIC -o $@ -xc /dev/null
tests/bench/libfloor.so: tests/bench/floor.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) -D_GNU_SOURCE $(AM_CFLAGS) $(CFLAGS) -shared -fPIC -o $@ $< -ldl -lpthread

.PHONY: bench-exec
bench-exec: $(BENCH_EXEC) libgpumem.la
	@$(top_srcdir)/tests/bench/exec.sh
