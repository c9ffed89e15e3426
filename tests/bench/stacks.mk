# SPDX-License-Identifier: BSD-3-Clause
# The cost of call stacks, without a GPU. Prints times; a time is never a failure.
EXTRA_DIST += tests/bench/stacks.c tests/bench/stacks.py tests/bench/stacks.sh tests/bench/stacks_tensor.py
CLEANFILES += tests/bench/stacks
tests/bench/stacks: tests/bench/stacks.c tests/sim/lib/libcuda.so.1
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -o $@ \
		$(srcdir)/tests/bench/stacks.c tests/sim/lib/libcuda.so.1

.PHONY: bench-stacks
bench-stacks: tests/bench/stacks tests/preload/libtensors_cuda.so libgpumem.la
	@$(top_srcdir)/tests/bench/stacks.sh $(top_srcdir)
