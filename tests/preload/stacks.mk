# SPDX-License-Identifier: BSD-3-Clause
# Call stacks of allocations: programs with known functions, and with debug information for any CFLAGS.
dist_check_SCRIPTS += tests/preload/stacks.bats tests/preload/stacks_odd.bats
TESTS += tests/preload/stacks.bats tests/preload/stacks_odd.bats
EXTRA_DIST += tests/preload/libstacks.c tests/preload/stacks.c tests/preload/stacks_odd.c tests/preload/stacks.py \
	tests/preload/stacks_random.py
STACKS = tests/preload/libstacks.so tests/preload/stacks tests/preload/stacks_odd
check_DATA += $(STACKS)
CLEANFILES += $(STACKS)
tests/preload/stacks: tests/preload/stacks.c tests/preload/program.h tests/sim/lib/libcuda.so.1
	$(PRELOAD_CC) -O1 -g -Wl,--build-id -o $@ $(srcdir)/tests/preload/stacks.c tests/sim/lib/libcuda.so.1 -lpthread -ldl
tests/preload/stacks_odd: tests/preload/stacks_odd.c tests/preload/program.h tests/sim/lib/libcuda.so.1
	$(PRELOAD_CC) -O1 -g -Wl,--build-id -o $@ $(srcdir)/tests/preload/stacks_odd.c tests/sim/lib/libcuda.so.1 -lpthread -ldl
tests/preload/libstacks.so: tests/preload/libstacks.c tests/sim/lib/libcuda.so.1
	$(PRELOAD_SHARED) -O1 -g -Wl,--build-id $(srcdir)/tests/preload/libstacks.c tests/sim/lib/libcuda.so.1
