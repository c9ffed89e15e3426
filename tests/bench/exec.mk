# SPDX-License-Identifier: BSD-3-Clause
# The cost of the preload for each process that is started. Prints times; a time is never a failure.
EXTRA_DIST += tests/bench/exec.c tests/bench/exec.sh
BENCH_EXEC = tests/bench/exec tests/bench/libempty.so
CLEANFILES += $(BENCH_EXEC)

tests/bench/exec: tests/bench/exec.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(AM_CFLAGS) $(CFLAGS) -o $@ $<
tests/bench/libempty.so:
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(CFLAGS) -shared -fPIC -o $@ -xc /dev/null

.PHONY: bench-exec
bench-exec: $(BENCH_EXEC) libgpumem.la
	@$(top_srcdir)/tests/bench/exec.sh
