# SPDX-License-Identifier: BSD-3-Clause
# One test program a module; each is linked with libgm and the simulated drivers.
UNIT_TESTS =
UNIT_LDADD = libgmsim.la libgm.la -lpthread -ldl
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
