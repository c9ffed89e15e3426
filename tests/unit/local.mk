# SPDX-License-Identifier: BSD-3-Clause
# One test program a module, tests/unit/test_x of tests/unit/test_x.c. A program has a _SOURCES if it needs more,
# and a _LDADD if it is not linked with libgm and the simulated drivers: those are automake's defaults.
UNIT_TESTS =
UNIT_LDADD = libgmsim.la libgm.la -lpthread -ldl
LDADD = $(UNIT_LDADD)
EXTRA_DIST += tests/image_make.h tests/mutate.h %D%/heap_help.h %D%/heap_host_help.h %D%/host_fails.h %D%/hot_fake.h \
	%D%/limbo_fake.h %D%/log_help.h %D%/moved.h %D%/on_sim.h %D%/pool_fake.h %D%/ring_help.h %D%/rpc_help.h \
	%D%/sim_setup.h %D%/takeover_help.h
include tests/unit/base.mk
include tests/unit/knob.mk
include tests/unit/log.mk
include tests/unit/rpc.mk
include tests/unit/driver.mk
include tests/unit/copy.mk
include tests/unit/pool.mk
include tests/unit/residency.mk
include tests/unit/heap.mk
include tests/unit/image.mk
include tests/unit/takeover.mk
include tests/unit/shim.mk
include tests/unit/tools.mk
include tests/unit/programs.mk
check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)

.PHONY: check-unit
check-unit:
	$(MAKE) check TESTS='$(UNIT_TESTS)'
